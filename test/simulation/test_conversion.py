"""Conversion between the versions of kubeflow.org TFJob loses nothing, and always answers, whatever was stored.

What it makes in v1 keeps the schema of v1, as the embedded API server reads it.
"""

import asyncio
import json
import os
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tf_operator.app.webhook import review
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.kubeflow.versions import stored_schema
from tf_operator.dialects.kubeflow.versions.conversion import INCOMPLETE, OLDER, convert
from tf_operator.dialects.served import ConversionError
from tf_operator.local.apiserver.validation import schemas

ROUND_TRIPS = int(os.environ.get("ROUND_TRIPS", "50"))
REVIEW = 10
"""Objects of a review: a list asks for many at once, and one that failed would break it for everybody."""
VERSIONS = ("v1", *OLDER)
_NAMES = st.sampled_from(
    [
        *("runPolicy", "cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend"),
        *("tfReplicaSpecs", "replicaStatuses", "tfReplicaStatuses", "conditions", "startTime", "x", ""),
        *("replicaSpecs", "RuntimeId", "runtimeid", "tfImage", "schedulerName", "cleanupPodPolicy", "phase", "state"),
        *("v1alpha1", "origin", "reason"),
    ]
)
_VALUES = st.recursive(
    st.sampled_from([None, True, 1, 0, 1.0, "Running", "None", "All", "", "Done", "Failed", "Succeeded"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_PORTS = st.lists(st.fixed_dictionaries({"name": st.just("tfjob-port")}, optional={"containerPort": st.just(9)}))
_CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["tensorflow", "x"])}, optional={"ports": _PORTS | _VALUES}),
    max_size=2,
)
_PODS = st.fixed_dictionaries(
    {},
    optional={
        "containers": _CONTAINERS | _VALUES,
        "restartPolicy": st.sampled_from(["Always", "Never", "x", None]),
        "schedulerName": st.sampled_from(["a", "b", "", None]),
    },
)
_TEMPLATES = st.fixed_dictionaries({}, optional={"spec": _PODS | _VALUES}) | _VALUES
_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.sampled_from([0, 2, None, "x"]),
        "template": _TEMPLATES,
        "restartPolicy": st.sampled_from(["Never", "ExitCode"]),
        "x": _VALUES,
    },
)
_ITEM = st.fixed_dictionaries(
    {"tfReplicaType": st.sampled_from(["MASTER", "WORKER", "PS", None, "x"])},
    optional={
        "replicas": st.sampled_from([0, 2, None, "x"]),
        "tfPort": st.sampled_from([1, 2222, None, "x", True]),
        "template": _TEMPLATES,
        "IsDefaultPS": st.booleans(),
    },
)
_TYPES = st.sampled_from(["Master", "Chief", "master", "Worker", "PS", "ps", "Evaluator", "x"])
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "tfReplicaSpecs": st.dictionaries(_TYPES, _ENTRY | _VALUES, max_size=4) | _VALUES,
        "replicaSpecs": st.lists(_ITEM, max_size=3) | _VALUES,
        "schedulerName": st.sampled_from(["a", ""]),
        "runPolicy": _VALUES,
        "RuntimeId": st.sampled_from(["76no", None]),
        "x": _VALUES,
    },
)
_PARTS = st.fixed_dictionaries({}, optional={"spec": _SPECS | _VALUES, "status": _VALUES})
_TWICE = {"Master": {"replicas": 0}, "master": {}}


def through(body: dict[str, Any], *versions: str) -> dict[str, Any]:
    for version in versions:
        body = convert(body, version)
    return body


