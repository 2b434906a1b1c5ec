"""JSON merge patches (RFC 7386): what has to be sent so that a stored object becomes another one."""

from collections.abc import Mapping
from typing import Any


def difference(stored: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """The patch from one to the other; empty when both are the same. ``None`` removes; lists are replaced whole."""
    patch: dict[str, Any] = {name: None for name in stored if name not in target}
    for name, value in target.items():
        stored_value = stored.get(name)
        if stored_value == value and name in stored:
            continue
        if isinstance(value, Mapping) and isinstance(stored_value, Mapping):
            patch[name] = difference(stored_value, value)
        else:
            patch[name] = value
    return patch
