"""How a job has ended, or why it has no pods: a reason and values, of which the words of its API make a sentence."""

from dataclasses import dataclass
from enum import StrEnum

from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob


class EndReason(StrEnum):
    """The reasons, each with its sentence."""

    SUSPENDED = "{kind} {key.name} is {suspended}.{detail}"
    QUEUED = "{kind} {key.name} is queued. {detail}"
    SUCCEEDED = "{kind} {key} successfully completed."
    NO_REPLICAS = "{kind} {key} successfully completed. It has no replicas, so there was nothing to do."
    REPLICAS_FAILED = "{kind} {key} has failed because {count} {type} replica(s) failed: {detail}"
    NO_WORKER_LEFT = "{kind} {key} has failed because no worker is left: {detail}"
    BACKOFF_LIMIT = "Job {key.name} has failed because it has reached the specified backoff limit of {limit}{detail}"
    DEADLINE = "Job {key.name} has failed because it was active longer than specified deadline of {limit} s"
    STARTUP_DEADLINE = (
        "Job {key.name} has failed because {count} replica(s) were not running {limit} s after its start: {detail}"
    )
    PROGRESS_DEADLINE = "Job {key.name} has failed because its program hangs: {detail}"
    INVALID_SPEC = "The spec is invalid: {detail}"
    CHILD_REJECTED = "{detail}"


@dataclass(frozen=True, slots=True)
class JobEnding:
    """A reason, and the values that its sentence has."""

    reason: EndReason
    detail: str = ""
    """The evidence: who failed and how, what is wrong with the spec, what is waited for."""
    count: int = 0
    type: ReplicaType | None = None
    limit: int | None = None
    """The restarts, or seconds, that the job may have."""

    def sentence(self, job: TrainingJob) -> str:
        """For the users of the job's API."""
        words, kind, type_ = job.profile.words, job.profile.kind, self.type and job.profile.words.type(self.type)
        values = {"kind": kind, "key": job.key, "suspended": words.suspended, "count": self.count, "type": type_}
        return self.reason.format(**values, limit=self.limit, detail=self.detail)