@settings(max_examples=ROUND_TRIPS, deadline=None)
@given(
    parts=_PARTS,
    born=st.sampled_from(VERSIONS),
    versions=st.lists(st.sampled_from(VERSIONS), min_size=1, max_size=5),
)
@example(  # v1 adds the template, and the scheduler beside it is for every pod
    parts={"spec": {"replicaSpecs": [{"tfReplicaType": "MASTER"}], "schedulerName": "a"}},
    born="v1alpha1",
    versions=["v1"],
)
def test_no_way_through_versions_loses_anything(parts: dict[str, Any], born: str, versions: list[str]) -> None:
    if born == "v1":  # what v1 does not take can only be stored since before it had a schema
        parts, _ = stored_schema.fitted(parts)
    body = {"apiVersion": f"kubeflow.org/{born}", "kind": "TFJob", "metadata": {"name": "a", "uid": "u"}} | parts
    if born != "v1":  # v1alpha1 shows what is in force where nothing is said, and all tell what cannot change
        body = through(body, "v1", born)
    there = through(body, *versions)
    back = convert(there, born)
    assert json.dumps(back, sort_keys=True) == json.dumps(body, sort_keys=True)
    assert through(there, born, there["apiVersion"].rpartition("/")[2]) == there


_FIXED = ("tfReplicaType", "replicas", "template")
_PLACES = st.sampled_from(
    [
        *("spec", "status", "metadata", "kind", "replicaSpecs[]", "tfReplicaSpecs[]", "keys", "others", "order"),
        *("MASTER", "WORKER", "PS", "template", "replicas", "Worker"),
    ]
)
_FORGED = st.lists(
    st.fixed_dictionaries(
        {"path": st.lists(_NAMES | _PLACES, min_size=1, max_size=3)},
        optional={"back": _VALUES, "original": _VALUES},
    ),
    max_size=4,
)


@given(parts=_PARTS, forged=_FORGED, born=st.sampled_from(VERSIONS), target=st.sampled_from(VERSIONS))
@example(  # as if it had been stored so, before there was a schema
    parts={}, forged=[{"path": ["replicaSpecs"], "original": True}], born="v1", target="v1alpha1"
)
def test_a_forged_annotation_changes_neither_counts_nor_templates(
    parts: dict[str, Any], forged: list[dict[str, Any]], born: str, target: str
) -> None:
    if born == "v1":
        parts, _ = stored_schema.fitted(parts)
    body = {"apiVersion": f"kubeflow.org/{born}", "kind": "TFJob", "metadata": {"name": "a"}} | parts
    notes = {f"tf-operator.kubeflow.org/{version}-fields": json.dumps(forged) for version in VERSIONS}
    converted = convert(body | {"metadata": {"name": "a", "annotations": notes}}, target)
    assert fixed(converted) == fixed(convert(body, target))


