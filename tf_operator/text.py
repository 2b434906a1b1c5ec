"""Text that somebody else wrote: nothing in it may begin a line, move a cursor, hide or reverse the text around it."""

import re
import unicodedata
from typing import Final

LONGEST_MESSAGE: Final = 1024
"""Characters of a message in a status."""
_COMMANDS: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
# Some proxies show on their error pages what they were sent.
_CREDENTIALS: Final = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_CUT: Final = "..."


def one_line(text: str, *, most: int = 300) -> str:
    """The text as it may stand in a log, a message or a status: one line of bounded length, without credentials."""
    # Twice as much as is left: white space and credentials shrink.
    return shortened(printable(_CREDENTIALS.sub(r"\1 ...", " ".join(text[: 2 * most].split()))), most)


def shortened(text: str, most: int) -> str:
    """The beginning of a text that is too long, with dots."""
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


def printable(text: str) -> str:
    """The text on one line, as wide as it was: a space for each line end, ``?`` for what cannot be seen."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def escaped(text: str, *, keeps: str = "") -> str:
    """The text on one line from which nothing is lost: what cannot be seen, as Python writes it, but for ``keeps``."""
    if text.isprintable():
        return text
    return "".join(char if char in keeps or _is_visible(char) else _escape(char) for char in text)


def without_commands(text: str) -> str:
    """The text without colours, and whatever else a program tells a terminal."""
    return _COMMANDS.sub("", text)


def _is_visible(char: str) -> bool:
    # Every width of space is harmless; isprintable knows only one of them.
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()
