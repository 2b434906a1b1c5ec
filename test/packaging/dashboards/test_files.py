"""The dashboards as files: what Grafana needs of them, what readers need."""

import json
import re
from pathlib import Path

import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import files

ROOT = Path(__file__).resolve().parents[3]
BODIES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / files.FOLDER).glob("*.json"))}
PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, body in BODIES.items()
    for panel in body["panels"]
    if panel["type"] != "row"
]
each_dashboard = pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BODIES.items()])
each_panel = pytest.mark.parametrize("panel", PANELS)


@each_dashboard
def test_grafanas_library_reads_a_dashboard_and_writes_the_same_again(body):
    assert json.loads(files.written(Dashboard.from_json(body))) == body


@pytest.mark.parametrize("name", BODIES)
def test_the_page_on_monitoring_lists_a_dashboard(name):
    page = (ROOT / "docs" / "monitoring.md").read_text()

    assert f"- [{BODIES[name]['title']}](../{files.FOLDER}/{name}.json): " in page


def test_names_by_which_people_link_to_them_stay_as_they_are():
    assert {name: body["uid"] for name, body in BODIES.items()} == {
        "overview": "tf-operator-overview",
        "job": "tf-operator-job",
        "internals": "tf-operator-internals",
    }


@each_dashboard
def test_a_dashboard_leads_to_the_others_and_begins_with_the_choice_of_a_data_source_and_an_operator(body):
    (link,) = body["links"]
    variables = body["templating"]["list"]

    assert body["tags"] == link["tags"] == ["tf-operator"]
    assert (link["type"], link["keepTime"], link["includeVars"]) == ("dashboards", True, True)
    assert [variable["name"] for variable in variables][:2] == ["datasource", "job"]
    assert all(variable["label"] for variable in variables)


@each_dashboard
def test_the_panels_of_a_dashboard_fill_its_rows_and_lie_on_nothing(body):
    taken = [
        (place["x"] + column, place["y"] + row)
        for place in (panel["gridPos"] | {"x": panel["gridPos"].get("x", 0)} for panel in body["panels"])
        for column in range(place["w"])
        for row in range(place["h"])
    ]
    height = max(row for _, row in taken) + 1

    assert sorted(taken) == [(column, row) for column in range(24) for row in range(height)]


@each_dashboard
def test_the_panels_of_a_dashboard_have_numbers_and_titles_of_their_own(body):
    numbers = [panel["id"] for panel in body["panels"]]
    titles = [panel["title"] for panel in body["panels"] if panel["type"] != "row"]

    assert sorted(set(numbers)) == numbers
    assert len(set(titles)) == len(titles)


@each_panel
def test_a_panel_says_what_it_shows_in_which_unit_and_from_where(panel):
    assert len(panel["description"]) >= 40, panel["description"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


@each_panel
def test_every_series_of_a_panel_has_a_name(panel):
    legends = [target["legendFormat"] for target in panel["targets"]]
    if panel["type"] == "table":
        assert set(legends) == {"__auto"}
    else:
        assert len(set(legends) - {"", "__auto"}) == len(legends)


@each_panel
def test_every_query_is_about_the_choice_of_the_reader_and_no_rate_over_a_fixed_time(panel):
    for target in panel["targets"]:
        selectors = re.findall(r"\w+\{([^}]*)\}", target["expr"])
        assert selectors
        assert all('job=~"$job"' in selector or 'namespace="$namespace"' in selector for selector in selectors)
        ranges = set(re.findall(r"\[(.*?)\]", target["expr"].replace("[^ ]", "")))
        assert ranges <= {"$__rate_interval", "$__range"}


def test_the_job_that_is_looked_at_has_to_be_one():
    choices = {variable["name"]: variable for variable in BODIES["job"]["templating"]["list"]}

    assert not any(choices[name][field] for name in ("namespace", "name") for field in ("multi", "includeAll"))
    # The link from the overview may bring "All" along, which is no namespace.
    assert not choices["namespace"]["allowCustomValue"]


def test_the_table_of_namespaces_leads_to_the_jobs_of_one():
    (table,) = (panel for panel in BODIES["overview"]["panels"] if panel["type"] == "table")
    (override,) = table["fieldConfig"]["overrides"]

    assert override["matcher"]["options"] == "Namespace"
    assert override["properties"][0]["value"][0]["url"].startswith(f"/d/{BODIES['job']['uid']}?")
