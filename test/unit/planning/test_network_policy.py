"""The NetworkPolicy without which a job makes no pod: what a plan does where nothing can be known of it."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from golden import case
from support.embedded.pod_events import everything_runs, succeeds
from support.embedded.simulator import simulate
from support.jobs.builders import tfjob
from tf_operator.job.report import EventKind
from tf_operator.planning.child_kinds import hpa, network_policy
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Cause, ChildObject, ChildState, RejectedWrite

CASES = case.read(Path(__file__).resolve().parents[3], "network-policy")


def refused(snapshot, **fields):
    at = snapshot.now - timedelta(minutes=5)
    return snapshot.changed(rejected=RejectedWrite("its Service", "exceeded quota", at, **fields))


@pytest.mark.parametrize("name", ["network-policy-not-readable", "network-policy-not-served"])
@pytest.mark.parametrize("cause", [Cause.REFUSED, Cause.UNCHANGED])
def test_no_pod_is_made_without_it_when_another_write_that_was_refused_is_due_again(name, cause):
    plan = make_plan(refused(CASES[name].snapshot, cause=cause))

    assert plan.actions == make_plan(CASES[name].snapshot).actions
    assert plan.report.record.pending.subject == "its NetworkPolicy"


THERE = ChildObject("job", "c", "another digest")


@pytest.mark.parametrize(
    ("state", "code", "seconds"),
    [
        (ChildState(THERE), None, None),
        (ChildState(THERE), 403, 1),
        (ChildState(THERE), 422, None),
        (ChildState(), 403, None),
        (ChildState(THERE, is_known=False), None, 5),
        (ChildState(is_known=False), None, None),
        (ChildState(THERE, unserved="no such kind"), None, 60),
        (ChildState(unserved="no such kind"), None, None),
    ],
)
def test_after_the_end_only_what_is_there_is_tried_again(state, code, seconds):
    observed = ended()
    rejected = RejectedWrite("its NetworkPolicy", "no", observed.now, code=code) if code else None
    state = structs.replace(state, rejected=rejected)
    wait = make_plan(observed.changed(extras={network_policy.KIND: state})).requeue_after

    assert wait == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        (ChildState(THERE, is_known=False), 5),
        (ChildState(is_known=False), None),
        (ChildState(THERE, unserved="no such kind"), 60),
    ],
)
def test_after_the_end_what_is_to_go_is_tried_again(state, seconds):
    wait = make_plan(ended().changed(extras={hpa.KIND: state})).requeue_after

    assert wait == (None if seconds is None else timedelta(seconds=seconds))


def ended():
    simulator = simulate(tfjob().workers(1).network_policy("Job"))
    simulator.settle()
    for move in (everything_runs, succeeds("worker-0")):
        move(simulator)
        simulator.settle()
    return simulator.observe()


def test_a_write_that_is_refused_for_good_ends_the_job_all_the_same():
    plan = make_plan(refused(CASES["network-policy-not-served"].snapshot, code=422))

    assert EventKind.FAILED in {event.kind for event in plan.events}