def fixed(body: dict[str, Any]) -> dict[str, Any]:
    """What no annotation may change."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "annotations"}
    converted = convert(body | {"metadata": metadata}, "v1alpha1")
    items = converted["spec"].get("replicaSpecs") if isinstance(converted.get("spec"), dict) else converted.get("spec")
    if isinstance(items, list):
        items = sorted(
            json.dumps({name: item.get(name) for name in _FIXED}) for item in items if isinstance(item, dict)
        )
    elif isinstance(converted.get("spec"), dict):  # what is no list has no replicas, whatever it is
        items = None
    status = converted.get("status")
    if isinstance(status, dict):
        status = {name: value for name, value in status.items() if name != "fixed"}  # it has what was noted
    return converted | {"apiVersion": body["apiVersion"], "spec": items, "metadata": metadata, "status": status}


_ODD = (
    st.none()
    | st.booleans()
    | st.sampled_from(
        [2**63 - 1, -(2**63), 1e300, 1.5, -0.0, "", "\u2028", "\x00", "9999-12-31T23:59:59Z", "0-99999999"]
    )
    | st.text(max_size=3)
)
_ANYTHING = st.recursive(
    _ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | _PLACES, inner, max_size=3), max_leaves=8
)
_PATHS = st.tuples(st.sampled_from(["spec", "status"]), _NAMES | _PLACES)
_BELOW = st.lists(st.fixed_dictionaries({"path": _PATHS}, optional={"original": _ANYTHING}), max_size=2)
_NOTED = st.text(max_size=4) | (_FORGED | _BELOW | _ANYTHING).map(json.dumps) | st.sampled_from(["v1", *OLDER])
_NOTES = st.fixed_dictionaries(
    {},
    optional={
        f"tf-operator.kubeflow.org/{name}": _NOTED for name in ("origin", *(f"{old}-fields" for old in VERSIONS))
    },
)
_METADATA = st.fixed_dictionaries(
    {"name": st.just("a"), "uid": st.just("u")},
    optional={"annotations": _NOTES, "labels": st.just({"team": "a"})},
)
_MALFORMED = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from([f"kubeflow.org/{version}" for version in VERSIONS]),
        "kind": st.just("TFJob"),
        "metadata": _METADATA,
    },
    optional={"spec": _SPECS | _ANYTHING, "status": _VALUES | _ANYTHING, "x": _ANYTHING},
)


@settings(max_examples=ROUND_TRIPS, deadline=None)
@given(objects=st.lists(_MALFORMED, min_size=REVIEW, max_size=REVIEW), target=st.sampled_from(VERSIONS))
def test_a_review_of_malformed_objects_is_answered_with_all_of_them(objects: list[dict[str, Any]], target: str) -> None:
    version = f"kubeflow.org/{target}"
    question = {"request": {"uid": "r", "desiredAPIVersion": version, "objects": objects}}
    response = json.loads(asyncio.run(review.answer(json.dumps(question).encode(), convert)))["response"]
    assert (response["uid"], response["result"]) == ("r", {"status": "Success"})
    bodies = response["convertedObjects"]
    assert [unchanged(body) for body in bodies] == [unchanged(body) | {"apiVersion": version} for body in objects]


def unchanged(body: dict[str, Any]) -> dict[str, Any]:
    """What the API server expects as it was, apart from the version."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "annotations"}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata}


@pytest.mark.parametrize("entries", [_TWICE, dict(reversed(_TWICE.items()))])
def test_a_type_in_two_spellings_has_the_bounds_of_both_in_any_order(entries: dict[str, Any]) -> None:
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "a"},
        "spec": {"tfReplicaSpecs": entries},
    }
    assert convert(job, "v1beta1")["status"]["fixed"]["counts"] == {"master": {"least": 0, "most": 1}}


