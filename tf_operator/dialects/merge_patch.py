"""JSON merge patches (RFC 7386): what has to be sent so that a stored object becomes another one."""

from collections.abc import Mapping
from typing import Any

from tf_operator.meta import MAPPINGS


def difference(current: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """The patch from one to the other; empty when both are the same. ``None`` removes; lists are replaced whole."""
    patch: dict[str, Any] = {name: None for name in current if name not in target}
    for name, value in target.items():
        current_value = current.get(name)
        if current_value == value and name in current:
            continue
        if isinstance(value, MAPPINGS) and isinstance(current_value, MAPPINGS):
            patch[name] = difference(current_value, value)
        else:
            patch[name] = value
    return patch
