"""The words of ``kubeflow.org/v1``: reasons, which programs rely on, and the sentences of its conditions.

They are those of Kubeflow's training-operator 1.9 where it has a word for the thing. A reason never changes; a
sentence is for people, and nothing reads it.
"""

from collections.abc import Mapping
from typing import Final

from tf_operator.dialects import event_reasons
from tf_operator.job.record import FailureCause, Restarting
from tf_operator.job.report import EventKind
from tf_operator.job.training_job import TrainingJob


class Reason:
    """Reasons of conditions and of their events."""

    CREATED: Final = "TFJobCreated"
    RUNNING: Final = "TFJobRunning"
    RESTARTING: Final = "TFJobRestarting"
    SUSPENDED: Final = "TFJobSuspended"
    RESUMED: Final = "TFJobResumed"
    QUEUED: Final = "TFJobQueued"
    ADMITTED: Final = "TFJobAdmitted"
    SUCCEEDED: Final = "TFJobSucceeded"
    FAILED: Final = "TFJobFailed"


FAILURE_REASONS: Final[Mapping[FailureCause, str]] = {
    FailureCause.PERMANENT_FAILURE: Reason.FAILED,
    FailureCause.REPLICA_LOST: "TFJobReplicaLost",
    FailureCause.BACKOFF_LIMIT_EXCEEDED: "TFJobBackoffLimitExceeded",
    FailureCause.DEADLINE_EXCEEDED: "TFJobDeadlineExceeded",
    FailureCause.STARTUP_DEADLINE_EXCEEDED: "TFJobStartupDeadlineExceeded",
    FailureCause.PROGRESS_DEADLINE_EXCEEDED: "TFJobProgressDeadlineExceeded",
    FailureCause.INVALID_SPEC: "TFJobInvalidSpec",
}
_CAUSES: Final = {reason: cause for cause, reason in FAILURE_REASONS.items()}
EVENT_REASONS: Final[Mapping[EventKind, str]] = {
    **event_reasons.SHARED,
    EventKind.SUSPENDED: Reason.SUSPENDED,
    EventKind.RESUMED: Reason.RESUMED,
    EventKind.QUEUED: Reason.QUEUED,
    EventKind.ADMITTED: Reason.ADMITTED,
    EventKind.SUCCEEDED: Reason.SUCCEEDED,
    EventKind.FAILED: Reason.FAILED,
    EventKind.RESTARTING: Reason.RESTARTING,
}


def cause_of(reason: str) -> FailureCause:
    """What a reason of Failed means. 1.9 has reasons of its own, for what is a permanent failure here."""
    return _CAUSES.get(reason, FailureCause.PERMANENT_FAILURE)


def turned(job: TrainingJob, state: str) -> str:
    """The message of Created; or of Suspended or Queued, when that is over."""
    return f"{job.profile.kind} {job.key.name} is {state}."


def running(job: TrainingJob) -> str:
    """The message of Running."""
    return f"{job.profile.kind} {job.key} is running."


def restarting(job: TrainingJob, restart: Restarting | None) -> str:
    """The message of Restarting: which replicas, and whether one of them had failed; or that the job was resized.

    Of a job that another operator left restarting and that is left alone nobody knows more.
    """
    if restart is None:
        return f"job {job.key.name} is restarting."
    if restart.after_resize:
        return f"job {job.key.name} is restarting because it was resized."
    kinds = job.profile.words.list_types(restart.types) or "some"
    cause = "failed" if restart.after_failure else "were disrupted"
    return f"job {job.key.name} is restarting because {kinds} replica(s) {cause}."
