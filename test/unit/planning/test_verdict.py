"""The order of the checks, and the moments of a job's clock; golden cases and lives show each verdict."""

from datetime import timedelta

import pytest
from msgspec import structs

from support.embedded.pod_events import everything_runs, fails, restarts_in_place, succeeds, suspend
from support.embedded.simulator import MORNING, simulate
from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.job.record import FailureCause, JobPhase, JobRecord, ReplicaType
from tf_operator.planning import job_view, verdict
from tf_operator.planning.snapshot import Pod, RejectedWrite, Snapshot
from tf_operator.planning.verdict import Phase

FINAL = RejectedWrite("pod job-worker-0", "no", MORNING, code=422)
BASE = tfjob().chief(restart="OnFailure").workers(1).backoff_limit(0).deadline(60).startup_deadline(60)


def decided(*moves, rejected=None, job=BASE):
    """The verdict on a job of which everything that can happen has happened at once."""
    simulator = simulate(job)
    simulator.settle()
    for move in moves:
        move(simulator)
    observed = simulator.observe()
    late = observed.changed(rejected=rejected, now=observed.now + timedelta(hours=1))
    return verdict.decide(job_view.view(late))


def malformed(simulator):
    simulator.tamper({"spec": {"tfReplicaSpecs": {"Worker": {"restartPolicy": "Sometimes"}}}})


@pytest.mark.parametrize(
    ("moves", "rejected", "expected"),
    [
        ((malformed, succeeds("chief-0"), fails("worker-0")), FINAL, Phase.ACTIVE),
        ((malformed, suspend, succeeds("chief-0"), fails("worker-0")), FINAL, Phase.SUSPENDED),
        ((suspend, succeeds("chief-0"), fails("worker-0")), FINAL, Phase.SUSPENDED),
        ((succeeds("chief-0"), fails("worker-0")), FINAL, Phase.SUCCEEDED),
        ((fails("chief-0"), fails("worker-0")), FINAL, FailureCause.INVALID_SPEC),
        ((fails("chief-0"), fails("worker-0")), None, FailureCause.PERMANENT_FAILURE),
        ((fails("chief-0"),), None, FailureCause.BACKOFF_LIMIT_EXCEEDED),
        ((), None, FailureCause.DEADLINE_EXCEEDED),
    ],
    ids=["malformed", "malformed and suspended", "suspended", "succeeded", "refused", "failed", "backoff", "deadline"],
)
def test_what_is_checked_first_decides(moves, rejected, expected):
    decision = decided(*moves, rejected=rejected)

    assert (decision.cause or decision.phase) is expected


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ({"phase": "Succeeded"}, Phase.QUEUED),
        ({"phase": "Running", "is_terminating": True}, Phase.QUEUED),
        ({"phase": "Succeeded", "is_terminating": True}, Phase.ACTIVE),
        ({"phase": "Running", "is_gone": True}, Phase.ACTIVE),
        ({"phase": "Running", "is_terminating": True, "is_gone": True}, Phase.ACTIVE),
    ],
    ids=["not deleted", "still to end", "has ended", "gone", "gone without an end"],
)
def test_a_job_that_is_admitted_waits_for_its_old_pods(state, phase):
    job = structs.replace(job_of(tfjob().workers(1)), record=JobRecord(JobPhase.QUEUED))
    snapshot = Snapshot(job, MORNING, pods=(Pod("p", "u", ReplicaType.WORKER, 0, **state),))

    assert verdict.decide(job_view.view(snapshot)).phase is phase


@pytest.mark.parametrize("seconds", [10**12, 10**400], ids=["past the calendar", "past any number"])
def test_a_deadline_beyond_the_calendar_never_comes(seconds):
    job = job_of(tfjob().workers(1).deadline(seconds).startup_deadline(seconds))
    record = JobRecord(start_time=MORNING)

    assert verdict.deadline(job, record) is None
    assert verdict.startup_deadline(job, record) is None


def test_of_several_restarts_in_place_the_most_is_to_blame():
    job = tfjob().workers(3, restart="OnFailure").backoff_limit(3)
    decision = decided(everything_runs, restarts_in_place("worker-0"), restarts_in_place("worker-2", 4), job=job)

    restarts = "worker-2 (pod job-worker-2) was restarted 4 times in place; it last exited with code 1"
    assert restarts in decision.ending.detail
    assert (decision.evidence.pod, decision.evidence.exit_code) == ("job-worker-2", 1)
