"""Creating the objects of a manifest: those that a job needs, and the job."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, Protocol

from tf_operator.client.job import Job
from tf_operator.dialects import registry
from tf_operator.machinery.transport.errors import AlreadyExists
from tf_operator.meta import Body


class Step(Enum):
    """A step of a submission that a user would not expect, or not see in the jobs that it returns."""

    CREATED = auto()
    """An object that is no job."""
    LEFT_UNCHANGED = auto()
    """It existed."""
    REPLACING = auto()
    """The job that has the name is deleted, and its pods end; this takes a while."""


class Submitter(Protocol):
    """What ``AsyncTFJobs`` does to submit a job."""

    async def submit(self, manifest: Mapping[str, Any], *, replace: bool = False) -> Job:
        """Create the job."""

    async def create(self, manifest: Mapping[str, Any]) -> Body:
        """Create any object."""


def _ignore(_body: Body, _step: Step) -> None:
    """Nobody follows the steps."""


async def submit(
    jobs: Submitter,
    bodies: Iterable[Body],
    *,
    replaces: bool = False,
    on_step: Callable[[Body, Step], object] = _ignore,
) -> list[Job]:
    """Create the objects in their order, and return the jobs. ``replaces``: in place of jobs that have their names."""
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
            submitted.append(job)
            continue
        try:
            await jobs.create(body)
            on_step(body, Step.CREATED)
        except AlreadyExists:
            on_step(body, Step.LEFT_UNCHANGED)
    return submitted
