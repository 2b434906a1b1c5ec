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
from collections.abc import Iterator
from itertools import accumulate, compress, count, pairwise

import msgspec

_BRACKETS = b"{[]}"
_CLOSING = frozenset(b"]}")
_STEP = dict(zip(_BRACKETS, (1, 1, -1, -1), strict=True))
_IS_BRACKET = bytes(byte in _BRACKETS for byte in range(256))
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_AT_ONCE = 64 * 1024
_SPACE = b" \t\r\n"
_NAME = re.compile(rb'("(?:[^"\\]++|\\.)*+")\s*+:', re.DOTALL)


def split_object(text: bytes) -> dict[str, bytes]:
    """The members of the outermost object, as raw text."""
    found = {}
    for piece in split_array(text):
        if name := _NAME.match(piece):
            found[msgspec.json.decode(name[1], type=str)] = piece[name.end() :].strip(_SPACE)
    return found


def split_array(text: bytes) -> list[bytes]:
    """What stands between the commas of the outermost object or array, as raw text."""
    pieces = [text[start:end].strip(_SPACE) for start, end in _borders(text)]
    return [piece for piece in pieces if piece]


def _borders(text: bytes) -> Iterator[tuple[int, int]]:
    """Beginning and end of each piece: found in the gaps between two brackets where the depth is one."""
    bare = _without_strings(text)
    positions = compress(count(), bare.translate(_IS_BRACKET))
    depths = accumulate(map(_STEP.__getitem__, bare.translate(None, _NO_BRACKETS)))
    gaps = (gap for gap, depth in zip(pairwise(positions), depths, strict=False) if depth == 1)
    start = 0
    for here, there in gaps:
        start = start or here + 1
        while (comma := bare.find(b",", max(start, here), there)) >= 0:
            yield start, comma
            start = comma + 1
        if bare[there] in _CLOSING:
            yield start, there
            return


def _without_strings(text: bytes) -> bytes:
    """The same text, as long as it was, with zeros for all that stands in strings."""
    # An escape begins at the first backslash of a row, and so does ``replace``; after this, every quote is a border.
    plain, found, is_inside = text.replace(rb"\\", b"__").replace(rb"\"", b"__"), bytearray(), False
    for start in range(0, len(plain), _AT_ONCE):  # else short strings would take twenty times the text
        pieces = plain[start : start + _AT_ONCE].split(b'"')
        pieces[not is_inside :: 2] = map(bytes, map(len, pieces[not is_inside :: 2]))
        is_inside ^= len(pieces) % 2 == 0
        found += b'"'.join(pieces)
    return bytes(found)
