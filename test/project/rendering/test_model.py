"""What is read from a dashboard's JSON."""

import json

import pytest

from rendering import model
from rendering.errors import UnknownError

PANEL = {
    "type": "stat",
    "title": "Running",
    "gridPos": {"h": 4, "w": 6, "y": 1},
    "fieldConfig": {
        "defaults": {
            "unit": "short",
            "thresholds": {"steps": [{"value": None, "color": "green"}, {"value": 5, "color": "red"}]},
        },
        "overrides": [
            {"matcher": {"id": "byName", "options": "a"}, "properties": [{"id": "links", "value": []}]},
            {
                "matcher": {"id": "byName", "options": "b"},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": "blue"}}],
            },
        ],
    },
    "targets": [{"refId": "A", "expr": "up", "legendFormat": "__auto", "instant": True}],
}


@pytest.fixture
def read(tmp_path):
    def of(*panels, variables=()):
        path = tmp_path / "some.json"
        path.write_text(json.dumps({"title": "Some", "templating": {"list": variables}, "panels": panels}))
        return model.read(path)

    return of


def test_a_panel_is_read_with_its_place_colours_and_queries(read):
    (panel,) = read(PANEL).panels

    assert panel.grid == model.Grid(0, 1, 6, 4)
    assert (panel.base_colour, panel.steps, panel.colours) == ("green", ((5, "red"),), {"b": "blue"})
    assert panel.targets == (model.Target("A", "up", "", is_instant=True),)


def test_the_columns_of_a_table_stand_in_the_order_that_it_gives_them(read):
    options = {"renameByName": {"Value #A": "Running", "ns": "Namespace"}, "indexByName": {"ns": 0, "Value #A": 1}}
    table = PANEL | {"type": "table", "transformations": [{"id": "merge"}, {"id": "organize", "options": options}]}

    assert list(read(table).panels[0].columns.items()) == [("ns", "Namespace"), ("Value #A", "Running")]


def test_a_kind_of_panel_that_nobody_knows_is_an_error(read):
    with pytest.raises(UnknownError, match="panel 'Running' is a 'piechart': the renderer knows bargauge, heatmap"):
        read(PANEL | {"type": "piechart"})


def test_a_kind_of_variable_that_nobody_knows_is_an_error(read):
    with pytest.raises(UnknownError, match="variable 'name' is of type 'textbox'"):
        read(PANEL, variables=[{"type": "textbox", "name": "name"}])


def test_the_choice_of_the_data_source_is_none_of_a_picture(read):
    assert read(PANEL, variables=[{"type": "datasource", "name": "datasource"}]).variables == ()
