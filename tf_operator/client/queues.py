"""Jobs that wait in a queue, the operator's or Kueue's: their places, since when they wait, and for what."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tf_operator.client import changes
from tf_operator.client.job import Job, NotPossible
from tf_operator.client.jobs import AsyncTFJobs
from tf_operator.job import templates
from tf_operator.job.record import JobPhase
from tf_operator.machinery.transport import discovery
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.errors import Forbidden, NotFound
from tf_operator.machinery.transport.requests import Scope
from tf_operator.meta import Body, controller_of, mapping_of, metadata_of, objects_of, parse_time, text_of
from tf_operator.planning.job_queue.jobs import priority_of
from tf_operator.planning.kueue import state

JOB_QUEUE: Final = "job queue"
"""Of the operator, as opposed to Kueue's."""
_RESERVED: Final = "QuotaReserved"
_NO_WORKLOAD: Final = "its Workload, which nothing has created yet; tfjob doctor says whether Kueue is set up"


@dataclass(frozen=True, slots=True)
class WaitingJob:
    job: Job
    queue: str
    """Whose turn it waits for: ``JOB_QUEUE``, or the name of a queue of Kueue."""
    place: int | None
    """From 1, among the jobs of all namespaces; ``None`` where that is not known."""
    since: datetime | None
    reason: str


async def read(jobs: AsyncTFJobs, *, all_namespaces: bool = False) -> list[WaitingJob]:
    """Those that wait, in their order; jobs of Kueue by queue and age."""
    listed = await _everywhere(jobs)
    places = await _places(jobs.client, listed) if listed is not None else {}
    if listed is None:
        if all_namespaces:
            raise NotPossible("you may not list the jobs of all namespaces; -n names one")
        listed = await jobs.list()
    scope = [job for job in listed if all_namespaces or job.namespace == jobs.namespace]
    waiting = [_in_job_queue(job, places.get(job.uid)) for job in scope if job.phase is JobPhase.QUEUED]
    waiting += await _in_kueue(jobs.client, [job for job in scope if _is_for_kueue(job)])
    return sorted(waiting, key=_order)


def _order(entry: WaitingJob) -> tuple[object, ...]:
    since = entry.job.created.timestamp() if entry.job.created else 0.0
    return entry.queue != JOB_QUEUE, entry.queue, entry.place or 0, since, entry.job.namespace, entry.job.name


async def _everywhere(jobs: AsyncTFJobs) -> tuple[Job, ...] | None:
    """The jobs of all namespaces, for their places; ``None`` for who may not list them."""
    try:
        return await jobs.list(all_namespaces=True)
    except Forbidden:
        return None


# --- The job queue


def _in_job_queue(job: Job, place: int | None) -> WaitingJob:
    return WaitingJob(job, JOB_QUEUE, place, job.spec.record.queue.queued_time, job.message)


async def _places(client: ApiClient, listed: Iterable[Job]) -> dict[str, int]:
    """By UID, in the order in which the queue looks at jobs: by priority, then by age."""
    waiting = [job for job in listed if job.phase is JobPhase.QUEUED]
    if not waiting:
        return {}
    try:
        classes = (await changes.list_all(client, state.POD_PRIORITIES, Scope())).items
    except Forbidden:
        if any(_classes_of(job) - {""} for job in waiting):
            return {}
        classes = []
    values = {text_of(metadata_of(it), "name"): _value(it) for it in classes}
    default = next((_value(it) for it in classes if it.get("globalDefault") is True), 0)
    ranks = sorted(
        (-priority_of(_classes_of(job), values, default), _creation_timestamp(job), job.uid) for job in waiting
    )
    return {uid: place for place, (_, _, uid) in enumerate(ranks, start=1)}


def _classes_of(job: Job) -> set[str]:
    """The priority classes of its pods; empty for none."""
    return {text_of(templates.pod_of(spec), "priorityClassName") for spec in job.spec.replicas} or {""}


def _value(priority_class: Body) -> int:
    value = priority_class.get("value")
    return value if isinstance(value, int) else 0


def _creation_timestamp(job: Job) -> float:
    return job.created.timestamp() if job.created else 0.0


# --- Kueue


def _is_for_kueue(job: Job) -> bool:
    return state.QUEUE in job.spec.labels and job.spec.run_policy.is_suspended and not job.is_finished


async def _in_kueue(client: ApiClient, waiting: list[Job]) -> list[WaitingJob]:
    workloads = dict[str, Body]()
    for namespace in sorted({job.namespace for job in waiting}):
        workloads |= await _workloads(client, namespace)
    return [_in_queue(job, workloads.get(job.uid)) for job in waiting]


async def _workloads(client: ApiClient, namespace: str) -> dict[str, Body]:
    """By the UID of the job that each is for."""
    for version in state.VERSIONS:
        if await discovery.served(client, f"{state.GROUP}/{version}"):
            try:
                listed = await changes.list_all(client, state.workloads(version), Scope(namespace))
            except NotFound:
                return {}
            return {owner.uid: body for body in listed.items if (owner := controller_of(body))}
    return {}


def _in_queue(job: Job, workload: Body | None) -> WaitingJob:
    queue = job.spec.labels[state.QUEUE]
    if workload is None:
        return WaitingJob(job, queue, None, job.created, _NO_WORKLOAD)
    condition = _condition(mapping_of(workload.get("status")), _RESERVED)
    since = parse_time(condition.get("lastTransitionTime") or metadata_of(workload).get("creationTimestamp"))
    return WaitingJob(job, queue, None, since, text_of(condition, "message") or "Kueue has not looked at it yet")


def _condition(status: Mapping[str, object], kind: str) -> Body:
    return next((entry for entry in objects_of(status.get("conditions")) if entry.get("type") == kind), {})
