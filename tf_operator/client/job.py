"""A job as its users see it: read from the object by the dialect of its API, whichever operator wrote the status."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tf_operator.client import display
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.record import ENDS, FirstFailure, JobPhase
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.transport.errors import NotFound, Status
from tf_operator.meta import Body, metadata_of, objects_of, parse_time, text_of

_COLUMNS: Final = ("Namespace", "Name", "State", "Ready", "Restarts", "Created", "Message")
_NOTHING: Final[Body] = {}
FAILED: Final = 1
"""The exit code of a job that failed and does not say with which one."""


class NotPossible(Exception):
    """The job does not allow this; the message says why, and what you can do."""


class WaitTimeout(TimeoutError):
    """The job did not reach the phase in time; ``job`` is its last state."""

    def __init__(self, job: "Job", seconds: float) -> None:
        state = f"is {job.phase}" if job.phase else "has no status"
        super().__init__(f"{job.kind} {job.namespace}/{job.name} {state} after {seconds:.4g} s")
        self.job = job


def deleted(job: "Job") -> NotFound:
    """The error of whoever waits for a job that is deleted."""
    return NotFound(404, Status(reason="NotFound", message=f"{job.kind} {job.namespace}/{job.name} was deleted"))


@dataclass(frozen=True, slots=True)
class ReplicaSummary:
    """The replicas of one type: how many are wanted, and how they stand."""

    wanted: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One job at one moment."""

    name: str
    namespace: str
    uid: str
    kind: str
    phase: JobPhase
    """``NEW`` until an operator has written a status."""
    reason: str
    """Of the current condition."""
    message: str
    created: datetime | None
    started: datetime | None
    finished: datetime | None
    replicas: Mapping[str, ReplicaSummary]
    """By type, as in ``Worker``."""
    restarts: int
    """After failures, if the operator counts them."""
    first_failure: FirstFailure | None
    spec: TrainingJob = field(repr=False, compare=False)
    """The spec, with defaults."""
    body: Body = field(repr=False)
    """The whole object."""

    @property
    def is_finished(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.phase in ENDS

    @property
    def exit_code(self) -> int | None:
        """0, or that of the first failure; ``None`` until the job has finished."""
        if not self.is_finished:
            return None
        if self.phase is JobPhase.SUCCEEDED:
            return 0
        return (self.first_failure and self.first_failure.exit_code) or FAILED

    @property
    def ready(self) -> str:
        """Replicas that run or have succeeded, of all, as in ``2/3``."""
        running = 0 if self.is_finished else sum(counts.active for counts in self.replicas.values())
        done = running + sum(counts.succeeded for counts in self.replicas.values())
        return f"{done}/{sum(counts.wanted for counts in self.replicas.values())}"

    def _repr_html_(self) -> str:
        return _html_table((self,))


class JobList(tuple[Job, ...]):
    """Jobs. In a notebook, the value of a cell is a table of them."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return _html_table(self)


def _html_table(jobs: Iterable[Job]) -> str:
    return display.html_table(_COLUMNS, map(_cells, jobs))


def _cells(job: Job) -> tuple[str, ...]:
    created = f"{job.created:%Y-%m-%d %H:%M:%S} UTC" if job.created else "-"
    return (job.namespace, job.name, job.phase or "-", job.ready, str(job.restarts), created, job.message)


def read_job(body: Body, api: ServedAPI) -> Job:
    """The job in an object of this API. Never raises: what cannot be read is empty."""
    framed = {"apiVersion": api.resource.api_version, "kind": api.resource.kind, **body}
    spec = api.read_object(framed)
    record, metadata = spec.record, metadata_of(body)
    current = _current(_mapping(body.get("status")), record.phase)
    return Job(
        name=spec.key.name,
        namespace=spec.key.namespace,
        uid=spec.uid,
        kind=text_of(framed, "kind"),
        phase=record.phase,
        reason=text_of(current, "reason"),
        message=text_of(current, "message"),
        created=parse_time(metadata.get("creationTimestamp")),
        started=record.start_time,
        finished=record.completion_time,
        replicas=_replicas(spec, _mapping(_mapping(body.get("status")).get("replicaStatuses"))),
        restarts=record.restarts,
        first_failure=record.first_failure,
        spec=spec,
        body=framed,
    )


def reached(
    until: Callable[[Job], bool | Awaitable[bool]] | JobPhase | str | None,
) -> Callable[[Job], bool | Awaitable[bool]]:
    """What a wait is for: the end, a phase, or what the caller says."""
    if until is None:
        return lambda job: job.is_finished
    if not isinstance(until, str):
        return until
    try:
        phase = JobPhase(until)
    except ValueError:
        raise ValueError(f"there is no phase {until!r}: it is one of {', '.join(filter(None, JobPhase))}") from None
    return lambda job: job.phase is phase


def type_in(job: Job, name: str) -> str:
    """A type of replicas as the user has spelled it; ``NotPossible`` when the job has none of it."""
    specs = _mapping(_mapping(job.body.get("spec")).get("tfReplicaSpecs"))
    spelling = next((type_ for type_ in specs if type_.lower() == name.lower()), None)
    if not specs:
        raise NotPossible(f"the replicas of {job.kind} {job.name} cannot be changed here: edit its manifest")
    if spelling is None:
        raise NotPossible(f"{job.kind} {job.name} has no replicas of type {name}: it has {', '.join(specs)}")
    return spelling


def _current(status: Body, phase: JobPhase) -> Body:
    """The condition that says what the phase is; else the last one."""
    entries = objects_of(status.get("conditions"))
    matches = [entry for entry in entries if entry.get("type") == phase and entry.get("status") == "True"]
    return next(reversed(matches or entries), _NOTHING)


def _replicas(spec: TrainingJob, statuses: Body) -> dict[str, ReplicaSummary]:
    summaries = dict[str, ReplicaSummary]()
    for replica in spec.replicas:
        counts = _mapping(statuses.get(replica.type))
        active, succeeded, failed = (_count(counts.get(name)) for name in ("active", "succeeded", "failed"))
        summaries[str(replica.type)] = ReplicaSummary(replica.count, active, succeeded, failed)
    return summaries


def _count(value: Any) -> int:  # noqa: ANN401 (it is whatever somebody has written)
    return value if isinstance(value, int) else 0


def _mapping(value: object) -> Body:
    return value if isinstance(value, Mapping) else _NOTHING
