"""What is done before anything is sent."""

import asyncio

import pytest

from tf_operator.client.images import push
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.push import BaseImage, Top
from tf_operator.client.images.repository import INDEXES, MANIFESTS, ImageManifest
from tf_operator.client.job import NotPossible


async def test_when_one_platform_fails_no_other_works_on_where_its_files_are_removed():
    ended = []

    async def make_top(base: BaseImage) -> Top:
        if base.config["architecture"] == "arm64":
            raise NotPossible("no wheel")
        for _ in range(9):
            await asyncio.sleep(0)
        ended.append(base)
        return Top(())

    images = [BaseImage(ImageManifest("", "", {}), {"architecture": it}, None) for it in ("amd64", "arm64")]

    with pytest.raises(NotPossible, match="no wheel"):
        await push._tops(make_top, images)
    assert ended == images[:1]


class Index:
    """A repository with one image, of which its index says another platform than it does itself."""

    name = ImageName("registry", "base", "1")

    async def manifest(self, version):
        if version == "1":
            platform = {"os": "linux", "architecture": "arm64"}
            return ImageManifest(INDEXES[0], "", {"manifests": [{"digest": "sha256:1", "platform": platform}]})
        return ImageManifest(MANIFESTS[0], version, {"layers": [], "config": {"digest": "sha256:2"}})

    async def document(self, _digest):
        return {"os": "linux", "architecture": "riscv64"}


async def test_an_image_that_is_not_for_the_platform_of_its_index_is_refused():
    with pytest.raises(NotPossible, match="registry/base:1 is for linux/riscv64, and not for linux/arm64"):
        await push._read_base(Index(), ["linux/arm64"])
