"""``tfjob ui``: pages in a browser that show the jobs of a cluster, or of this machine, as they run."""

import argparse
import asyncio
import logging
import os
import shlex
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs, NotPossible
from tf_operator.dialects import registry
from tf_operator.machinery import log
from tf_operator.machinery.clock import SystemClock
from tf_operator.text import printable

if TYPE_CHECKING:
    from tf_operator.cli.ui.board import Board

# In a file, because everybody on this machine can see the arguments of a process.
_OPENER: Final = """<!doctype html><meta charset="utf-8"><title>tfjob ui</title>
<meta http-equiv="refresh" content="0;url={url}"><a href="{url}">Jobs</a>"""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "ui",
        help="show jobs in a browser, as they run",
        description="Shows jobs in a browser, as they run, with buttons that change them. Serves this machine only,"
        " with your own permissions, until Ctrl-C. Shows all kinds and namespaces that you may list, or those of"
        " --kind and --namespace.",
        allow_abbrev=False,
    )
    parser.add_argument("--port", type=_port, default=0, metavar="PORT", help="loopback port; default: a free one")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")
    parser.add_argument(
        "--read-only", action="store_true", help="show no buttons that change a job, and refuse changes"
    )
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=_run, kind="")


def _run(arguments: argparse.Namespace) -> int:
    kind, arguments.kind = arguments.kind, arguments.kind or registry.DEFAULT.resource.kind

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        return await _serve(jobs, arguments, shows_all_kinds=not kind)

    return session.run(arguments, verb)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 65536:
        raise ValueError(text)
    return port


async def _serve(jobs: AsyncTFJobs, arguments: argparse.Namespace, *, shows_all_kinds: bool) -> int:
    # Imported here: a grammar of all commands needs no server.
    from tf_operator.cli.ui import board, scopes, site  # noqa: PLC0415
    from tf_operator.cli.ui.guard import BrowserGuard  # noqa: PLC0415

    log.before_first_record(_write_bugs)
    clock = SystemClock()
    apis = registry.SERVED if shows_all_kinds else (jobs.api,)
    visible = await scopes.visible(jobs, apis, arguments.namespace)
    stopped = _stopped()
    if visible.refusal:
        session.failed(f"{visible.refusal}; --namespace names another namespace")
    title = jobs.cluster if jobs.host in jobs.cluster else f"{jobs.cluster} ({jobs.host})"
    job_board = board.of(visible.scopes, client=jobs.client, clock=clock, title=title, note=visible.note)
    with _listener(arguments.port) as listener:
        guard = BrowserGuard(listener.getsockname()[1])
        async with (
            site.serving(
                listener,
                guard=guard,
                board=job_board,
                connect=jobs.of_kind,
                clock=clock,
                naming=_naming(arguments),
                is_read_only=arguments.read_only,
            ),
            asyncio.TaskGroup() as tasks,
        ):
            following = tasks.create_task(job_board.run())
            sys.stdout.write(f"Jobs of {printable(title)}:\n  {guard.url}\nThe link works once; Ctrl-C ends.\n")
            sys.stdout.flush()
            with (
                job_board.heard(ProblemReporter(job_board).report),
                _open_browser(guard.url, is_wanted=not arguments.no_browser),
            ):
                await stopped.wait()
            following.cancel()
    return 0


def _naming(arguments: argparse.Namespace) -> str:
    """The options that name this cluster in another command."""
    given = (("--context", arguments.context), ("--kubeconfig", arguments.kubeconfig))
    return "".join(f" {option} {shlex.quote(value)}" for option, value in given if value)


class ProblemReporter:
    """Says in the terminal what the table says: why it may be old, and that it no longer is."""

    def __init__(self, board: "Board") -> None:
        self._board = board
        self._problem = ""

    def report(self) -> None:
        problem = self._board.problem
        if problem != self._problem:
            self._problem = problem
            session.failed(problem or "the API server shows all jobs again")


def _write_bugs() -> None:
    """What the API server refuses is said in sentences; of what is below a bug there would be a record each time."""
    import structlog  # noqa: PLC0415 (there is a record, so it is needed)

    structlog.configure(
        processors=log.without_variables(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _stopped() -> asyncio.Event:
    """Set by Ctrl-C, which is how this is meant to end."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise NotPossible(f"port {port} cannot be used ({reason}): --port names another") from None


@contextmanager
def _open_browser(url: str, *, is_wanted: bool) -> Iterator[None]:
    if not is_wanted:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tfjob-ui-") as folder:
        page = Path(folder) / "jobs.html"
        page.write_text(_OPENER.format(url=url), encoding="utf-8")
        # Some browsers run in the terminal, until they are left.
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        yield
