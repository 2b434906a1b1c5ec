"""From a base and a layer to an image in a registry: blobs first, the name last.

So a push that is cut leaves the old image under the name, and what has arrived need not be sent again.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tf_operator.client.images import image
from tf_operator.client.images.image import Descriptor, Json
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.layer import MEDIA_TYPE, Layer
from tf_operator.client.images.repository import INDEXES, Blob, ImageManifest, ImageRepository, Transfer
from tf_operator.machinery.clock import Clock

PLATFORMS: Final = ("linux/amd64", "linux/arm64")

Report = Callable[[Descriptor, Transfer], object]
"""Called for each blob that the image has now."""


@dataclass(frozen=True, slots=True)
class Top:
    """What comes onto one platform's image of the base."""

    layers: tuple[Layer, ...]
    """Lowest first."""
    process: Json = field(default_factory=dict)
    """Fields of its process, as ``WorkingDir``."""


@dataclass(frozen=True, slots=True)
class BaseImage:
    """One platform's image of the base, and where its layers are read."""

    manifest: ImageManifest
    config: Json
    source: ImageRepository

    @property
    def name(self) -> ImageName:
        return self.source.name


TopMaker = Callable[[BaseImage], Awaitable[Top]]
"""Makes it for an image of the base, before anything is sent."""


async def push(
    target: ImageName,
    base: ImageName,
    make_top: TopMaker,
    *,
    platforms: Sequence[str] = PLATFORMS,
    tls: ssl.SSLContext | None = None,
    report: Report = lambda _descriptor, _transfer: None,
    clock: Clock | None = None,
) -> ImageName:
    """Push the image, for those of the platforms that the base has, and return its name with the digest."""
    is_mounted = base.registry == target.registry and base.repository != target.repository
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(ImageRepository(base, tls=tls, clock=clock))
        images, is_index = await _read_base(source, platforms)
        mounts_from = base.repository if is_mounted else ""
        tops = await _tops(make_top, images)
        destination = ImageRepository(target, pushes=True, mounts_from=mounts_from, tls=tls, clock=clock)
        await stack.enter_async_context(destination)
        manifests = []
        for base_image in images:
            for descriptor in image.layers(base, base_image.manifest):
                blob = Blob(descriptor.digest, descriptor.size, partial(source.stream, descriptor.digest))
                report(descriptor, await destination.push_blob(blob, mount_from=mounts_from))
        for layer in {layer.digest: layer for top in tops for layer in top.layers}.values():
            transfer = await destination.push_blob(Blob(layer.digest, layer.size, layer.pieces))
            report(_descriptor_of(layer), transfer)
        for base_image, top_of_it in zip(images, tops, strict=True):
            own = [_descriptor_of(layer) for layer in top_of_it.layers]
            built = image.build(base, base_image.manifest, base_image.config, own, process=top_of_it.process)
            config = Blob(
                image.descriptor_of(built.config, "").digest, len(built.config), partial(_single_piece, built.config)
            )
            await destination.push_blob(config)
            if is_index:
                await destination.push_manifest(built.manifest, image.MANIFEST_TYPE)
            manifests.append((built.manifest, base_image.config))
        if is_index:
            digest = await destination.push_manifest(image.index(manifests), image.INDEX_TYPE, version=target.version)
        else:
            digest = await destination.push_manifest(manifests[0][0], image.MANIFEST_TYPE, version=target.version)
    return target.at(digest)


async def _tops(make_top: TopMaker, images: Sequence[BaseImage]) -> list[Top]:
    """One for each image. If one fails, the others end first: threads cannot be stopped, and still write files."""
    tops = await asyncio.gather(*(make_top(base_image) for base_image in images), return_exceptions=True)
    for top in tops:
        if isinstance(top, BaseException):
            raise top
    return [top for top in tops if isinstance(top, Top)]


async def _read_base(source: ImageRepository, platforms: Sequence[str]) -> tuple[list[BaseImage], bool]:
    """The images of the base, and whether it is an index of them."""
    base = source.name
    document = await source.manifest(base.version)
    is_index = document.media_type in INDEXES
    if is_index:
        digests = image.digests_by_platform(base, document, platforms)
        manifests = [await source.manifest(digest) for digest in digests.values()]
    else:
        manifests = [document]
    images = []
    for manifest in manifests:
        image.layers(base, manifest)  # before anything is sent
        config = await source.document(image.config_digest(base, manifest))
        image.check_platform(base, config, platforms)
        images.append(BaseImage(manifest, config, source))
    return images, is_index


def _descriptor_of(layer: Layer) -> Descriptor:
    return Descriptor(MEDIA_TYPE, layer.digest, layer.size)


async def _single_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content
