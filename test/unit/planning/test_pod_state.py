"""What has become of a pod, as a table: its state, the restart policy, the outcome."""

from dataclasses import replace

import pytest
from msgspec import structs

from support.embedded.simulator import MORNING
from tf_operator.dialects.kubeflow.v1 import PROFILE
from tf_operator.job import restart_rules
from tf_operator.job.profile import RestartBy
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import RestartPolicy
from tf_operator.planning.pods import pod_state
from tf_operator.planning.pods.pod_state import PodState, Policy
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
BY_TEMPLATE = replace(PROFILE, restart_by=RestartBy.TEMPLATE)
POLICIES = ("Never", "OnFailure", "Always", "ExitCode")


NOON = MORNING.replace(hour=12)
BEFORE, AFTER = NOON.replace(hour=11), NOON.replace(hour=13)


def pod(phase="Running", code=None, finished_at=None, **fields):
    has_started = code is not None or phase == "Running"
    main = MainContainer(code, started_at=MORNING, finished_at=finished_at) if has_started else None
    return Pod("j-worker-0", "u", ReplicaType.WORKER, 0, phase=phase, main=main, **fields)


def rejected(main):
    """Its node had no room for one more volume."""
    return pod("Failed", reason="VolumeAttachmentLimitExceeded").changed(main=main)


def drained(phase, finished_at, **fields):
    """Its program has exited with 0, before or after the disruption was announced at noon."""
    return pod(phase, 0, finished_at, is_disrupted=True, disrupted_at=NOON, **fields)


def ruled(action, codes, *, operator="In", policy="Never"):
    """What a container with one rule says about its restarts."""
    rule = {"action": action, "exitCodes": {"operator": operator, "values": codes}}
    return restart_rules.read({"restartPolicy": policy, "restartPolicyRules": [rule]})


AGAIN = ruled("Restart", [1, 137])
ALL_AGAIN = ruled("RestartAllContainers", [0])
ITSELF = {policy: restart_rules.read({"restartPolicy": policy}) for policy in ("Never", "OnFailure", "Always")}

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
    ("a rule starts 1 again", pod(code=1, restart_rules=AGAIN), (R, R, R, R)),
    ("a rule starts 137 again", pod(code=137, restart_rules=AGAIN), (R, R, R, R)),
    ("a rule is about other codes, Never of its own", pod(code=2, restart_rules=AGAIN), (X, F, F, X)),
    ("a rule starts all again, after 0, too", pod(code=0, restart_rules=ALL_AGAIN), (R, R, R, R)),
    ("Never of its own, ended badly", pod(code=137, restart_rules=ITSELF["Never"]), (X, F, F, F)),
    ("OnFailure of its own, ended badly", pod(code=1, restart_rules=ITSELF["OnFailure"]), (R, R, R, R)),
    ("OnFailure of its own, ended well", pod(code=0, restart_rules=ITSELF["OnFailure"]), (S, S, S, S)),
    ("Always of its own, ended well", pod(code=0, restart_rules=ITSELF["Always"]), (R, R, R, R)),
    ("a rule, but the pod has failed", pod("Failed", 1, restart_rules=AGAIN), (X, F, F, X)),
    ("a rule, but somebody deletes the pod", pod(code=1, restart_rules=AGAIN, is_terminating=True), (L, L, L, L)),
    ("all of its containers are started again", pod("Pending", is_restarting=True), (R, R, R, R)),
    ("gone, told to stop and failed then", pod("Failed", 143, is_gone=True, is_terminating=True), (D, D, D, D)),
    ("gone after it was evicted", pod("Failed", 1, reason="Evicted", is_gone=True), (D, D, D, D)),
]


@pytest.mark.parametrize(("observed_pod", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_outcome_of_a_pod_depends_on_its_state_and_on_the_restart_policy(observed_pod, expected):
    states = tuple(pod_state.state_of(observed_pod, Policy(RestartPolicy(name), PROFILE)) for name in POLICIES)

    assert states == expected


@pytest.mark.parametrize(
    ("ended", "rules", "expected"),
    [
        (MainContainer(1), None, X),
        (MainContainer(1), AGAIN, R),
        (MainContainer(0), None, S),
        (MainContainer(0), ALL_AGAIN, R),
        (MainContainer(2), AGAIN, X),
        (MainContainer(137, restart_rules.RESTARTING_ALL), None, R),
        (MainContainer(1, restart_rules.RESTARTING_ALL), None, R),
    ],
    ids=[
        "1",
        "1, by a rule",
        "0",
        "0, by a rule",
        "2, of which the rule says nothing",
        "with all others",
        "with all others, by 1",
    ],
)
@pytest.mark.parametrize("is_over", [True, False], ids=["before the restart", "after it"])
def test_an_end_before_a_restart_in_place_is_judged_only_where_no_rule_of_the_container_restarts_it(
    ended, rules, expected, is_over
):
    """In an API where the exit codes are final although the kubelet goes on by the policy of the template."""
    ended = structs.replace(ended, started_at=MORNING, finished_at=NOON)
    observed_pod = pod().changed(main=ended) if is_over else pod(last_termination=ended)

    state = pod_state.state_of(observed_pod.changed(restart_rules=rules), Policy(RestartPolicy.ON_FAILURE, BY_TEMPLATE))

    assert state is expected
