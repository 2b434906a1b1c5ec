"""Why a job does not get on: the words that are added to its current condition, so that nobody has to search.

A create that was refused is told at once, a pod that stays Pending after a while. Kubelets change their wording from
minute to minute; what was told of a pod stays, as long as that pod waits, so that a job that is stuck is quiet.
"""

from collections.abc import Iterator
from datetime import datetime

from tf_operator.api.status import JobStatus
from tf_operator.planning.observed import Observed
from tf_operator.planning.outcome import Outcome
from tf_operator.planning.replicas import Slot, View

_MOST_TEXT = 300


def trouble(view: View) -> str:
    """What to add to the message of the current condition; empty when nothing is wrong, or not for long enough."""
    refusal = view.seen.refusal
    if refusal is not None:
        return f" {refusal.what} was refused: {refusal.message[:_MOST_TEXT]}"
    stuck = [slot for slot in _stuck(view) if _told_at(slot, view.seen) <= view.seen.now]
    told = _told_before(view.seen.job.status)
    for slot in stuck:
        if _beginning(slot) in told:
            return told[told.index(_beginning(slot)) :]
    return f"{_beginning(stuck[0])}{_reason(stuck[0])[:_MOST_TEXT]}" if stuck else ""


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


def _told_before(status: JobStatus) -> str:
    return "\n".join(condition.message for condition in status.conditions if condition.is_true)


def _beginning(slot: Slot) -> str:
    return f" {slot.spec.type.label}-{slot.index} (pod {slot.pod.name if slot.pod else ''}) waits: "


def _reason(slot: Slot) -> str:
    return " ".join(slot.pod.waits_for.split()) if slot.pod else ""
