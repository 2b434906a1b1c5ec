"""When a finished job is deleted, and what is deleted of it; golden cases show each policy."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from support.embedded.pod_events import everything_runs, succeeds
from support.embedded.simulator import MORNING, simulate
from support.jobs.builders import tfjob
from tf_operator.job.profile import RestartBy
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import FailureCause
from tf_operator.job.restart_rules import RestartRules
from tf_operator.job.training_job import RestartPolicy
from tf_operator.meta import rfc3339
from tf_operator.planning import cleanup
from tf_operator.planning.actions import Delete, DeleteCollection, Patch
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import MainContainer


def finished(job):
    simulator = simulate(job)
    simulator.settle()
    for move in (everything_runs, succeeds("worker-0")):
        move(simulator)
        simulator.settle()
    return simulator


@pytest.mark.parametrize(
    ("seconds", "expires"),
    [(0, 0), (60, 60), (10**12, None), (10**400, None), (-1, 0)],
    ids=["at once", "a minute", "past the calendar", "past any number", "negative, as in 1.9"],
)
def test_the_time_to_live_counts_from_the_end(seconds, expires):
    """training-operator: TestCleanupJob."""
    simulator = finished(tfjob().workers(1))
    simulator.tamper({"spec": {"runPolicy": {"ttlSecondsAfterFinished": seconds}}})

    assert cleanup.expires_at(simulator.job) == (None if expires is None else MORNING + timedelta(seconds=expires))


def test_a_time_to_live_is_not_late_because_a_clock_was_ahead():
    simulator = finished(tfjob().workers(1).ttl(60))
    simulator.tamper({"status": {"completionTime": rfc3339(simulator.now + timedelta(hours=3))}})
    simulator.settle()
    assert not simulator.is_deleted

    simulator.wait(65)
    simulator.settle()

    assert simulator.is_deleted


def test_a_clock_that_is_behind_does_not_end_a_time_to_live_early():
    """Its pods, whose times would show it, are gone. The API server has a clock of its own."""
    simulator = finished(tfjob().workers(1).ttl(60).clean_pods("All"))
    observed = simulator.observe()
    behind = observed.changed(now=observed.now - timedelta(hours=1), status_time=observed.now)

    assert (observed.pods, make_plan(behind).report) == ((), None)


@pytest.mark.parametrize(("seconds", "is_deleted"), [(0, True), (-1, False)])
def test_a_job_that_was_refused_stays_whatever_the_time_to_live_unless_that_is_none(seconds, is_deleted):
    job = finished(tfjob().workers(1)).job
    policy = structs.replace(job.run_policy, ttl_seconds=seconds)
    job = structs.replace(job, run_policy=policy, record=job.record.changed(failure=FailureCause.INVALID_SPEC))

    assert (cleanup.expires_at(job) is not None) is is_deleted


RULES = RestartRules(RestartPolicy.NEVER, one=Indexes.of([3]))


@pytest.mark.parametrize(
    ("own", "rules", "code", "goes_on"),
    [
        (0, None, 0, False),
        (0, None, 1, True),
        (1, None, 0, False),
        (3, RULES, 1, True),
        (3, RULES, 0, True),
        (None, RULES, 0, False),
    ],
)
def test_a_pod_whose_containers_have_ended_goes_on_if_the_kubelet_starts_one_again(own, rules, code, goes_on):
    observed = finished(tfjob().workers(1, restart="OnFailure").clean_pods("Running")).observe()
    (pod,) = observed.pods
    main = None if own is None else MainContainer(own)
    pod = pod.changed(phase="Running", max_exit_code=code, restart_rules=rules, main=main)

    assert any(cleanup.after_end(observed.changed(pods=(pod,), services=()))) is goes_on


@pytest.mark.parametrize(
    ("restart_by", "index", "code", "end"),
    [
        (RestartBy.TEMPLATE, 0, 0, Patch),
        (RestartBy.TEMPLATE, 1, 0, Delete),
        (RestartBy.TEMPLATE, 0, None, Delete),
        (RestartBy.TEMPLATE, 0, 1, Patch),
        (RestartBy.NEW_POD, 0, 0, Delete),
    ],
)
def test_a_pod_is_stopped_for_its_logs_if_its_program_ended_the_job_before_it_was_started_again(
    restart_by, index, code, end
):
    observed = finished(tfjob().workers(2, restart="OnFailure").clean_pods("Running")).observe()
    job = structs.replace(observed.job, profile=replace(observed.job.profile, restart_by=restart_by))
    last = None if code is None else MainContainer(code)
    pod = observed.pods[0].changed(index=index, phase="Running", max_exit_code=None, main=None, last_termination=last)

    assert [type(action) for action in cleanup.after_end(observed.changed(job=job, pods=(pod,), services=()))] == [end]


@pytest.mark.parametrize(
    ("state", "is_done"),
    [
        ({"phase": "Succeeded"}, True),
        ({"phase": "Succeeded", "is_terminating": True}, False),
        ({"phase": "Running", "is_terminating": True}, False),
        ({"phase": "Running", "is_terminating": True, "is_gone": True}, True),
    ],
    ids=["stays for its logs", "is being deleted", "is being stopped", "is gone"],
)
def test_the_clean_up_is_over_when_no_pod_runs_or_is_being_deleted(state, is_done):
    observed = finished(tfjob().workers(1).clean_pods("Running")).observe()
    (pod,) = observed.pods

    assert cleanup.is_done(observed.changed(pods=(pod.changed(**state),))) == is_done


def test_services_of_ours_go_by_one_request_and_a_single_one_by_its_name():
    many, one = (simulate(tfjob("j").workers(count).suspended(False)) for count in (3, 1))
    for simulator in (many, one):
        simulator.settle()

    assert [type(action) for action in cleanup.while_idle(many.observe(), "suspended")] == [Delete] * 3 + [
        DeleteCollection
    ]
    assert [type(action) for action in cleanup.while_idle(one.observe(), "suspended")] == [Delete] * 2
