"""Slots: which pod holds a replica, what is lost, and what is beyond what is wanted."""

from dataclasses import replace
from datetime import timedelta

import pytest

from support.builders import tfjob
from support.pod_events import everything_runs, fails, is_deleted
from support.simulator import MORNING, simulator
from tf_operator.api.constants import MOST_REPLICAS
from tf_operator.api.record import JobPhase, JobRecord, ReplicaType
from tf_operator.planning import job_view
from tf_operator.planning.snapshot import MainContainer, Pod, Snapshot

SECOND = timedelta(seconds=1)


def running(job):
    seen = simulator(job)
    seen.settle()
    everything_runs(seen)
    seen.settle()
    return seen


def test_each_index_has_a_slot_and_what_has_none_is_surplus():
    """training-operator: TestGetPodSlices, with indexes beyond the count."""
    seen = running(tfjob().workers(3))
    seen.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}})

    found = job_view.view(seen.observe())

    assert [slot.index for slot in found.of(ReplicaType.WORKER)] == [0, 1]
    assert [pod.name for pod in found.surplus] == ["job-worker-2"]


def test_a_pod_that_is_gone_is_no_surplus():
    seen = running(tfjob().workers(2))
    is_deleted("worker-1")(seen)
    seen.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}})

    assert job_view.view(seen.observe()).surplus == ()


@pytest.mark.parametrize("count", [-5, 10**12])
def test_a_count_that_is_out_of_bounds_costs_no_memory(count):
    seen = simulator(tfjob().workers(count))

    assert len(job_view.view(seen.observe()).replicas) in {0, MOST_REPLICAS}


def test_a_predecessor_does_not_matter_once_there_is_a_new_pod():
    seen = running(tfjob().workers(1, restart="OnFailure"))
    predecessor = replace(seen.pods["job-worker-0"], uid="old", phase="Failed", is_gone=True, restarts=7)
    seen.departed = [predecessor]

    found = job_view.view(seen.observe())

    assert found.losses == ()
    assert found.restarts_in_place == ()


def test_a_failed_pod_is_one_loss_until_it_is_accounted_for():
    seen = running(tfjob().workers(2, restart="OnFailure"))
    fails("worker-1")(seen)
    (loss,) = job_view.view(seen.observe()).losses

    seen._store(seen.look())

    found = job_view.view(seen.observe())
    assert (loss.index, loss.is_permanent) == (1, False)
    assert found.losses == ()
    assert found.replicas[1].is_being_replaced
    assert not found.replicas[0].is_being_replaced


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

    assert job_view.ran_for_long(pod, simulator(tfjob().workers(1)).observe()) is long
    assert not job_view.ran_for_long(None, simulator(tfjob().workers(1)).observe())


@pytest.mark.parametrize(
    ("record", "created_at", "counts"),
    [
        (JobRecord(JobPhase.RUNNING), MORNING, True),
        (JobRecord(JobPhase.SUSPENDED), MORNING, False),
        (JobRecord(JobPhase.CREATED, resumed_at=MORNING + SECOND), MORNING, False),
        (JobRecord(JobPhase.CREATED, resumed_at=MORNING), MORNING, True),
        (JobRecord(JobPhase.CREATED, resumed_at=MORNING), None, True),
    ],
    ids=["never suspended", "suspended", "resumed since", "made afterwards", "of no age"],
)
def test_a_pod_that_ends_well_while_terminating_counts_unless_a_suspension_took_it_away(record, created_at, counts):
    job = running(tfjob().workers(1, restart="OnFailure")).job
    job = replace(job, record=record)
    main = MainContainer(0, "Completed", started_at=MORNING)
    pod = Pod("job-worker-0", "u", ReplicaType.WORKER, 0, "Succeeded", is_terminating=True, main=main)

    (slot,) = job_view.view(Snapshot(job, MORNING, pods=(replace(pod, created_at=created_at),))).replicas

    assert slot.is_completed is counts
    assert slot.loss is None


@pytest.mark.parametrize(("kind", "counts"), [("Worker", False), ("PS", True)])
def test_a_dynamic_worker_that_ends_well_while_terminating_may_be_wanted_again(kind, counts):
    job = running(
        tfjob().workers(1, restart="OnFailure").parameter_servers(1, restart="OnFailure").dynamic_workers()
    ).job
    main = MainContainer(0, "Completed", started_at=MORNING)
    name = f"job-{kind.lower()}-0"
    pod = Pod(name, "u", ReplicaType(kind), 0, "Succeeded", is_terminating=True, main=main, created_at=MORNING)

    (slot,) = job_view.view(Snapshot(job, MORNING, pods=(pod,))).of(ReplicaType(kind))

    assert slot.is_completed is counts
