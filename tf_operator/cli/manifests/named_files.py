"""The files of a command: by itself or after ``-f``, and standard input."""

import argparse
import sys
from pathlib import Path
from typing import Final

from tf_operator.cli.usage import UsageError
from tf_operator.client.manifests import files
from tf_operator.client.manifests.files import Manifest

STDIN: Final = "-"
ANY: Final = "any number of documents"


class UnreadableFile(UsageError):
    """A file cannot be read; the message says which and why."""


def add_argument(parser: argparse.ArgumentParser, content: str = ANY, *, is_required: bool = True) -> None:
    """Put the files, as the list ``filename``, into the grammar of a command: one by itself, or any with ``-f``."""
    group = parser.add_mutually_exclusive_group(required=is_required)
    text = f"YAML or JSON with {content}; - for standard input"
    # Without a default: one that is left out does not take the place of what -f names.
    group.add_argument("filename", nargs="?", action="append", default=argparse.SUPPRESS, metavar="FILE", help=text)
    group.add_argument(
        "-f", "--filename", action="append", metavar="FILE", help="the same as FILE, as in kubectl; may be repeated"
    )


def read(name: str) -> list[Manifest]:
    """All objects of a file, or of standard input.

    Raises ``UnreadableFile``, or ``ManifestError`` or ``UnicodeDecodeError`` for a text that is no manifest.
    """
    try:
        text = sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableFile(f"cannot read {name}: {error.strerror or error}") from None
    return files.read("stdin" if name == STDIN else name, text)
