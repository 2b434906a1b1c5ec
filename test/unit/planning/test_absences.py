"""Pods that seem to be gone: which are looked for, and what is said of those that nobody can watch."""

from datetime import timedelta

import pytest
from msgspec import structs

from support.jobs.builders import tfjob
from support.jobs.snapshots import snapshot_of
from tf_operator.job.record import Indexes, JobPhase, ReplicaRecord, ReplicaType, RestartRecord
from tf_operator.planning import job_view
from tf_operator.planning.pods import absences
from tf_operator.planning.snapshot import Pod

WORKER = ReplicaType.WORKER


def pod(index, **fields):
    return Pod(f"job-worker-{index}", f"uid-{index}", WORKER, index, "Running").changed(**fields)


def view_of(*pods, workers=1, **record):
    snapshot = snapshot_of(tfjob("job").workers(workers), pods=pods)
    return job_view.view(
        snapshot.changed(job=structs.replace(snapshot.job, record=snapshot.job.record.changed(**record)))
    )


STARTED = {"phase": JobPhase.RUNNING, "replicas": {WORKER: ReplicaRecord(started=Indexes.of([0]))}}
COMPLETED = {"phase": JobPhase.RUNNING, "replicas": {WORKER: ReplicaRecord(completed=Indexes.of([0]))}}
GIVEN_UP = RestartRecord(WORKER, 0, "uid-0", replaced=True)
IN_PLACE = structs.replace(GIVEN_UP, replaced=False, in_place=1)


@pytest.mark.parametrize(
    ("pods", "record", "names"),
    [
        ((), STARTED, ("job-worker-0",)),
        ((), STARTED | {"phase": JobPhase.SUSPENDED}, ()),
        ((), {"phase": JobPhase.CREATED}, ()),
        ((pod(0),), STARTED, ()),
        ((pod(0, is_gone=True),), STARTED, ("job-worker-0",)),
        ((pod(0, is_gone=True, is_terminating=True),), STARTED, ()),
        ((pod(0, is_gone=True, phase="Failed"),), STARTED, ()),
        ((pod(0, is_gone=True),), COMPLETED, ()),
        ((pod(0, is_gone=True),), {"phase": JobPhase.RUNNING, "restart_records": (GIVEN_UP,)}, ()),
        ((pod(0, is_gone=True, uid="uid-1"),), STARTED | {"restart_records": (GIVEN_UP,)}, ("job-worker-0",)),
        (
            (pod(0, is_gone=True),),
            STARTED | {"restart_records": (IN_PLACE,)},
            ("job-worker-0",),
        ),
    ],
    ids=[
        "it vanished",
        "of a job without pods",
        "it never was",
        "it is there",
        "it lost its label",
        "it was seen to be deleted",
        "it had ended",
        "its work was done",
        "it was given up",
        "another one was given up",
        "it was restarted in place",
    ],
)
def test_a_pod_that_seems_to_be_gone_is_looked_for_unless_it_is_known_why(pods, record, names):
    assert absences.unconfirmed(view_of(*pods, **record)) == names


@pytest.mark.parametrize(
    ("count", "listed"),
    [
        (1, "job-worker-0"),
        (3, "job-worker-0, job-worker-1, job-worker-2"),
        (5, "job-worker-0, job-worker-1, job-worker-2 and 2 more"),
    ],
)
def test_of_pods_that_nobody_can_watch_three_are_named_with_the_label_that_they_lack(count, listed):
    pods = (pod(index, is_unwatched=True) for index in range(count))
    label = "training.kubeflow.org/operator-name=tfjob-controller"

    assert absences.remark(view_of(*pods, workers=count)) == (
        f"Without the label {label}, pod {listed} cannot be watched; put the label back."
    )


def test_a_pod_that_nobody_can_watch_is_looked_for_every_half_a_minute():
    assert absences.is_to_look_again(view_of(pod(0), pod(1, is_unwatched=True), workers=2))
    assert not absences.is_to_look_again(view_of(pod(0)))
    assert absences.remark(view_of(pod(0))) == ""
    assert timedelta(seconds=30) == absences.LOOKED_FOR_EVERY
