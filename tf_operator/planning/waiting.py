"""Why a job does not get on: the words that are added to its current condition, so that nobody has to search.

A create that was refused is told at once, a pod that stays Pending after a while. Kubelets change their wording from
minute to minute; what was told of a pod stays, as long as that pod waits, so that a job that is stuck is quiet.
"""

from collections.abc import Iterator
from datetime import datetime

from tf_operator.planning import gang
from tf_operator.planning.observed import Observed
from tf_operator.planning.outcome import Outcome
from tf_operator.planning.replicas import Slot, View

_MOST_TEXT = 300
_WAITS = " waits: "


def note(view: View) -> str:
    """What to add to the message of the current condition: what is wrong, or what it waits for by its own will."""
    if found := trouble(view):
        return found
    if not view.slots:
        return " It has no replicas: nothing runs until there are some."
    if gang.keeps_waiting(view.seen) and any(slot.is_vacant for slot in view.slots):
        return " No pod is made before the gang scheduler has admitted its PodGroup."
    return ""


def trouble(view: View) -> str:
    """What is wrong, in words; empty when nothing is, or not for long enough."""
    refusal = view.seen.refusal
    if refusal is not None:
        return f" {refusal.what} was refused: {refusal.message[:_MOST_TEXT]}"
    if told := _told_before(view):
        return told
    stuck = next((slot for slot in _stuck(view) if _told_at(slot, view.seen) <= view.seen.now), None)
    return f"{_beginning(stuck)}{_reason(stuck)[:_MOST_TEXT]}" if stuck else ""


def wake_ups(view: View) -> Iterator[datetime]:
    """When a pod that is Pending now will have been so for long enough to be told of."""
    return (moment for slot in _stuck(view) if (moment := _told_at(slot, view.seen)) > view.seen.now)


def _stuck(view: View) -> Iterator[Slot]:
    for slot in view.slots:
        if slot.outcome is Outcome.PENDING and slot.pod is not None and slot.pod.waits_for and slot.pod.created_at:
            yield slot


def _told_at(slot: Slot, seen: Observed) -> datetime:
    since = slot.pod.created_at if slot.pod else None
    return (since or seen.now) + seen.settings.pending_is_told_after


def _told_before(view: View) -> str:
    """What is told already of a pod that still waits, whatever its kubelet says at this moment."""
    messages = [condition.message for condition in view.seen.job.status.conditions if condition.is_true]
    for slot in view.slots if any(_WAITS in message for message in messages) else ():
        for message in messages if slot.pod and slot.outcome is Outcome.PENDING else ():
            _, beginning, reason = message.partition(_beginning(slot))
            if beginning:
                return beginning + reason
    return ""


def _beginning(slot: Slot) -> str:
    return f" {slot.spec.type.label}-{slot.index} (pod {slot.pod.name if slot.pod else ''}){_WAITS}"


def _reason(slot: Slot) -> str:
    return " ".join(slot.pod.waits_for.split()) if slot.pod else ""
