"""The tables of docs/api.md."""

import pytest

from crd import reference
from crd.definition import Field

PAGE = "".join(
    f"{reference.BEGIN.format(top=top)}\nold\n{reference.END.format(top=top)}\nby hand\n" for top in ("spec", "status")
)


def test_tables_are_put_between_the_markers_and_nothing_else_changes():
    fields = [
        Field("spec", {}),
        Field("spec.a", {"type": "string", "description": "A|B <c>", "in-1.9": "any"}),
        Field("status.b", {"type": "integer"}),
        Field("status.b[]", {"type": "object"}),
        Field("status.restartRecords[].uid", {"type": "string"}),
    ]

    page = reference.fill(PAGE, fields)

    assert "| `spec.a` | string | A\\|B \\<c> | any |" in page
    assert "| `status.b` | integer |  |  |" in page
    assert [gone for gone in ("old", "`status.b[]`", "uid") if gone in page] == []
    assert page.count("by hand") == 2
    assert reference.fill(page, fields) == page


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        pytest.param({"type": "integer", "minimum": 0, "maximum": 9, "default": 1}, "integer; 0 to 9; default `1`"),
        pytest.param({"type": "integer", "minimum": 1}, "integer; at least 1"),
        pytest.param({"type": "string", "enum": ["", "A"], "default": "A"}, '`""`, `A`; default `A`'),
        pytest.param({"type": "boolean", "default": False}, "boolean; default `false`"),
        pytest.param({"type": "object", "default": {}}, "object; default `{}`"),
        pytest.param({"type": "object", "additionalProperties": {}}, "map"),
        pytest.param({"type": "array"}, "list"),
        pytest.param({"type": "string", "format": "date-time"}, "time"),
        pytest.param({"$ref": "pod-template"}, "pod template"),
    ],
)
def test_a_cell_says_what_may_stand_there(schema, shown):
    assert reference.kind(schema) == shown


@pytest.mark.parametrize("page", ["", reference.BEGIN.format(top="spec")], ids=["no markers", "no end"])
def test_a_page_without_markers_is_refused(page):
    with pytest.raises(reference.MarkerMissingError, match="fields of spec"):
        reference.fill(page, [])
