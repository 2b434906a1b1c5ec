"""An image as documents: what those of the base become with layers more. Pure.

Images of docker's format become images of OCI's; their layers are the same bytes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tf_operator.client.images import layer
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.repository import MANIFESTS, ImageManifest, digest_of
from tf_operator.client.job import NotPossible

Json = dict[str, Any]

INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG_TYPE: Final = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPES: Final = {
    "application/vnd.docker.image.rootfs.diff.tar": layer.MEDIA_TYPE,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": f"{layer.MEDIA_TYPE}+gzip",
} | {name: name for name in (layer.MEDIA_TYPE, f"{layer.MEDIA_TYPE}+gzip", f"{layer.MEDIA_TYPE}+zstd")}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A blob or manifest as another document names it."""

    media_type: str
    digest: str
    size: int

    def written(self) -> Json:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class Built:
    """One platform's image on its base: the documents as bytes."""

    config: bytes
    manifest: bytes


def digests_by_platform(base: ImageName, index: ImageManifest, platforms: Sequence[str]) -> dict[str, str]:
    """The digests of the images in an index, for those of the platforms that it has; ``NotPossible`` if it has none."""
    digests = dict[str, str]()
    for entry in index.body.get("manifests") or ():
        platform = entry.get("platform") or {}
        name = f"{platform.get('os')}/{platform.get('architecture')}"
        # Attestations are for a platform of their own. The first variant of a processor is the one that most run on.
        if name in platforms and isinstance(entry.get("digest"), str):
            digests.setdefault(name, entry["digest"])
    if not digests:
        raise NotPossible(f"{base} has no image for {' or '.join(platforms)}")
    return digests


def layers(base: ImageName, manifest: ImageManifest) -> tuple[Descriptor, ...]:
    """The layers of an image, lowest first."""
    if manifest.media_type not in MANIFESTS:
        raise NotPossible(f"{base} is not an image, but {manifest.media_type}")
    try:
        descriptors = [
            Descriptor(str(entry["mediaType"]), str(entry["digest"]), int(entry["size"]))
            for entry in manifest.body["layers"]
        ]
    except (KeyError, TypeError, ValueError):
        raise NotPossible(f"the manifest of {base} is damaged") from None
    for descriptor in descriptors:
        if descriptor.media_type not in _LAYER_TYPES:
            raise NotPossible(f"{base} has a layer that cannot be passed on: {descriptor.media_type}")
    return tuple(Descriptor(_LAYER_TYPES[it.media_type], it.digest, it.size) for it in descriptors)


def config_digest(base: ImageName, manifest: ImageManifest) -> str:
    config = manifest.body.get("config")
    digest = config.get("digest") if isinstance(config, dict) else None
    if not isinstance(digest, str):
        raise NotPossible(f"the manifest of {base} is damaged")
    return digest


def check_platform(base: ImageName, config: Json, platforms: Sequence[str]) -> None:
    """Refuse a base of one platform that is none of these."""
    name = f"{config.get('os')}/{config.get('architecture')}"
    if name not in platforms:
        raise NotPossible(f"{base} is for {name}, and not for {' or '.join(platforms)}")


def platform(config: Json) -> Json:
    """The platform of an image, as an index names it."""
    return {name: config[name] for name in ("architecture", "os", "os.version", "variant") if config.get(name)}


def variables(config: Json) -> dict[str, str]:
    """Those of an image's process."""
    process = config.get("config")
    entries = process.get("Env") if isinstance(process, dict) else None
    return dict(entry.split("=", 1) for entry in entries or () if "=" in entry)


def build(base: ImageName, manifest: ImageManifest, config: Json, top: Sequence[Descriptor], *, process: Json) -> Built:
    """The image with further layers, and its process with these fields in the place of the base's."""
    rootfs = config.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(diff_ids, list):
        raise NotPossible(f"the configuration of {base} is damaged")
    changed = {
        **config,
        "config": {**(config.get("config") or {}), **process},
        # They are not compressed, so these are their digests, too.
        "rootfs": {"type": "layers", "diff_ids": [*diff_ids, *(it.digest for it in top)]},
        "history": [*(config.get("history") or ()), *({"created_by": "tfjob image push"} for _ in top)],
    }
    config_bytes = written(changed)
    whole = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor_of(config_bytes, _CONFIG_TYPE).written(),
        "layers": [it.written() for it in (*layers(base, manifest), *top)],
        "annotations": {
            "org.opencontainers.image.base.name": str(base),
            "org.opencontainers.image.base.digest": manifest.digest,
        },
    }
    return Built(config_bytes, written(whole))


def index(manifests: Sequence[tuple[bytes, Json]]) -> bytes:
    """The list of the images of several platforms."""
    entries = [
        {**descriptor_of(manifest, MANIFEST_TYPE).written(), "platform": platform(config)}
        for manifest, config in manifests
    ]
    return written({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})


def descriptor_of(content: bytes, media_type: str) -> Descriptor:
    return Descriptor(media_type, digest_of(content), len(content))


def written(body: Json) -> bytes:
    """JSON, always in the same way."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
