"""Slots: which pod holds a replica, what is lost, and what is beyond what is wanted."""

import pytest
from msgspec import structs

from support.embedded.simulator import MORNING
from support.jobs.builders import tfjob
from support.jobs.snapshots import snapshot_of
from tf_operator.job.record import ReplicaType, RestartRecord
from tf_operator.planning import job_view
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.snapshot import MainContainer, Pod


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_a_pod_that_was_given_up_has_neither_done_its_work_nor_failed(phase):
    worker = ReplicaType.WORKER
    pods = (Pod("job-worker-0", "u", worker, 0, phase),)
    snapshot = snapshot_of(tfjob().workers(1), pods=pods)
    record = snapshot.job.record.changed(restart_records=(RestartRecord(worker, 0, "u", replaced=True),))
    (replica,) = job_view.view(snapshot.changed(job=structs.replace(snapshot.job, record=record))).replicas

    assert (replica.outcome, replica.is_completed, replica.loss) == (PodState.TERMINATING, False, None)


@pytest.mark.parametrize("count", [-5, 10**12])
def test_a_count_that_is_out_of_bounds_costs_no_memory(count):
    snapshot = snapshot_of(tfjob().workers(count))

    assert len(job_view.view(snapshot).replicas) in {0, 10_000}


@pytest.mark.parametrize(
    ("main", "long"),
    [
        (None, False),
        (MainContainer(), False),
        (MainContainer(started_at=MORNING), False),
        (MainContainer(started_at=MORNING.replace(hour=7, minute=50)), True),
        (MainContainer(1, started_at=MORNING.replace(hour=7), finished_at=MORNING.replace(hour=7, minute=9)), False),
    ],
    ids=["nothing known", "never started", "just started", "ten minutes", "ended after nine"],
)
def test_a_pod_ran_for_long_when_its_container_did(main, long):
    pod = Pod("job-worker-0", "u", ReplicaType.WORKER, 0, main=main)

    assert job_view.ran_for_long(pod, snapshot_of(tfjob().workers(1))) is long
    assert not job_view.ran_for_long(None, snapshot_of(tfjob().workers(1)))
