"""``tfjob explain``: why a job is in its state, what it waits for, and what to do next."""

import argparse
import sys
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tf_operator.cli import explain, explain_ends, session, target
from tf_operator.cli.situation import Situation
from tf_operator.client import ApiError, AsyncTFJobs, Forbidden, Job, JobPod
from tf_operator.machinery.clock import SystemClock

if TYPE_CHECKING:
    from tf_operator.cli.grammar import Commands


_MOST_LINES: Final = 10
_LONGEST_LINE: Final = 1000


def add_command(commands: "Commands") -> None:
    """Put ``explain`` into the grammar."""
    parser = commands.add_parser(
        "explain",
        help="say why a job is in its state, and what to do next",
        description="Says in words why a job is in its state, what it waits for and what to do next, from its"
        " conditions, its pods and the events about them.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _explain))


async def situation(jobs: AsyncTFJobs, job: Job) -> Situation:
    """What there is to be explained about a job."""
    pods: tuple[JobPod, ...] | None = None
    try:
        pods = await jobs.pods(job)
    except Forbidden:
        session.say("Pods may not be read here, so the explanation is made without them.")
    try:
        events = await jobs.events(job)
    except Forbidden:
        session.say("Events may not be read here, so the explanation is made without them.")
        events = ()
    seen = Situation(job, pods or (), events, SystemClock().now(), are_pods_known=pods is not None)
    return replace(seen, log=await _failure_log(jobs, seen))


async def _failure_log(jobs: AsyncTFJobs, seen: Situation) -> tuple[str, ...]:
    """The last lines of a program that failed and left no termination message; none when its log is gone."""
    failed = explain_ends.failure_log(seen)
    if failed is None:
        return ()
    lines = jobs.logs(
        seen.job, replica=failed.pod.replica, tail=_MOST_LINES, previous=failed.is_previous, longest=_LONGEST_LINE
    )
    try:
        async with aclosing(lines):
            return tuple([f"{line.replica} | {line.text}" async for line in lines])
    except Forbidden:
        session.say("Logs may not be read here, so the explanation is made without them.")
    except ApiError:
        pass  # the container is gone, and its log with it
    return ()


async def _explain(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    job = await jobs.get(session.name_of(arguments.name, jobs))
    sys.stdout.writelines(explain.text(await situation(jobs, job)))
    return 0
