"""Reasons of events that all served APIs have in common; programs rely on them."""

from collections.abc import Mapping
from typing import Final

from tf_operator.job.report import EventKind

SHARED: Final[Mapping[EventKind, str]] = {
    EventKind.JOB_RESTARTED: "JobRestarted",
    EventKind.MEMORY_GROWN: "MemoryGrown",
    EventKind.REPLICA_DISRUPTED: "ReplicaDisrupted",
    EventKind.REPLICA_FAILED: "ReplicaFailed",
    EventKind.RESTARTED_IN_PLACE: "ReplicaRestarted",
    EventKind.NODE_AVOIDED: "NodeAvoided",
    EventKind.NODE_ALLOWED_AGAIN: "NodeAllowedAgain",
    EventKind.RESIZED: "Resized",
    EventKind.REPLICA_PENDING: "ReplicaPending",
    EventKind.CREATE_FAILED: "FailedCreatePod",
    EventKind.CHILDREN_CREATED: "SuccessfulCreatePod",
    EventKind.ANOTHER_CONTROLLER: "AnotherController",
    EventKind.USER_TF_CONFIG: "UserTFConfigKept",
    EventKind.TEMPLATE_RESTART_POLICY: "SetPodTemplateRestartPolicy",
    EventKind.TEMPLATE_SCHEDULER: "SetPodTemplateSchedulerName",
    EventKind.SCHEDULER_UNAVAILABLE: "SchedulerUnavailable",
    EventKind.OUTDATED_FIELDS: "OutdatedFields",
    EventKind.UNUSED_FIELDS: "UnusedFields",
    EventKind.PROGRESS_NOT_SERVED: "ProgressNotServed",
    EventKind.NO_PROGRESS: "NoProgress",
    EventKind.RESUMED_BEHIND_CHECKPOINT: "ResumedBehindCheckpoint",
    EventKind.GRACE_TOO_SHORT: "GraceTooShort",
    EventKind.EDIT_IGNORED: "InvalidEditIgnored",
}
