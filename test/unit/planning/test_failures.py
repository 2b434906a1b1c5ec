"""Who is to blame, in words and as evidence; golden cases show where they are reported."""

from dataclasses import replace

import pytest

from support.builders import tfjob
from support.pod_events import everything_runs, fails, restarts_in_place
from support.simulator import MORNING, simulator
from tf_operator.planning import failures, job_view
from tf_operator.planning.snapshot import MainContainer

KILLED = MainContainer(137, "OOMKilled", "", MORNING, MORNING)


def running(policy="OnFailure"):
    seen = simulator(tfjob().workers(1, restart=policy))
    seen.settle()
    everything_runs(seen)
    seen.settle()
    return seen


def restarted(times, last_termination):
    seen = running()
    restarts_in_place("worker-0", times)(seen)
    pod = seen.pods["job-worker-0"] = replace(seen.pods["job-worker-0"], last_termination=last_termination)
    view = job_view.view(seen.observe())
    return view, view.replicas[0], pod


@pytest.mark.parametrize(
    ("times", "last_termination", "cause", "end"),
    [
        (1, None, "was restarted once in place", "had a container that ended"),
        (1, KILLED, "was restarted once in place; it last exited with code 137, OOMKilled",
         "exited with code 137, OOMKilled"),
        (4, replace(KILLED, reason="Error", message="no\ndata"),
         "was restarted 4 times in place; it last exited with code 137: no data", "exited with code 137: no data"),
    ],
    ids=["another container", "killed", "with last words"],
)  # fmt: skip
def test_a_restart_in_place_is_told_with_the_end_that_came_before_it(times, last_termination, cause, end):
    _, slot, pod = restarted(times, last_termination)

    assert failures.describe_restarts(slot, pod) == f"worker-0 (pod job-worker-0) {cause}"
    assert failures.describe_exit(slot, pod) == f"worker-0 (pod job-worker-0) {end}"


def test_the_last_words_of_a_container_that_was_restarted_in_place_are_kept():
    view, slot, pod = restarted(1, replace(KILLED, message="no data"))

    found = failures.of_restart(slot, pod, view)

    assert (found.container, found.exit_code, found.reason, found.message) == (
        "tensorflow",
        137,
        "OOMKilled",
        "no data",
    )


def test_of_a_container_without_last_words_it_is_kept_what_happened_and_of_another_one_no_more_than_that():
    view, slot, pod = restarted(2, None)

    found = failures.of_restart(slot, pod, view)

    assert (found.container, found.exit_code, found.time) == ("", None, view.snapshot.now)
    assert found.message == "worker-0 (pod job-worker-0) was restarted 2 times in place"


def test_long_last_words_are_cut():
    seen = running("Never")
    fails("worker-0")(seen)
    pod = seen.pods["job-worker-0"]
    seen.pods[pod.name] = replace(pod, main=replace(pod.main, message="y" * 2000))
    view = job_view.view(seen.observe())

    (loss,) = view.losses

    found = failures.of_loss(loss, view).message
    assert len(found) == 1024
    assert found.endswith("...")
