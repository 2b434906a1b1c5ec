"""What a served API is to the rest of the operator: a value. Nobody outside its own folder knows its name.

``registry`` lists the APIs; ``app.wiring.make_controller``, ``tfjob plan`` and ``tf-operator crd`` work from such
values.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from tf_operator.dialects import merge_patch, record
from tf_operator.dialects.json_values import object_of, present
from tf_operator.job.profile import Profile
from tf_operator.job.record import ElasticRecord, FailureCause, QueueRecord
from tf_operator.job.report import EventKind, JobReport
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body, GroupVersionResource, metadata_of, text_of

PROGRESS_WAITS: Final = 0.5
_DECIDED: Final = ("queue", "elastic")
"""The parts of a record that the job queue writes."""


class JobSummary(msgspec.Struct, frozen=True):
    """What metrics, and the check for other controllers, want to know of a job without reading all of it."""

    phase: str = ""
    """Where it stands, in the words of ``record.JobPhase``; empty before it was first reconciled."""
    waits_since: datetime | None = None
    """Since when it does not run, although it should and this operator looks after it."""
    is_ours: bool = True
    is_finished: bool = False
    is_hung: bool = False


@dataclass(frozen=True, slots=True)
class Crd:
    """The CustomResourceDefinition of an API, as it is packaged: compact JSON beside the dialect."""

    package: str
    file: str = "crd.json"
    older: str = ""
    """A file with the versions that are served on request, as a list."""

    def text(self) -> str:
        """The CRD as one line of JSON, which is YAML too: ``kubectl apply -f -`` takes it."""
        return self._packaged(self.file)

    def load(self, *versions: str) -> dict[str, Any]:
        """The CRD as an object of the caller's own, free to be changed; with these versions beside its own."""
        crd: dict[str, Any] = json.loads(self.text())
        if versions:
            older = json.loads(self._packaged(self.older))
            crd["spec"]["versions"] += [entry for entry in older if entry["name"] in versions]
        return crd

    def _packaged(self, name: str) -> str:
        from importlib import resources  # noqa: PLC0415 (most commands of tfjob need no CRD)

        return resources.files(self.package).joinpath(name).read_text(encoding="utf-8")


class ConversionError(Exception):
    """An object cannot be had in a version; the message says why, for the user who asked."""


class Convert(Protocol):
    """A conversion of one object."""

    def __call__(self, body: Body, version: str, /, *, is_written: bool | None = None) -> dict[str, Any]:
        """The object in another version.

        ``is_written``: somebody sends it, so it is refused where it would be invalid; if not, nothing is refused.
        """


def _as_it_is(body: Body, _version: str, /, *, is_written: bool | None = None) -> dict[str, Any]:  # noqa: ARG001 (see Convert)
    return dict(body)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The other versions of an API: objects in them are converted, and only the API's own version is reconciled."""

    versions: tuple[str, ...] = ()
    """The newest first."""
    convert: Convert = _as_it_is
    """An object in any of its versions, in another one. Raises nothing but ``ConversionError``."""
    is_piece: Callable[[Body], bool] = lambda _: False
    """Whether an object lacks what its version requires, so that an API server may ask for it, but never stores it."""
    without_notes: Callable[[Body], dict[str, Any]] = dict
    """The object without what conversions have noted for the way back."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A job as one of another API, for users who move there."""

    body: dict[str, Any]
    """In any version of that API."""
    changed: tuple[str, ...] = ()
    """What is not the same there: fields, each with a sentence."""


