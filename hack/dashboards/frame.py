"""What surrounds the panels of a dashboard: its name, variables, links to the other dashboards, rows.

Uids never change, because people link to them. Every dashboard links to the two others and takes the time and the
variables along. Neighbours: ``overview``, ``job`` and ``internals`` fill a frame.
"""

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.panels import SOURCE, AnyPanel
from tf_operator.dialects import registry

TAG: Final = "tf-operator"
Rows = Sequence[tuple[str, Sequence[AnyPanel]]]
Variable = dashboard.DatasourceVariable | dashboard.QueryVariable


def make(*, uid: str, title: str, text: str, variables: Sequence[Variable], rows: Rows) -> models.Dashboard:
    builder = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(text)
        .tags([TAG])
        .editable()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-3h", "now")
        .refresh("1m")
        .variables(list(variables))
        .link(_to_the_others())
    )
    for name, panels in rows:
        builder.with_row(dashboard.Row(name))
        for panel in panels:
            builder.with_panel(panel)
    built = builder.build()
    for number, panel_or_row in enumerate(built.panels or (), start=1):
        panel_or_row.id_val = number
    return built


def datasource() -> dashboard.DatasourceVariable:
    """Which Prometheus to ask."""
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def choice(name: str, label: str, query: str, *, text: str, is_single: bool = False) -> dashboard.QueryVariable:
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


def operator() -> dashboard.QueryVariable:
    """Which operator, by the name of its scrape job: other programs have metrics of the same names."""
    query = "label_values(tf_operator_build_info, job)"
    return choice("job", "Operator", query, text="The scrape job of the operator.")


def framework() -> dashboard.QueryVariable:
    """Which kinds of jobs."""
    query = 'label_values(tf_operator_jobs{job=~"$job"}, framework)'
    kinds = "; ".join(f"{api.framework}: {api.resource.kind}" for api in registry.SERVED)
    return choice("framework", "Kind", query, text=f"{kinds}.")


def namespace(text: str, *, is_single: bool = False) -> dashboard.QueryVariable:
    jobs = 'tf_operator_jobs{job=~"$job", framework=~"$framework", job_namespace!=""}'
    return choice("namespace", "Namespace", f"label_values({jobs}, job_namespace)", text=text, is_single=is_single)


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
