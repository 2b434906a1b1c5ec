"""What has become of one pod: the kubelet's many words, in eight of ours.

The deciding container decides: when it has ended, the replica has, even if a sidecar goes on. A container that the
kubelet is going to restart in place has not ended, whether a rule of its own or a policy says so. A pod that was
disrupted (rejected by its node, evicted, preempted, its node lost) has not failed: that is nobody's mistake, and costs
no restart. Nor has it completed when its program exits with 0 because it was stopped.
"""

from enum import Enum, auto

import msgspec

from tf_operator.job import restart_rules
from tf_operator.job.profile import Profile, RestartBy
from tf_operator.job.training_job import RestartPolicy
from tf_operator.planning.pods import termination_message
from tf_operator.planning.snapshot import MainContainer, Pod

_STOPPED_BY_NODE = frozenset(
    {
        "Evicted",
        "NodeLost",
        "NodeShutdown",
        "Preempting",
        "Preempted",
        "Shutdown",
        "Terminated",
        "TerminationByKubelet",
    }
)
"""What a kubelet gives as the reason of a pod whose containers it stopped."""
_LONGEST_TAIL = 300
_PROGRAM_NOT_REJECTED = frozenset({"", "DeadlineExceeded"})
"""Reasons of a failed pod that is not rejected although no container started: its own deadline was too short."""


class PodState(Enum):
    """What has become of a pod."""

    PENDING = auto()
    RUNNING = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    """It ended with an error, and may be tried again."""
    PERMANENT_FAILURE = auto()
    """It ended with an error that its restart policy does not try again."""
    ENDED = auto()
    """It ended with exit code 0, and its restart policy runs it again by a new pod."""
    DISRUPTED = auto()
    TERMINATING = auto()
    """Somebody deletes it; until it is gone its name is taken."""


class Policy(msgspec.Struct, frozen=True):
    """Under which rules a pod is judged."""

    restart: RestartPolicy
    profile: Profile
    ends_job: bool = True
    """Whether a permanent failure of the replica is the job's."""

    @property
    def judges_restarts(self) -> bool:
        """Whether a container that ended for good has ended, although the kubelet starts it again."""
        return self.ends_job and self.profile.restart_by is RestartBy.TEMPLATE

    @property
    def runs_again(self) -> bool:
        """Whether a new pod is made after one that has succeeded."""
        return self.restart is RestartPolicy.ALWAYS and self.profile.restart_by is RestartBy.NEW_POD

    def is_final(self, end: MainContainer | None) -> bool:
        """Whether a failure that ended so is not tried again."""
        match self.profile.restart_by, self.restart:
            case RestartBy.TEMPLATE, _:
                return self.ends_job and self._has_final_code(end)
            case _, RestartPolicy.NEVER:
                return True
            case _, RestartPolicy.EXIT_CODE:
                return self._has_final_code(end)
        return False

    def _has_final_code(self, end: MainContainer | None) -> bool:
        if end is None or end.exit_code is None:
            return False
        return not self.profile.exit_codes.are_retryable(end.exit_code, end.reason)


def state_of(pod: Pod, policy: Policy) -> PodState:
    if policy.judges_restarts and (end := end_before_restart(pod, policy)):
        return PodState.PERMANENT_FAILURE if end.exit_code else PodState.SUCCEEDED
    if _has_succeeded(pod, policy):
        return PodState.SUCCEEDED
    if pod.is_gone or pod.is_terminating:
        return _last_outcome(pod, policy) if pod.is_gone else PodState.TERMINATING
    if pod.phase in {"Failed", "Succeeded"} or _has_ended(pod, policy):
        return _failure(pod, policy)
    return PodState.RUNNING if pod.phase == "Running" or pod.is_restarting else PodState.PENDING


def end_before_restart(pod: Pod, policy: Policy) -> MainContainer | None:
    """The end of the deciding container that ends the replica, although the kubelet starts it again, or has.

    A rule of the container's own says that it goes on after this very exit code; a policy knows no codes.
    """
    ends = (pod.last_termination, pod.main if pod.is_there and not is_disrupted(pod) else None)
    candidates = (end for end in ends if end and not _is_by_rule(pod, end))
    return next((end for end in candidates if end.exit_code == 0 or policy.is_final(end)), None)


def _is_by_rule(pod: Pod, end: MainContainer) -> bool:
    """Whether a rule starts the container again after this end, or has."""
    if end.reason == restart_rules.RESTARTING_ALL:
        return True
    return pod.restart_rules is not None and end.exit_code is not None and pod.restart_rules.has_rule(end.exit_code)


def kubelet_policy(of_replica: RestartPolicy, by: RestartBy) -> RestartPolicy:
    """The restart policy of a new pod: the kubelet must not restart what we replace."""
    is_ours = by is RestartBy.NEW_POD or of_replica is RestartPolicy.EXIT_CODE
    return RestartPolicy.NEVER if is_ours else of_replica


def in_place_policy(pod: Pod, of_replica: RestartPolicy, by: RestartBy) -> RestartPolicy:
    """By which rule the kubelet starts the pod's containers again: the pod's own, also when the job was edited since.

    Whether a pod that failed gets a successor is another question, which the replica's policy of today answers.
    """
    return pod.restart_policy or kubelet_policy(of_replica, by)


def starts_again(pod: Pod, code: int, of_replica: RestartPolicy, by: RestartBy) -> bool:
    """Whether the kubelet starts the deciding container again after this exit code."""
    if pod.restart_rules:
        return pod.restart_rules.restarts_after(code)
    return restart_rules.restarts_by_policy(in_place_policy(pod, of_replica, by), code)


