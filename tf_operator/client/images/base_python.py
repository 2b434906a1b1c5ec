"""Which Python a base has, and which packages: read from its layers, since its configuration rarely says.

Nothing of the base is run. A layer never changes, so what was read of it is kept in the user's cache.
"""

import asyncio
import json
import os
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tf_operator.client.images import image
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.push import BaseImage
from tf_operator.client.job import NotPossible
from tf_operator.text import one_line

Release = tuple[int, ...]

_FILE: Final = re.compile(
    r"(?:.*/)?lib(?:64)?/python3\.(?P<minor>\d{1,3})/"
    r"(?:os\.py|(?:site|dist)-packages/(?P<package>[\w.+!-]{1,200}\.dist-info)/METADATA)",
    re.ASCII,
)
_HIDES: Final = ".wh."
"""Begins the name of a file that says that another, in a layer below, is gone."""
_HIDES_ALL: Final = ".wh..wh..opq"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""How such files begin. Python reads them from 3.14 on."""


@dataclass(frozen=True, slots=True)
class BasePython:
    release: Release
    packages: Mapping[str, str]
    """Folders with what pip knows of a package, as ``numpy-1.26.4.dist-info``, and the fields of its metadata."""


@dataclass(frozen=True, slots=True)
class _Layer:
    files: dict[str, str] = field(default_factory=dict)
    """Those that ``_FILE`` knows, by path, with the fields of a package's metadata."""
    hidden: list[str] = field(default_factory=list)
    """Files and folders below that are gone, the latter also with a slash at the end, which hides their content."""


async def read(base: BaseImage, stated: Release | None) -> BasePython:
    """What a base has; ``stated`` if the user has said it. ``NotPossible`` if it cannot be known."""
    files = dict[str, str]()
    for descriptor in image.layers(base.name, base.manifest):
        found = _remembered(descriptor.digest)
        if found is None:
            with tempfile.TemporaryFile() as file:
                await base.source.download(descriptor.digest, file)
                found = await asyncio.to_thread(_read_layer, file, f"a layer of {base.name}")
            _remember(descriptor.digest, found)
        files = {path: text for path, text in files.items() if not _is_hidden(path, found.hidden)} | found.files
    release = stated or release_of(image.variables(base.config)) or _release(base.name, files)
    searched = image.variables(base.config).get("PYTHONPATH", "").split(":")
    by_project = dict[str, tuple[str, str]]()
    for path in sorted(files, key=lambda path: _place(path, searched), reverse=True):
        match = _FILE.fullmatch(path)
        if match and match["package"] and int(match["minor"]) == release[1]:
            project = re.sub(r"[-_.]+", "-", match["package"].partition("-")[0]).lower()
            by_project[project] = match["package"], files[path]
    return BasePython(release, dict(by_project.values()))


def _place(path: str, searched: Sequence[str]) -> int:
    """When its folder is searched for modules, since of two versions of a package the first hides the second."""
    places = (place for place, folder in enumerate(searched) if folder and path.startswith(f"{folder.strip('/')}/"))
    return next(places, len(searched))


def release_of(variables: Mapping[str, str]) -> Release | None:
    """The release that official images of Python say that they have."""
    numbers = variables.get("PYTHON_VERSION", "").split(".")
    if len(numbers) < 2 or not all(part.isdecimal() for part in numbers[:2]):
        return None
    return tuple(int(part) for part in numbers if part.isdecimal())


def _release(base: ImageName, files: Iterable[str]) -> Release:
    """The one with packages, or else the only one."""
    matches = [match for path in files if (match := _FILE.fullmatch(path))]
    for group in ([it for it in matches if it["package"]], matches):
        minors = sorted({int(match["minor"]) for match in group})
        if len(minors) == 1:
            return 3, minors[0]
        if minors:
            releases = " and ".join(f"3.{minor}" for minor in minors)
            raise NotPossible(f"{base} has Python {releases}: say with --python which of them runs the program")
    raise NotPossible(f"{base} has no Python where it usually is: say with --python which release runs the program")


def _read_layer(file: IO[bytes], name: str) -> _Layer:
    layer = _Layer()
    file.seek(0)
    try:
        with tarfile.open(fileobj=file, mode="r:*") as archive:
            for entry in archive:
                path = entry.name.removeprefix("./").lstrip("/")
                last = path.rpartition("/")[2]
                if last == _HIDES_ALL:
                    layer.hidden.append(path.removesuffix(last))
                elif last.startswith(_HIDES):
                    gone = path.removesuffix(last) + last.removeprefix(_HIDES)
                    layer.hidden.extend([gone, f"{gone}/"])
                elif entry.issym():
                    pass  # it may name a file of another layer, which is found there
                elif (match := _FILE.fullmatch(path)) and (content := archive.extractfile(entry)):
                    text = content.read().decode(errors="replace") if match["package"] else ""
                    layer.files[path] = text.partition("\n\n")[0]
    except (tarfile.TarError, zlib.error, EOFError, KeyError, OSError) as error:
        file.seek(0)
        reason = "it is compressed with zstd" if file.read(len(_ZSTD)) == _ZSTD else one_line(str(error))
        raise NotPossible(f"{name} cannot be read, for its Python packages: {reason}") from None
    return layer


def _is_hidden(path: str, hidden: Sequence[str]) -> bool:
    return any(path == it or (it.endswith("/") and path.startswith(it)) for it in hidden)


def _memory(digest: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache, "tf-operator", "layers", f"{digest.partition(':')[2]}.json")


def _remembered(digest: str) -> _Layer | None:
    try:
        return _Layer(**json.loads(_memory(digest).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _remember(digest: str, layer: _Layer) -> None:
    path = _memory(digest)
    with suppress(OSError):  # then it is read again
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump({"files": layer.files, "hidden": layer.hidden}, file)
        Path(file.name).replace(path)
