"""Events: each transition is reported once, and an unchanged status not at all."""

import pytest

from support.builders import tfjob
from support.pod_events import (
    everything_runs,
    fails,
    is_evicted,
    is_stuck,
    restarts_in_place,
    succeeds,
    suspend,
    time_passes,
)
from support.simulator import simulator
from tf_operator.dialects.kubeflow import v1
from tf_operator.planning.actions import Transition
from tf_operator.planning.snapshot import RejectedWrite


def reason(event):
    return v1.API.event_reason(event.kind, event.cause)


def told(seen):
    events = [event for plan in seen.plans for event in plan.events]
    counts = [(entry.what, entry.why) for plan in seen.plans for entry in plan.counts]
    return [reason(event) for event in events], counts


def lived(job, *moves):
    seen = simulator(job)
    seen.settle()
    for move in moves:
        move(seen)
        seen.settle()
    return seen


@pytest.mark.parametrize(
    ("moves", "events", "counts"),
    [
        ((), [], [(Transition.CREATED, "")]),
        ((everything_runs,), [], [(Transition.CREATED, ""), (Transition.RUNNING, "")]),
        (
            (everything_runs, succeeds("worker-0")),
            ["TFJobSucceeded"],
            [(Transition.CREATED, ""), (Transition.RUNNING, ""), (Transition.SUCCEEDED, "")],
        ),
        (
            (everything_runs, fails("worker-1")),
            ["TFJobRestarting"],
            [(Transition.CREATED, ""), (Transition.RUNNING, ""), (Transition.RESTARTED, "failed")],
        ),
        (
            (everything_runs, is_evicted("worker-1")),
            ["ReplicaDisrupted"],
            [(Transition.CREATED, ""), (Transition.RUNNING, ""), (Transition.RESTARTED, "disrupted")],
        ),
        (
            (everything_runs, restarts_in_place("worker-1")),
            ["ReplicaRestarted"],
            [(Transition.CREATED, ""), (Transition.RUNNING, ""), (Transition.RESTARTED, "in-place")],
        ),
        ((suspend, time_passes(600)), ["TFJobSuspended"], [(Transition.CREATED, "")]),
        ((is_stuck("worker-1", "Unschedulable"), time_passes(600)), ["ReplicaPending"], [(Transition.CREATED, "")]),
    ],
    ids=["created", "running", "succeeded", "restarted", "disrupted", "in place", "suspended", "stuck"],
)
def test_each_transition_is_told_once_and_counted_once(moves, events, counts):
    seen = lived(tfjob().workers(2, restart="OnFailure"), *moves, time_passes(0.5), time_passes(0.4))

    assert told(seen) == (events, counts)


def test_a_job_that_is_suspended_with_a_create_refused_is_quiet():
    seen = lived(tfjob().workers(1), suspend)
    seen.rejected = RejectedWrite("pod job-worker-0", "quota", seen.now)

    assert not seen.look().events


def test_a_failed_pod_of_a_job_that_is_suspended_is_no_restart():
    seen = lived(tfjob().workers(2, restart="OnFailure"), everything_runs)
    fails("worker-1")(seen)
    suspend(seen)

    plan = seen.look()

    assert [reason(event) for event in plan.events] == ["TFJobSuspended"]
    assert plan.counts == ()
    assert plan.report.record.restarts == 0


def test_seconds_are_never_negative_although_clocks_may_be():
    seen = simulator(tfjob().workers(1))
    seen.edit({"status": {"startTime": "2030-01-01T00:00:00Z"}})
    seen.settle()
    everything_runs(seen)

    assert [count.seconds for count in seen.look().counts] == [0.0]
