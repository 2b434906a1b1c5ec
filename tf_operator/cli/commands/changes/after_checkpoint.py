"""``--after-checkpoint``: a command waits until the program has saved its work, and then acts."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Final

from tf_operator.cli import session
from tf_operator.cli.commands.wait import seconds
from tf_operator.client import AsyncTFJobs, Job, NotPossible
from tf_operator.job.progress import Checkpoint

_LONGEST: Final = "10m"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--after-checkpoint",
        action="store_true",
        help="wait until the program has reported a new checkpoint (docs/how-to/progress.md)",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=seconds(_LONGEST),
        metavar="TIME",
        help=f"with --after-checkpoint: do nothing if there is none after this time; default: {_LONGEST}",
    )


async def wait(
    jobs: AsyncTFJobs, name: str, arguments: argparse.Namespace, check: Callable[[Job], Awaitable[object]]
) -> Job | str:
    """The job to act on: at once, or when it has a new checkpoint; then this one, and none that has its name by now.

    ``check`` raises what would refuse the action, before anybody waits. ``NotPossible`` when the job ends or stops.
    """
    if not arguments.after_checkpoint:
        return name
    job = await jobs.get(name)
    await check(job)
    last = _checkpoint(job)
    next_one = f"a checkpoint after that of step {last.step}" if last else "its first checkpoint"
    session.say(f"{job.kind} {job.namespace}/{job.name}: waiting for {next_one}")

    def is_over(current: Job) -> bool:
        return current.spec.run_policy.is_suspended or _checkpoint(current) != last

    job = await jobs.wait(job, timeout=arguments.timeout, until=is_over)
    if _checkpoint(job) == last:
        state = f"has {job.phase.lower()}" if job.is_finished else "is suspended"
        raise NotPossible(f"{job.kind} {job.namespace}/{job.name} {state} without another checkpoint")
    return job


def _checkpoint(job: Job) -> Checkpoint | None:
    report = job.spec.record.progress
    return report.checkpoint if report else None
