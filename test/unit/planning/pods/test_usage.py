"""What runs have used and lost, beside the golden cases: where nobody saw them begin, and what counts of them."""

from datetime import timedelta

import pytest
from msgspec import structs

from support.embedded.pod_events import everything_runs, fails, restarts_in_place
from support.embedded.simulator import MORNING, simulate
from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from support.jobs.templates import Template
from tf_operator.job.progress import Checkpoint, Progress
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import JobRecord, ReplicaRecord, ReplicaType, RestartRecord
from tf_operator.planning.plan import make_plan
from tf_operator.planning.pods import usage
from tf_operator.planning.snapshot import Pod

WORKER = ReplicaType.WORKER


def at(seconds):
    return MORNING + timedelta(seconds=seconds)


def restarted(seconds, uid="u"):
    return RestartRecord(WORKER, 0, uid, time=seconds and at(seconds))


@pytest.mark.parametrize(
    ("created", "index", "restarts", "since"),
    [
        (0, 0, [], 9),
        (9, 0, [], 9),
        (10, 0, [], None),
        (None, 0, [], None),
        (0, 1, [], None),
        (0, 0, [restarted(20)], 20),
        (0, 0, [restarted(5)], 9),
        (0, 0, [restarted(20, uid="other")], 9),
        (0, 0, [restarted(None), restarted(20)], 20),
    ],
)
def test_a_pod_whose_kubelet_has_forgotten_its_containers_ran_since_all_did_or_it_was_restarted(
    created, index, restarts, since
):
    record = JobRecord(all_running_time=at(9), restart_records=tuple(restarts))
    record = record.changed(replicas={WORKER: ReplicaRecord(started=Indexes.of([0]))})
    pod = Pod("p", "u", WORKER, index, created_at=None if created is None else at(created))

    assert usage._runs_since(pod, (WORKER, index), record) == (since and at(since))
    assert usage._runs_since(pod, (WORKER, index), record.changed(all_running_time=None)) is None


@pytest.mark.parametrize(
    ("move", "restart", "saved", "lost"),
    [
        *(
            (move, "OnFailure", *times)
            for move in (restarts_in_place("worker-0"), fails("worker-0"))
            for times in ((40, 60), (-40, 100), (None, 0))
        ),
        (fails("worker-0"), "Never", 40, 0),
    ],
)
def test_the_work_since_the_last_checkpoint_is_lost_when_the_program_starts_again(move, restart, saved, lost):
    simulator = simulate(tfjob().workers(2, restart=restart))
    simulator.settle()
    everything_runs(simulator)
    simulator.settle()
    simulator.wait(100)
    move(simulator)
    observed = simulator.observe()
    progress = Progress(checkpoint=None if saved is None else Checkpoint(7, at(saved)))
    job = structs.replace(observed.job, record=observed.job.record.changed(progress=progress))

    assert make_plan(observed.changed(job=job)).report.record.lost_seconds == lost


@pytest.mark.parametrize(
    ("name", "amount", "used"),
    [
        ("cpu", "2", {"cpuSeconds": 20}),
        ("memory", "1Gi", {"memoryGiBSeconds": 10}),
        ("memory", "1", {}),
        ("example.com/" + "x" * 28, "1", {"example.com/" + "x" * 28: 10}),
        ("example.com/" + "x" * 29, "1", {}),
        ("hugepages-2Mi", "4Mi", {}),
        ("example.com/gpu", "9" * 17, {"example.com/gpu": 2**53}),
    ],
)
def test_of_what_is_asked_for_cpu_memory_and_what_has_a_short_name_of_its_own_counts(name, amount, used):
    job = job_of(tfjob().workers(1, template=Template().resources(requests={name: amount})))

    assert (
        usage._used(job, {WORKER: ReplicaRecord(run_seconds=10), ReplicaType.PS: ReplicaRecord(run_seconds=5)}) == used
    )
