"""The live table of ``tfjob run`` on a terminal: the replicas below, the lines of their programs above. Needs ``rich``.

It begins when the first program runs: to import ``rich`` takes as long as to start a program, and a job on this machine
starts in the same process.
"""

from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tf_operator.cli import output
from tf_operator.cli.run.view import MOST_REPLICAS
from tf_operator.client import Job, JobEvent, JobPod, LogLine, display, pods, progress
from tf_operator.machinery.clock import Clock
from tf_operator.text import printable

_COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "bright_cyan", "bright_yellow", "bright_magenta")
_PHASES = {"Succeeded": "bold green", "Failed": "bold red", "Restarting": "bold yellow", "Running": "bold cyan"}


class LiveTable:
    """The live table; ``console`` is the terminal."""

    def __init__(self, job: Job, *, stream: TextIO, clock: Clock) -> None:
        self._console = Console(file=stream)
        self._clock = clock
        self._job = job
        self._pods: tuple[JobPod, ...] = ()
        self._last_by_replica = dict[str, JobPod]()
        self._colours = dict[str, str]()
        self._live = Live(get_renderable=self._table, console=self._console, refresh_per_second=4)
        self._live.start()

    def show_job(self, job: Job) -> None:
        """The job has changed."""
        self._job = job

    def show_pods(self, pods: tuple[JobPod, ...]) -> None:
        """The pods have changed."""
        self._pods = pods
        self._last_by_replica |= {pod.replica: pod for pod in pods}

    def show_event(self, event: JobEvent) -> None:
        """Show a warning above the table."""
        if event.is_warning:
            self._console.print(Text(f"warning: {printable(event.message)}", "yellow"))

    def show_line(self, line: LogLine) -> None:
        """Show a line above the table."""
        prefix = (f"{line.replica} | ", self._colour(line.replica))
        self._console.print(Text.assemble(prefix, Text.from_ansi(line.text)), soft_wrap=True)

    def pause(self) -> None:
        """Leave the table as it is; ``rich`` would hold back what has no end of line, such as a question."""
        self._live.stop()

    def resume(self) -> None:
        """Show the table again, below."""
        self._live.start()

    def close(self) -> None:
        """Leave the table as it is."""
        self._live.stop()

    def _table(self) -> Group:
        job = self._job
        began = display.age(job.started or job.created, job.finished or self._clock.now())
        title = Text.assemble(
            f"{job.kind} {job.namespace}/{job.name}  ",
            (job.phase or "New", _PHASES.get(job.phase, "bold")),
            f"  {began}",
            # Of the job: most replace a pod, whose successor has none of its own.
            f"  {job.restarts} restart{'' if job.restarts == 1 else 's'}" if job.restarts else "",
        )
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("REPLICA", "STATE", "RESTARTS", "NODE"):
            table.add_column(name, no_wrap=True)
        there = {pod.replica for pod in self._pods}
        rows = pods.in_order((*self._pods, *self._cleaned_up(there)))
        restarts = pods.restarts(job, rows)
        for pod in rows[:MOST_REPLICAS]:
            words = output.state_of(pod) if pod.replica in there else "was deleted at the end"
            state = Text(printable(words), overflow="ellipsis")
            table.add_row(Text(pod.replica, self._colour(pod.replica)), state, str(restarts[pod.replica]), pod.node)
        if len(rows) > MOST_REPLICAS:
            table.add_row("...", f"{len(rows) - MOST_REPLICAS} more")
        return Group(title, *self._progress(), table)

    def _progress(self) -> Iterator[Text]:
        """How far the program is, once it has reported it."""
        if line := progress.line(self._job):
            yield Text.assemble((progress.bar(self._job), "green"), printable(line))

    def _cleaned_up(self, there: set[str]) -> Iterator[JobPod]:
        """The pods, as they were last, that went when the job had ended."""
        names = pods.replicas_of(self._job) - there if self._job.is_finished else ()
        return (pod for replica, pod in self._last_by_replica.items() if replica in names)

    def _colour(self, replica: str) -> str:
        return self._colours.setdefault(replica, _COLOURS[len(self._colours) % len(_COLOURS)])
