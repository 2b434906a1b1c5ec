"""What has become of a pod, as a table: its state, the restart policy, the outcome."""

from dataclasses import replace

import pytest

from support.simulator import MORNING
from tf_operator.dialects.kubeflow.v1 import PROFILE
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import RestartPolicy
from tf_operator.planning import pod_state
from tf_operator.planning.pod_state import PodState, Policy
from tf_operator.planning.snapshot import MainContainer, Pod

P, R, S, F, X, D, L = (
    PodState.PENDING,
    PodState.RUNNING,
    PodState.SUCCEEDED,
    PodState.FAILED,
    PodState.PERMANENT_FAILURE,
    PodState.DISRUPTED,
    PodState.TERMINATING,
)
POLICIES = ("Never", "OnFailure", "Always", "ExitCode")


NOON = MORNING.replace(hour=12)
BEFORE, AFTER = NOON.replace(hour=11), NOON.replace(hour=13)


def pod(phase="Running", code=None, finished_at=None, **fields):
    has_started = code is not None or phase == "Running"
    main = MainContainer(code, started_at=MORNING, finished_at=finished_at) if has_started else None
    return Pod("j-worker-0", "u", ReplicaType.WORKER, 0, phase=phase, main=main, **fields)


def rejected(main):
    """Its node had no room for one more volume."""
    return replace(pod("Failed", reason="VolumeAttachmentLimitExceeded"), main=main)


def drained(phase, finished_at, **fields):
    """Its program has exited with 0, before or after the disruption was announced at noon."""
    return pod(phase, 0, finished_at, is_disrupted=True, disrupted_at=NOON, **fields)


TABLE = [
    # what is seen of the pod                                          Never, OnFailure, Always, ExitCode
    ("waiting", pod("Pending"), (P, P, P, P)),
    ("running", pod(), (R, R, R, R)),
    ("phase unknown", pod("Unknown"), (P, P, P, P)),
    ("succeeded", pod("Succeeded", 0), (S, S, S, S)),
    ("succeeded, nothing known of it", pod("Succeeded"), (S, S, S, S)),
    ("succeeded, leaving", pod("Succeeded", 0, is_terminating=True), (S, S, L, S)),
    ("succeeded, gone", pod("Succeeded", 0, is_gone=True), (S, S, D, S)),
    ("main ended well, sidecar goes on", pod(code=0), (S, S, R, S)),
    ("main ended badly, sidecar goes on", pod(code=1), (X, R, R, X)),
    ("main killed, sidecar goes on", pod(code=137), (X, R, R, F)),
    ("failed with 1", pod("Failed", 1), (X, F, F, X)),
    ("failed with 127", pod("Failed", 127), (X, F, F, X)),
    ("failed with 128", pod("Failed", 128), (X, F, F, F)),
    ("failed with 255", pod("Failed", 255), (X, F, F, F)),
    ("failed with 256", pod("Failed", 256), (X, F, F, X)),
    ("failed without a code", pod("Failed"), (X, F, F, F)),
    ("sidecar failed after main had ended well", pod("Failed", 0), (S, S, F, S)),
    ("evicted", pod("Failed", reason="Evicted"), (D, D, D, D)),
    ("evicted, exited with 0", pod("Failed", 0, reason="Evicted"), (D, D, D, D)),
    ("preempted, exited with 1", pod("Failed", 1, is_disrupted=True), (D, D, D, D)),
    ("drained, exited with 0 later", drained("Succeeded", AFTER), (D, D, D, D)),
    ("drained, exited with 0 in the same second", drained("Succeeded", NOON), (D, D, D, D)),
    ("drained, exited with 0 at an unknown time", drained("Succeeded", None), (D, D, D, D)),
    ("drained at an unknown time, exited with 0", pod("Succeeded", 0, AFTER, is_disrupted=True), (D, D, D, D)),
    ("drained, nothing else known of it", pod("Succeeded", is_disrupted=True), (D, D, D, D)),
    ("drained, nothing else known of it, gone", pod("Succeeded", is_disrupted=True, is_gone=True), (D, D, D, D)),
    ("drained, exited with 0, leaving", drained("Succeeded", AFTER, is_terminating=True), (L, L, L, L)),
    ("drained, exited with 0, gone", drained("Succeeded", AFTER, is_terminating=True, is_gone=True), (D, D, D, D)),
    ("exited with 0, then drained", drained("Succeeded", BEFORE), (S, S, S, S)),
    ("exited with 0, then drained, leaving", drained("Succeeded", BEFORE, is_terminating=True), (S, S, L, S)),
    ("exited with 0, then its sidecar was drained", drained("Failed", BEFORE), (S, S, D, S)),
    ("exited with 0, then its node was shut down", drained("Failed", BEFORE, reason="Terminated"), (D, D, D, D)),
    ("main drained, exited with 0, sidecar goes on", drained("Running", AFTER), (D, D, R, D)),
    ("rejected for its GPUs", pod("Failed", reason="OutOfnvidia.com/gpu"), (D, D, D, D)),
    ("rejected in words of a later release", pod("Failed", reason="NotToday"), (D, D, D, D)),
    ("rejected, its containers called lost", rejected(MainContainer(137, "ContainerStatusUnknown")), (D, D, D, D)),
    ("failed after it had run, with a reason", pod("Failed", 1, reason="NotToday"), (X, F, F, X)),
    ("too slow for its own deadline", pod("Failed", reason="DeadlineExceeded"), (X, F, F, F)),
    ("gone after it was rejected", pod("Failed", reason="NodePorts", is_gone=True), (P, P, P, P)),
    ("about to be preempted", pod(is_disrupted=True), (R, R, R, R)),
    ("leaving", pod(is_terminating=True), (L, L, L, L)),
    ("leaving, failed", pod("Failed", 143, is_terminating=True), (L, L, L, L)),
    ("leaving, never ran", pod("Pending", is_terminating=True), (L, L, L, L)),
    ("gone while it ran", pod(is_gone=True), (D, D, D, D)),
    ("gone, never ran", pod("Pending", is_gone=True), (P, P, P, P)),
    ("gone after a restart in place", pod("Pending", restarts=1, is_gone=True), (D, D, D, D)),
    ("gone after it had failed with 1", pod("Failed", 1, is_gone=True), (X, F, F, X)),
    ("gone, told to stop and failed then", pod("Failed", 143, is_gone=True, is_terminating=True), (D, D, D, D)),
    ("gone after it was evicted", pod("Failed", 1, reason="Evicted", is_gone=True), (D, D, D, D)),
]


@pytest.mark.parametrize(("seen", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_outcome_of_a_pod_depends_on_its_state_and_on_the_restart_policy(seen, expected):
    found = tuple(pod_state.state_of(seen, Policy(RestartPolicy(name), PROFILE)) for name in POLICIES)

    assert found == expected
