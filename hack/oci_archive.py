"""Reads an OCI archive: its images, and the files of one, as a container would see them."""

import gzip
import io
import json
import posixpath
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class UnreadableArchiveError(Exception):
    """The file is no OCI archive, or has no such image."""


@dataclass(frozen=True, slots=True)
class Image:
    """One platform's image: the digest of its manifest, its configuration, and its layers, lowest first."""

    platform: str
    digest: str
    config: Json
    layers: tuple[Json, ...]


def images(archive: Path) -> tuple[Image, ...]:
    """Every image of the archive, by platform; raises UnreadableArchiveError."""
    try:
        with tarfile.open(archive) as tar:
            return tuple(sorted(_images(tar, "index.json"), key=lambda image: image.platform))
    except (KeyError, tarfile.TarError, ValueError) as error:
        raise UnreadableArchiveError(f"{archive} is no OCI archive: {error}") from error


def digest(archive: Path) -> str:
    """What a registry calls the content: that of its only image, or of the list of them."""
    with tarfile.open(archive) as tar:
        (top,) = json.loads(_read(tar, "index.json"))["manifests"]
    return str(top["digest"])


def files(archive: Path, image: Image, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """What the wanted regular files contain, by path without the first slash; links are left out."""
    contents: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for layer in image.layers:
            content = _read(tar, _blob(layer["digest"]))
            if layer["mediaType"].endswith("gzip"):
                content = gzip.decompress(content)
            elif not layer["mediaType"].endswith("tar"):
                raise UnreadableArchiveError(f"{archive}: a layer is {layer['mediaType']}, which is not known here")
            with tarfile.open(fileobj=io.BytesIO(content)) as layer_tar:
                _apply(layer_tar, contents, is_wanted)
    return contents


def _apply(layer: tarfile.TarFile, contents: dict[str, bytes], is_wanted: Callable[[str], bool]) -> None:
    """Add what a layer has; its whiteouts remove what lower ones had."""
    additions: dict[str, bytes] = {}
    for entry in layer:
        path = posixpath.normpath(entry.name).lstrip("/")
        folder, name = posixpath.split(path)
        if name == ".wh..wh..opq":
            _remove(contents, folder)
        elif name.startswith(".wh."):
            _remove(contents, posixpath.join(folder, name.removeprefix(".wh.")))
        elif not entry.isdir():
            contents.pop(path, None)
            content = layer.extractfile(entry) if entry.isreg() and is_wanted(path) else None
            if content is not None:
                additions[path] = content.read()
    contents.update(additions)


def _remove(contents: dict[str, bytes], path: str) -> None:
    for name in [name for name in contents if name == path or name.startswith(f"{path}/")]:
        del contents[name]


def _images(archive: tarfile.TarFile, path: str) -> Iterator[Image]:
    for entry in json.loads(_read(archive, path))["manifests"]:
        manifest = json.loads(_read(archive, _blob(entry["digest"])))
        if "manifests" in manifest:
            yield from _images(archive, _blob(entry["digest"]))
        # Docker writes its own attestations beside the images: they have no layers of files.
        elif "vnd.docker.reference.type" not in entry.get("annotations", {}):
            config = json.loads(_read(archive, _blob(manifest["config"]["digest"])))
            platform = "/".join(filter(None, (config["os"], config["architecture"], config.get("variant", ""))))
            yield Image(platform, entry["digest"], config, tuple(manifest["layers"]))


def _blob(name: str) -> str:
    return f"blobs/{name.replace(':', '/', 1)}"


def _read(archive: tarfile.TarFile, path: str) -> bytes:
    content = archive.extractfile(path)
    if content is None:
        raise KeyError(path)
    return content.read()
