"""What the controller measures, as classes whose methods do nothing; ``app`` derives those that count.

A job's transition is counted once, by the process that has written it to the status. So a repeated reconcile, a
conflict or a restart of the operator counts nothing twice.

Neighbours: ``machinery.metrics_hooks``, the same for queues, clients and watches.
"""

from collections.abc import Iterable
from enum import StrEnum

from tf_operator.planning.job_queue.jobs import Decision


class ReconcileResult(StrEnum):
    """How a reconcile ended, in the words of ``controller_runtime_reconcile_total``."""

    SUCCESS = "success"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"
    ERROR = "error"


class ReconcileInstruments:
    """The measures of reconciles; ``controller_runtime_reconcile_*`` in client-go's world."""

    def began(self) -> None:
        """A worker has begun to reconcile a job."""

    def ended(self, result: ReconcileResult, seconds: float) -> None:
        """The reconcile is over; also after ``panicked``, as an error."""

    def panicked(self) -> None:
        """The reconcile raised an unexpected exception: a bug."""


class JobInstruments:
    """The measures of jobs, each by the namespace of the job."""

    def created(self, namespace: str) -> None:
        """A job was accepted: its condition Created was written."""

    def taken_up(self, namespace: str, *, restarts: Iterable[tuple[str, str]], growths: Iterable[str]) -> None:
        """A job is reconciled that may report these from now on: restarts by type and reason, growths by type."""

    def succeeded(self, namespace: str) -> None:
        """A job has succeeded."""

    def failed(self, namespace: str, reason: str) -> None:
        """A job has failed; ``reason`` is that of its condition."""

    def restarted(self, namespace: str, *, replica_type: str, reason: str) -> None:
        """A replica is started again after a failure, or replaced after a disruption."""

    def node_avoided(self, namespace: str, *, nodes: int) -> None:
        """A job avoids more nodes from now on."""

    def resumed_behind(self, namespace: str) -> None:
        """A program was started again and resumed from behind its last checkpoint."""

    def memory_grown(self, namespace: str, *, replica_type: str) -> None:
        """The next pods of a replica type have more memory, after an OOM kill."""

    def deleted(self, namespace: str) -> None:
        """A job was deleted because its time to live was over."""

    def backoff_exceeded(self, namespace: str) -> None:
        """A job failed because its restarts were used up."""

    def deadline_exceeded(self, namespace: str) -> None:
        """A job failed because it ran for longer than it may."""

    def used(self, namespace: str, resource: str, amount: float) -> None:
        """Runs of pods are over that had requested this: seconds of a core, of a GiB, or of an accelerator."""

    def lost(self, namespace: str, cause: str, seconds: float) -> None:
        """A job lost so much time by restarts."""

    def time_to_running(self, namespace: str, seconds: float) -> None:
        """All replicas of a job run; seconds since its start."""

    def duration(self, namespace: str, seconds: float, *, outcome: str) -> None:
        """A job has ended, as ``succeeded`` or ``failed``; seconds since its start."""

    def changed_by_another(self, namespace: str) -> None:
        """Another controller changed the status of a job."""


class QueueDecisions:
    def waiting(self, jobs: int) -> None:
        """So many jobs wait for room."""

    def decided(self, decision: Decision) -> None:
        """A job was admitted, or resized."""

    def panicked(self) -> None:
        """A plan, or the reading of a job for it, raised an unexpected exception: a bug."""

    def set_aside(self, jobs: int) -> None:
        """So many jobs are left out of plans because of that."""
