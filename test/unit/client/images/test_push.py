"""What is done before anything is sent."""

import asyncio

import pytest

from tf_operator.client.images import push
from tf_operator.client.images.push import BaseImage, Top
from tf_operator.client.images.repository import ImageManifest
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
