"""What a pod is told that has to begin another attempt in place, and when it counts as begun."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from support.embedded.pod_events import everything_runs, fails, is_deleted, restarts_in_place, time_passes
from support.embedded.simulator import simulate
from support.jobs.builders import tfjob
from tf_operator.controller import resources
from tf_operator.job.record import JobRecord, ReplicaType, RestartRecord
from tf_operator.planning.actions import Patch
from tf_operator.planning.pods import attempts
from tf_operator.planning.pods.attempts import NextStep, RestartRequest
from tf_operator.planning.snapshot import Pod, Settings

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
SECOND = JobRecord(attempt=2, attempt_time=NOW)
POD = Pod("j-worker-0", "u", ReplicaType.WORKER, 0, phase="Running", cluster_size="Worker=2,attempt=2")
ITSELF = RestartRecord(ReplicaType.WORKER, 0, "u", in_place=1, time=NOW)
REQUEST = "tf-operator.kubeflow.org/restart-request"


def told(seconds_ago, *, restarts=0, again=False):
    """The pod, which was told so long ago, and has not been restarted since."""
    request = RestartRequest(NOW - timedelta(seconds=seconds_ago), restarts, is_repeated=again)
    return POD.changed(restart_request=str(request), restarts_together=restarts)


@pytest.mark.parametrize(
    ("pod", "restart", "has_begun"),
    [
        pytest.param(POD, None, True, id="made for it"),
        pytest.param(POD.changed(cluster_size="attempt=1"), None, False, id="of the attempt before"),
        pytest.param(POD.changed(cluster_size="Worker=2"), None, False, id="from before the method"),
        pytest.param(POD.changed(cluster_size=""), None, True, id="made without a sidecar"),
        pytest.param(
            POD.changed(cluster_size=""), structs.replace(ITSELF, replaced=True), False, id="given up without one"
        ),
        pytest.param(told(1), None, False, id="told"),
        pytest.param(told(1).changed(restarts_together=1), None, True, id="restarted since"),
        pytest.param(told(1).changed(restarts_together=1, is_deaf=True), None, False, id="without its program"),
        pytest.param(told(1).changed(restarts_together=2, is_deaf=True), None, True, id="its sidecar again later"),
        pytest.param(told(1, restarts=3), None, False, id="restarted only before"),
        pytest.param(POD.changed(cluster_size="attempt=1"), ITSELF, True, id="by itself"),
        pytest.param(POD.changed(uid="v", cluster_size="attempt=1"), ITSELF, False, id="another pod by itself"),
        pytest.param(
            POD.changed(cluster_size="attempt=1"),
            structs.replace(ITSELF, time=NOW - timedelta(1)),
            False,
            id="an earlier one",
        ),
        pytest.param(POD, structs.replace(ITSELF, replaced=True), False, id="given up"),
    ],
)
def test_a_pod_has_begun_an_attempt_when_its_program_was_started_for_it(pod, restart, has_begun):
    assert attempts.has_begun(SECOND, pod, restart) is has_begun
    assert attempts.has_begun(JobRecord(), pod, restart), "there is only one"


@pytest.mark.parametrize(
    ("pod", "step", "seconds"),
    [
        (POD, NextStep.NOTHING, None),
        (POD.changed(cluster_size="attempt=1"), NextStep.REQUEST, None),
        (told(4).changed(cluster_size="attempt=1"), NextStep.REQUEST, None),
        (told(4), NextStep.NOTHING, 1),
        (told(5), NextStep.REPEAT, 0),
        (told(5, again=True), NextStep.NOTHING, 25),
        (told(29, again=True), NextStep.NOTHING, 1),
        (told(30), NextStep.GIVE_UP, -25),
        (told(30, again=True), NextStep.GIVE_UP, 0),
        (told(-3600), NextStep.REQUEST, 3605),
        (told(1).changed(is_deaf=True), NextStep.NOTHING, 4),
        (told(1).changed(restarts_together=1, is_deaf=True), NextStep.GIVE_UP, 4),
    ],
)
def test_a_pod_is_told_twice_and_then_given_up(pod, step, seconds):
    moment = attempts.next_moment(SECOND, pod, None)

    assert attempts.next_step(SECOND, pod, None, now=NOW) is step
    assert moment == (None if seconds is None else NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize("repeated", ["", " again"])
def test_a_request_from_the_end_of_the_calendar_is_written_again(repeated):
    pod = POD.changed(restart_request=f"9999-12-31T23:59:59Z 0{repeated}")

    assert attempts.next_step(SECOND, pod, None, now=NOW) is NextStep.REQUEST
    assert attempts.next_moment(SECOND, pod, None) is None


def test_nothing_is_done_about_a_pod_that_leaves():
    gone = structs.replace(ITSELF, replaced=True, time=None)

    assert attempts.next_step(SECOND, told(40), gone, now=NOW) is NextStep.NOTHING


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-03-01T08:00:00Z", "2026-13-01T08:00:00Z 1", "2026-03-01T08:00:00Z -1"]
)
def test_what_is_no_request_counts_for_nothing(text):
    assert RestartRequest.parse(text) is None
    assert attempts.has_begun(SECOND, POD.changed(restart_request=text), None)


@pytest.mark.parametrize(
    ("step", "pod", "written"),
    [
        (NextStep.REQUEST, POD.changed(restarts_together=2), {REQUEST: "2026-03-01T08:00:00Z 2"}),
        (NextStep.REPEAT, told(5, restarts=2), {REQUEST: "2026-03-01T07:59:55Z 2 again"}),
        (NextStep.REQUEST, POD.changed(phase="Pending"), {}),
        (NextStep.REQUEST, told(99).changed(phase="Pending"), {REQUEST: None}),
        (NextStep.REQUEST, told(99).changed(is_restarting=True), {REQUEST: None}),
    ],
)
def test_a_pod_that_starts_anyway_needs_no_request(step, pod, written):
    assert attempts.annotations(step, pod, NOW) == written


def test_pods_of_a_later_attempt_that_were_made_without_the_sidecar_stay_until_the_next_one():
    job = tfjob().workers(2, restart="OnFailure").restarts_as_a_whole("InPlace")
    simulator = simulate(job, Settings())
    simulator.settle()
    for move in (everything_runs, is_deleted("worker-0"), time_passes(10), everything_runs):
        move(simulator)
        simulator.settle()

    assert simulator.shown_pods == "worker-0#2:Running worker-1#2:Running"
    simulator.settings = Settings(restarts_in_place=True)
    simulator.restart()
    simulator.sleep(60)
    assert simulator.shown_pods == "worker-0#2:Running worker-1#2:Running"

    for move in (is_deleted("worker-0"), time_passes(10), everything_runs):
        move(simulator)
        simulator.settle()
    assert simulator.shown_pods == "worker-0#3:Running worker-1#3:Running"
    assert simulator.record.attempt == 3


IN_PLACE = Settings(restarts_in_place=True)


def lived(job, *moves):
    simulator = simulate(job.restarts_as_a_whole("InPlace"), IN_PLACE)
    simulator.settle()
    for move in moves:
        move(simulator)
        simulator.settle()
    return simulator


def test_however_often_a_program_fails_before_anybody_looks_that_is_one_attempt():
    simulator = lived(tfjob().workers(2, restart="OnFailure"), everything_runs, restarts_in_place("worker-0", times=2))

    assert (simulator.record.attempt, simulator.status["restarts"]) == (2, 1)
    assert simulator.shown_pods == "worker-0#1:Running worker-1#1:Running"


def test_a_pod_is_told_when_it_is_told_and_not_when_that_was_planned():
    """Else the patience with the last of a thousand pods would end before they are told."""
    simulator = lived(tfjob().workers(2, restart="OnFailure"), everything_runs)
    restarts_in_place("worker-0")(simulator)
    (change,) = (action for action in simulator.look().actions if isinstance(action, Patch))
    later = change.content(simulator.now + timedelta(seconds=20))["metadata"]["annotations"][REQUEST]

    assert RestartRequest.parse(later).time - timedelta(seconds=20) == simulator.now.replace(microsecond=0)


@pytest.mark.parametrize("code", [1, 143])
def test_a_program_of_the_run_before_that_ends_once_its_pod_was_told_has_not_failed(code):
    simulator = lived(tfjob().workers(2, restart="ExitCode"), everything_runs, restarts_in_place("worker-0", code=143))
    assert simulator.record.attempt == 2
    fails("worker-1", code)(simulator)
    simulator.settle()

    assert (simulator.record.attempt, simulator.status["restarts"]) == (2, 1)
    assert simulator.shown_pods == "worker-0#1:Running worker-1#2:Pending"


def test_where_failing_nodes_are_avoided_a_failed_program_gets_a_new_pod():
    job = tfjob().workers(2, restart="OnFailure")
    templates = [
        body["spec"]["containers"][0]
        for variant in (job, job.avoid_nodes(2))
        for body in lived(variant).of(resources.PODS)
    ]

    assert [bool(entry.get("restartPolicyRules")) for entry in templates] == [True, True, False, False]
