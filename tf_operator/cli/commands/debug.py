"""``tfjob debug``: all that is known of a job, as a text or an archive for a ticket."""

import argparse
import platform
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib import metadata
from pathlib import Path
from typing import Final

from tf_operator.cli import session, target
from tf_operator.cli.commands import doctor
from tf_operator.cli.debug.ticket import ReplicaLog, Ticket
from tf_operator.cli.grammar import Commands
from tf_operator.client import ApiError, AsyncTFJobs, JobPod, NotPossible, logs
from tf_operator.client.cluster import ClusterChoice
from tf_operator.client.explanation import reading
from tf_operator.client.logs import LogOptions
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport.client import ApiClient

_TEXT_LINES: Final = 20
_ARCHIVE_LINES: Final = 1000
_LONGEST_LINE: Final = 2000


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "debug",
        help="collect all information about a job, for a ticket",
        description="Prints one text for a ticket: versions, explanation, plan, status, replicas, events, the first"
        f" failure and the last {_TEXT_LINES} lines of every replica. Values of environment variables, command lines,"
        " annotations and Secrets are left out; logs are as the programs wrote them: read the text before you pass it"
        " on.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument(
        "-o",
        "--output",
        choices=("zip",),
        metavar="FORMAT",
        help=f"zip: write JOB-debug.zip, with the last {_ARCHIVE_LINES} lines of every replica",
    )
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    choice = target.choose(arguments)

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        most = _ARCHIVE_LINES if arguments.output else _TEXT_LINES
        ticket = await _collect(jobs, session.name_of(arguments.name, jobs), choice, most)
        if arguments.output:
            _write(ticket, Path(f"{ticket.situation.job.name}-debug.zip"))
        else:
            sys.stdout.write(ticket.text(last=_TEXT_LINES))
        return 0

    return session.run(arguments, verb, choice=choice)


async def _collect(jobs: AsyncTFJobs, name: str, choice: ClusterChoice, most: int) -> Ticket:
    situation = await reading.read(jobs, await jobs.get(name), SystemClock().now())
    versions = [f"tfjob {metadata.version('tf-operator')}, Python {platform.python_version()}, {platform.platform()}"]
    try:
        versions += [str(finding) async for finding in doctor.findings(jobs, choice)]
    except ApiError as error:
        versions.append(str(error))
    replica_logs = [log for pod in situation.pods async for log in _logs(jobs.client, pod, most)]
    return Ticket(situation, tuple(replica_logs), tuple(versions))


async def _logs(client: ApiClient, pod: JobPod, most: int) -> AsyncIterator[ReplicaLog]:
    for is_previous in (True, False) if pod.restarts else (False,):
        options = LogOptions(previous=is_previous, tail=most, longest=_LONGEST_LINE)
        name = f"{pod.replica}.previous" if is_previous else pod.replica
        try:
            async with aclosing(logs.read_each(client, [pod], options)) as lines:
                yield ReplicaLog(name, tuple([line.text async for line in lines]))
        except ApiError as error:
            yield ReplicaLog(name, (), f"(not read: {error})")


def _write(ticket: Ticket, path: Path) -> None:
    try:
        with path.open("xb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("debug.txt", ticket.text(last=_TEXT_LINES))
            for name, text in ticket.log_files():
                archive.writestr(f"logs/{name}", text)
    except FileExistsError:
        raise NotPossible(f"{path} exists already: move it away") from None
    except OSError as error:
        raise NotPossible(f"cannot write {path}: {error.strerror}") from None
    sys.stdout.write(f"{path} written\n")