@dataclass(frozen=True, slots=True)
class ServedAPI:
    """One API that the operator serves."""

    resource: GroupVersionResource
    profiles: tuple[Profile, ...]
    """The profiles that ``read`` may put on a job; the first one is that of a new job."""
    read: Callable[[Body, object, object], TrainingJob]
    """``metadata``, ``spec`` and ``status`` of an object to a job. Never raises: what is wrong is in ``problems``."""
    write_status: Callable[[JobReport, Body], dict[str, Any]]
    """The whole status from what is to be said and what is stored. Nothing that others keep in it is lost."""
    summarize: Callable[[Mapping[str, Any], bytes, bytes], JobSummary]
    """``metadata``, and ``spec`` and ``status`` as JSON text: cheap, because it is done for every change of a job."""
    crd: Crd
    event_reasons: Mapping[EventKind, str] = field(hash=False)
    """The reason strings of events, for programs; of a failure it is that of its cause."""
    failure_reasons: Mapping[FailureCause, str] = field(hash=False)

    with_status: Callable[[TrainingJob, Body, object], TrainingJob | None] = lambda *_: None
    """A job that was read, with another resource version and ``status``: what ``read`` makes of them, for less work.

    ``metadata`` and ``spec`` say the same as when it was read. ``None``: the whole is to be read.
    """
    conversion: Conversion = Conversion()
    translate: Callable[[TrainingJob, Body], Translation] | None = None
    """A valid job, which the object describes, as a TFJob; ``None`` where jobs are TFJobs."""
    framework: str = "tensorflow"
    """The label of its jobs' metrics, which no other API has; that of TFJobs is the Go operator's."""
    shows_containers: bool = False
    """Whether its status says how each container of a pod stands."""
    gang_scheduler: str = ""
    """A gang scheduler that its jobs may ask for one by one, where it is installed."""
    tensorboards_in: str = ""
    """The version in which its jobs may have a ``tensorboard``, which the operator runs; empty for none."""
    record_in: str = ""
    """The field of the status that has the record; empty where the record is spread out in the status itself."""
    progress_waits: Callable[[TrainingJob], float] = lambda _: PROGRESS_WAITS
    """Seconds for which progress of a job is collected before it is written: longer where a status is large."""

    def has(self, body: Body) -> bool:
        group, _, version = text_of(body, "apiVersion").rpartition("/")
        versions = (self.resource.version, *self.conversion.versions)
        return text_of(body, "kind") == self.resource.kind and group == self.resource.group and version in versions

    def in_own_version(self, body: Body) -> dict[str, Any]:
        """An object of the API in the version that is reconciled; raises ``ConversionError``."""
        result = self.conversion.convert(body, self.resource.version, is_written=True)
        return self.conversion.without_notes(result) if result["apiVersion"] != body["apiVersion"] else result

    def read_object(self, body: Body) -> TrainingJob:
        return self.read(metadata_of(body), body.get("spec"), body.get("status"))

    def status_patch(self, report: JobReport | None) -> dict[str, Any]:
        """What to merge into the stored status so that it says what is reported; empty when it says so already."""
        if report is None:
            return {}
        stored_status = report.job.stored_status
        return merge_patch.difference(stored_status, self.write_status(report, stored_status))

    def decision_patch(self, job: TrainingJob, queue: QueueRecord, elastic: ElasticRecord) -> dict[str, Any]:
        """What to merge into the stored status so that only what the job queue decides is another."""
        status = job.stored_status
        fields = object_of(status, self.record_in) if self.record_in else status
        after = present(queue=record.write_queue(queue), elastic=record.write_elastic(elastic))
        patch = merge_patch.difference({name: fields[name] for name in _DECIDED if name in fields}, after)
        return {self.record_in: patch} if self.record_in else patch

    def is_stored(self, report: JobReport, job: TrainingJob) -> bool:
        """Whether the status of a job, as it was read since, says what is reported."""
        return not self.status_patch(replace(report, job=job))

    def event_reason(self, kind: EventKind, cause: FailureCause | None = None) -> str:
        """The reason string of an event; of a failure it is that of its cause."""
        return self.failure_reasons[cause] if cause else self.event_reasons[kind]

    @property
    def controller(self) -> str:
        """The name of its controller: in labels of children and of metrics, and in logs."""
        return self.profile.labels.operator_name

    @property
    def profile(self) -> Profile:
        return self.profiles[0]