_SCHEMA = v1.API.crd.load()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
_LOOSE = st.sampled_from(
    [
        *(
            "env",
            "ports",
            "name",
            "image",
            "containers",
            "volumes",
            "affinity",
            "resources",
            "limits",
            "labels",
            "annotations",
        ),
        *(
            "metadata",
            "spec",
            "template",
            "replicas",
            "restartPolicy",
            "securityContext",
            "httpGet",
            "port",
            "livenessProbe",
        ),
        *(
            "terminationGracePeriodSeconds",
            "runAsUser",
            "hostNetwork",
            "value",
            "valueFrom",
            "type",
            "status",
            "startTime",
        ),
        *("suspend", "managedBy", "schedulingPolicy", "minAvailable", "minResources", "elasticPolicy", "maxReplicas"),
        *("restarts", "scope"),
        *(
            "minReplicas",
            "metrics",
            "parameterServers",
            "enableDynamicWorker",
            "conditions",
            "completionTime",
            "Evaluator",
        ),
    ]
)
_JUNK = st.recursive(
    _ODD | st.sampled_from([1, -1, 2**31, "1Gi", "x", "yes", "Never"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_LOOSE | _NAMES | _PLACES, inner, max_size=4),
    max_leaves=10,
)
_LOOSE_CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(["tensorflow", "x"])},
    optional=dict.fromkeys(("env", "ports", "resources", "livenessProbe", "volumeMounts", "command", "image"), _JUNK),
)
_LOOSE_POD = st.fixed_dictionaries(
    {"containers": st.lists(_LOOSE_CONTAINER, max_size=3) | _JUNK},
    optional=dict.fromkeys(
        ("volumes", "affinity", "hostNetwork", "tolerations", "nodeSelector", "initContainers"), _JUNK
    ),
)
_LOOSE_TEMPLATE = st.fixed_dictionaries({"spec": _LOOSE_POD | _JUNK}, optional={"metadata": _JUNK})
_LOOSE_ENTRY = st.fixed_dictionaries(
    {}, optional={"template": _LOOSE_TEMPLATE | _JUNK, "replicas": _JUNK, "restartPolicy": _JUNK}
)
_LOOSE_ITEM = st.fixed_dictionaries(
    {"tfReplicaType": st.sampled_from(["MASTER", "WORKER", "PS"])},
    optional={"template": _LOOSE_TEMPLATE | _JUNK, "replicas": _JUNK, "tfPort": _JUNK, "IsDefaultPS": _JUNK},
)
_LOOSE_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "tfReplicaSpecs": st.dictionaries(_TYPES, _LOOSE_ENTRY | _JUNK, max_size=7) | _JUNK,
        "replicaSpecs": st.lists(_LOOSE_ITEM, max_size=3, unique_by=lambda item: item["tfReplicaType"]) | _JUNK,
    }
    | dict.fromkeys(
        ("cleanPodPolicy", "cleanupPodPolicy", "backoffLimit", "min-instance", "max-instance", "tfImage"), _JUNK
    ),
)
_V1_PATHS = st.lists(
    st.sampled_from(["runPolicy", "elasticPolicy", "tfReplicaSpecs[]", "others", "Evaluator"]) | _LOOSE,
    min_size=1,
    max_size=3,
)
_V1_NOTES = st.lists(st.fixed_dictionaries({"path": _V1_PATHS}, optional={"original": _JUNK}), max_size=5).map(
    json.dumps
)
_LOOSE_JOBS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("a"), "uid": st.just("u")},
            optional={
                "annotations": st.fixed_dictionaries(
                    {}, optional={f"tf-operator.kubeflow.org/{name}-fields": _V1_NOTES for name in VERSIONS}
                )
            },
        ),
    },
    optional={"spec": _LOOSE_SPEC | _SPECS | _JUNK, "status": _JUNK},
)


def broken(body: dict[str, Any]) -> list[schemas.Violation]:
    """Where an object in v1 breaks its schema, once the API server has dropped what is unknown, and null."""
    copy = json.loads(json.dumps(body))
    metadata = copy.pop("metadata")
    assert isinstance(metadata.get("annotations", {}), dict)
    list(schemas.prune(copy, _SCHEMA))
    schemas.fill(copy, _SCHEMA)
    return [*schemas.violations(copy, _SCHEMA), *schemas.repeated(copy, _SCHEMA)]


@settings(max_examples=4 * ROUND_TRIPS, deadline=None)
@given(parts=_LOOSE_JOBS, born=st.sampled_from([*OLDER]), versions=st.lists(st.sampled_from([*OLDER]), max_size=2))
@example(  # v1alpha1 has no place for the field, and no note for such a number
    parts={"metadata": {"name": "a", "uid": "u"}, "spec": {"tfReplicaSpecs": {"Master": {"x": -(2**63)}}}},
    born="v1beta2",
    versions=["v1alpha1"],
)
def test_whatever_becomes_a_job_of_v1_keeps_its_schema(parts: dict[str, Any], born: str, versions: list[str]) -> None:
    body = {"apiVersion": f"kubeflow.org/{born}", "kind": "TFJob"} | parts
    assert not broken(convert(body, "v1"))  # it was stored since before this operator
    try:
        stored = convert(body, "v1", is_written=True)
    except ConversionError:
        stored = convert(body, "v1")
    for version in versions:  # the notes of a stored job may be anything, too
        stored["metadata"]["annotations"] = stored["metadata"].get("annotations", {}) | parts["metadata"].get(
            "annotations", {}
        )
        shown = convert(stored, version)
        is_incomplete = INCOMPLETE in shown["metadata"].get("annotations", {})
        if is_incomplete:  # so it can be read, and not be written
            with pytest.raises(ConversionError, match=re.escape(INCOMPLETE)):
                convert(shown, "v1")
        stored = convert(shown, "v1", is_written=False if is_incomplete else None)
        assert not broken(stored)
