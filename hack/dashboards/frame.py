"""What surrounds the panels of a dashboard: its name, variables, links to the other dashboards, rows.

Uids never change, because people link to them. Every dashboard links to the two others and takes the time and the
variables along.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.panels import SOURCE, AnyPanel

TAG: Final = "tf-operator"
AnyVariable = dashboard.QueryVariable | dashboard.TextBoxVariable
Rows = Mapping[str, Sequence[AnyPanel]]


def make(*, uid: str, title: str, text: str, variables: Sequence[AnyVariable], rows: Rows) -> models.Dashboard:
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    builder = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(text)
        .tags([TAG])
        .editable()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-3h", "now")
        .refresh("1m")
        .variables([source, *variables])
        .link(_to_the_others())
    )
    for name, panels in rows.items():
        builder.with_row(dashboard.Row(name))
        for panel in panels:
            builder.with_panel(panel)
    board = builder.build()
    for number, panel_or_row in enumerate(board.panels or (), start=1):
        panel_or_row.id_val = number
    return board


def choice(*, name: str, label: str, text: str, query: str, is_single: bool = False) -> dashboard.QueryVariable:
    """The values of a label; all of them until somebody chooses, unless it has to be one."""
    variable = dashboard.QueryVariable(name).label(label).description(text).datasource(SOURCE)
    variable.query({"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"})
    variable.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(models.VariableSort.ALPHABETICAL_ASC)
    if is_single:
        # Links from the other dashboards may bring several, or all; then the first one is shown.
        variable.allow_custom_value(False)  # noqa: FBT003 (Grafana's library has it so)
    else:
        # Also what has no such label, or an empty one.
        variable.multi(True).include_all(True).all_value(".*")  # noqa: FBT003
        variable.current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return variable


def typed(*, name: str, label: str, text: str, value: str) -> dashboard.TextBoxVariable:
    """What nobody but the reader knows, such as a price."""
    return dashboard.TextBoxVariable(name).label(label).description(text).default_value(value)


def _to_the_others() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("TFJob dashboards")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)  # noqa: FBT003 (Grafana's library has it so)
        .include_vars(True)  # noqa: FBT003
        .keep_time(True)  # noqa: FBT003
        .target_blank(False)  # noqa: FBT003
    )
