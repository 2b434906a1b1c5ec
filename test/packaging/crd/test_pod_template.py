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


@pytest.mark.parametrize(
    "quantity", ["1", "100m", "1.5Gi", ".5", "2e3", "+1k", "-1", "12E2", "1E"], ids=lambda text: text
)
def test_a_quantity_is_recognised(quantity):
    assert re.match(pod_template.QUANTITY["pattern"], quantity)


@pytest.mark.parametrize("text", ["", "Gi", "1GB", "1 Gi", "one", "1e", "."], ids=repr)
def test_what_is_no_quantity_is_not(text):
    assert not re.match(pod_template.QUANTITY["pattern"], text)


def test_the_rules_of_the_crd_can_rely_on_containers_and_their_names(real):
    spec = real["properties"]["spec"]

    assert real["required"] == ["spec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["containers"]["items"]["required"] == ["name"]
