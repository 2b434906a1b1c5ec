"""What was reported about a job and its pods: Kubernetes Events, as values."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tf_operator.client import changes, pods
from tf_operator.client.job import Job
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import Body, mapping_of, metadata_of, parse_time, text_of

EVENTS: Final = Resource("", "v1", "events", "Event")
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event, which may stand for several."""

    time: datetime | None
    """Of the last one."""
    type: str
    """``Normal`` or ``Warning``."""
    reason: str
    message: str
    kind: str
    """Of the object that it is about."""
    name: str
    count: int = 1
    uid: str = ""
    """Of the event."""

    @property
    def is_warning(self) -> bool:
        """Whether something went wrong."""
        return self.type == "Warning"


async def read(client: ApiClient, job: Job, *, with_pods: bool) -> tuple[JobEvent, ...]:
    """What was reported about a job and its pods, also about pods that are gone; the oldest first."""
    bodies = (await changes.list_all(client, EVENTS, scope_of_job(job))).items
    ours = [body for body in bodies if _is_about(body, job)]
    if with_pods:
        others = (await changes.list_all(client, EVENTS, scope_of_pods(job.namespace))).items
        candidates = (body for body in others if pods.is_replica_name(job, read_event(body).name))
        ours += [body for body in candidates if not _is_before(body, job)]
    return tuple(read_events(ours))


async def follow(client: ApiClient, job: Job, clock: Clock) -> AsyncGenerator[JobEvent, None]:
    """What is reported about a job: what was, then each event, for ever."""
    async with aclosing(changes.follow(client, EVENTS, scope_of_job(job), clock)) as batches:
        async for batch in batches:
            for change in batch:
                if not change.is_deleted and _is_about(change.body, job):
                    yield read_event(change.body)


def _is_about(body: Body, job: Job) -> bool:
    """Whether an event is about this very job, and no earlier one of its name."""
    return subject_uid(body) in {job.uid, ""}


def _is_before(body: Body, job: Job) -> bool:
    """Whether an event is about a pod of an earlier job of that name: pods that are gone have no uid to compare.

    Both times are the API server's, and in seconds: nodes have other clocks, and one of the same second may be ours.
    """
    created = parse_time(metadata_of(body).get("creationTimestamp"))
    return created is not None and job.created is not None and created < job.created


def scope_of_job(job: Job) -> Scope:
    selector = f"involvedObject.kind={job.kind},involvedObject.name={job.name}"
    return Scope(job.namespace, field_selector=selector)


def scope_of_pods(namespace: str) -> Scope:
    return Scope(namespace, field_selector="involvedObject.kind=Pod")


def read_events(bodies: Iterable[Body]) -> list[JobEvent]:
    return sorted(map(read_event, bodies), key=lambda event: event.time or _LONG_AGO)


def subject_uid(body: Body) -> str:
    return text_of(mapping_of(body.get("involvedObject")), "uid")


def read_event(body: Body) -> JobEvent:
    """One event, of the old or the new kind."""
    subject, series = mapping_of(body.get("involvedObject")), mapping_of(body.get("series"))
    times = (
        series.get("lastObservedTime"),
        body.get("lastTimestamp"),
        body.get("eventTime"),
        body.get("firstTimestamp"),
        metadata_of(body).get("creationTimestamp"),
    )
    count = series.get("count") or body.get("count")
    return JobEvent(
        time=next(filter(None, map(parse_time, times)), None),
        type=text_of(body, "type"),
        reason=text_of(body, "reason"),
        message=text_of(body, "message") or text_of(body, "note"),
        kind=text_of(subject, "kind"),
        name=text_of(subject, "name"),
        count=count if isinstance(count, int) and count > 0 else 1,
        uid=text_of(metadata_of(body), "uid"),
    )
