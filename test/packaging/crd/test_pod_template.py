"""The schema of a pod template. Of what is in it, manifests/crd has the rest: ``hack/generate`` writes it."""

import json
import re
from pathlib import Path

import pytest

from crd import pod_template

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def real():
    return pod_template.pod_template(json.loads((ROOT / "hack/crd/core-v1.json").read_text()))


def nodes(schema):
    """A schema and all schemas in it."""
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key])


@pytest.mark.parametrize(
    "quantity", ["1", "100m", "1.5Gi", ".5", "2e3", "+1k", "-1", "12E2", "1E"], ids=lambda text: text
)
def test_a_quantity_is_recognised(quantity):
    assert re.match(pod_template.QUANTITY["pattern"], quantity)


@pytest.mark.parametrize("text", ["", "Gi", "1GB", "1 Gi", "one", "1e", "."], ids=repr)
def test_what_is_no_quantity_is_not(text):
    assert not re.match(pod_template.QUANTITY["pattern"], text)


def test_every_object_of_the_real_template_takes_fields_of_the_future(real):
    closed = [
        sorted(node["properties"])
        for node in nodes(real)
        if "properties" in node and not node.get("x-kubernetes-preserve-unknown-fields")
    ]

    assert {tuple(names) for names in closed} == {tuple(sorted(pod_template.METADATA["properties"]))}


def test_every_node_of_the_real_template_has_a_type(real):
    assert all("type" in node or "x-kubernetes-int-or-string" in node for node in nodes(real))


def test_the_rules_of_the_crd_can_rely_on_containers_and_their_names(real):
    spec = real["properties"]["spec"]

    assert real["required"] == ["spec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["containers"]["items"]["required"] == ["name"]
