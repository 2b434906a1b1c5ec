"""Files of manifests to single objects: YAML or JSON, several documents in a file, lists.

Everything that kubectl reads after ``-f`` except folders and addresses. Objects that are not TFJobs are ignored: a file
may well hold the volume claim of a job beside it. Neighbours: ``kube_yaml`` parses, ``validate`` checks the objects.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tf_operator.cli import kube_yaml
from tf_operator.cli.usage import UsageError
from tf_operator.meta import Body, text_of

STDIN: Final = "-"
_DEEPEST: Final = 100


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, and where it was found: ``job.yaml``, or ``jobs.yaml#2`` when it is not alone there."""

    where: str
    body: Body


class UnreadableFile(UsageError):
    """A file cannot be read; the message says which and why."""


class ManifestError(Exception):
    """The text is no manifest; the message says why, without the file."""


def add_argument(parser: argparse.ArgumentParser, content: str = "any number of documents") -> None:
    """Put the files, as the list ``filename``, into the grammar of a command: one by itself, or any with ``-f``."""
    group = parser.add_mutually_exclusive_group(required=True)
    text = f"YAML or JSON, with {content}; - for standard input"
    # Without a default: one that is left out does not take the place of what -f names.
    group.add_argument("filename", nargs="?", action="append", default=argparse.SUPPRESS, metavar="FILE", help=text)
    group.add_argument(
        "-f", "--filename", action="append", metavar="FILE", help="the same, as for kubectl; may be repeated"
    )


def text_of_file(name: str) -> str:
    """The text of a file, or of standard input; ``UnreadableFile`` or ``UnicodeDecodeError`` when there is none."""
    try:
        return sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableFile(f"cannot read {name}: {error.strerror or error}") from None


def read(name: str, text: str) -> list[Manifest]:
    """All objects in the text of a file; ``ManifestError`` when there is none, or the text cannot be read."""
    documents = _documents(text)
    if any(_is_deep(document) for document in documents):
        raise ManifestError("is nested too deeply")
    bodies = [body for document in documents for body in _objects(document)]
    if not bodies:
        raise ManifestError("there is no object in it")
    shown = "stdin" if name == STDIN else name
    if len(bodies) == 1:
        return [Manifest(shown, bodies[0])]
    return [Manifest(f"{shown}#{number}", body) for number, body in enumerate(bodies, start=1)]


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
    """The object that a document is, or those that a list holds."""
    if not isinstance(document, Mapping):
        raise ManifestError("a document in it is not an object")
    items = document.get("items")
    if not text_of(document, "kind").endswith("List") or not isinstance(items, list):
        yield document
        return
    for item in items:
        yield from _objects(item)
