"""A failed job as a new one."""

import pytest

from support.jobs.builders import tfjob
from tf_operator.client import retry
from tf_operator.client.job import NotPossible, read_job
from tf_operator.client.retry import Change
from tf_operator.dialects import registry
from tf_operator.dialects.mlkube.v1beta1 import API as MLKUBE

FAILED = {"conditions": [{"type": "Failed", "status": "True", "message": "OOM"}]}


def job(status=FAILED, resources=None, **metadata):
    """A job with a chief and two workers, as a cluster has it."""
    body = tfjob("train").chief().workers(2).body()
    main = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    if resources is not None:
        main["resources"] = resources
    stored = {"uid": "u", "resourceVersion": "7", "ownerReferences": [{"kind": "Workflow"}], "namespace": "team"}
    body["metadata"] |= stored | metadata
    return read_job({**body, "status": status}, registry.DEFAULT)


def worker_of(body):
    return body["spec"]["tfReplicaSpecs"]["Worker"]


def main_of(body):
    return worker_of(body)["template"]["spec"]["containers"][0]


def test_a_job_is_what_its_user_wrote_and_not_what_the_cluster_added():
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "vision"}
    old = job(labels={"a": "b"}, annotations=annotations)

    body = retry.manifest(old, "train-2")

    assert body["metadata"] == {
        "name": "train-2",
        "namespace": "team",
        "labels": {"a": "b"},
        "annotations": {"team": "vision"},
    }
    assert body["spec"] == old.body["spec"]
    assert "status" not in body


@pytest.mark.parametrize(
    ("name", "taken", "next_name"),
    [
        ("train", {"train"}, "train-2"),
        ("train", {"train", "train-2"}, "train-3"),
        ("train-2", {"train-2", "train"}, "train-3"),
        ("train-9", {"train-9", "train-10"}, "train-11"),
        ("resnet-050", {"resnet-050"}, "resnet-050-2"),
    ],
)
def test_the_next_name_is_the_first_that_is_free(name, taken, next_name):
    assert retry.next_name(name, taken) == next_name


@pytest.mark.parametrize(
    ("old_resources", "after"),
    [
        ({}, {"limits": {"memory": "16Gi"}}),
        ({"limits": {"memory": "8Gi"}}, {"limits": {"memory": "16Gi"}}),
        ({"requests": {"memory": "8Gi", "cpu": 1}}, {"requests": {"memory": "16Gi", "cpu": 1}}),
        (
            {"requests": {"memory": "8Gi"}, "limits": {"memory": "8Gi", "cpu": 1}},
            {"requests": {"memory": "16Gi"}, "limits": {"memory": "16Gi", "cpu": 1}},
        ),
    ],
    ids=["nothing", "limit", "request", "both"],
)
def test_an_amount_is_set_where_it_was_said(old_resources, after):
    old = job(resources=old_resources)

    assert main_of(retry.manifest(old, "new", [Change("worker", "memory", "16Gi")]))["resources"] == after
    assert (
        old.body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] == old_resources
    )


def test_replicas_and_image_are_set():
    body = retry.manifest(job(), "new", [retry.parse("WORKER.replicas=3"), retry.parse("worker.image=r.example/x:2")])

    assert (worker_of(body)["replicas"], main_of(body)["image"]) == (3, "r.example/x:2")


@pytest.mark.parametrize(
    ("status", "name", "changes", "sentence"),
    [
        ({}, "new", [], "TFJob train has not ended: tfjob restart replaces its pods; only a failed job is tried again"),
        (
            {"conditions": [{"type": "Succeeded", "status": "True"}]},
            "new",
            [],
            "TFJob train has succeeded; only a failed job is tried again; to run this one again,",
        ),
        (FAILED, "New", [], "TFJob New would not be valid: metadata.name: "),
        (FAILED, "new", [Change("ps", "replicas", "1")], "has no replicas of type ps: it has Chief, Worker"),
        (
            FAILED,
            "new",
            [Change("worker", "memory", "1Xi")],
            "TFJob new would not be valid: spec.tfReplicaSpecs.Worker",
        ),
    ],
    ids=["runs", "succeeded", "name", "type", "amount"],
)
def test_what_cannot_be_tried_again_is_a_sentence(status, name, changes, sentence):
    with pytest.raises(NotPossible) as refusal:
        retry.manifest(job(status), name, changes)
    assert sentence in str(refusal.value)


def test_replicas_of_another_api_are_not_changed():
    body = {"apiVersion": "mlkube.io/v1beta1", "kind": "TfJob", "metadata": {"name": "train", "namespace": "team"}}
    other = read_job({**body, "spec": {}, "status": {"phase": "Failed", "state": "Failed"}}, MLKUBE)

    with pytest.raises(NotPossible, match="the replicas of TfJob train cannot be changed here: edit its manifest"):
        retry.manifest(other, "new", [Change("worker", "replicas", "3")])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("memory=16Gi", "'memory=16Gi' is not a change: write it as in worker.memory=16Gi"),
        ("worker.memory", "'worker.memory' is not a change"),
        ("worker.memory=lots", "'lots' is not an amount of memory: write it as in 16Gi or 500m"),
        ("worker.memory=-1Gi", "'-1Gi' is not an amount of memory"),
        (
            "worker.gpu=1",
            "'gpu' cannot be set: it is replicas, image, cpu, ephemeral-storage, memory, or as in nvidia.com",
        ),
        ("worker.replicas=-1", "'-1' is not a number of replicas"),
    ],
)
def test_what_is_no_change_is_refused(text, sentence):
    with pytest.raises(NotPossible) as refusal:
        retry.parse(text)
    assert str(refusal.value).startswith(sentence)


def test_a_resource_of_a_vendor_may_be_set():
    assert retry.parse("worker.nvidia.com/gpu=2") == Change("worker", "nvidia.com/gpu", "2")
