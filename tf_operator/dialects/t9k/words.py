"""The words of TensorFlowTrainingJob: reasons, which programs rely on, and the sentences of its conditions."""

from collections.abc import Mapping
from typing import Final

from tf_operator.dialects import event_reasons
from tf_operator.job.record import FailureCause
from tf_operator.job.report import EventKind

NO_REASON: Final = "-"
PAUSED: Final = "Paused"
RESUMED: Final = "Resumed"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
POD_FAILED: Final = "PodFailed"

DEPENDENT_NOT_FOUND: Final = "DependentNotFound"
DEPENDENT_NOT_READY: Final = "DependentNotReady"
DEPENDENT_READY: Final = "DependentReady"
DEPENDENT_CREATE_FAILED: Final = "DependentCreateFailed"

IS_INITIALIZED: Final = "The job has been initialized successfully."
INITIALIZES: Final = "The job is being initialized."
ALL_RUN: Final = "All pods are running normally."
MAIN_RUNS: Final = "The main replica is running."
WAITS: Final = "The job is waiting for its replicas."
IS_UNKNOWN: Final = "The state of the main replica is unknown."
IS_PAUSED: Final = "The job is paused."
IS_RESUMED: Final = "The job is resumed."
GOES_ON: Final = "The job has not finished."
HAS_SUCCEEDED: Final = "The job has finished successfully."

FAILURE_REASONS: Final[Mapping[FailureCause, str]] = {
    FailureCause.PERMANENT_FAILURE: FAILED,
    FailureCause.REPLICA_LOST: FAILED,
    FailureCause.BACKOFF_LIMIT_EXCEEDED: "BackoffLimitExceeded",
    FailureCause.DEADLINE_EXCEEDED: "DeadlineExceeded",
    FailureCause.STARTUP_DEADLINE_EXCEEDED: "DeadlineExceeded",
    FailureCause.PROGRESS_DEADLINE_EXCEEDED: "DeadlineExceeded",
    FailureCause.INVALID_SPEC: "InvalidSpec",
}
_CAUSES: Final = {
    "BackoffLimitExceeded": FailureCause.BACKOFF_LIMIT_EXCEEDED,
    "DeadlineExceeded": FailureCause.DEADLINE_EXCEEDED,
    "InvalidSpec": FailureCause.INVALID_SPEC,
}
EVENT_REASONS: Final[Mapping[EventKind, str]] = {
    **event_reasons.SHARED,
    EventKind.SUSPENDED: PAUSED,
    EventKind.RESUMED: RESUMED,
    EventKind.QUEUED: "Queued",
    EventKind.ADMITTED: "Admitted",
    EventKind.SUCCEEDED: SUCCEEDED,
    EventKind.FAILED: FAILED,
    EventKind.RESTARTING: "ReplicaRestarting",
}


def cause_of(reason: str) -> FailureCause:
    """What a reason of Failed means."""
    return _CAUSES.get(reason, FailureCause.PERMANENT_FAILURE)
