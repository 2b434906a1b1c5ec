"""The pods on which a job waits: to be scheduled, to start, or to go. ``pending`` says what is reported of them."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from tf_operator.job.record import PendingKind
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica
from tf_operator.planning.snapshot import Pod, Settings


class StuckPod(NamedTuple):
    """One pod, and the stage in which it waits."""

    kind: PendingKind
    pod: Pod
    since: datetime
    reported_at: datetime
    """When it has waited for long enough to be reported."""


def stuck_pods(replicas: Iterable[Replica], settings: Settings) -> Iterator[StuckPod]:
    """The pods that wait, in the order of their replicas; also those that do not wait for long enough yet."""
    for replica in replicas:
        pod = replica.pod
        if pod and pod.pending_reason and (since := replica.waits_since):
            kind = PendingKind.STARTING if pod.is_starting else PendingKind.WAITING
            yield StuckPod(kind, pod, since, since + _patience(kind, settings))
        if pod and replica.outcome is PodState.TERMINATING and (deadline := pod.deletion_deadline):
            kind = PendingKind.TERMINATING
            yield StuckPod(kind, pod, deadline, deadline + _patience(kind, settings))


def _patience(kind: PendingKind, settings: Settings) -> timedelta:
    return settings.report_starting_after if kind is PendingKind.STARTING else settings.report_pending_after
