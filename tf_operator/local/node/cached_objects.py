"""An object as the caches of a node hold it: its whole body."""

from typing import Any

import msgspec

from tf_operator.machinery.transport.responses import ObjectMeta


class CachedObject(msgspec.Struct, frozen=True):
    """An object of any kind."""

    metadata: ObjectMeta
    body: dict[str, Any]


def read_object(raw: msgspec.Raw) -> CachedObject:
    """Decode it."""
    body = msgspec.json.decode(raw)
    return CachedObject(msgspec.convert(body["metadata"], ObjectMeta), body)
