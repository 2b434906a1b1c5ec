"""Creating the objects of a manifest: those that a job needs, and the job."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from tf_operator.client.job import Job
from tf_operator.dialects import registry
from tf_operator.machinery.transport.errors import AlreadyExists, ApiError
from tf_operator.meta import Body

if TYPE_CHECKING:
    from tf_operator.client.upload.archive import Archive


class Step(Enum):
    """A step of a submission that a user would not expect, or not see in the jobs that it returns."""

    CREATED = auto()
    """An object that is no job."""
    LEFT_UNCHANGED = auto()
    """It existed."""
    REPLACING = auto()
    """The job that has the name is deleted, and its pods end; this takes a while."""
    WITHDRAWN = auto()
    """The job is deleted again, because its files could not be sent."""


class Submitter(Protocol):
    """What ``AsyncTFJobs`` does to submit a job."""

    async def submit(self, manifest: Mapping[str, Any], *, replace: bool = False) -> Job:
        """Create the job."""

    async def create(self, manifest: Mapping[str, Any]) -> Body:
        """Create any object."""

    async def delete(self, job: Job) -> None:
        """Delete this very job."""


def _ignore(_body: Body, _step: Step) -> None:
    """Nobody follows the steps."""


async def submit(
    jobs: Submitter,
    bodies: Iterable[Body],
    *,
    replaces: bool = False,
    files: "Archive | None" = None,
    on_step: Callable[[Body, Step], object] = _ignore,
) -> list[Job]:
    """Create the objects in their order, and return the jobs.

    ``replaces``: in place of jobs that have their names. ``files``: those for which the jobs were prepared.
    """
    submitted = []
    for body in bodies:
        if registry.api_of(body):
            try:
                job = await jobs.submit(body)
            except AlreadyExists:
                if not replaces:
                    raise
                on_step(body, Step.REPLACING)
                job = await jobs.submit(body, replace=True)
            if files:
                await _send_files(jobs, job, files, on_step)
            submitted.append(job)
            continue
        try:
            await jobs.create(body)
            on_step(body, Step.CREATED)
        except AlreadyExists:
            on_step(body, Step.LEFT_UNCHANGED)
    return submitted


async def _send_files(jobs: Submitter, job: Job, files: "Archive", on_step: Callable[[Body, Step], object]) -> None:
    """The pods of the job wait for the files, so a job that does not get them must not stay."""
    from tf_operator.client.upload import uploaded_job  # noqa: PLC0415 (most jobs have none)

    try:
        await jobs.create(uploaded_job.config_map(job, files))
    except (Exception, asyncio.CancelledError):
        with suppress(ApiError):
            await jobs.delete(job)
            on_step(job.body, Step.WITHDRAWN)
        raise