def restarts_in_place(pod: Pod, of_replica: RestartPolicy, by: RestartBy) -> int:
    """How many restarts of the pod's containers count: under ``Never`` those of the deciding one by rules, else all.

    What goes on beside it there, such as a native sidecar, has nothing to do with the job.
    """
    return pod.restarts_by_rule if in_place_policy(pod, of_replica, by) is RestartPolicy.NEVER else pod.restarts


def has_run(pod: Pod) -> bool:
    """Whether the pod's deciding container ever started, as far as its status still shows."""
    has_started = pod.main is not None and pod.main.started_at is not None
    return pod.phase in {"Running", "Succeeded"} or pod.restarts > 0 or has_started


def waits_for_restart(pod: Pod) -> bool:
    """Whether a program that has ended is not started again yet: the pod is Running all the same."""
    if pod.is_restarting:
        return True
    return (pod.last_termination if pod.main is None else pod.main.exit_code) is not None


def is_disrupted(pod: Pod) -> bool:
    """Whether the cluster ended it, and not its program."""
    return pod.is_disrupted or pod.reason in _STOPPED_BY_NODE or _is_rejected(pod)


def was_refused(pod: Pod) -> bool:
    """Whether its node refused to run it, and nobody else had a part in that."""
    return _is_rejected(pod) and not pod.is_disrupted and pod.reason not in _STOPPED_BY_NODE


def was_stopped(pod: Pod) -> bool:
    """Whether the cluster stopped the program, so that an exit code of 0 says nothing about its work.

    A program that ended before the disruption was announced ended by itself. Both times are whole seconds, so within
    the same second nobody knows. A kubelet announces its own disruptions only after the containers have ended.
    """
    if not is_disrupted(pod):
        return False
    finished_at = pod.main.finished_at if pod.main else None
    if pod.reason in _STOPPED_BY_NODE or finished_at is None or pod.disrupted_at is None:
        return True
    return finished_at >= pod.disrupted_at


def has_failed(pod: Pod) -> bool:
    """Whether its program ended it with an error, before anybody deleted it."""
    return pod.phase == "Failed" and not pod.is_terminating and not is_disrupted(pod)


def what_happened(pod: Pod) -> str:
    """The end of a pod in a few words, for messages."""
    main = pod.main
    if is_disrupted(pod):
        return f"was disrupted ({pod.reason or 'DisruptionTarget'}{_tail(pod.message)})"
    if main is not None and main.exit_code is not None:
        return how_it_ended(main)
    return f"failed without an exit code{_tail(pod.reason or pod.message)}"


def how_it_ended(main: MainContainer) -> str:
    """The end of a container in a few words, for messages."""
    if main.reason == restart_rules.RESTARTING_ALL:
        return "ended because a rule restarts all containers of its pod"
    reason = f", {main.reason}" if main.reason not in {"", "Error", "Completed"} else ""
    return f"exited with code {main.exit_code}{reason}{_tail(main.message)}"


def is_well(pod: Pod) -> bool:
    """Whether a pod is on its way, or runs, so that nothing but a status follows from it."""
    is_in_trouble = pod.is_terminating or pod.is_disrupted or pod.is_restarting or pod.is_stopped or pod.restarts
    ends = (pod.main, *(container.state for container in pod.others))
    return (
        pod.phase in {"Pending", "Running"}
        and not is_in_trouble
        and not pod.host.has_unhealthy_device
        and all(end is None or end.exit_code is None for end in ends)
    )


def _tail(text: str) -> str:
    line = termination_message.summary(text)
    return f": {line[:_LONGEST_TAIL]}" if line else ""


def _exit_code(pod: Pod) -> int | None:
    return pod.main.exit_code if pod.main else None


def _is_rejected(pod: Pod) -> bool:
    """Whether its node refused to run it.

    A kubelet builds the reason from the resource that is short (``OutOfnvidia.com/gpu``), and each release adds others:
    no list is complete. What they have in common is that no container has started. A kubelet that finds the pod
    rejected later invents an exit code for each container, but no start.
    """
    never_started = pod.restarts == 0 and (pod.main is None or pod.main.started_at is None)
    return pod.phase == "Failed" and never_started and pod.reason not in _PROGRAM_NOT_REJECTED


def _has_succeeded(pod: Pod, policy: Policy) -> bool:
    """Phase Succeeded; or exit code 0 of the deciding container, if nobody starts it again.

    Under ``Always`` a pod that is being deleted has not succeeded.
    """
    if was_stopped(pod) or (policy.restart is RestartPolicy.ALWAYS and not pod.is_there):
        return False
    return pod.phase == "Succeeded" or (_exit_code(pod) == 0 and _has_ended(pod, policy))


def _has_ended(pod: Pod, policy: Policy) -> bool:
    """Whether the deciding container has ended for ever, although the pod may go on."""
    code = _exit_code(pod)
    return code is not None and not starts_again(pod, code, policy.restart, policy.profile.restart_by)


def _last_outcome(pod: Pod, policy: Policy) -> PodState:
    """Of a pod that was deleted before anybody acted on its end: a failure that was over by then still counts."""
    if has_failed(pod):
        return _failure(pod, policy)
    return PodState.DISRUPTED if has_run(pod) else PodState.PENDING


def _failure(pod: Pod, policy: Policy) -> PodState:
    if is_disrupted(pod):
        return PodState.DISRUPTED
    return PodState.PERMANENT_FAILURE if policy.is_final(pod.main) else PodState.FAILED
