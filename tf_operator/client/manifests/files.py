"""Files of manifests to single objects: YAML or JSON, several documents in a file, lists.

Everything that kubectl reads after ``-f`` except folders and addresses. Objects that are not TFJobs are ignored: a file
may well hold the volume claim of a job beside it. Neighbours: ``kube_yaml`` parses, ``validate`` checks the objects.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tf_operator.client.job import NotPossible
from tf_operator.client.manifests import kube_yaml
from tf_operator.dialects import registry
from tf_operator.meta import Body, metadata_of, text_of

if TYPE_CHECKING:
    from tf_operator.client.upload.archive import Archive

_DEEPEST: Final = 100
Source = Mapping[str, Any] | str | PathLike[str]
"""A manifest, or the path of a file with one."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, and where it was found: ``job.yaml``, or ``jobs.yaml#2`` when it is not alone there."""

    where: str
    body: Body
    files: "Archive | None" = None
    """What goes along with a job."""


class ManifestError(Exception):
    """The text is no manifest; the message says why, without the file."""


def read(name: str, text: str) -> list[Manifest]:
    """All objects in the text of a file; ``ManifestError`` when there is none, or the text cannot be read."""
    documents = _documents(text)
    if any(_is_deep(document) for document in documents):
        raise ManifestError("is nested too deeply")
    bodies = [body for document in documents for body in _objects(document)]
    if not bodies:
        raise ManifestError("there is no object in it")
    if len(bodies) == 1:
        return [Manifest(name, bodies[0])]
    return [Manifest(f"{name}#{number}", body) for number, body in enumerate(bodies, start=1)]


def read_source(source: Source) -> list[Manifest]:
    """All objects of a manifest, or of the file at a path; ``NotPossible`` when it cannot be read."""
    if isinstance(source, Mapping):
        name = text_of(metadata_of(source), "name")
        return [Manifest(f"{text_of(source, 'kind') or 'object without a kind'} {name}".rstrip(), source)]
    path = fspath(source)
    try:
        return read(path, Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise NotPossible(f"cannot read {path}: {error.strerror or error}") from None
    except (ManifestError, UnicodeDecodeError) as error:
        raise NotPossible(f"{path}: {error}") from None


def one_job(manifests: Sequence[Manifest]) -> Manifest:
    jobs = [manifest for manifest in manifests if registry.of_kind(text_of(manifest.body, "kind"))]
    if len(jobs) != 1:
        name = manifests[0].where.partition("#")[0]
        raise NotPossible(f"{name} contains {len(jobs) or 'no'} {registry.kinds()}{'s' if jobs else ''}: name one job")
    return jobs[0]


def _documents(text: str) -> list[Any]:
    """JSON is YAML except for tabs and for objects one after the other, so it is tried first."""
    if text.lstrip().startswith("{"):
        try:
            return list(_json_documents(text))
        except (ValueError, RecursionError):
            pass  # the YAML reader accepts it, or has the error with its place
    try:
        return list(kube_yaml.read(text))
    except kube_yaml.YamlError as error:
        raise ManifestError(str(error)) from None


def _json_documents(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(
        parse_int=kube_yaml.integer, parse_float=kube_yaml.number, parse_constant=kube_yaml.number
    )
    rest = text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        yield document
        rest = rest[end:].lstrip()


def _is_deep(document: object) -> bool:
    """Whether the document has more levels than the recursive code that reads and prints it can follow."""
    level = [document]
    for _ in range(_DEEPEST):
        level = [item for node in level if isinstance(node, dict | list) for item in _items(node)]
    return bool(level)


def _items(node: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node


def _objects(document: object) -> Iterator[Body]:
    if not isinstance(document, Mapping):
        raise ManifestError("a document in it is not an object")
    items = document.get("items")
    if not text_of(document, "kind").endswith("List") or not isinstance(items, list):
        yield document
        return
    for item in items:
        yield from _objects(item)
