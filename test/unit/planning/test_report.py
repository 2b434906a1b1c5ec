"""The next record and report: what survives, what is progress, and that saying it twice changes nothing."""

from dataclasses import replace
from datetime import timedelta

import pytest

from support.builders import tfjob
from support.pod_events import (
    everything_runs,
    fails,
    is_deleted,
    is_drained,
    is_evicted,
    is_stuck,
    main_ends,
    restarts_in_place,
    runs,
    succeeds,
    suspend,
    time_passes,
)
from support.simulator import MORNING, Crashed, simulator
from tf_operator.api.record import ReplicaType
from tf_operator.api.report import EventKind
from tf_operator.planning.snapshot import MainContainer


def lived(job, *moves):
    seen = simulator(job)
    seen.settle()
    for move in moves:
        move(seen)
        seen.settle()
    return seen


@pytest.mark.parametrize(
    ("move", "recorded"),
    [
        (runs("worker-1"), False),
        (succeeds("worker-1"), False),
        (is_drained("worker-0"), False),
        (fails("worker-0"), True),
        (restarts_in_place("worker-0"), True),
        (is_deleted("worker-0"), True),
        (suspend, True),
        (succeeds("chief-0"), True),
    ],
    ids=["runs", "succeeds", "leaves", "fails", "restarts", "vanishes", "suspended", "ends"],
)
def test_what_actions_or_time_destroy_the_evidence_of_is_stored_first(move, recorded):
    job = tfjob().chief(restart="OnFailure").workers(2, restart="OnFailure")
    seen = lived(job, runs("chief-0"), runs("worker-0"))

    move(seen)

    assert seen.look().status_first is recorded


@pytest.mark.parametrize(
    ("moves", "why"),
    [
        ((fails("chief-0"),), "Chief replica(s) failed."),
        ((is_evicted("worker-1"),), "Worker replica(s) were disrupted."),
        ((fails("chief-0"), is_evicted("worker-1")), "Chief, Worker replica(s) failed."),
        ((is_evicted("worker-1"), fails("chief-0")), "Chief, Worker replica(s) failed."),
        ((is_evicted("worker-1"), time_passes(2), is_stuck("worker-1", "Unschedulable"), time_passes(60)),
         "Worker replica(s) were disrupted. worker-1 (pod job-worker-1) waits: Unschedulable"),
    ],
    ids=["failed", "disrupted", "failed first", "disrupted first", "stuck then"],
)  # fmt: skip
def test_a_job_that_restarts_says_who_and_whether_it_was_a_failure(moves, why):
    job = tfjob().chief(restart="OnFailure").workers(2, restart="OnFailure")

    seen = lived(job, everything_runs, *moves, time_passes(0.5))

    assert seen.condition("Restarting")["message"] == f"job job is restarting because {why}"


def test_a_program_that_is_run_again_although_it_ended_well_has_not_failed():
    seen = lived(tfjob().workers(2, restart="Always"), everything_runs, restarts_in_place("worker-0"))
    assert seen.record.first_failure is not None

    seen = lived(tfjob().workers(2, restart="Always"), everything_runs)
    restarts_in_place("worker-0")(seen)
    pod = seen.pods["job-worker-0"]
    seen.pods[pod.name] = replace(pod, last_termination=MainContainer(0, "Completed"))

    plan = seen.look()
    assert plan.report.record.first_failure is None
    assert [(event.kind, event.is_warning) for event in plan.events] == [(EventKind.RESTARTED_IN_PLACE, False)]


def test_a_success_whose_pod_is_gone_is_stored_at_once():
    seen = lived(tfjob().chief().workers(2), everything_runs)
    succeeds("worker-1")(seen)
    is_deleted("worker-1")(seen)

    assert seen.look().status_first


