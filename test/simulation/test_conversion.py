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
