"""What is kept of the API server's description of pods."""

from crd import core

PREFIX = "#/components/schemas/"


def document(**definitions):
    return {"components": {"schemas": {core.POD_TEMPLATE: {"$ref": f"{PREFIX}Pod"}, **definitions}}}


def test_only_what_a_pod_template_reaches_is_kept():
    found = core.keep(
        document(
            Pod={"properties": {"a": {"allOf": [{"$ref": f"{PREFIX}Part"}]}}},
            Part={"items": {"$ref": f"{PREFIX}Part"}},
            Node={"type": "object"},
        )
    )

    assert list(found) == ["Part", "Pod", core.POD_TEMPLATE]


def test_descriptions_go_and_a_property_of_that_name_stays():
    found = core.without_descriptions(
        {"description": "A pod.", "properties": {"description": {"type": "string", "description": "Its text."}}}
    )

    assert found == {"properties": {"description": {"type": "string"}}}
