"""``tfjob get`` and ``tfjob list``: jobs, for people or in full."""

import argparse
import sys
from collections.abc import Collection, Sequence
from contextlib import aclosing, suppress

from tf_operator.cli import output, session, target
from tf_operator.cli.grammar import Commands
from tf_operator.cli.job_rows import JobRows
from tf_operator.cli.usage import UsageError
from tf_operator.client import ApiError, AsyncTFJobs, Job, changes, queue_notes
from tf_operator.client.job import read_job
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.transport.requests import Scope
from tf_operator.text import printable


def add_command(commands: Commands) -> None:
    get = commands.add_parser(
        "get",
        help="show jobs",
        description="Shows jobs by name, or all jobs; json and yaml print whole objects.",
        allow_abbrev=False,
    )
    get.add_argument("name", nargs="*", metavar="JOB", help="name of a job; default: all jobs in the namespace")
    listing = commands.add_parser(
        "list", help="list jobs", description="Lists the jobs in a namespace, or in all.", allow_abbrev=False
    )
    get.add_argument("-w", "--watch", action="store_true", help="print jobs again when they change, until Ctrl-C")
    for parser in (get, listing):
        parser.add_argument("-A", "--all-namespaces", action="store_true", help="in all namespaces")
        parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="only jobs with these labels")
    for parser, verb in ((get, _get), (listing, _list)):
        output.add_argument(parser)
        target.add_arguments(parser, changes=False)
        parser.set_defaults(run=lambda arguments, verb=verb: session.run(arguments, verb))


async def _get(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    if arguments.name and (arguments.all_namespaces or arguments.selector):
        raise UsageError("-A and -l cannot be combined with names of jobs")
    if not (arguments.name or arguments.watch):
        return await _list(jobs, arguments)
    named_jobs = [await jobs.get(session.name_of(name, jobs)) for name in arguments.name]
    if arguments.watch:
        return await watch(jobs, arguments, {job.name for job in named_jobs})
    if len(named_jobs) == 1 and arguments.output in {"json", "yaml"}:
        sys.stdout.write(output.document(named_jobs[0].body, arguments.output))
        return 0
    notes = await _notes(jobs, named_jobs, arguments)
    sys.stdout.writelines(output.jobs(named_jobs, arguments.output, now=SystemClock().now(), notes=notes))
    return 0


async def watch(
    jobs: AsyncTFJobs, arguments: argparse.Namespace, names: Collection[str], *, clock: Clock | None = None
) -> int:
    """Print the jobs, or all if none is named, and each again when it has changed, until the user has seen enough."""
    clock = clock or SystemClock()
    rows = JobRows(arguments.output, shows_namespace=arguments.all_namespaces)
    scope = Scope("" if arguments.all_namespaces else jobs.namespace, label_selector=arguments.selector)
    async with aclosing(changes.follow(jobs.client, jobs.api.resource, scope, clock)) as batches:
        async for batch in batches:
            for change in batch:
                job = read_job(change.body, jobs.api)
                if names and job.name not in names:
                    continue
                if change.is_deleted:
                    rows.forget(job)
                    session.say(f"{job.kind} {job.namespace}/{job.name} was deleted")
                else:
                    sys.stdout.writelines(rows.lines(job, now=clock.now()))
            sys.stdout.flush()
    return 0


async def _list(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    listed = await jobs.list(all_namespaces=arguments.all_namespaces, selector=arguments.selector)
    if not listed and arguments.output in {None, "wide"}:
        where = "in any namespace" if arguments.all_namespaces else f"in namespace {jobs.namespace}"
        labels = f" with the labels {printable(arguments.selector)}" if arguments.selector else ""
        session.say(f"There is no {jobs.api.resource.kind}{labels} {where}.")
        return 0
    now, everywhere = SystemClock().now(), arguments.all_namespaces
    notes = await _notes(jobs, listed, arguments)
    sys.stdout.writelines(output.jobs(listed, arguments.output, now=now, shows_namespace=everywhere, notes=notes))
    return 0


async def _notes(jobs: AsyncTFJobs, listed: Sequence[Job], arguments: argparse.Namespace) -> dict[str, str]:
    """What jobs wait for, where a reader sees it."""
    if arguments.output not in {None, "wide"}:
        return {}
    with suppress(ApiError):  # not everybody may list nodes
        return await queue_notes.read(jobs.client, listed)
    return {}
