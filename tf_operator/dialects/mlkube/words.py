"""The words of ``mlkube.io/v1beta1``: the reasons of events, which programs rely on."""

from collections.abc import Mapping
from typing import Final

from tf_operator.job.record import FailureCause
from tf_operator.job.report import EventKind

FAILURE_REASONS: Final[Mapping[FailureCause, str]] = {cause: f"TfJob{cause}" for cause in FailureCause}
EVENT_REASONS: Final[Mapping[EventKind, str]] = {
    EventKind.SUSPENDED: "TfJobSuspended",
    EventKind.RESUMED: "TfJobResumed",
    EventKind.SUCCEEDED: "TfJobSucceeded",
    EventKind.FAILED: "TfJobFailed",
    EventKind.RESTARTING: "TfJobRestarting",
    EventKind.REPLICA_DISRUPTED: "ReplicaDisrupted",
    EventKind.REPLICA_FAILED: "ReplicaFailed",
    EventKind.RESTARTED_IN_PLACE: "ReplicaRestarted",
    EventKind.REPLICA_PENDING: "ReplicaPending",
    EventKind.CREATE_FAILED: "FailedCreatePod",
    EventKind.CHILDREN_CREATED: "SuccessfulCreatePod",
    EventKind.ANOTHER_CONTROLLER: "AnotherController",
    EventKind.USER_TF_CONFIG: "UserTFConfigKept",
    EventKind.TEMPLATE_RESTART_POLICY: "SetPodTemplateRestartPolicy",
    EventKind.TEMPLATE_SCHEDULER: "SetPodTemplateSchedulerName",
    EventKind.SCHEDULER_UNAVAILABLE: "SchedulerUnavailable",
    EventKind.UNUSED_FIELDS: "UnusedFields",
    EventKind.OUTDATED_FIELDS: "OutdatedFields",
}
