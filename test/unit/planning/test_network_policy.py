"""The NetworkPolicy without which a job makes no pod: what a plan does where nothing can be known of it."""

from datetime import timedelta
from pathlib import Path

import pytest

from golden import case
from tf_operator.job.report import EventKind
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Cause, RejectedWrite

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


def test_a_write_that_is_refused_for_good_ends_the_job_all_the_same():
    plan = make_plan(refused(CASES["network-policy-not-served"].snapshot, code=422))

    assert EventKind.FAILED in {event.kind for event in plan.events}
