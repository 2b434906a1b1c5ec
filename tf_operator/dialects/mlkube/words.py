"""The words of ``mlkube.io/v1beta1``: the reasons of events, which programs rely on."""

from collections.abc import Mapping
from typing import Final

from tf_operator.dialects import event_reasons
from tf_operator.job.record import FailureCause
from tf_operator.job.report import EventKind

FAILURE_REASONS: Final[Mapping[FailureCause, str]] = {cause: f"TfJob{cause}" for cause in FailureCause}
EVENT_REASONS: Final[Mapping[EventKind, str]] = {
    **event_reasons.SHARED,
    EventKind.SUSPENDED: "TfJobSuspended",
    EventKind.RESUMED: "TfJobResumed",
    EventKind.QUEUED: "TfJobQueued",
    EventKind.ADMITTED: "TfJobAdmitted",
    EventKind.SUCCEEDED: "TfJobSucceeded",
    EventKind.FAILED: "TfJobFailed",
    EventKind.RESTARTING: "TfJobRestarting",
}
