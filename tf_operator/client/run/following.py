"""Following a job that was submitted to its end, on whatever API server."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any, Protocol

from tf_operator.client.explanation import reading
from tf_operator.client.explanation.reading import JobReader
from tf_operator.client.explanation.situation import Situation
from tf_operator.client.job import Job
from tf_operator.client.logs import LogLine
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.errors import ApiError, Forbidden


class JobWatcher(JobReader, Protocol):
    """What ``AsyncTFJobs`` watches of a job."""

    def watch(self, job: Job) -> AsyncGenerator[Job, None]:
        """The job now, and after each change, until it is deleted."""


async def follow(
    jobs: JobWatcher,
    job: Job,
    *,
    on_job: Callable[[Job], Awaitable[object]] | None = None,
    logs: Coroutine[Any, Any, None] | None,
    beside: Iterable[Coroutine[Any, Any, None]] = (),
) -> Job:
    """Follow a job until it has ended and ``logs`` have, too; the job as it was last, also if it was deleted.

    What is followed ``beside`` it ends then. The first error of any of them is raised.
    """
    errors: tuple[Exception, ...] = ()
    latest = job
    try:
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(coroutine) for coroutine in beside]
            lines = tasks.create_task(logs) if logs else None
            async with aclosing(jobs.watch(job)) as versions:
                async for latest in versions:
                    if on_job:
                        await on_job(latest)
                    if latest.is_finished:
                        break
            if lines:
                await lines
            for task in others:
                task.cancel()
    except* Exception as group:  # noqa: BLE001 (it may be one of a callback)
        errors = group.exceptions
    if errors:  # raised here: above it would be one of a group
        raise errors[0]
    return latest


async def pass_lines(
    jobs: JobReader,
    job: Job,
    on_line: Callable[[LogLine], Awaitable[object]],
    on_refusal: Callable[[Forbidden], object] = lambda _: None,
) -> None:
    """Pass on the lines of a job's programs; nothing but ``on_refusal`` where logs may not be read: it ends anyway."""
    try:
        async with aclosing(jobs.logs(job, follow=True)) as lines:
            async for line in lines:
                await on_line(line)
    except Forbidden as error:
        on_refusal(error)


async def end_of(jobs: JobReader, job: Job, clock: Clock) -> Situation:
    """The situation at a job's end; without pods and events if they cannot be read, as the job has its exit code."""
    try:
        return await reading.read(jobs, job, clock.now())
    except (ApiError, OSError):
        return Situation(job, (), (), clock.now())
