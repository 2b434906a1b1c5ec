"""The next record and report: what survives, what is progress, and that saying it twice changes nothing."""

import pytest

from support.embedded.pod_events import everything_runs, fails, restarts_in_place, runs, succeeds, time_passes
from support.embedded.simulator import Crashed, simulate
from support.jobs.builders import tfjob
from support.jobs.snapshots import snapshot_of
from tf_operator.job.record import ReplicaType
from tf_operator.job.report import EventKind, ReplicaCounts
from tf_operator.planning import job_view, report
from tf_operator.planning.snapshot import Pod


def lived(job, *moves):
    simulator = simulate(job)
    simulator.settle()
    for move in moves:
        move(simulator)
        simulator.settle()
    return simulator


def test_a_program_that_is_run_again_although_it_ended_well_has_not_failed():
    simulator = lived(tfjob().workers(2, restart="Always"), everything_runs, restarts_in_place("worker-0"))
    assert simulator.record.first_failure is not None

    simulator = lived(tfjob().workers(2, restart="Always"), everything_runs)
    restarts_in_place("worker-0", code=0)(simulator)

    plan = simulator.look()
    assert plan.report.record.first_failure is None
    assert [(event.kind, event.is_warning) for event in plan.events] == [(EventKind.RESTARTED_IN_PLACE, False)]


@pytest.mark.parametrize("policy", ["Never", "ExitCode"])
@pytest.mark.parametrize("writes", [1, 2, 3], ids=["the first write", "the second", "the third"])
def test_a_worker_that_was_taken_away_is_not_lost_when_it_is_wanted_again_at_once(policy, writes):
    """The operator is killed on the way, and finds that nothing has changed."""
    simulator = lived(tfjob().workers(3, restart=policy).dynamic_workers(), everything_runs)
    simulator.crash_after = simulator.writes + writes
    simulator.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}})
    with pytest.raises(Crashed):
        simulator.work()
    simulator.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})

    simulator.settle()
    everything_runs(simulator)
    simulator.settle()

    assert (simulator.status["ready"], simulator.record.disruptions) == ("3/3", 0)
    assert simulator.conditions == "Created Running"


def test_of_a_job_that_has_succeeded_what_is_still_up_has_succeeded_and_nothing_restarts():
    simulator = lived(tfjob().chief().workers(2), everything_runs)
    succeeds("chief-0")(simulator)
    counts = simulator.look().report.counts[ReplicaType.WORKER]

    assert counts == ReplicaCounts(succeeded=2)


def test_a_job_has_run_when_the_first_of_its_replicas_does():
    record = lived(tfjob().workers(2).success_policy(), runs("worker-1")).look().report.record
    assert (record.first_run_time is None, record.all_running_time) == (False, None)


def test_restarts_of_a_type_that_is_no_longer_wanted_are_not_forgotten():
    """The schema refuses that; but who counts must not count backwards."""
    job = tfjob().workers(1).parameter_servers(1, restart="OnFailure")
    simulator = lived(job, everything_runs, fails("ps-0"), time_passes(2))

    simulator.tamper({"spec": {"tfReplicaSpecs": {"PS": None}}})
    simulator.settle()

    assert simulator.record.restarts == 1
    assert simulator.record.of(ReplicaType.PS).restarts == 1
    assert "active" not in simulator.status["replicaStatuses"]["PS"]


def test_of_a_job_that_is_left_alone_a_replica_without_a_pod_is_still_to_run():
    pods = (Pod("job-worker-0", "u", ReplicaType.WORKER, 0, "Running"),)
    snapshot = snapshot_of(tfjob("job").workers(2), pods=pods)

    lines = report.left_alone(job_view.view(snapshot)).lines()

    assert [line.is_to_run for line in lines] == [False, True]
