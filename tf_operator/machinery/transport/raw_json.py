"""Takes JSON apart without recursion: the way around an object that no decoder can read.

Every JSON decoder for Python gives up at some depth (about a thousand levels), and refuses the whole text.
The apiserver stores objects of nine thousand levels. So one such object would blind the operator to every
other one in the same list. This module finds the borders of the members of the outermost object, or of the
elements of the outermost array, by counting brackets; the pieces are then decoded one by one.

It trusts the text to be JSON, as the apiserver's always is; on anything else it returns pieces that their
decoder refuses, or fewer of them: what has no end is not returned. A tenant chooses the text, so its time is
linear in it, and at worst 0.2 s a megabyte (a text of brackets only). That is many times what a decoder needs; so
it is for when a decoder has given up.
"""

import re
from itertools import accumulate, compress, count, pairwise

import msgspec

_BRACKETS = b"{[]}"
_CLOSING = frozenset(b"]}")
_STEP = dict(zip(_BRACKETS, (1, 1, -1, -1), strict=True))
_IS_BRACKET = bytes(byte in _BRACKETS for byte in range(256))
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_OPENING = re.compile(rb"[\[{]")
AT_ONCE = 64 * 1024
SPACE = b" \t\r\n"
_NAME = re.compile(rb'("(?:[^"\\]++|\\.)*+")\s*+:', re.DOTALL)


def split_object(text: bytes) -> dict[str, bytes]:
    """The members of the outermost object, as raw text."""
    members = {}
    for piece in split_array(text):
        if name := _NAME.match(piece):
            members[msgspec.json.decode(name[1], type=str)] = piece[name.end() :].strip(SPACE)
    return members


def split_array(text: bytes) -> list[bytes]:
    """What stands between the commas of the outermost object or array, as raw text."""
    scanner, pieces = BorderScanner(), []
    outermost = _OPENING.search(text)
    start = outermost.end() if outermost else 0
    for at in range(0, len(text), AT_ONCE):
        for end in scanner.feed(text[at : at + AT_ONCE]):
            pieces.append(text[start : at + end].strip(SPACE))
            start = at + end + 1
    return [piece for piece in pieces if piece]


def depth_of(text: bytes) -> int:
    """How many objects and arrays stand in each other where most do."""
    scanner, deepest, depth = BorderScanner(), 0, 0
    for at in range(0, len(text), AT_ONCE):
        depths = scanner.depths_in(text[at : at + AT_ONCE], depth)
        deepest, depth = max(deepest, *depths), depths[-1]
    return deepest


class BorderScanner:
    """Finds the borders between the members of the outermost object, or the elements of the outermost array.

    The text comes in parts, of ``AT_ONCE`` at most: short strings take twenty times their part while it is scanned.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._is_in_string = self._is_escaped = False
        self.is_closed = False
        """Whether the last border was the outermost bracket; nothing after it is looked at."""

    def feed(self, text: bytes) -> list[int]:
        """Where in this part a member or an element ends: at a comma, the last one at the closing bracket."""
        if self.is_closed or not text:
            return []
        bare = self._without_strings(text)
        positions = [-1, *compress(count(), bare.translate(_IS_BRACKET)), len(bare)]
        steps = map(_STEP.__getitem__, bare.translate(None, _NO_BRACKETS))
        depths = list(accumulate(steps, initial=self._depth))
        self._depth = depths[-1]
        borders = []
        # Commas are looked for in the gaps between two brackets where the depth is one.
        for here, there in compress(pairwise(positions), map((1).__eq__, depths)):
            comma = here
            while (comma := bare.find(b",", comma + 1, there)) >= 0:
                borders.append(comma)
            if there < len(bare) and bare[there] in _CLOSING:
                self.is_closed = True
                return [*borders, there]
        return borders

    def depths_in(self, text: bytes, depth: int) -> list[int]:
        """The depth before this part, and after each of its brackets."""
        bare = self._without_strings(text)
        return list(accumulate(map(_STEP.__getitem__, bare.translate(None, _NO_BRACKETS)), initial=depth))

    def _without_strings(self, text: bytes) -> bytes:
        """The same text, as long as it was, with zeros for all that stands in strings."""
        if self._is_escaped:
            text = b"_" + text[1:]
        # An escape begins at the first backslash of a row, and so does ``replace``; then every quote is a border.
        plain = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
        self._is_escaped = plain.endswith(b"\\")
        pieces = plain.split(b'"')
        pieces[not self._is_in_string :: 2] = map(bytes, map(len, pieces[not self._is_in_string :: 2]))
        self._is_in_string ^= len(pieces) % 2 == 0
        return b'"'.join(pieces)
