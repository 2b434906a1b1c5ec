"""Reads what there is to be explained about a job, as far as the user may."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from tf_operator.client import queue_notes
from tf_operator.client.events import JobEvent
from tf_operator.client.explanation import ends
from tf_operator.client.explanation.situation import Situation
from tf_operator.client.job import Job
from tf_operator.client.logs import LogLine
from tf_operator.client.pods import JobPod
from tf_operator.job.record import JobPhase
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.errors import ApiError, Forbidden
from tf_operator.planning.kueue import state

_MOST_LINES: Final = 10
_LONGEST_LINE: Final = 1000


class JobReader(Protocol):
    """What ``AsyncTFJobs`` reads of a job."""

    @property
    def client(self) -> ApiClient:
        """For what is no part of the job: the nodes, and the pods of others."""

    async def pods(self, job: Job) -> tuple[JobPod, ...]:
        """Its pods."""

    async def events(self, job: Job) -> tuple[JobEvent, ...]:
        """What was reported about it and its pods."""

    def logs(
        self,
        job: Job,
        *,
        replica: str = "",
        follow: bool = False,
        tail: int | None = None,
        previous: bool = False,
        longest: int | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """The lines of its replicas."""


async def read(jobs: JobReader, job: Job, now: datetime) -> Situation:
    pods: tuple[JobPod, ...] | None = None
    events: tuple[JobEvent, ...] = ()
    notes = list[str]()
    try:
        pods = await jobs.pods(job)
    except Forbidden:
        notes.append(_note("Pods"))
    try:
        events = await jobs.events(job)
    except Forbidden:
        notes.append(_note("Events"))
    room: tuple[str, ...] = ()
    if job.phase is JobPhase.QUEUED and state.QUEUE not in job.spec.labels:
        try:
            room = await queue_notes.room(jobs.client, job)
        except Forbidden:
            notes.append(_note("Nodes"))
    situation = Situation(job, pods or (), events, now, are_pods_known=pods is not None, room=room)
    log: tuple[str, ...] = ()
    try:
        log = await failure_log(jobs, situation)
    except Forbidden:
        notes.append(_note("Logs"))
    except ApiError:
        pass  # the container is gone, and its log with it
    return replace(situation, log=log, notes=tuple(notes))


async def failure_log(jobs: JobReader, situation: Situation) -> tuple[str, ...]:
    """The last lines of a program that failed and left no termination message."""
    failed = ends.failure_log(situation)
    if failed is None:
        return ()
    lines = jobs.logs(
        situation.job, replica=failed.pod.replica, tail=_MOST_LINES, previous=failed.is_previous, longest=_LONGEST_LINE
    )
    async with aclosing(lines):
        return tuple([f"{line.replica} | {line.text}" async for line in lines])


def _note(objects: str) -> str:
    return f"{objects} may not be read here, so the explanation is made without them."
