"""Jobs: their metadata, their summary, and their spec and status as text.

Spec and status are decoded when a reconcile needs them. A job that no decoder can read carries the problem, so
that its owner learns of it.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Final

import msgspec

from tf_operator.dialects.served import JobSummary, ServedAPI
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.cache.interning import Interned, InternedLabels, decoder
from tf_operator.machinery.transport import raw_json, responses
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import Body, parse_time
from tf_operator.planning.bodies import gang
from tf_operator.planning.kueue import state
from tf_operator.projections.json_parts import EMPTY, as_object

MOST_DECODED: Final = 256
LARGEST_DECODED: Final = 16 * 1024
"""Bytes of a spec and a status."""


class FieldManager(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of ``managedFields``: who has changed an object."""

    name: Interned[str] = msgspec.field(name="manager", default="")
    subresource: Interned[str] = ""
    time: str = ""
    """Of its last change."""


class QueueLabels(msgspec.Struct, frozen=True, gc=False):
    """Of the labels of a job, those that a queue reads."""

    queue: Interned[str] = msgspec.field(name=state.QUEUE, default="")
    priority: Interned[str] = msgspec.field(name=state.PRIORITY, default="")
    longest_run: Interned[str] = msgspec.field(name=state.LONGEST_RUN, default="")


class JobMeta(ObjectMeta, frozen=True, gc=False, rename="camel"):
    generation: int = 0
    annotations: InternedLabels = InternedLabels()
    labels: QueueLabels = QueueLabels()
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    managed_fields: tuple[FieldManager, ...] = ()

    def says_the_same(self, other: "JobMeta") -> bool:
        """Whether only the version is another one, and who has changed the object."""
        return (
            msgspec.structs.replace(self, resource_version=other.resource_version, managed_fields=other.managed_fields)
            == other
        )

    def body(self) -> Body:
        """The metadata as JSON, as far as a dialect reads it."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
            "generation": self.generation,
            "annotations": dict(self.annotations),
            "labels": {name: value for name, value in msgspec.to_builtins(self.labels).items() if value},
            "creationTimestamp": self.creation_timestamp,
            "deletionTimestamp": self.deletion_timestamp,
        }


class _RawJob(msgspec.Struct, frozen=True):
    metadata: JobMeta
    spec: msgspec.Raw = EMPTY
    status: msgspec.Raw = EMPTY


class StoredJob(msgspec.Struct, frozen=True):
    metadata: JobMeta
    spec: msgspec.Raw = EMPTY
    status: msgspec.Raw = EMPTY
    summary: JobSummary = JobSummary()
    problem: str = ""
    """Why it could not be read; then there is no spec."""

    def says_the_same(self, other: "StoredJob") -> bool:
        """Whether all that users say of it is the same: then only its status may be another one."""
        return self.spec == other.spec and self.problem == other.problem and self.metadata.says_the_same(other.metadata)

    def status_managers(self) -> tuple[FieldManager, ...]:
        return tuple(manager for manager in self.metadata.managed_fields if manager.subresource == "status")

    def status_time(self) -> datetime | None:
        """When the status was last changed, by the clock of the API server."""
        times = (parse_time(manager.time) for manager in self.status_managers())
        return max(filter(None, times), default=None)


_READ_JOB: Final = decoder(_RawJob, keeps=gang.copies_annotation)


@cache
def job_reader(api: ServedAPI) -> Callable[[msgspec.Raw | bytes], StoredJob]:
    def read_job(raw: msgspec.Raw | bytes) -> StoredJob:
        problem = ""
        try:
            raw_job = _READ_JOB(raw)
        except RecursionError:
            raw_job, problem = _without_spec(raw), "it is nested deeper than any decoder goes"
        summary = api.summarize(raw_job.metadata.body(), bytes(raw_job.spec), bytes(raw_job.status))
        return StoredJob(raw_job.metadata, raw_job.spec, raw_job.status, summary, problem)

    return read_job


def phase_of(stored: StoredJob | None) -> str | None:
    """Where a job stands; ``None`` if there is none."""
    return stored.summary.phase if stored else None


def spec_of(stored: StoredJob | None) -> Body:
    return as_object(stored.spec) if stored else {}


def job_of(stored: StoredJob, api: ServedAPI) -> TrainingJob:
    """The job as its API reads it; never raises, whatever is stored."""
    return api.read(stored.metadata.body(), as_object(stored.spec), as_object(stored.status))


class DecodedJobs:
    """Jobs as their API reads them, of which the last are kept: most are reconciled several times as they are.

    Not many, and none that is large: decoded, a job takes ten times the memory of its text.
    """

    def __init__(self, api: ServedAPI) -> None:
        self.api = api
        self._jobs: dict[str, tuple[StoredJob, TrainingJob]] = {}
        """By UID; the one that was asked for last is at the end."""

    def __len__(self) -> int:
        return len(self._jobs)

    def of(self, stored: StoredJob) -> TrainingJob:
        """The same as ``job_of``. Whether the job has changed is not told by its version: etcd may be restored."""
        uid = stored.metadata.uid
        entry = self._jobs.pop(uid, None)
        if entry is None or entry[0] is not stored:
            entry = stored, self._with_status(stored, entry) or job_of(stored, self.api)
        if len(stored.spec) + len(stored.status) <= LARGEST_DECODED:
            self._jobs[uid] = entry
        if len(self._jobs) > MOST_DECODED:
            del self._jobs[next(iter(self._jobs))]
        return entry[1]

    def found(self, stored: StoredJob | None) -> TrainingJob | None:
        """The same, of what may not be there."""
        return self.of(stored) if stored else None

    def _with_status(self, stored: StoredJob, last: tuple[StoredJob, TrainingJob] | None) -> TrainingJob | None:
        """The job as it was read last, if only its status has changed since; most changes are the operator's own."""
        if last is None or not stored.says_the_same(last[0]):
            return None
        return self.api.with_status(last[1], stored.metadata.body(), as_object(stored.status))


def _without_spec(raw: msgspec.Raw | bytes) -> _RawJob:
    """Of a job that is nested too deep, its status, so that what is wrong is reported once."""
    # Counting its brackets takes a tenth of a second for the largest object: it is done once.
    members = raw_json.split_object(bytes(raw))
    object_meta = responses.split_metadata(members)
    metadata = JobMeta(object_meta.name, object_meta.namespace, object_meta.uid, object_meta.resource_version)
    return _RawJob(metadata, status=msgspec.Raw(members.get("status", b"{}")))
