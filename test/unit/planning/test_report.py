"""The next record and report: what survives, what is progress, and that saying it twice changes nothing."""

import pytest

from support.embedded.pod_events import everything_runs, fails, restarts_in_place, runs, time_passes
from support.embedded.simulator import Crashed, simulator
from support.jobs.builders import tfjob
from tf_operator.job.record import ReplicaType
from tf_operator.job.report import EventKind


def lived(job, *moves):
    seen = simulator(job)
    seen.settle()
    for move in moves:
        move(seen)
        seen.settle()
    return seen


def test_a_program_that_is_run_again_although_it_ended_well_has_not_failed():
    seen = lived(tfjob().workers(2, restart="Always"), everything_runs, restarts_in_place("worker-0"))
    assert seen.record.first_failure is not None

    seen = lived(tfjob().workers(2, restart="Always"), everything_runs)
    restarts_in_place("worker-0", code=0)(seen)

    plan = seen.look()
    assert plan.report.record.first_failure is None
    assert [(event.kind, event.is_warning) for event in plan.events] == [(EventKind.RESTARTED_IN_PLACE, False)]


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


def test_a_job_has_run_when_the_first_of_its_replicas_does():
    record = lived(tfjob().workers(2).success_policy(), runs("worker-1")).look().report.record
    assert (record.first_run_time is None, record.all_running_time) == (False, None)


def test_restarts_of_a_type_that_is_no_longer_wanted_are_not_forgotten():
    """The schema refuses that; but who counts must not count backwards."""
    job = tfjob().workers(1).parameter_servers(1, restart="OnFailure")
    seen = lived(job, everything_runs, fails("ps-0"), time_passes(2))

    seen.tamper({"spec": {"tfReplicaSpecs": {"PS": None}}})
    seen.settle()

    assert seen.record.restarts == 1
    assert seen.record.of(ReplicaType.PS).restarts == 1
    assert "active" not in seen.status["replicaStatuses"]["PS"]
