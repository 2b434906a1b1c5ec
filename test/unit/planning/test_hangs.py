"""When a program hangs, and what follows from that: in whole lives of a job, in virtual time."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from support.embedded.pod_events import (
    edited,
    everything_runs,
    is_deleted,
    is_drained,
    is_stuck,
    restarts_in_place,
    resume,
    runs,
    stops_politely,
    succeeds,
    suspend,
    time_passes,
)
from support.embedded.progress import LISTENING, is_taken_over, reports
from support.embedded.simulator import simulate
from support.jobs.builders import tfjob
from tf_operator.controller.resources import PODS
from tf_operator.job.progress import NO_CLOCK, NOWHERE
from tf_operator.job.record import ElasticRecord
from tf_operator.job.report import EventKind
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Settings

JOB = tfjob().chief(restart="OnFailure").workers(1, restart="OnFailure")
IN_PLACE_JOB = JOB.restarts_as_a_whole("InPlace")
IN_PLACE = replace(LISTENING, restarts_in_place=True)
TRAINS = (everything_runs, time_passes(5), reports(3400, 34))
"""A job that has begun to report."""
TEXT = "no progress for more than 1 min; last: step 3400, 34 %"
RUNS_AGAIN = (time_passes(10), everything_runs)


def lived(*moves, job=JOB, action="Report", settings=LISTENING):
    simulator = simulate(job.progress_deadline(60, action), settings)
    simulator.settle()
    for move in moves:
        move(simulator)
        simulator.settle()
    return simulator


def reports_before(move):
    """Both happen before the operator looks at the job."""

    def both(simulator):
        reports(3400, 34)(simulator)
        move(simulator)

    return both


def is_hung(simulator):
    return simulator.status.get("hung", False)


def events(simulator):
    return [f"{reason}: {message}" for _, reason, message in simulator.operator.recorder.events]


def no_progress(simulator):
    return [event for event in events(simulator) if event.startswith("NoProgress")]


@pytest.mark.parametrize(
    ("moves", "seconds"),
    [
        (TRAINS, 60),
        ((*TRAINS, time_passes(50), reports(3401, 34)), 60),
        ((*TRAINS, time_passes(50), reports(3400, 35)), 60),
        ((*TRAINS, time_passes(50), reports(3400, 34)), 10),
        ((everything_runs, time_passes(500), *TRAINS), 60),
        ((*TRAINS, time_passes(50), restarts_in_place("worker-0")), 60),
        ((everything_runs, time_passes(5), reports_before(restarts_in_place("worker-0"))), 60),
        ((*TRAINS, time_passes(50), is_deleted("worker-0"), *RUNS_AGAIN), 60),
        ((*TRAINS, time_passes(50), is_drained("worker-0"), *RUNS_AGAIN), 60),
        ((*TRAINS, time_passes(50), succeeds("worker-0")), 10),
        ((*TRAINS, time_passes(50), is_taken_over), 60),
        ((*TRAINS, time_passes(50), is_taken_over, time_passes(20), reports(3401, 34)), 60),
        ((*TRAINS, time_passes(50), is_taken_over, time_passes(20), reports(3400, 34)), 40),
        ((*TRAINS, time_passes(50), restarts_in_place("chief-0"), time_passes(20), reports(1, 1)), 60),
        ((*TRAINS, restarts_in_place("chief-0"), time_passes(20), reports(3400, 34), *[time_passes(5)] * 2), 50),
        ((*TRAINS, suspend, time_passes(500), resume, *RUNS_AGAIN, time_passes(20), reports(1, 1)), 60),
    ],
    ids=[
        "it reports nothing more",
        "its step moves",
        "its percentage moves",
        "a thread repeats the same report",
        "it takes long until its first report",
        "another replica is restarted in place",
        "another one is restarted before the operator has looked at the first report",
        "another replica is lost",
        "another replica is drained",
        "another replica has succeeded",
        "another operator takes over",
        "the new operator hears of progress",
        "the new operator hears the same report again",
        "it is restarted in place, and reports",
        "it is restarted in place, and reports the same again",
        "it was suspended, and reports",
    ],
)
def test_a_program_hangs_when_its_last_progress_is_as_long_ago_as_its_deadline(moves, seconds):
    simulator = lived(*moves)

    simulator.sleep(seconds - 1)
    assert not is_hung(simulator)
    simulator.sleep(2)
    assert is_hung(simulator)


@pytest.mark.parametrize(
    "moves",
    [
        (everything_runs,),
        (*TRAINS, restarts_in_place("chief-0")),
        (*TRAINS, is_deleted("chief-0"), *RUNS_AGAIN),
        (*TRAINS, is_deleted("chief-0")),
        (*TRAINS, is_deleted("worker-0")),
        (*TRAINS, is_deleted("worker-0"), time_passes(10), is_stuck("worker-0", "ImagePullBackOff")),
        (*TRAINS, suspend),
        (*TRAINS, suspend, time_passes(100), resume, *RUNS_AGAIN),
        (*TRAINS, restarts_in_place("chief-0"), is_taken_over),
        (runs("chief-0"), reports(1)),
        (*TRAINS, succeeds("chief-0")),
        (*TRAINS, edited({"spec": {"runPolicy": {"progressPolicy": None}}})),
    ],
    ids=[
        "it has never reported",
        "it was restarted in place and has not reported since",
        "it has a new pod and has not reported since",
        "its pod waits",
        "another pod waits",
        "the image of another pod is pulled",
        "the job is suspended",
        "the job was suspended and it has not reported since",
        "it was restarted and another operator leads",
        "a replica has never run",
        "it has ended",
        "the deadline was removed",
    ],
)
def test_a_program_that_others_keep_waiting_or_that_has_not_reported_does_not_hang(moves):
    simulator = lived(*moves, action="Restart")

    simulator.sleep(3600)

    assert not is_hung(simulator)
    assert not no_progress(simulator)
    assert simulator.record.progress_clock.last_hang == NOWHERE


def test_a_hang_is_told_once_and_over_with_the_next_progress():
    simulator = lived(*TRAINS, time_passes(3600))
    writes = simulator.writes

    assert no_progress(simulator) == [f"NoProgress: {TEXT}"]
    assert simulator.condition("Running")["message"] == (
        "TFJob team/job is running. No progress for more than 1 min; last: step 3400, 34 %."
    )
    simulator.sleep(3600)
    assert simulator.writes == writes
    reports(3401, 34)(simulator)
    simulator.settle()
    assert not is_hung(simulator)
    assert simulator.condition("Running")["message"] == "TFJob team/job is running."
    assert simulator.condition("Running")["status"] == "True"


def test_a_hang_that_was_told_is_not_told_again_by_the_next_operator():
    simulator = lived(*TRAINS, time_passes(100), is_taken_over, time_passes(3600))

    assert is_hung(simulator)
    assert not no_progress(simulator)


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
def test_with_restart_the_replica_that_reports_gets_a_new_pod_as_after_a_failure(policy):
    job = tfjob().chief(restart=policy).workers(1, restart=policy).backoff_limit(2)
    simulator = lived(*TRAINS, time_passes(61), *RUNS_AGAIN, job=job, action="Restart")

    assert simulator.shown_pods == "chief-0#2:Running worker-0#1:Running"
    assert (simulator.record.restarts, simulator.record.counted_restarts, is_hung(simulator)) == (1, 1, False)
    failure = simulator.status["firstFailure"]
    assert (failure["reason"], failure["pod"]) == ("Hung", "job-chief-0")
    assert failure["message"] == TEXT
    assert any("(1 of 2 restarts used)" in event for event in events(simulator))
    simulator.sleep(3600)
    assert simulator.record.restarts == 1


@pytest.mark.parametrize("job", [JOB, JOB.restarts_as_a_whole()], ids=["alone", "with all"])
def test_a_hung_program_that_ends_with_0_when_it_is_stopped_has_not_succeeded(job):
    simulator = lived(*TRAINS, stops_politely, time_passes(61), *RUNS_AGAIN, job=job, action="Restart")

    assert (simulator.conditions, simulator.record.restarts) == ("Created Running", 1)
    assert simulator.shown_pods.startswith("chief-0#2:Running")


def test_with_restart_of_the_whole_job_all_replicas_get_new_pods():
    simulator = lived(*TRAINS, time_passes(61), *RUNS_AGAIN, job=JOB.restarts_as_a_whole(), action="Restart")

    assert simulator.shown_pods == "chief-0#2:Running worker-0#2:Running"
    assert (simulator.record.attempt, simulator.record.restarts) == (2, 1)


def starts_again_in_place(pod, _now):
    """Its sidecar has had the kubelet restart all its containers."""
    (main,) = pod["status"]["containerStatuses"]
    last = {"terminated": {"exitCode": 137, "reason": "RestartingAllContainers"}}
    main = main | {"restartCount": 1, "lastState": last}
    sidecar = {"name": resize_sidecar.SIDECAR, "restartCount": 1, "state": {"running": {}}}
    return pod["status"] | {"containerStatuses": [main], "initContainerStatuses": [sidecar]}


def all_start_again_in_place(simulator):
    for name in ("job-chief-0", "job-worker-0"):
        simulator.set_pod(name, starts_again_in_place)


def hung_in_place(*moves, policy="OnFailure", settings=IN_PLACE):
    job = tfjob().chief(restart=policy).workers(1, restart=policy).restarts_as_a_whole("InPlace")
    return lived(*TRAINS, time_passes(61), *moves, job=job, action="Restart", settings=settings)


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
def test_with_restart_in_place_all_programs_start_again_in_their_pods_once(policy):
    simulator = hung_in_place(policy=policy)

    assert simulator.conditions == "Created Restarting"
    sizes = [pod["metadata"]["annotations"][resize_sidecar.SIZES_ANNOTATION] for pod in simulator.of(PODS)]
    assert sizes == ["attempt=2"] * 2
    begins = "attempt 2 begins in place; 1 other replica(s) restart in place"
    assert f"JobRestarted: chief-0 (pod job-chief-0): {TEXT}; {begins}" in events(simulator)
    all_start_again_in_place(simulator)
    simulator.sleep(3600)
    assert simulator.shown_pods == "chief-0#1:Running worker-0#1:Running"
    assert simulator.conditions == "Created Running"
    assert (simulator.record.attempt, simulator.record.restarts, simulator.record.disruptions) == (2, 1, 0)
    assert (simulator.status["firstFailure"]["reason"], is_hung(simulator)) == ("Hung", False)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [(IN_PLACE, 45), (replace(IN_PLACE, restarts_in_place=False), 10)],
    ids=["its containers do not start again", "the operator cannot tell it"],
)
def test_a_hung_program_that_cannot_start_again_in_its_pod_gets_a_new_one(settings, seconds):
    simulator = hung_in_place(settings=settings)
    for _ in range(seconds):
        simulator.sleep(1)
    everything_runs(simulator)
    simulator.sleep(3600)

    assert simulator.shown_pods == "chief-0#2:Running worker-0#2:Running"
    assert (simulator.record.attempt, simulator.record.restarts) == (2, 1)


@pytest.mark.parametrize("write", range(1, 6))
def test_an_operator_that_is_killed_at_any_write_restarts_a_hung_job_in_place_once(write):
    simulator = lived(*TRAINS, job=IN_PLACE_JOB, action="Restart", settings=IN_PLACE)
    simulator.crash_after = simulator.writes + write
    for move in (time_passes(61), all_start_again_in_place, time_passes(10), time_passes(3600)):
        move(simulator)
        simulator.settle()

    assert simulator.shown_pods == "chief-0#1:Running worker-0#1:Running"
    assert (simulator.record.attempt, simulator.record.restarts) == (2, 1)


def test_a_program_that_was_started_again_in_place_does_not_hang_before_its_first_report():
    simulator = lived(*TRAINS, job=IN_PLACE_JOB, action="Restart", settings=IN_PLACE)
    restarts_in_place("worker-0")(simulator)
    assert make_plan(simulator.observe()).report.record.progress_clock == NO_CLOCK
    simulator.settle()
    reports(3401, 34)(simulator)  # it is told to, and has not heard it yet
    simulator.settle()
    simulator.set_pod("job-chief-0", starts_again_in_place)
    simulator.sleep(3600)

    assert simulator.shown_pods == "chief-0#1:Running worker-0#1:Running"
    assert (simulator.record.attempt, simulator.record.restarts) == (2, 1)
    reports(3401, 34)(simulator)
    simulator.settle()
    simulator.sleep(61)
    assert simulator.record.attempt == 3


@pytest.mark.parametrize(("seconds", "has_reported"), [(-1, True), (0, True), (1, False)])
def test_a_program_that_is_yet_to_start_again_for_a_resize_in_place_does_not_hang(seconds, has_reported):
    """It was started so long before the resize."""
    simulator = lived(*TRAINS, action="Restart")
    simulator.wait(61)
    observed = simulator.observe()
    pods = tuple(pod.changed(cluster_size="Chief=1,Worker=1") for pod in observed.pods)
    resized_time = max(pod.main.started_at for pod in pods) + timedelta(seconds=seconds)
    record = observed.job.record.changed(elastic=ElasticRecord(resized_time=resized_time))

    after = make_plan(observed.changed(pods=pods, job=structs.replace(observed.job, record=record))).report.record
    assert after.restarts == has_reported
    assert after.progress_clock.running_since is None


def test_the_backoff_limit_ends_a_job_that_hangs():
    simulator = lived(*TRAINS, time_passes(61), job=JOB.backoff_limit(0), action="Restart")

    failed = simulator.condition("Failed")
    assert failed["reason"] == "TFJobBackoffLimitExceeded"
    assert "chief-0 (pod job-chief-0): no progress for more than 1 min" in failed["message"]


@pytest.mark.parametrize(("step", "has_failed"), [(3400, True), (3500, False)], ids=["the same step", "a later one"])
def test_a_program_that_hangs_again_where_it_was_restarted_fails(step, has_failed):
    again = (*RUNS_AGAIN, time_passes(5), reports(3000, 34), time_passes(30), reports(step, 34), time_passes(61))
    simulator = lived(*TRAINS, time_passes(61), *again, action="Restart")

    failed = simulator.condition("Failed")
    assert bool(failed) is has_failed
    assert simulator.record.restarts == (1 if has_failed else 2)
    if failed:
        assert failed["reason"] == "TFJobProgressDeadlineExceeded"
        assert failed["message"].endswith("last: step 3400, 34 %, where it was restarted before")


def test_a_suspension_does_not_make_the_operator_forget_where_a_program_hung():
    again = (*RUNS_AGAIN, suspend, time_passes(100), resume, *RUNS_AGAIN, time_passes(5), reports(3000, 34))
    simulator = lived(*TRAINS, time_passes(61), *again, reports(3400, 34), time_passes(61), action="Restart")

    assert simulator.condition("Failed")["message"].endswith("where it was restarted before")
    assert simulator.record.progress_clock == NO_CLOCK


def test_programs_that_say_only_values_of_metrics_are_never_where_they_were():
    only_metrics = (time_passes(5), reports(), time_passes(61))
    simulator = lived(everything_runs, *only_metrics, *RUNS_AGAIN, *only_metrics, action="Restart")

    assert (simulator.condition("Failed"), simulator.record.restarts) == (None, 2)


def test_with_fail_the_job_fails_and_says_why():
    simulator = lived(*TRAINS, time_passes(61), action="Fail")

    failed = simulator.condition("Failed")
    assert failed["reason"] == "TFJobProgressDeadlineExceeded"
    assert failed["message"] == f"Job job has failed because its program hangs: {TEXT}"
    assert (simulator.status["firstFailure"]["reason"], is_hung(simulator)) == ("Hung", False)
    assert "progressClock" not in simulator.status


def test_the_clock_begins_with_the_next_whole_second():
    """A status holds no fractions, and nothing hangs too early."""
    simulator = lived()
    everything_runs(simulator)
    observed = simulator.observe()
    later = observed.changed(now=observed.now + timedelta(milliseconds=400))

    clock = make_plan(later).report.record.progress_clock
    assert clock.running_since == observed.now + timedelta(seconds=1)


def test_a_program_that_has_not_reported_is_looked_at_from_time_to_time():
    """Its first report may wake nobody up."""
    simulator = lived(everything_runs)
    for seconds, rest in ((10, 50), (50, 60), (30, 30)):
        simulator.wait(seconds)
        assert make_plan(simulator.observe()).requeue_after == timedelta(seconds=rest)


@pytest.mark.parametrize("action", ["Report", "Restart", "Fail"])
@pytest.mark.parametrize("move", [suspend, is_drained("worker-0")], ids=["its job is suspended", "another is drained"])
def test_a_program_whose_deadline_is_over_at_the_moment_something_happens_does_not_hang(move, action):
    simulator = lived(*TRAINS, action=action)
    simulator.wait(61)
    move(simulator)
    simulator.settle()

    assert (simulator.record.restarts, simulator.condition("Failed")) == (0, None)
    assert not no_progress(simulator)
    assert "firstFailure" not in simulator.status


@pytest.mark.parametrize("action", ["Restart", "Fail"])
def test_what_an_operator_has_not_heard_of_itself_it_only_tells(action):
    simulator = lived(*TRAINS, time_passes(30), is_taken_over, time_passes(3600), action=action)

    assert is_hung(simulator)
    assert (simulator.record.restarts, simulator.conditions) == (0, "Created Running")
    assert no_progress(simulator) == [f"NoProgress: {TEXT}; reports may be lost, so nothing is done about it yet"]


def test_a_hang_of_which_it_was_doubtful_whether_it_is_one_is_acted_upon_when_that_is_over():
    simulator = lived(*TRAINS, action="Restart")
    simulator.wait(61)
    observed = simulator.observe()

    doubtful = make_plan(observed.changed(hearing=observed.hearing._replace(is_doubtful=True)))
    assert (doubtful.report.record.progress_clock.is_hung, doubtful.report.record.restarts) == (True, 0)
    assert doubtful.requeue_after == timedelta(seconds=30)
    told = structs.replace(observed.job, record=doubtful.report.record)
    certain = make_plan(observed.changed(job=told))
    assert (certain.report.record.progress_clock.is_hung, certain.report.record.restarts) == (False, 1)
    assert EventKind.NO_PROGRESS not in {event.kind for event in certain.events}


def test_without_somebody_who_takes_reports_nothing_hangs_also_if_there_was_one():
    simulator = lived(*TRAINS, action="Restart")
    simulator.settings = Settings()
    simulator.restart()
    simulator.sleep(3600)

    assert (is_hung(simulator), simulator.record.restarts) == (False, 0)


@pytest.mark.parametrize("action", ["Report", "Restart", "Fail"])
@pytest.mark.parametrize("write", range(1, 6))
def test_an_operator_that_is_killed_at_any_write_does_not_restart_twice(action, write):
    simulator = lived(*TRAINS, action=action)
    simulator.crash_after = simulator.writes + write
    for move in (time_passes(61), *RUNS_AGAIN, *RUNS_AGAIN, time_passes(3600)):
        move(simulator)
        simulator.settle()

    runs = "Created Running"
    expected = {"Report": (0, runs), "Restart": (1, runs), "Fail": (0, "Created !Running Failed")}
    assert (simulator.record.restarts, simulator.conditions) == expected[action]
    assert is_hung(simulator) is (action == "Report")
