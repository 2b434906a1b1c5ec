"""Why a job does not get on: told after a while, in the same words for as long as it lasts."""

from datetime import timedelta

import pytest

from support.embedded.pod_events import is_starting, is_stuck
from support.embedded.simulator import MORNING, simulate
from support.jobs.builders import tfjob
from support.jobs.snapshots import snapshot_of
from tf_operator.job.record import ReplicaType
from tf_operator.planning import job_view, pending
from tf_operator.planning.snapshot import Pod, PodGroup, RejectedWrite, Settings

BACK_OFF = " worker-0 (pod job-worker-0) waits: ImagePullBackOff"


def stuck(*replicas_, seconds=20, job=None):
    simulator = simulate(job or tfjob().chief().workers(2))
    simulator.settle()
    for replica in simulator.pods:
        is_starting(replica.removeprefix("job-"))(simulator)
    for replica in replicas_:
        is_stuck(replica, "ImagePullBackOff")(simulator)
    simulator.wait(seconds)
    return simulator


def told(simulator, **observed):
    view = job_view.view(simulator.observe().changed(**observed))
    record = pending.next_record(view)
    return pending.note(view, record) if record else ""


def test_of_several_the_first_is_told():
    assert told(stuck("worker-1", "worker-0")) == BACK_OFF


def test_what_is_told_stays_although_another_waits_now_too():
    simulator = stuck("worker-1")
    simulator.settle()
    is_stuck("worker-0", "Unschedulable")(simulator)

    assert told(simulator) == " worker-1 (pod job-worker-1) waits: ImagePullBackOff"


def test_a_refusal_comes_before_a_pod_that_waits_and_is_told_at_once():
    simulator = stuck("worker-0")
    rejection = RejectedWrite("pod job-worker-1", "x" * 1000, simulator.now)

    assert told(simulator, rejected=rejection) == f" pod job-worker-1 was rejected: {'x' * 297}..."


@pytest.mark.parametrize(("seconds", "is_awaited"), [(9, True), (10, False)])
def test_who_is_reported_now_is_not_waited_for(seconds, is_awaited):
    view = job_view.view(stuck("worker-0", seconds=seconds, job=tfjob().workers(1)).observe())

    assert (list(pending.wake_ups(view)) != []) is is_awaited


@pytest.mark.parametrize(
    ("seconds", "replicas", "observed", "names"),
    [
        (119, (), {}, []),
        (120, (), {}, ["job-worker-0"]),
        (120, (), {"warnings": {"pods-job-worker-0-1": "it pulls"}}, []),
        (120, (), {"rejected": RejectedWrite("x", "no", MORNING)}, []),
        (120, ("worker-0",), {}, []),
    ],
    ids=["not yet", "now", "it is known", "something else is", "it does not start"],
)
def test_what_is_said_about_a_pod_is_asked_for_when_its_start_is_to_be_reported(seconds, replicas, observed, names):
    simulator = stuck(*replicas, seconds=seconds, job=tfjob().workers(1))
    view = job_view.view(simulator.observe().changed(**observed))

    assert [pod.name for pod in pending.unexplained(view)] == names


@pytest.mark.parametrize(("seconds", "is_told"), [(9, False), (10, True)])
def test_a_pod_that_is_still_there_after_its_deadline_is_told_as_late_as_one_that_waits(seconds, is_told):
    deadline = MORNING - timedelta(seconds=seconds)
    pod = Pod("job-worker-0", "u", ReplicaType.WORKER, 0, is_terminating=True, deletion_deadline=deadline)
    view = job_view.view(snapshot_of(tfjob().workers(1), pods=(pod,)))

    assert (pending.next_record(view) is not None) is is_told
    assert list(pending.wake_ups(view)) == ([] if is_told else [MORNING + timedelta(seconds=1)])


def test_a_job_that_is_held_says_why_while_it_lacks_a_single_pod():
    pods = (Pod("job-worker-0", "u", ReplicaType.WORKER, 0),)
    settings = Settings(gang_scheduler="volcano")
    held = snapshot_of(tfjob().workers(2), settings=settings, pod_group=PodGroup("job", "g", "Pending"), pods=pods)

    assert pending.note(job_view.view(held), None).startswith(" No pod is created before ")


def test_the_reason_is_one_line_of_bounded_length():
    simulator = stuck()
    is_stuck("worker-0", "two\n lines " + "y" * 1000)(simulator)

    assert "\n" not in told(simulator)
    assert len(told(simulator)) < 400
