"""Waiting for a job, which may show itself meanwhile: as a line of a terminal, or as a table of a notebook."""

import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from importlib import import_module
from inspect import isawaitable
from typing import Any, Protocol

from tf_operator.client import display, progress
from tf_operator.client.job import Job, WaitTimeout, deleted, reached
from tf_operator.job.record import JobPhase
from tf_operator.machinery.clock import Clock
from tf_operator.text import printable, shortened

_HEADER = ("Name", "State", "Ready", "Restarts", "Progress", "Message")


class JobsToWaitFor(Protocol):
    """What ``AsyncTFJobs`` reads of a job that is waited for."""

    async def get(self, job: str | Job) -> Job:
        """The job as it is now."""

    def watch(self, job: Job) -> AsyncGenerator[Job, None]:
        """The job now, and after each change, until it is deleted."""


async def wait(
    jobs: JobsToWaitFor,
    job: str | Job,
    *,
    clock: Clock,
    seconds: float | None,
    until: Callable[[Job], bool | Awaitable[bool]] | JobPhase | str | None,
    shows: bool,
) -> Job:
    """Wait until the job has finished, or as ``until`` says; ``WaitTimeout``, and ``NotFound`` if it is deleted."""
    is_reached = reached(until)
    current = await jobs.get(job)
    with _show(shows=shows) as show:
        try:
            async with clock.timeout(seconds), aclosing(jobs.watch(current)) as versions:
                async for current in versions:
                    show(current)
                    verdict = is_reached(current)
                    if isawaitable(verdict):
                        verdict = await verdict
                    if verdict or current.is_finished:
                        return current
        except TimeoutError as error:
            raise WaitTimeout(current, seconds or 0) from error
    raise deleted(current)


@contextmanager
def _show(*, shows: bool) -> Iterator[Callable[[Job], object]]:
    """What a job is passed to, each time that it has changed."""
    notebook = _notebook() if shows else None
    if not shows:
        yield lambda _job: None
    elif notebook:
        handle = notebook.display(notebook.HTML(""), display_id=True)
        yield lambda job: handle.update(notebook.HTML(display.html_table(_HEADER, [_cells(job)])))
    else:
        line = _Line()
        try:
            yield lambda job: line.show("   ".join(filter(None, _cells(job))))
        finally:
            line.end()


def _notebook() -> Any:  # noqa: ANN401 (a module of IPython, which is there in its notebooks)
    """What shows HTML in the notebook whose kernel this process is; ``None`` elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return import_module("IPython.display") if hasattr(shell, "kernel") else None


def _cells(job: Job) -> tuple[str, ...]:
    line = f"{progress.bar(job)}{progress.line(job)}"
    restarts = f"{job.restarts} restarts" if job.restarts else ""
    return printable(job.name), job.phase or "-", job.ready, restarts, printable(line), printable(job.message)


class _Line:
    """The last line of a terminal, which is written again; in a file, a line for each change."""

    def __init__(self) -> None:
        self._last = ""
        self._is_terminal = sys.stdout.isatty()

    def show(self, text: str) -> None:
        if self._is_terminal:
            # A terminal goes on in another line with what is wider, and only the last one would be written again.
            text = shortened(text, shutil.get_terminal_size().columns - 1)
        if text != self._last:
            self._last = text
            self._write(f"\r\x1b[K{text}" if self._is_terminal else f"{text}\n")

    def end(self) -> None:
        if self._last and self._is_terminal:
            self._write("\n")

    @staticmethod
    def _write(text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"  # one that lacks a character of the bar must not end the wait
        print(text.encode(encoding, "replace").decode(encoding), end="", flush=True)  # noqa: T201
