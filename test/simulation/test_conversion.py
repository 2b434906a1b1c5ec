"""Conversion between the versions of kubeflow.org TFJob loses nothing, whatever was stored."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tf_operator.dialects.kubeflow.versions.conversion import OLDER, convert

VERSIONS = ("v1", *OLDER)
_NAMES = st.sampled_from(
    [
        *("runPolicy", "cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend"),
        *("tfReplicaSpecs", "replicaStatuses", "tfReplicaStatuses", "conditions", "startTime", "x", ""),
    ]
)
_VALUES = st.recursive(
    st.sampled_from([None, True, 1, 0, 1.0, "Running", "None", "All", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_PARTS = st.fixed_dictionaries({}, optional={"spec": _VALUES, "status": _VALUES})


def through(body: dict[str, Any], *versions: str) -> dict[str, Any]:
    for version in versions:
        body = convert(body, version)
    return body


@given(parts=_PARTS, versions=st.lists(st.sampled_from(VERSIONS), min_size=1, max_size=5), data=st.data())
def test_no_way_through_versions_loses_anything(
    parts: dict[str, Any], versions: list[str], data: st.DataObject
) -> None:
    born = data.draw(st.sampled_from(VERSIONS))
    body = {"apiVersion": f"kubeflow.org/{born}", "kind": "TFJob", "metadata": {"name": "a"}} | parts
    there = through(body, *versions)
    back = convert(there, born)
    assert json.dumps(back, sort_keys=True) == json.dumps(body, sort_keys=True)
    assert through(there, born, there["apiVersion"].rpartition("/")[2]) == there


_FORGED = st.lists(
    st.fixed_dictionaries(
        {"path": st.lists(_NAMES | st.sampled_from(["spec", "status", "metadata", "kind"]), min_size=1, max_size=3)},
        optional={"back": _VALUES, "original": _VALUES},
    ),
    max_size=4,
)


@given(parts=_PARTS, forged=_FORGED, born=st.sampled_from(VERSIONS), target=st.sampled_from(VERSIONS))
def test_a_forged_annotation_changes_at_most_the_policies(
    parts: dict[str, Any], forged: list[dict[str, Any]], born: str, target: str
) -> None:
    body = {"apiVersion": f"kubeflow.org/{born}", "kind": "TFJob", "metadata": {"name": "a"}} | parts
    notes = {f"tf-operator.kubeflow.org/{version}-fields": json.dumps(forged) for version in VERSIONS}
    found = convert(body | {"metadata": {"name": "a", "annotations": notes}}, target)
    assert [fixed(found)] == [fixed(convert(body, target))]


def fixed(body: dict[str, Any]) -> dict[str, Any]:
    """What no annotation may change."""
    spec = body.get("spec")
    replicas = spec.get("tfReplicaSpecs", "none") if isinstance(spec, dict) else spec
    metadata = {name: value for name, value in body["metadata"].items() if name != "annotations"}
    return body | {"spec": replicas, "metadata": metadata}
