"""``tfjob history``: jobs that have ended, what they took and what failed."""

import argparse
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from tf_operator.cli import ended_jobs, output, session, target
from tf_operator.cli.commands.wait import seconds
from tf_operator.cli.ended_jobs import EndedJob, UnreadableLog
from tf_operator.cli.grammar import Commands
from tf_operator.cli.usage import UsageError
from tf_operator.client import AsyncTFJobs
from tf_operator.machinery.clock import SystemClock

_DAY: Final = 24 * 3600
_STDIN: Final = "-"


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "history",
        help="show jobs that have ended",
        description="Shows jobs that have ended, oldest first: how long they took, what restarts cost, what they"
        " used and what failed first. A cluster has them until they are deleted, the local server the last 1,000 for 30"
        " days, and the log of an operator all.",
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="?", metavar="JOB", help="only jobs of this name")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="in all namespaces")
    parser.add_argument(
        "--since", type=_since, metavar="TIME", help="only jobs that ended within this time, as in 90m, 12h or 7d"
    )
    parser.add_argument(
        "--from",
        dest="log",
        metavar="FILE",
        help="read the log of the operator instead, or lines that were found in it; - for standard input",
    )
    output.add_argument(parser, "json", "yaml")
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=_run)


def _since(text: str) -> float:
    days = int(text[:-1]) if text.endswith("d") and text[:-1].isdecimal() and len(text) < len("10000d") else 0
    return float(days * _DAY) if days else seconds(text)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.log is None:
        return session.run(arguments, _in_cluster)
    if arguments.all_namespaces and arguments.namespace:
        raise UsageError("-A and -n exclude each other")
    try:
        if arguments.log == _STDIN:
            return _show(ended_jobs.in_log(sys.stdin.buffer), arguments, arguments.namespace or "")
        with open(arguments.log, "rb") as log:  # noqa: PTH123 (a name as it was typed)
            return _show(ended_jobs.in_log(log), arguments, arguments.namespace or "")
    except UnreadableLog as error:
        return session.failed(f"{arguments.log} cannot be read: {error}")
    except OSError as error:
        if error.filename != arguments.log:
            raise
        return session.failed(f"{arguments.log} cannot be read: {error.strerror}")


async def _in_cluster(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    listed = await jobs.list(all_namespaces=arguments.all_namespaces)
    namespace = "" if arguments.all_namespaces else jobs.namespace
    listed_uids = {job.uid for job in listed}
    deleted = [job for job in await ended_jobs.remembered(jobs, namespace) if job.uid not in listed_uids]
    ended = [*deleted, *(ended_jobs.of_job(job) for job in listed if job.is_finished)]
    return _show(ended, arguments, namespace)


def _show(ended: Iterable[EndedJob], arguments: argparse.Namespace, namespace: str) -> int:
    """The last one last; ``namespace``: only those in it, if there is one."""
    now = SystemClock().now()
    begin = now - timedelta(seconds=arguments.since) if arguments.since else None
    selected = (job for job in ended if _is_wanted(job, arguments.name, namespace, begin))
    if arguments.output:
        items = [job.body() for job in ended_jobs.in_order(selected, now)]
        sys.stdout.write(output.document({"items": items}, arguments.output))
    elif lines := ended_jobs.rows(selected, now=now, shows_namespace=not namespace):
        sys.stdout.writelines(lines)
    else:
        session.say("No job has ended, as far as is known here.")
    return 0


def _is_wanted(job: EndedJob, name: str | None, namespace: str, begin: datetime | None) -> bool:
    is_named = name in {None, job.name} and namespace in {"", job.namespace}
    return is_named and (begin is None or (job.finished is not None and job.finished >= begin))
