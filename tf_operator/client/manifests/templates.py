"""The pod templates in a manifest, of whatever API, where they can be changed."""

from collections.abc import Iterable, Iterator
from typing import Any


def of(value: object) -> Iterator[dict[str, Any]]:
    """The templates below a value."""
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield value
        else:
            for below in value.values():
                yield from of(below)
    elif isinstance(value, list):
        for below in value:
            yield from of(below)


def specs(templates: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Their specs, each once: templates that are aliases in YAML share them."""
    return {id(template["spec"]): template["spec"] for template in templates}.values()
