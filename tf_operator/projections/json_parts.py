"""Parts of an object that are kept as JSON text, and decoded when they are wanted."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

EMPTY: Final = msgspec.Raw(b"{}")


def as_object(raw: msgspec.Raw) -> Mapping[str, Any]:
    """The part as JSON; where it is no object, or too deep, as an object that a dialect finds nothing in."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
