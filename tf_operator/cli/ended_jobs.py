"""Jobs that have ended, as ``tfjob history`` shows them: what a cluster still has, or what an operator has logged.

The local server also remembers those that were deleted, with the records that an operator logs.

A log may come from anywhere: lines that are no record of an end are passed over, and so is what is in front of a record
on its line, as ``kubectl logs --prefix`` puts the name of the pod there.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Annotated, Any, BinaryIO, Final

import msgspec

from tf_operator.client import AsyncTFJobs, Job, NotFound, cluster
from tf_operator.client.display import age, duration, table
from tf_operator.local.local_kinds import ENDED_JOBS
from tf_operator.machinery.transport import requests, responses
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import Body, objects_of, parse_time, rfc3339
from tf_operator.text import one_line

_MARK: Final = b'"job ended"'
_LONGEST_LINE: Final = 64 * 1024
_LONGEST_FAILURE: Final = 60
_HOUR: Final = 3600
# A line that has more than Kubernetes allows is no record: a column of a table is as wide as its widest cell.
_Text = Annotated[str, msgspec.Meta(max_length=253)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class UnreadableLog(Exception):
    """A log ends before its end; the message says why."""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """As far as it is known."""

    pod: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""

    def body(self) -> dict[str, Any]:
        fields = {"pod": self.pod, "exitCode": self.exit_code, "reason": self.reason, "message": self.message}
        return {name: value for name, value in fields.items() if value not in (None, "")}

    def __str__(self) -> str:
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        parts = (self.pod, code, self.message or self.reason)
        return one_line(", ".join(filter(None, parts)), most=_LONGEST_FAILURE)


@dataclass(frozen=True, slots=True)
class EndedJob:
    namespace: str
    name: str
    uid: str
    state: str
    finished: datetime | None
    seconds: float | None
    """From its start to its end; ``None`` if it has never run."""
    restarts: int
    lost: int
    """Seconds."""
    usage: Mapping[str, int]
    failure: "Failure | None"
    """What failed first."""
    digest: str = ""
    """Of its spec, as a log has it."""

    def body(self) -> dict[str, Any]:
        """For programs."""
        fields = {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "state": self.state,
            "finished": rfc3339(self.finished) if self.finished else None,
            "durationSeconds": self.seconds,
            "restarts": self.restarts,
            "lostSeconds": self.lost,
            "usage": dict(self.usage),
            "firstFailure": self.failure.body() if self.failure else None,
            "specDigest": self.digest,
        }
        return {name: value for name, value in fields.items() if value not in (None, "", {})}


class _Record(msgspec.Struct):
    """What is read of a record."""

    message: str
    time: str
    job_namespace: _Text
    job_name: _Text
    job_uid: _Text
    to: _Text
    duration_seconds: float | None = None
    restarts: _Count = 0
    lost_seconds: _Count = 0
    usage: dict[str, _Count] = {}
    first_failure: Failure | None = None
    spec_digest: _Text = ""


_READ: Final = msgspec.json.Decoder(_Record)


def of_job(job: Job) -> EndedJob:
    """Of a job that has ended."""
    first = job.first_failure
    return EndedJob(
        job.namespace,
        job.name,
        job.uid,
        str(job.phase),
        job.finished,
        (job.finished - job.started).total_seconds() if job.finished and job.started else None,
        job.restarts,
        job.spec.record.lost_seconds,
        job.spec.record.usage,
        Failure(first.pod, first.exit_code, first.reason, first.message) if first else None,
    )


def in_log(log: BinaryIO) -> Iterator[EndedJob]:
    """In the order of the log; ``UnreadableLog`` when it cannot be read on."""
    while line := _next_line(log):
        if _MARK in line and (record := _record_in(line)):
            yield _of_record(record)


async def remembered(jobs: AsyncTFJobs, namespace: str) -> list[EndedJob]:
    """Those of this kind that a local server of this user remembers; empty ``namespace``: in all. Others have none.

    A record that another release has written, and this one cannot read, is passed over.
    """
    if jobs.choice is None or not cluster.is_local(jobs.choice, jobs.host):
        return []
    request = Request("list", "GET", requests.path(ENDED_JOBS, namespace), {})
    try:
        items = objects_of(responses.read_object(await jobs.client.send(request)).get("items"))
    except NotFound:  # it is of an earlier release
        return []
    kind = str(jobs.api.resource)
    records = (_record_of(item) for item in items if item.get("resource") == kind)
    return [_of_record(record) for record in records if record]


def _record_of(item: Body) -> _Record | None:
    try:
        return msgspec.convert(item.get("record"), _Record)
    except msgspec.ValidationError:
        return None


def _of_record(record: _Record) -> EndedJob:
    return EndedJob(
        record.job_namespace,
        record.job_name,
        record.job_uid,
        record.to,
        parse_time(record.time),
        record.duration_seconds,
        record.restarts,
        record.lost_seconds,
        record.usage,
        record.first_failure,
        record.spec_digest,
    )


def _next_line(log: BinaryIO) -> bytes:
    try:
        return log.readline(_LONGEST_LINE)
    except OSError as error:  # it names no file, so it would be taken for one of standard output
        raise UnreadableLog(error.strerror) from error


def _record_in(line: bytes) -> _Record | None:
    try:
        record = _READ.decode(line[line.index(b"{") :])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return record if record.message == "job ended" else None


def in_order(ended: Iterable[EndedJob], now: datetime) -> list[EndedJob]:
    """The last one last."""
    return sorted(ended, key=lambda job: job.finished or now)


def rows(ended: Iterable[EndedJob], *, now: datetime, shows_namespace: bool) -> list[str]:
    """A table for people, the last one last; nothing for none. Of each job only the cells are kept."""
    names = ["NAMESPACE"] if shows_namespace else []
    names += ["NAME", "STATE", "FINISHED", "DURATION", "RESTARTS", "LOST", "GPU HOURS", "FIRST FAILURE"]
    lines = [(job.finished or now, _cells(job, now, shows_namespace=shows_namespace)) for job in ended]
    lines.sort(key=itemgetter(0))
    return list(table(names, [cells for _, cells in lines])) if lines else []


def _cells(job: EndedJob, now: datetime, *, shows_namespace: bool) -> list[str]:
    hours = sum(amount for name, amount in job.usage.items() if "/" in name) / _HOUR
    return [
        *([job.namespace] if shows_namespace else []),
        job.name,
        job.state,
        age(job.finished, now),
        _time(job.seconds),
        str(job.restarts),
        _time(job.lost or None),
        f"{hours:.1f}" if hours else "-",
        str(job.failure or "-"),
    ]


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else duration(timedelta(seconds=min(max(seconds, 0), 1e9)))
