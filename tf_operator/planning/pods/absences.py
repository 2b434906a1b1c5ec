"""Pods that seem to be gone, and may have lost no more than a label: nothing follows before they were looked for.

Pods are watched by a label, and listed by labels, which whoever may change pods can take away. A pod that was seen to
be deleted is gone, and one that had ended has ended. Any other that a replica lacks is looked for by its name; it is
the job's if it has the job's UID as its owner, whatever its labels are.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.planning.job_view import JobView
from tf_operator.planning.replicas import Replica
from tf_operator.planning.snapshot import Pod

LOOKED_FOR_EVERY: Final = timedelta(seconds=30)
"""How soon a pod that nobody can watch is looked for again."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_MOST_NAMES: Final = 3


def unconfirmed(view: JobView) -> tuple[str, ...]:
    """The names of the pods that have to be looked for before it is decided on."""
    if view.snapshot.job.record.is_idle:
        return ()
    names = (name for replica in view.replicas if (name := _unconfirmed(replica)))
    return tuple(name for name in names if name not in view.snapshot.looked_for)


def remark(view: JobView) -> str:
    """That there are pods that nobody can watch, and what to do about it; empty for none."""
    names = [pod.name for pod in _unwatched(view)]
    if not names:
        return ""
    listing = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" if names[_MOST_NAMES:] else "")
    label = f"{OPERATOR_LABEL}={view.snapshot.job.profile.labels.operator_name}"
    return f"Without the label {label}, pod {listing} cannot be watched; put the label back."


def is_to_look_again(view: JobView) -> bool:
    """Whether a pod has to be looked for although nothing will say that it has changed."""
    return any(True for _ in _unwatched(view))


def _unwatched(view: JobView) -> Iterator[Pod]:
    return (replica.pod for replica in view.replicas if replica.pod and replica.pod.is_unwatched)


def _unconfirmed(replica: Replica) -> str:
    if replica.is_completed:
        return ""
    record = replica.record
    for pod in replica.departed:
        is_given_up = record is not None and record.replaced and record.uid == pod.uid
        if not (is_given_up or pod.is_terminating or pod.phase in _ENDED):
            return pod.name
    return replica.name if replica.loss and replica.loss.pod is None else ""
