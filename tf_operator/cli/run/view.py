"""What ``tfjob run`` shows while a job runs: the lines of its programs, and how its replicas stand.

Logs go to standard output; everything else goes to standard error, so that the logs can be piped. Neighbours:
``live_table`` is that of a terminal.
"""

from typing import Protocol, TextIO

from tf_operator.cli import output
from tf_operator.cli.log_lines import Printer
from tf_operator.client import Job, JobEvent, JobPod, LogLine
from tf_operator.text import printable

MOST_REPLICAS = 20
"""Of a larger job single replicas are not reported."""


class RunView(Protocol):
    """Shows a job; nothing of it waits."""

    def show_job(self, job: Job) -> None:
        """The job has changed."""

    def show_pods(self, pods: tuple[JobPod, ...]) -> None:
        """The pods have changed."""

    def show_event(self, event: JobEvent) -> None:
        """Something was reported."""

    def show_line(self, line: LogLine) -> None:
        """A replica has printed a line."""

    def pause(self) -> None:
        """Leave the terminal to a question."""

    def resume(self) -> None:
        """The question is answered."""

    def close(self) -> None:
        """Nothing follows."""


class PlainView:
    """A line for each change: without a terminal, and without ``rich``."""

    def __init__(self, job: Job, *, logs: TextIO, notes: TextIO) -> None:
        self._printer = Printer(job, logs)
        self._notes = notes
        self._phase = ""
        self._states = dict[str, str]()
        self._shows_replicas = job.spec.pod_count <= MOST_REPLICAS

    def show_job(self, job: Job) -> None:
        """Report a new phase; that of the end is the command's last line."""
        if job.phase and job.phase != self._phase and not job.is_finished:
            self._phase = job.phase
            self._note(f"{job.kind} {job.namespace}/{job.name} is {job.phase.lower()}")

    def show_pods(self, pods: tuple[JobPod, ...]) -> None:
        """Report replicas that have begun, ended or wait."""
        for pod in pods if self._shows_replicas else ():
            state = output.state_of(pod)
            if self._states.get(pod.replica) != state:
                self._states[pod.replica] = state
                self._note(f"{pod.replica}: {state}")

    def show_event(self, event: JobEvent) -> None:
        """Report a warning."""
        if event.is_warning:
            self._note(f"warning: {event.message}")

    def show_line(self, line: LogLine) -> None:
        """Print a line."""
        self._printer.write(line)

    def pause(self) -> None:
        """Nothing moves."""

    def resume(self) -> None:
        """Nothing has stopped."""

    def close(self) -> None:
        """Nothing is open."""

    def _note(self, text: str) -> None:
        self._notes.write(f"{printable(text)}\n")
        self._notes.flush()
