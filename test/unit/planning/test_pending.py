"""Why a job does not get on: told after a while, in the same words for as long as it lasts."""

from dataclasses import replace
from datetime import timedelta

import pytest

from support.builders import tfjob
from support.pod_events import everything_runs, is_stuck, runs, time_passes
from support.simulator import MORNING, simulator
from tf_operator.planning import job_view, pending
from tf_operator.planning.snapshot import RejectedWrite

BACK_OFF = " worker-0 (pod job-worker-0) waits: ImagePullBackOff"


def stuck(*replicas_, seconds=20, job=None):
    seen = simulator(job or tfjob().chief().workers(2))
    seen.settle()
    for replica in replicas_:
        is_stuck(replica, "ImagePullBackOff")(seen)
    seen.now += timedelta(seconds=seconds)
    return seen


def told(seen):
    view = job_view.view(seen.observe())
    found = pending.trouble(view)
    return pending.note(view, found) if found else ""


@pytest.mark.parametrize(("seconds", "text"), [(9, ""), (10, BACK_OFF), (3600, BACK_OFF)])
def test_a_pod_that_waits_is_told_after_ten_seconds(seconds, text):
    assert told(stuck("worker-0", seconds=seconds)) == text


def test_the_wake_up_is_when_it_will_be_told():
    seen = stuck("worker-0", "worker-1", seconds=4)

    assert [moment - seen.now for moment in pending.wake_ups(job_view.view(seen.observe()))] == [
        timedelta(seconds=6)
    ] * 2


def test_of_several_the_first_is_told():
    assert told(stuck("worker-1", "worker-0")) == BACK_OFF


def test_what_is_told_stays_although_another_waits_now_too():
    seen = stuck("worker-1")
    seen.settle()
    is_stuck("worker-0", "Unschedulable")(seen)

    assert told(seen) == " worker-1 (pod job-worker-1) waits: ImagePullBackOff"


@pytest.mark.parametrize("words", ["ErrImagePull: not found", ""], ids=["other words", "no words"])
def test_what_is_told_stays_whatever_the_kubelet_says_now(words):
    seen = stuck("worker-0")
    seen.settle()
    is_stuck("worker-0", words)(seen)

    assert told(seen) == BACK_OFF
    assert not seen.look().events


def test_what_was_told_in_one_condition_is_told_in_the_next_without_its_words():
    seen = stuck("worker-0")
    seen.settle()
    runs("chief-0")(seen)
    seen.settle()

    created, running = seen.status["conditions"]
    assert created["message"] == "TFJob job is created."
    assert running["message"] == f"TFJob team/job is running.{BACK_OFF}"


def test_it_is_over_when_the_pod_runs():
    seen = stuck("worker-0")
    seen.settle()
    runs("worker-0")(seen)
    time_passes(1)(seen)

    assert told(seen) == ""
    assert seen.status["conditions"][0]["message"] == "TFJob job is created."


def lingering(seconds):
    """A job of which a pod was deleted, and should have been gone so long ago."""
    seen = simulator(tfjob().workers(2, restart="OnFailure"))
    seen.settle()
    everything_runs(seen)
    seen.settle()
    pod = seen.pods["job-worker-1"]
    seen.pods[pod.name] = replace(pod, is_terminating=True, deletion_deadline=seen.now)
    seen.now += timedelta(seconds=seconds)
    return seen


@pytest.mark.parametrize(("seconds", "is_told"), [(9, False), (10, True), (3600, True)])
def test_a_pod_that_does_not_go_is_reported_when_it_should_long_be_gone(seconds, is_told):
    assert told(lingering(seconds)).startswith(" worker-1 (pod job-worker-1) waits: its last pod") is is_told


def test_the_wake_up_is_when_a_pod_should_long_be_gone():
    (moment,) = pending.wake_ups(job_view.view(lingering(4).observe()))

    assert moment == MORNING + timedelta(seconds=10)


def test_of_the_next_pod_it_is_not_told_that_it_does_not_go():
    seen = lingering(20)
    seen.work()
    assert "its last pod" in seen.status["conditions"][-1]["message"]

    seen.remove("job-worker-1")
    time_passes(5)(seen)
    is_stuck("worker-1", "ImagePullBackOff")(seen)
    seen.settle()
    assert told(seen) == ""

    seen.now += timedelta(seconds=20)
    assert told(seen) == " worker-1 (pod job-worker-1) waits: ImagePullBackOff"


def test_a_refusal_comes_before_a_pod_that_waits_and_is_told_at_once():
    seen = stuck("worker-0")
    seen.rejected = RejectedWrite("pod job-worker-1", "x" * 1000, seen.now)

    assert told(seen) == f" pod job-worker-1 was rejected: {'x' * 300}"


def test_the_reason_is_one_line_of_bounded_length():
    seen = stuck()
    is_stuck("worker-0", "two\n lines " + "y" * 1000)(seen)

    assert "\n" not in told(seen)
    assert len(told(seen)) < 400
