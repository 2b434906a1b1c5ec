"""A dashboard as its JSON says, in the parts that a picture needs.

Neighbours: ``answers`` has the targets answered, ``page`` draws the panels.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rendering.errors import UnknownError

Body = Mapping[str, Any]
KINDS: Final = frozenset({"row", "timeseries", "heatmap", "stat", "bargauge", "table"})


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel."""

    letter: str
    query: str
    legend: str
    is_instant: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """Where a panel is, in Grafana's units: 24 columns, rows of 30 pixels."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel, or the header of a row of them."""

    kind: str
    title: str
    grid: Grid
    unit: str = ""
    is_stacked: bool = False
    most: float | None = None
    base_colour: str = ""
    steps: tuple[tuple[float, str], ...] = ()
    """From this value on, this colour."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """By the names of series."""
    scheme: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Titles of a table's columns, by label or ``Value #`` and the letter of the target."""
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable that is chosen from values that Prometheus has."""

    name: str
    label: str
    query: str
    all_value: str
    """What stands for all values; empty when one has to be chosen."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


def read(path: Path) -> Dashboard:
    """Read a file; raises UnknownError."""
    body = json.loads(path.read_text(encoding="utf-8"))
    chosen = [entry for entry in body["templating"]["list"] if entry["type"] != "datasource"]
    return Dashboard(
        name=path.stem,
        title=body["title"],
        variables=tuple(_variable(entry) for entry in chosen),
        panels=tuple(_panel(entry) for entry in body["panels"]),
    )


def _variable(body: Body) -> Variable:
    if body["type"] != "query":
        raise UnknownError(f"variable {body['name']!r} is of type {body['type']!r}: the renderer knows only 'query'")
    return Variable(
        name=body["name"],
        label=body.get("label") or body["name"],
        query=body["query"]["query"],
        all_value=(body.get("allValue") or ".*") if body.get("includeAll") else "",
    )


def _panel(body: Body) -> Panel:
    kind, title = body["type"], body.get("title", "")
    if kind not in KINDS:
        raise UnknownError(f"panel {title!r} is a {kind!r}: the renderer knows {', '.join(sorted(KINDS))}")
    where = body["gridPos"]
    grid = Grid(where.get("x", 0), where.get("y", 0), where["w"], where["h"])
    if kind == "row":
        return Panel(kind, title, grid)
    config = body.get("fieldConfig", {})
    defaults = config.get("defaults", {})
    base, steps = _thresholds(defaults)
    return Panel(
        kind,
        title,
        grid,
        unit=defaults.get("unit", ""),
        is_stacked=defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal",
        most=defaults.get("max"),
        base_colour=base,
        steps=steps,
        colours=_colours(config.get("overrides", ())),
        scheme=body.get("options", {}).get("color", {}).get("scheme", ""),
        columns=_columns(body.get("transformations", ())),
        targets=tuple(_target(entry) for entry in body["targets"]),
    )


def _target(body: Body) -> Target:
    legend = body.get("legendFormat", "")
    return Target(body["refId"], body["expr"], "" if legend == "__auto" else legend, bool(body.get("instant")))


def _thresholds(defaults: Body) -> tuple[str, tuple[tuple[float, str], ...]]:
    steps = defaults.get("thresholds", {}).get("steps", ())
    base = next((step["color"] for step in steps if step.get("value") is None), "")
    return base, tuple((step["value"], step["color"]) for step in steps if step.get("value") is not None)


def _colours(overrides: Iterable[Body]) -> dict[str, str]:
    return {
        entry["matcher"]["options"]: setting["value"]["fixedColor"]
        for entry in overrides
        for setting in entry["properties"]
        if entry["matcher"]["id"] == "byName" and setting["id"] == "color"
    }


def _columns(transformations: Iterable[Body]) -> dict[str, str]:
    for entry in transformations:
        if entry["id"] == "organize":
            names, order = entry["options"]["renameByName"], entry["options"]["indexByName"]
            return {name: names[name] for name in sorted(names, key=lambda name: order[name])}
    return {}
