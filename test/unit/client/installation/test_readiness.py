"""When an operator is at work, and what a pod of it waits for."""

import pytest

from tf_operator.client.installation import readiness

POD = {"metadata": {"name": "tf-operator-1"}}


def deployment(**status):
    full = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1} | status
    return {"metadata": {"generation": 2}, "spec": {"replicas": 1}, "status": full}


@pytest.mark.parametrize(
    ("status", "is_rolled_out"),
    [
        ({}, True),
        ({"observedGeneration": 1}, False),
        ({"replicas": 2}, False),
        ({"updatedReplicas": 0}, False),
        ({"availableReplicas": None}, False),
    ],
)
def test_a_deployment_is_rolled_out_when_all_replicas_are_new_and_available(status, is_rolled_out):
    assert readiness.is_rolled_out(deployment(**status)) is is_rolled_out


@pytest.mark.parametrize(
    ("holder", "pods", "is_held"),
    [
        ("tf-operator-1_a", [POD], True),
        ("tf-operator-0_a", [POD], False),
        ("", [POD], False),
        ("tf-operator-1_a", [{"metadata": POD["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}], False),
    ],
)
def test_a_lease_counts_when_a_pod_that_stays_holds_it(holder, pods, is_held):
    assert readiness.is_held({"spec": {"holderIdentity": holder}}, pods) is is_held


def test_a_pod_says_what_it_waits_for():
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
    condition = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    pod = {"status": {"containerStatuses": [waiting], "conditions": [condition]}}

    assert [*readiness.waits(pod)] == ["ErrImagePull: not found", "0/2 nodes are available"]
    assert [*readiness.waits({"status": {"containerStatuses": "damaged"}})] == []
