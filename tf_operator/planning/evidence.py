"""Who is to blame for a failure: in a few words for messages and events, and as evidence that is kept in the status.

Both are made of what the kubelet said of the pod, while there is one: a pod that has failed is deleted, and a container
that is restarted in place forgets its end but one. Nothing is decided here; ``verdict`` and ``ledger`` do.
"""

from tf_operator.api.job import RestartPolicy
from tf_operator.api.status import FirstFailure
from tf_operator.api.validation import child_name
from tf_operator.planning import outcome
from tf_operator.planning.observed import MainContainer, Pod
from tf_operator.planning.replicas import Loss, Slot, View

_MOST_TEXT = 1024


def of_loss(loss: Loss, view: View) -> FirstFailure:
    """What is kept of a pod that is lost."""
    seen = view.seen
    if loss.pod is None:
        name = child_name(seen.job.key.name, loss.type, loss.index)
        return FirstFailure(pod=name, reason="Lost", message="the pod was deleted", time=seen.now)
    main = loss.pod.main
    return FirstFailure(
        pod=loss.pod.name,
        container=seen.job.profile.container if main and main.exit_code is not None else "",
        exit_code=main.exit_code if main else None,
        reason=loss.pod.reason or (main.reason if main else ""),
        message=_short((main.message if main else "") or loss.pod.message),
        time=(main.finished_at if main else None) or seen.now,
    )


def of_restart(slot: Slot, pod: Pod, view: View) -> FirstFailure:
    """What is kept of a failure after which the kubelet started the container again."""
    ended = pod.last_end or MainContainer()
    return FirstFailure(
        pod=pod.name,
        container=view.seen.job.profile.container if pod.last_end else "",
        exit_code=ended.exit_code,
        reason=ended.reason,
        message=_short(ended.message) or blame_restarts(slot, pod),
        time=ended.finished_at or view.seen.now,
    )


def blame(loss: Loss, view: View) -> str:
    """Who is to blame for a loss: ``worker-1 (pod j-worker-1) exited with code 1``."""
    where = f"{loss.type.label}-{loss.index} (pod {child_name(view.seen.job.key.name, loss.type, loss.index)})"
    if loss.pod is None or has_vanished(loss.pod):
        return f"{where} was lost: its pod was deleted while it ran"
    return f"{where} {outcome.what_happened(loss.pod)}"


def blame_restarts(slot: Slot, pod: Pod) -> str:
    """Who is to blame for restarts in place, and why it was restarted the last time."""
    times = "once" if pod.restarts == 1 else f"{pod.restarts} times"
    why = f"; it last {outcome.how_it_ended(pod.last_end)}" if pod.last_end else ""
    return f"{slot.spec.type.label}-{slot.index} (pod {pod.name}) was restarted {times} in place{why}"


def blame_end(slot: Slot, pod: Pod) -> str:
    """Who is to blame for the last restart in place. The same words each time, so that events of it are one."""
    how = outcome.how_it_ended(pod.last_end) if pod.last_end else "had a container that ended"
    return f"{slot.spec.type.label}-{slot.index} (pod {pod.name}) {how}"


def has_vanished(pod: Pod) -> bool:
    """Whether somebody deleted it while it ran, and nobody said why; what had failed by then, has failed."""
    return pod.is_gone and (pod.is_terminating or pod.phase != "Failed") and not outcome.is_disrupted(pod)


def policy_hint(loss: Loss, view: View) -> str:
    """Why it is not tried again."""
    policy = next(slot.spec.restart_policy for slot in view.slots if slot.spec.type is loss.type)
    if policy is RestartPolicy.EXIT_CODE:
        return f"; under restartPolicy {policy} that is permanent"
    return f"; its restartPolicy is {policy}"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."
