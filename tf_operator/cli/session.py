"""One command on one cluster: connects, runs the verb, and turns what went wrong into a sentence and an exit code.

0 done, 1 failed, 2 wrong usage, 124 a time-out, 130 interrupted; ``main`` adds 141.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from tf_operator.cli import failures, imports, target, usage
from tf_operator.client import (
    ApiError,
    AsyncTFJobs,
    ConfigurationError,
    NotFound,
    NotPossible,
    WaitTimeout,
    cluster,
)
from tf_operator.client.cluster import ClusterChoice
from tf_operator.dialects import registry
from tf_operator.machinery.transport.errors import NoReply
from tf_operator.text import printable

FAILED: Final = 1
USAGE: Final = 2
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130
_THIS_PROCESS: Final = "in-process"

Verb = Callable[[AsyncTFJobs, argparse.Namespace], Awaitable[int]]


def run(arguments: argparse.Namespace, verb: Verb, *, choice: ClusterChoice | None = None) -> int:
    """Run a verb on the cluster that the arguments choose; the exit code."""
    return ended(lambda: _connected(arguments, verb, choice or target.choose(arguments)))


def ended(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Do the work of a command, and say what went wrong; the exit code."""
    try:
        return asyncio.run(work())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    except WaitTimeout as error:
        return failed(f"{error}; tfjob explain {error.job.name} says why", TIMED_OUT)
    except (ApiError, ConfigurationError, NotPossible) as error:
        return failed(failures.sentence(error))


async def _connected(arguments: argparse.Namespace, verb: Verb, choice: ClusterChoice) -> int:
    target.check(arguments, choice)
    imports.http()
    jobs = make_jobs(arguments, choice)
    try:
        async with jobs:
            target.check(arguments, jobs.choice or choice)
            note = target.remember(jobs, choice)
            if arguments.verbose:
                say(f"using {choice.reason}: {jobs.host}, namespace {jobs.namespace}")
            elif note:
                say(f"tfjob: {printable(note)}")
            try:
                return await verb(jobs, arguments)
            except NotFound as error:
                raise await _suggesting(error, jobs) from error
    except (NoReply, ConfigurationError) as error:
        if sentence := cluster.stopped(choice):
            raise NotPossible(sentence) from error
        raise


async def _suggesting(error: NotFound, jobs: AsyncTFJobs) -> Exception:
    """The error, with the name that was probably meant if it is a job that is missing."""
    details = error.status.details
    if details is None or details.kind != jobs.api.resource.plural or not details.name:
        return error
    try:
        there = await jobs.list()
    except ApiError:
        return error
    meant = usage.suggestion(details.name, [job.name for job in there])
    return NotPossible(f"{str(error).rstrip('.')}{meant}") if meant else error


def make_jobs(arguments: argparse.Namespace, choice: ClusterChoice) -> AsyncTFJobs:
    try:
        return AsyncTFJobs(arguments.namespace, choice=choice, kind=arguments.kind)
    except ValueError as error:
        raise NotPossible(str(error)) from None


def where(jobs: AsyncTFJobs) -> str:
    """Where something was changed, to end a sentence with."""
    return "on this machine" if jobs.cluster == _THIS_PROCESS else f"in {printable(jobs.cluster)}"


def say(text: str) -> None:
    """A line for people: on standard error, because standard output may be read by a program."""
    sys.stderr.write(f"{text}\n")


def failed(sentence: str, code: int = FAILED) -> int:
    say(f"tfjob: {printable(sentence)}")
    return code


def name_of(argument: str, jobs: AsyncTFJobs) -> str:
    """The name of a job, which ``-o name`` prints as ``tfjob.kubeflow.org/NAME``.

    ``NotPossible`` for anything else with a slash: in ``team/NAME`` a namespace may be meant.
    """
    prefix, slash, name = argument.rpartition("/")
    if slash and registry.find(prefix) is not jobs.api:
        kind = f"{jobs.api.resource.kind}.{jobs.api.resource.group}".lower()
        raise NotPossible(f"{argument!r} names no {kind}: -n names a namespace, --kind another kind")
    return name