@pytest.mark.parametrize("policy", ["Never", "ExitCode"])
@pytest.mark.parametrize("writes", [1, 2, 3], ids=["the first write", "the second", "the third"])
def test_a_worker_that_was_taken_away_is_not_lost_when_it_is_wanted_again_at_once(policy, writes):
    """The operator is killed on the way, and finds that nothing has changed."""
    seen = lived(tfjob().workers(3, restart=policy).dynamic_workers(), everything_runs)
    seen.crash_after = seen.writes + writes
    seen.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}})
    with pytest.raises(Crashed):
        seen.work()
    seen.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})

    seen.settle()
    everything_runs(seen)
    seen.settle()

    assert (seen.status["ready"], seen.record.disruptions, seen.conditions) == ("3/3", 0, "Created Running")


def test_a_pod_that_was_counted_before_the_job_was_suspended_is_not_counted_after_it_is_resumed():
    """The operator is killed twice: before it has deleted the pod, and before it has deleted all pods."""
    seen = lived(tfjob().workers(2, restart="OnFailure"), everything_runs)
    fails("worker-1")(seen)
    seen._store(seen.look())
    suspend(seen)
    seen._store(seen.look())
    seen.edit({"spec": {"runPolicy": {"suspend": False}}})

    seen.settle()

    assert seen.record.restarts == 1


def test_restarts_of_a_type_that_is_no_longer_wanted_are_not_forgotten():
    """The schema refuses that; but who counts must not count backwards."""
    job = tfjob().workers(1).parameter_servers(1, restart="OnFailure")
    seen = lived(job, everything_runs, fails("ps-0"), time_passes(2))

    seen.edit({"spec": {"tfReplicaSpecs": {"PS": None}}})
    seen.settle()

    assert seen.record.restarts == 1
    assert seen.record.of(ReplicaType.PS).restarts == 1
    assert "active" not in seen.status["replicaStatuses"]["PS"]


def test_a_job_seen_a_second_time_in_the_same_state_has_the_same_status():
    seen = lived(tfjob().chief().workers(3), everything_runs)
    seen.now += timedelta(days=1)

    assert seen.look().report.record == seen.record


@pytest.mark.parametrize(
    ("moves", "ready"),
    [
        ((), "0/3"),
        ((runs("worker-0"),), "1/3"),
        ((everything_runs,), "3/3"),
        ((everything_runs, succeeds("worker-1")), "3/3"),
    ],
    ids=["new", "one", "all", "one has succeeded"],
)
def test_ready_is_what_runs_or_has_succeeded_of_what_is_wanted(moves, ready):
    assert lived(tfjob().chief().workers(2), *moves).status["ready"] == ready


def test_a_replica_that_has_succeeded_and_is_started_again_is_counted_once():
    seen = lived(tfjob().workers(2).success_policy(), everything_runs, main_ends("worker-0"))
    assert seen.status["replicaStatuses"]["Worker"]["succeeded"] == 1
    restarts_in_place("worker-0")(seen)
    seen.settle()

    found = seen.status["replicaStatuses"]["Worker"]
    assert (found["active"], found["succeeded"], seen.status["ready"]) == (1, 1, "2/2")


def test_restarting_goes_on_when_nobody_who_decides_runs():
    job = tfjob().chief(restart="OnFailure").workers(1, restart="OnFailure")
    seen = lived(job, runs("worker-0"), fails("worker-0"), time_passes(2), runs("worker-0"))

    assert seen.conditions == "Created Restarting"
    assert seen.status["conditions"][-1]["message"] == "job job is restarting because Worker replica(s) failed."


def test_the_first_time_that_all_run_is_kept_until_the_job_is_resumed():
    seen = lived(tfjob().workers(2, restart="OnFailure"), everything_runs, time_passes(60), is_drained("worker-1"))

    assert seen.record.all_running_time == MORNING

    seen = lived(tfjob().workers(2), everything_runs, suspend)
    seen.edit({"spec": {"runPolicy": {"suspend": False}}})
    seen.settle()

    assert seen.record.all_running_time is None
