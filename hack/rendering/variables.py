"""What Grafana puts in the place of ``$name`` and ``${name}`` before it asks.

A variable that may have several values stands for all of them until one is chosen; one that must have a single value
gets the first there is. Values that Grafana knows by itself begin with ``__``. Neighbour: ``model``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rendering.errors import UnknownError
from rendering.model import Dashboard, Variable
from rendering.prometheus import Prometheus, Span

_PLACE: Final = re.compile(r"\$(?:\{(?P<braces>[A-Za-z_]\w*)(?::\w+)?\}|(?P<plain>[A-Za-z_]\w*))")
_LABEL_VALUES: Final = re.compile(r"^label_values\((?P<series>.+),\s*(?P<label>\w+)\)$")


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for a variable: what is shown of it, and what is put into queries."""

    label: str
    shown: str
    value: str


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in their places; raises UnknownError."""

    def value_of(place: re.Match[str]) -> str:
        name = place["braces"] or place["plain"]
        if name not in values:
            raise UnknownError(f"nothing is known of the variable ${name}")
        return values[name]

    return _PLACE.sub(value_of, text)


def of_grafana(span: Span, scrape_seconds: float) -> dict[str, str]:
    """The values that Grafana knows by itself."""
    return {
        "__rate_interval": f"{max(span.step + scrape_seconds, 4 * scrape_seconds):.0f}s",
        "__interval": f"{max(span.step, scrape_seconds):.0f}s",
        "__range": f"{span.seconds:.0f}s",
    }


def choose(dashboard: Dashboard, prometheus: Prometheus, span: Span, wishes: Mapping[str, str]) -> dict[str, Choice]:
    """A value for each variable, in their order, because later ones may depend on earlier ones."""
    chosen: dict[str, Choice] = {}
    for variable in dashboard.variables:
        wish = wishes.get(variable.name, "")
        if wish:
            chosen[variable.name] = Choice(variable.label, wish, wish)
        elif variable.all_value:
            chosen[variable.name] = Choice(variable.label, "All", variable.all_value)
        else:
            values = {name: choice.value for name, choice in chosen.items()}
            first = _first(variable, prometheus, span, values)
            chosen[variable.name] = Choice(variable.label, first or "none", first)
    return chosen


def _first(variable: Variable, prometheus: Prometheus, span: Span, values: Mapping[str, str]) -> str:
    asked = _LABEL_VALUES.match(variable.query)
    if asked is None:
        raise UnknownError(f"variable {variable.name!r} asks {variable.query!r}: the renderer knows only label_values")
    found = prometheus.label_values(asked["label"], fill(asked["series"], values), span)
    return found[0] if found else ""
