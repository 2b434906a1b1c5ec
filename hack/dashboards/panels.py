"""The kinds of panels, each in the one way in which these dashboards use it.

Every panel has a title, a description that tells what is normal and what is not, a unit and queries; a series that has
no name from its query gets one. Colours mean the same everywhere: ``MEANING`` gives them by what a series is named by.
``frame`` puts panels on a dashboard.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heat_looks
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

AnyPanel = timeseries.Panel | stat.Panel | bargauge.Panel | table.Panel | heatmap.Panel
_Panel = TypeVar("_Panel", timeseries.Panel, stat.Panel, bargauge.Panel, table.Panel, heatmap.Panel)

SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
UNITS: Final = {
    "count": "short",
    "a minute": "suffix: /min",
    "a second": "suffix: /s",
    "seconds": "s",
    "hours": "h",
    "bytes": "bytes",
    "bytes a second": "Bps",
    "share": "percentunit",
    "name": "string",
}

GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = "green", "yellow", "orange", "red", "blue", "purple", "#8e8e8e"
MEANING: Final[Mapping[str, Mapping[str, str]]] = {
    # Conditions of jobs, and phases of pods.
    "{{phase}}": {
        "New": GREY,
        "Created": YELLOW,
        "Pending": YELLOW,
        "Running": GREEN,
        "Restarting": ORANGE,
        "Suspended": PURPLE,
        "Queued": GREY,
        "Succeeded": BLUE,
        "Failed": RED,
        "Unknown": GREY,
    },
    # Why replicas are started again; other reasons keep the colours of the palette.
    "{{reason}}": {"failed": RED, "in-place": YELLOW, "disrupted": PURPLE},
    # Results of reconciles.
    "{{result}}": {"success": GREEN, "requeue": ORANGE, "requeue_after": BLUE, "error": RED},
    # Series with names of their own.
    "created": {"created": YELLOW},
    "succeeded": {"succeeded": BLUE},
    "failed": {"failed": RED},
    "deleted": {"deleted": GREY},
    "errors": {"errors": RED},
    "panics": {"panics": PURPLE},
}
_LETTERS: Final = "ABCDEFGHIJ"
Queries = Mapping[str, str]
"""By what their series are called: words and ``{{label}}``."""


def lines(
    title: str,
    *,
    text: str,
    queries: Queries,
    unit: str = "count",
    width: int = 8,
    stacked: bool = False,
    most: float | None = None,
) -> timeseries.Panel:
    """How something changes; ``stacked`` when the series are parts of a whole."""
    panel = _of(timeseries.Panel(), title, text, unit=unit, width=width).min(0)
    if most is not None:
        panel.max(most)
    if stacked:
        panel.fill_opacity(60).line_width(0).stacking(
            common.StackingConfig().mode(looks.StackingMode.NORMAL).group("A")
        )
    else:
        panel.fill_opacity(8).line_width(1.5)
    panel.show_points(looks.VisibilityMode.NEVER)
    panel.legend(
        common.VizLegendOptions()
        .show_legend(True)  # noqa: FBT003 (Grafana's library has it so)
        .display_mode(looks.LegendDisplayMode.LIST)
        .placement(looks.LegendPlacement.BOTTOM)
        .calcs([])
    )
    panel.tooltip(
        common.VizTooltipOptions().mode(looks.TooltipDisplayMode.MULTI).sort(looks.SortOrder.DESCENDING)
    ).color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
    for target, name in zip(_targets(queries), queries, strict=True):
        panel.with_target(target.range())
        for series, colour in MEANING.get(name, {}).items():
            panel.override_by_name(series, [_fixed(colour)])
    return panel


def number(
    title: str,
    *,
    text: str,
    queries: Queries,
    unit: str = "count",
    width: int = 4,
    base: str = GREEN,
    steps: Mapping[float, str] | None = None,
) -> stat.Panel:
    """One number of now, or of the whole range. ``steps`` colour it: from this value on, this colour; else ``base``."""
    panel = _of(stat.Panel(), title, text, unit=unit, width=width, height=4)
    panel.graph_mode(looks.BigValueGraphMode.NONE).reduce_options(_last())
    panel.text_mode(looks.BigValueTextMode.NAME if unit == "name" else looks.BigValueTextMode.VALUE)
    panel.color_mode(looks.BigValueColorMode.VALUE).thresholds(_thresholds(steps or {}, base))
    panel.color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
    (target,) = _targets(queries)
    return panel.with_target(target.instant())


def bars(title: str, *, text: str, queries: Queries, unit: str, width: int = 8) -> bargauge.Panel:
    panel = _of(bargauge.Panel(), title, text, unit=unit, width=width).min(0)
    panel.orientation(looks.VizOrientation.HORIZONTAL).display_mode(looks.BarGaugeDisplayMode.BASIC)
    panel.reduce_options(_last()).thresholds(_thresholds({}, BLUE))
    for target in _targets(queries):
        panel.with_target(target.instant())
    return panel


def heat(title: str, *, text: str, queries: Queries, width: int = 8, scheme: str = "Blues") -> heatmap.Panel:
    """How the times that something took are spread, and how that changes."""
    panel = _of(heatmap.Panel(), title, text, unit="seconds", width=width).calculate(False)  # noqa: FBT003
    panel.y_axis(heatmap.YAxisConfig().unit(UNITS["seconds"]).axis_placement(looks.AxisPlacement.LEFT))
    panel.cell_values(heatmap.CellValues().unit(UNITS["count"]).decimals(0)).cell_gap(1).show_legend()
    panel.filter_values(heatmap.FilterValueRange().le(1e-9))
    panel.color(
        heatmap.HeatmapColorOptions()
        .mode(heat_looks.HeatmapColorMode.SCHEME)
        .scheme(scheme)
        .scale(heat_looks.HeatmapColorScale.EXPONENTIAL)
        .exponent(0.5)
        .steps(32)
        .fill("dark-blue")
        .reverse(False)  # noqa: FBT003
    )
    (target,) = _targets(queries)
    return panel.with_target(target.range().format(PromQueryFormat.HEATMAP))


def rows(title: str, *, text: str, queries: Queries, key: str, link: str, width: int = 24) -> table.Panel:
    """A row for each value of the label ``key``, a column for each query; ``link`` leads from the first column."""
    panel = _of(table.Panel(), title, text, unit="count", width=width, height=7).decimals(0).no_value("0")
    for target in _targets(queries):
        panel.with_target(target.legend_format("__auto").instant().format(PromQueryFormat.TABLE))
    names = {f"Value #{letter}": name for letter, name in zip(_LETTERS, queries, strict=False)}
    panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    order = {name: index for index, name in enumerate((key, *names))}
    tidy = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": {key: "Namespace", **names}}
    panel.with_transformation(models.DataTransformerConfig(id_val="organize", options=tidy))
    links = [{"title": "Show the jobs of ${__value.text}", "url": link}]
    return panel.override_by_name("Namespace", [models.DynamicConfigValue(id_val="links", value=links)])


def _of(panel: _Panel, title: str, text: str, *, unit: str, width: int, height: int = 8) -> _Panel:
    panel.title(title).description(text).unit(UNITS[unit]).datasource(SOURCE)
    panel.span(width).height(height)
    return panel


def _targets(queries: Queries) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery().expr(query).legend_format(name).ref_id(letter).datasource(SOURCE)
        for letter, (name, query) in zip(_LETTERS, queries.items(), strict=False)
    ]


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)  # noqa: FBT003


def _thresholds(steps: Mapping[float, str], base: str) -> dashboard.ThresholdsConfig:
    thresholds = [models.Threshold(value=value, color=colour) for value, colour in steps.items()]
    first = models.Threshold(value=None, color=base)
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps([first, *thresholds])


def _fixed(colour: str) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})
