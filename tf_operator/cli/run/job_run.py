"""A job from its submission to its end, as ``tfjob run`` follows it: on whatever API server, which it does not know.

Ctrl-C asks what to do. Without a terminal the job is left, because whoever runs this in a script did not mean to lose
hours of training. A job that cannot outlive this process is stopped in any case, also by SIGTERM and a closed terminal:
its programs have their grace periods, their logs are shown to the end, and a second Ctrl-C kills them.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Final

from tf_operator.app import signals
from tf_operator.cli import log_lines, session
from tf_operator.cli.manifests import submission
from tf_operator.cli.run.milestones import PROCESS_STARTED, Milestones
from tf_operator.cli.run.view import PlainView, RunView
from tf_operator.client import ApiError, AsyncTFJobs, Forbidden, Job, JobEvent, JobPod, LogLine, display
from tf_operator.client.explanation import checks
from tf_operator.client.manifests.files import Manifest
from tf_operator.client.run import following
from tf_operator.job.training_job import CleanPodPolicy
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.text import printable

_QUESTION: Final = "\nStop and delete the job (s), leave it running (l), or go on (Enter)? "


def never(_line: str) -> bool:
    """Nothing is left out."""
    return False


@dataclass(frozen=True, slots=True)
class RunOptions:
    shows_logs: bool = True
    kill: Callable[[], object] | None = None
    """Kills the programs of a job that cannot outlive this process."""
    leaves_out: Callable[[str], bool] = never
    """Which lines of logs are not shown."""
    is_interactive: bool = False
    """Whether somebody is there to be asked, and sees a table."""

    @property
    def is_lasting(self) -> bool:
        """Whether the job goes on without this process."""
        return self.kill is None


async def follow(
    jobs: AsyncTFJobs,
    objects: Sequence[Manifest],
    arguments: argparse.Namespace,
    *,
    options: RunOptions | None = None,
    milestones: Milestones | None = None,
) -> int:
    """Submit the job and follow it on an API server that is there; the exit code of the command."""
    options = options or RunOptions(is_interactive=sys.stdin.isatty() and sys.stderr.isatty())
    options = replace(options, shows_logs=not arguments.no_logs)
    reached = milestones or Milestones(session.say, is_on=arguments.verbose)
    (job,) = await submission.submit(jobs, objects, replaces=arguments.replace)
    where = session.where(jobs)
    session.say(f"{job.kind} {job.namespace}/{job.name} submitted {where}")
    reached.reached("job submitted")
    code = await JobRun(jobs, job, options=options, milestones=reached).run()
    if arguments.rm and code != session.INTERRUPTED:
        await jobs.delete(job)
        session.say(f"{job.kind} {job.namespace}/{job.name} deleted {where}")
    return code


class JobRun:
    def __init__(
        self,
        jobs: AsyncTFJobs,
        job: Job,
        *,
        options: RunOptions,
        milestones: Milestones,
        clock: Clock | None = None,
    ) -> None:
        self._jobs = jobs
        self._job = job
        self._options = options
        self._milestones = milestones
        self._clock = clock or SystemClock()
        self._view: RunView = PlainView(job, logs=sys.stdout, notes=sys.stderr)
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self._interrupts = asyncio.Queue[signal.Signals]()
        self._is_stopping = False

    async def run(self) -> int:
        """Follow the job to its end, or until the user leaves; the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupts.put_nowait, signal.SIGINT)
        if not self._options.is_lasting:
            loop.add_signal_handler(signal.SIGTERM, self._interrupts.put_nowait, signal.SIGTERM)
            signals.on_hangup(lambda: self._interrupts.put_nowait(signal.SIGHUP))
        following = loop.create_task(self._follow())
        asking = loop.create_task(self._wait_left(following))
        try:
            await asyncio.wait((following, asking), return_when=asyncio.FIRST_COMPLETED)
            return await asking if self._is_stopping else following.result() if following.done() else asking.result()
        finally:
            # From here on all ends by itself, and soon: another Ctrl-C must not break it off.
            loop.add_signal_handler(signal.SIGINT, lambda: None)
            for task in (following, asking):
                task.cancel()
                with suppress(asyncio.CancelledError, ApiError):
                    await task
            self._view.close()

    async def _follow(self) -> int:
        logs = None  # a coroutine that nobody awaits would be a warning of Python's
        if self._options.shows_logs:
            logs = following.pass_lines(self._jobs, self._job, self._show_line, self._report_refusal)
        self._job = await following.follow(
            self._jobs,
            self._job,
            on_job=self._show_job,
            logs=logs,
            beside=(self._follow_pods(), self._follow_events()),
        )
        self._view.close()
        return session.INTERRUPTED if self._is_stopping else await self._end()

    async def _show_job(self, job: Job) -> None:
        self._job = job
        (await self._ready_view()).show_job(job)

    async def _follow_pods(self) -> None:
        async with aclosing(self._jobs.watch_pods(self._job)) as pod_lists:
            async for pods in pod_lists:
                self._reach(pods)
                (await self._ready_view()).show_pods(pods)

    def _reach(self, pods: tuple[JobPod, ...]) -> None:
        if pods:
            self._milestones.reached("pod created")
        if any(pod.run for pod in pods):
            self._milestones.reached(PROCESS_STARTED)
            if isinstance(self._view, PlainView) and _has_table(self._options):
                # Imported here: see there.
                from tf_operator.cli.run.live_table import LiveTable  # noqa: PLC0415

                self._view = LiveTable(self._job, stream=sys.stdout, clock=self._clock)

    async def _follow_events(self) -> None:
        by_uid = dict[str, JobEvent]()
        ends = frozenset(self._jobs.api.failure_reasons.values())
        # Events are said beside the job, and never worth its end: not everybody may read them.
        with suppress(ApiError):
            async with aclosing(self._jobs.watch_events(self._job)) as events:
                async for event in events:
                    # The end is left to the explanation, which has the same sentence.
                    if event.reason not in ends and by_uid.get(event.uid) != event:
                        by_uid[event.uid] = event
                        (await self._ready_view()).show_event(event)

    async def _show_line(self, line: LogLine) -> None:
        if not self._options.leaves_out(line.text):
            (await self._ready_view()).show_line(line)

    def _report_refusal(self, error: Forbidden) -> None:
        session.say(f"the logs are not shown: {printable(str(error))}")

    async def _ready_view(self) -> RunView:
        """The view, once nobody is being asked."""
        await self._unpaused.wait()
        return self._view

    async def _end(self) -> int:
        job = self._job
        if job.exit_code is None:
            return session.failed(f"{job.kind} {job.namespace}/{job.name} was deleted before it had ended")
        situation = await following.end_of(self._jobs, job, self._clock)
        for note in situation.notes:
            session.say(note)
        if job.exit_code:
            explanation = checks.explain(situation)
            session.say(str(explanation if self._options.is_lasting else explanation.without_server()))
        else:
            took = display.lasted(job.started, job.finished)
            session.say(f"{job.kind} {job.namespace}/{job.name} has {job.phase.lower()}{took and f' after {took}'}")
        self._report_left(", ".join(pod.replica for pod in situation.pods if pod.is_running))
        return job.exit_code

    def _report_left(self, running: str) -> None:
        """Say what becomes of programs that go on after the end, as parameter servers do by default."""
        if not running or self._job.spec.run_policy.clean_pods is not CleanPodPolicy.NONE:
            return
        if self._options.is_lasting:
            session.say(f"still running, by cleanPodPolicy None: {running}; tfjob delete {self._job.name} ends them")
        else:
            session.say(
                f"still running, and stopped now: {running};"
                " in a cluster they would continue, because of cleanPodPolicy None"
            )

    async def _wait_left(self, following: asyncio.Task[int]) -> int:
        """Wait until the user does not want to follow the job any longer; the exit code."""
        while True:
            number = await self._interrupts.get()
            if self._options.kill:
                await self._stop(following, self._options.kill)
                return 128 + number
            self._unpaused.clear()
            self._view.pause()
            answer = await self._answer()
            if answer == "s":
                await self._jobs.delete(self._job)
                where = f" {session.where(self._jobs)}" if self._options.is_lasting else ""
                session.say(f"{self._job.kind} {self._job.namespace}/{self._job.name} is stopped and deleted{where}")
                return session.INTERRUPTED
            if answer == "l":
                name, where = self._job.name, f"-n {self._job.namespace}"
                session.say(
                    f"\n{self._job.kind} {name} goes on. Follow it: tfjob logs {name} -f {where}\n"
                    f"Stop it: tfjob delete {name} {where}"
                )
                return session.INTERRUPTED
            self._view.resume()
            self._unpaused.set()

    async def _stop(self, following: asyncio.Task[int], kill: Callable[[], object]) -> None:
        """Delete the job, and follow its programs until they have ended, or a second Ctrl-C kills them."""
        self._is_stopping = True
        name = f"{self._job.kind} {self._job.namespace}/{self._job.name}"
        session.say(f"\nstopping {name}; Ctrl-C again kills its programs")
        with suppress(ApiError):  # it is gone
            await self._jobs.delete(self._job, foreground=True)
        insisting = asyncio.get_running_loop().create_task(self._wait_for(signal.SIGINT))
        await asyncio.wait((following, insisting), return_when=asyncio.FIRST_COMPLETED)
        if insisting.done():
            kill()
        else:
            insisting.cancel()
            session.say(f"{name} is stopped and deleted")

    async def _wait_for(self, number: signal.Signals) -> None:
        """Wait for this signal; others change nothing: ``timeout`` sends SIGTERM twice."""
        while await self._interrupts.get() is not number:
            pass

    async def _answer(self) -> str:
        """What the user wants: ``s`` to stop, ``l`` to leave, else to go on."""
        if not self._options.is_interactive:
            return "l"
        sys.stderr.write(_QUESTION)
        sys.stderr.flush()
        return (await self._line()).strip().lower()[:1]

    async def _line(self) -> str:
        """A line of the terminal; a second Ctrl-C leaves the job. Not ``input``: a thread in it could not be ended."""
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str] = loop.create_future()

        def take() -> None:
            if not typed.done():
                typed.set_result(sys.stdin.readline() or "l")

        loop.add_reader(sys.stdin, take)
        again = loop.create_task(self._interrupts.get())
        try:
            await asyncio.wait((typed, again), return_when=asyncio.FIRST_COMPLETED)
            return typed.result() if typed.done() else "l"
        finally:
            loop.remove_reader(sys.stdin)
            again.cancel()


def _has_table(options: RunOptions) -> bool:
    return options.is_interactive and log_lines.is_terminal(sys.stdout) and find_spec("rich") is not None
