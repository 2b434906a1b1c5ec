"""The pods that keep a job from getting on: each waits for what it needs, or for its end, which should have come."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from tf_operator.job.record import PendingKind
from tf_operator.planning.pod_state import PodState
from tf_operator.planning.replicas import Replica
from tf_operator.planning.snapshot import Pod, Settings


class Wait(NamedTuple):
    """One pod that waits."""

    kind: PendingKind
    pod: Pod
    since: datetime
    reported_at: datetime
    """When it has waited for long enough to be reported."""


def waits(replicas: Iterable[Replica], settings: Settings) -> Iterator[Wait]:
    """The pods that wait, in the order of their replicas."""
    for replica in replicas:
        pod = replica.pod
        if pod and pod.pending_reason and (since := replica.waits_since):
            kind = PendingKind.STARTING if pod.is_starting else PendingKind.WAITING
            yield Wait(kind, pod, since, since + _patience(kind, settings))
        if pod and replica.outcome is PodState.TERMINATING and (deadline := pod.deletion_deadline):
            kind = PendingKind.TERMINATING
            yield Wait(kind, pod, deadline, deadline + _patience(kind, settings))


def _patience(kind: PendingKind, settings: Settings) -> timedelta:
    return settings.starting_is_told_after if kind is PendingKind.STARTING else settings.report_pending_after
