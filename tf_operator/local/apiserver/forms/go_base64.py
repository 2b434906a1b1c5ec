"""Base64 as Go reads it in JSON: line ends anywhere are ignored, and nothing else."""

import base64
import binascii
import string
from typing import Final

_ALPHABET: Final = frozenset((string.ascii_letters + string.digits + "+/").encode())
_LINE_ENDS: Final = frozenset(b"\r\n")
_PADDING: Final = ord("=")


class CorruptInputError(ValueError):
    """Not base64."""

    def __init__(self, place: int) -> None:
        super().__init__(f"illegal base64 data at input byte {place}")


def decode(text: str) -> bytes:
    """The bytes; ``CorruptInputError`` names the place that Go finds wrong."""
    raw = text.encode()
    try:
        return base64.b64decode(raw.translate(None, b"\r\n"), validate=True)
    except binascii.Error:
        raise CorruptInputError(_place(raw)) from None


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _place(raw: bytes) -> int:
    """Where Go's decoder gives up: it reads four letters at a time, of which the last two may be padding."""
    letters = 0
    rest = [place for place, letter in enumerate(raw) if letter not in _LINE_ENDS]
    for number, place in enumerate(rest):
        if raw[place] in _ALPHABET:
            letters = (letters + 1) % 4
            continue
        if raw[place] != _PADDING or letters < 2:
            return place
        following = [*rest[number + 1 :], len(raw)]
        if letters == 3:
            return following[0]
        # A second padding has to follow, and nothing behind it.
        has_second = following[0] < len(raw) and raw[following[0]] == _PADDING
        return following[1] if has_second else following[0] - 1 if following[0] < len(raw) else len(raw)
    return len(raw) - letters
