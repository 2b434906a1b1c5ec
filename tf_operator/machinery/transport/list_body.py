"""The body of a list while it arrives: complete objects are taken out of it when there is more than memory is spent on.

Most bodies are smaller, and decoded in one piece at their end: a decoder is a hundred times as fast as a search for the
borders between objects. Only what comes beyond ``MOST_HELD`` is searched, and then the objects found until then leave.
What is left of the body is a list with fewer objects, and read as any other one.
"""

import re

import msgspec

from tf_operator.machinery.transport import raw_json, responses
from tf_operator.machinery.transport.raw_json import BorderScanner
from tf_operator.machinery.transport.responses import Page

MOST_HELD = 24 * 1024 * 1024
"""Above the bytes that a page is meant to have (``cache.pager``), and one large object."""

_SCANNED_PER_CHUNK = 4 * raw_json.AT_ONCE
"""Twice of what comes at once, so that what is held shrinks; and no more, so that the event loop is not held up."""
# What every apiserver writes before the objects. Without it the whole body is held.
_HEAD = re.compile(
    rb'\s*+\{(?:\s*+"(?:apiVersion|kind)"\s*+:\s*+"[^"\\]*+"\s*+,|\s*+"metadata"\s*+:\s*+\{[^{}]*+\}\s*+,)*+'
    rb'\s*+"items"\s*+:\s*+\['
)


class ListBody:
    """Takes the chunks of one body; ``feed`` and then ``finish`` give its objects in their order."""

    def __init__(self) -> None:
        self.size = 0
        """How many bytes have come."""
        self.count = 0
        """How many objects were given."""
        self._chunks: list[bytes] = []
        """What is held as long as it is not much."""
        self._text = bytearray()
        """What is held then: what comes after the objects that were given."""
        self._head = b""
        self._scanned = 0
        self._scanner: BorderScanner | None = None

    @property
    def held(self) -> int:
        return self.size if self._scanner is None else len(self._text)

    def feed(self, chunk: bytes) -> list[msgspec.Raw]:
        """The objects that have to leave now; mostly none."""
        is_enough = self.size <= MOST_HELD < self.size + len(chunk)
        self.size += len(chunk)
        if self._scanner is None:
            self._chunks.append(chunk)
            self._scanner = self._begin() if is_enough else None
        else:
            self._text += chunk
        return self._cut(self._scanner) if self._scanner else []

    def finish(self) -> Page:
        """The objects that are left, and what the list says of itself; ``Garbled`` when it is none."""
        page = responses.read_page(b"".join(self._chunks) or self._head + bytes(self._text))
        self._chunks, self._text = [], bytearray()
        self.count += len(page.items)
        return page

    def _begin(self) -> BorderScanner | None:
        """What finds the objects of this body; ``None`` where their array does not stand at the beginning."""
        text = bytearray().join(self._chunks)
        head = _HEAD.match(text)
        if head is None:
            return None
        self._chunks, self._head, self._text = [], bytes(head[0]), text
        del text[: len(self._head)]
        scanner = BorderScanner()
        scanner.feed(b"[")
        return scanner

    def _cut(self, scanner: BorderScanner) -> list[msgspec.Raw]:
        objects: list[msgspec.Raw] = []
        start, upto = 0, min(len(self._text), self._scanned + _SCANNED_PER_CHUNK)
        while self._scanned < upto and not scanner.is_closed:
            part = bytes(self._text[self._scanned : self._scanned + raw_json.AT_ONCE])
            for border in scanner.feed(part):
                end = self._scanned + border
                object_ = bytes(self._text[start:end]).strip(raw_json.SPACE)
                objects += [msgspec.Raw(object_)] if object_ else []
                start = end + 1
            self._scanned += len(part)
        if start and scanner.is_closed:
            start -= 1  # the bracket after the last object stays
        del self._text[:start]
        self._scanned -= start
        self.count += len(objects)
        return objects
