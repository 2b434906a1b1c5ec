"""The older versions of kubeflow.org TFJob: what each means in v1, and what is kept of the other version."""

import pytest
import yaml

from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.kubeflow.versions import remainder
from tf_operator.dialects.kubeflow.versions.conversion import INCOMPLETE, convert
from tf_operator.dialects.kubeflow.versions.remainder import LARGEST
from tf_operator.dialects.served import ConversionError

REPLICAS = {"Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}}}


def job(version, *, status=None, annotations=None, **spec):
    body = {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": "mnist", "uid": "u-1", "generation": 3},
        "spec": {"tfReplicaSpecs": REPLICAS} | spec,
    }
    if annotations is not None:
        body["metadata"]["annotations"] = annotations
    return body if status is None else body | {"status": status}


@pytest.mark.parametrize(
    ("version", "spec", "run_policy"),
    [
        ("v1alpha2", {}, {"cleanPodPolicy": "Running"}),
        ("v1alpha2", {"ttlSecondsAfterFinished": 5}, {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 5}),
        ("v1beta1", {"cleanPodPolicy": "All"}, {"cleanPodPolicy": "All"}),
        (
            "v1beta2",
            {"activeDeadlineSeconds": 3, "backoffLimit": 1},
            {"cleanPodPolicy": "Running", "activeDeadlineSeconds": 3, "backoffLimit": 1},
        ),
    ],
)
def test_policies_of_older_versions_are_in_the_run_policy_of_v1(version, spec, run_policy):
    (v1_schema,) = v1.API.crd.load()["spec"]["versions"]
    fields = v1_schema["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["runPolicy"]["properties"]
    added = {name: field["default"] for name, field in fields.items() if "default" in field}

    stored = convert(job(version, **spec), "v1")
    assert stored["spec"] == {"tfReplicaSpecs": REPLICAS, "runPolicy": added | run_policy}
    assert not v1.API.read_object(stored).problems
    assert convert(stored, version) == job(version, **spec)


def test_a_job_of_v1_that_keeps_its_pods_says_so_in_an_older_version():
    assert convert(job("v1"), "v1beta1")["spec"]["cleanPodPolicy"] == "None"


def test_v1alpha2_has_the_replica_statuses_under_their_name_of_then():
    shown = convert(job("v1", status={"conditions": None, "replicaStatuses": {"Worker": {"active": 1}}}), "v1alpha2")
    assert shown["status"] == {"conditions": None, "tfReplicaStatuses": {"Worker": {"active": 1}}}


def test_what_only_v1_knows_survives_an_edit_in_an_older_version():
    policy = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "schedulingPolicy": {"queue": "q"}}
    stored = job("v1", runPolicy=policy, successPolicy="AllWorkers", elasticPolicy={"maxReplicas": 4})
    seen = convert(stored, "v1beta1")
    seen["metadata"]["labels"] = {"team": "a"}
    seen["spec"]["cleanPodPolicy"] = "All"
    seen["spec"]["ttlSecondsAfterFinished"] = 60
    changed = convert(seen, "v1")
    assert changed["metadata"] == stored["metadata"] | {"labels": {"team": "a"}}
    assert changed["spec"] == stored["spec"] | {
        "runPolicy": policy | {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}
    }


def test_a_field_that_was_changed_in_v1_is_not_set_back_by_what_was_noted_of_an_older_version():
    stored = convert(job("v1beta1"), "v1")  # with a note that cleanPodPolicy was absent
    stored["spec"]["runPolicy"] = {"cleanPodPolicy": "All"}
    assert convert(stored, "v1beta1")["spec"]["cleanPodPolicy"] == "All"


def test_what_is_too_large_for_an_annotation_can_be_read_in_an_older_version_and_not_written():
    stored = job("v1", whatOthersPutThere={"text": "x" * LARGEST})
    seen = convert(stored, "v1beta1")
    assert seen["metadata"]["annotations"] == {INCOMPLETE: "true"}
    with pytest.raises(
        ConversionError, match=r"metadata.annotations\[.*\]: parts of this job have no place in v1beta1"
    ):
        convert(seen, "v1")


def test_what_is_too_deep_for_an_annotation_is_left_out_and_is_equal_to_nothing():
    one, other = deep(), deep()
    assert remainder.encode([remainder.Difference(("x",), 1, one)]) is None
    assert remainder.restore({"x": one}, [remainder.Difference(("x",), other, 1)])["x"] is one


def deep():
    found = []
    for _ in range(1_000_000):
        found = [found]
    return found


@pytest.mark.parametrize(("source", "target"), [("v1", "v3"), ("v2", "v1")])
def test_an_unknown_version_is_named(source, target):
    with pytest.raises(ConversionError, match=r"apiVersion: there is no version 'v[23]' of TFJob"):
        convert(job(source), target)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[5]", '[{"path": "spec"}]', '[{"path": []}]', "[" * 100_000),
        '[{"path": ["tfReplicaSpecs", "Worker", "replicas"], "back": 2, "original": -1}]',
        '[{"path": ["runPolicy", "suspend", "x"], "original": 1}]',
        '[{"path": ["x"], "original": 1%s}]' % ("0" * 400),  # the API server cannot read this number
        '[{"path": ["x"], "original": [1%s]}]' % ("0" * 400),
        '[{"path": ["x"], "original": %s}]' % ("[" * 101 + "]" * 101),
        '[{"path": ["x"], "original": "%s"}]' % ("x" * LARGEST),
    ],
)
def test_an_annotation_that_is_none_of_ours_changes_nothing(text):
    name = "tf-operator.kubeflow.org/v1-fields"
    plain = convert(job("v1beta1"), "v1")
    assert convert(job("v1beta1", annotations={name: text}), "v1") == plain


def test_a_forged_annotation_does_not_have_an_object_encoded_for_each_of_its_entries(
    monkeypatch,
):
    monkeypatch.setattr(remainder, "_sorted", pytest.fail)
    entries = [remainder.Difference(("large",), back, "x") for back in ({}, [], {"a": 1})]
    large = {"large": {str(number): number for number in range(100)}}
    assert remainder.restore(large, entries) == large


def test_manifests_of_older_versions_need_no_status_and_no_metadata():
    manifest = yaml.safe_load("{apiVersion: kubeflow.org/v1beta2, kind: TFJob}")
    assert convert(manifest, "v1") == {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {}}
