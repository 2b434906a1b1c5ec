"""One run of a container: its process, its log, its probes and hooks, and the way in which it ends."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tf_operator.local.node.listeners import subject_of
from tf_operator.local.node.logs.container_log import ContainerLog
from tf_operator.local.node.node_parts import NodeParts
from tf_operator.local.node.pod import STARTUP, Action, LocalContainer, LocalPod
from tf_operator.local.node.processes.supervisor import Launch
from tf_operator.local.node.run import probes
from tf_operator.local.node.run.probes import PodPlace, Probe, Tally
from tf_operator.local.node.runtime import End

if TYPE_CHECKING:
    from datetime import datetime

_LONGEST_MESSAGE = 4096
_MOST_OUTPUT = 4096
_numbers = count(1)
"""So that no identity of a process is used twice."""


_SCHEME, _NO_PROCESS = "process://", 0


def process_number(container_id: str) -> int:
    return int(container_id.removeprefix(_SCHEME))


class RunListener(Protocol):
    """Is called with what happens in a run."""

    def on_run_started(self, container: LocalContainer, container_id: str) -> None:
        """The process runs."""

    def on_run_ended(self, container: LocalContainer, end: End) -> None:
        """The process has ended, or could not be started."""

    def on_verdict(self, container: LocalContainer, probe: Probe, problem: str) -> None:
        """A probe says that it is good, or why not."""


class ContainerRun:
    def __init__(
        self,
        parts: NodeParts,
        *,
        container: LocalContainer,
        pod: LocalPod,
        launch: Launch,
        log: ContainerLog,
        message_file: Path,
        listener: RunListener,
        tasks: asyncio.TaskGroup,
        port_of: Callable[[int], int],
    ) -> None:
        self.container = container
        self._parts = parts
        self._pod = pod
        self._launch = launch
        self._log = log
        self._message_file = message_file
        self._listener = listener
        self._tasks = tasks
        self._port_of = port_of
        self._identity = f"{pod.uid}/{container.name}/{next(_numbers)}"
        self._began: datetime | None = None
        self._container_id = ""
        self._running: list[asyncio.Task[Any]] = []
        self._has_ended = asyncio.Event()
        self._has_warned = False

    def start(self) -> None:
        self._message_file.parent.mkdir(parents=True, exist_ok=True)
        self._message_file.touch()
        self._parts.processes.start(self._identity, self._launch, self)

    def stop(self, grace: Callable[[], float]) -> None:
        """End the process: the hook, SIGTERM, and SIGKILL for the whole group after ``grace()`` seconds in all."""
        self._cancel()
        self._tasks.create_task(self._terminate(grace), name=f"stop {self._identity}")

    def kill(self) -> None:
        """End the process and its group at once."""
        self._parts.processes.signal(self._identity, signal.SIGKILL)

    def on_started(self, pid: int) -> None:
        self._began = self._parts.clock.now()
        self._container_id = f"{_SCHEME}{pid}"
        self._listener.on_run_started(self.container, self._container_id)
        if not self._has_ended.is_set():
            self._begin_probes(has_started=STARTUP not in self.container.probes)
            if hook := self.container.spec.lifecycle.post_start:
                self._begin(self._post_start(hook))

    def on_failed(self, problem: str) -> None:
        """The program could not be started: a container of which only the log is there, and empty."""
        identity = f"{_SCHEME}{_NO_PROCESS}"
        end = End(128, self._parts.clock.now(), reason="StartError", message=problem, container_id=identity)
        self._finish(end)

    def on_output(self, data: bytes) -> None:
        self._log.write(data)
        self._warn_lost()

    def on_ended(self, status: int) -> None:
        code, number = (128 - status, -status) if status < 0 else (status, 0)
        self._log.close()
        reason = "OOMKilled" if code == 137 and self._is_over_limit() else "Error" if code else "Completed"
        self._finish(
            End(
                code,
                self._parts.clock.now(),
                self._began,
                signal=number,
                reason=reason,
                message=self._message(code),
                container_id=self._container_id,
            )
        )

    def _finish(self, end: End) -> None:
        self._log.close()
        self._warn_lost()
        self._cancel()
        self._has_ended.set()
        if group := self._launch.group:
            with suppress(OSError):  # a probe may run in it; the node removes it at its end
                Path(group).rmdir()
        self._listener.on_run_ended(self.container, end)

    def _warn_lost(self) -> None:
        """Say once that output was lost: of the job, as whoever runs it sees its events, and perhaps not the pod's."""
        if self._log.problem and not self._has_warned:
            self._has_warned = True
            message = f"output of container {self.container.name} of pod {self._pod.key.name} was lost: "
            subject = subject_of(self._pod)
            event = self._parts.recorder.event
            event(subject, "Warning", reason="OutputLost", message=message + self._log.problem)

    def _is_over_limit(self) -> bool:
        limits, group = self._parts.limits, self._launch.group
        return bool(limits and group and limits.has_killed(Path(group)))

    def _message(self, code: int) -> str:
        """The termination message: what the program wrote, or else the end of its log."""
        text = _end(self._message_file)
        policy = self.container.spec.termination_message_policy
        return text or (self._log.last_words() if code and policy == "FallbackToLogsOnError" else "")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._running.append(self._tasks.create_task(work, name=self._identity))

    def _begin_probes(self, *, has_started: bool) -> None:
        """The startup probe is alone until it has succeeded."""
        for probe in probes.probes_of(self.container):
            if has_started is (probe.kind != STARTUP):
                self._begin(self._probe(probe))

    def _cancel(self) -> None:
        for task in self._running:
            task.cancel()
        self._running.clear()

    async def _terminate(self, grace: Callable[[], float]) -> None:
        clock = self._parts.clock
        began = clock.monotonic()

        def left() -> float:
            return began + grace() - clock.monotonic()

        if hook := self.container.spec.lifecycle.pre_stop:
            is_over = asyncio.Event()
            running = self._tasks.create_task(self._run_hook(hook, within=grace()), name=self._identity)
            self._running.append(running)  # it ends with the container, too
            running.add_done_callback(lambda _: is_over.set())
            if not await self._is_set(is_over, left):
                running.cancel()
        number = getattr(signal, self.container.spec.lifecycle.stop_signal, signal.SIGTERM)
        if not self._has_ended.is_set():
            self._parts.processes.signal(self._identity, number)
        if not await self._is_set(self._has_ended, left):
            self.kill()

    async def _is_set(self, event: asyncio.Event, left: Callable[[], float]) -> bool:
        """Wait for it while there are seconds left; a second deletion may make them fewer."""
        while not event.is_set() and (seconds := left()) > 0:
            with suppress(TimeoutError):
                async with self._parts.clock.timeout(min(seconds, 1.0)):
                    await event.wait()
        return event.is_set()

    async def _run_hook(self, hook: Action, *, within: float) -> str:
        probe = Probe("hook", hook, initial_delay=0, period=1, timeout=within, successes=1, failures=1)
        if hook.sleep:
            await self._parts.clock.sleep(min(float(hook.sleep.seconds), within))
            return ""
        return await self._ask(probe)

    async def _post_start(self, hook: Action) -> None:
        if problem := await self._run_hook(hook, within=3600.0):
            self._parts.event(self._pod, "FailedPostStartHook", f"PostStartHook failed: {problem}", "Warning")
            self._parts.processes.signal(self._identity, signal.SIGTERM)

    async def _probe(self, probe: Probe) -> None:
        """Ask again and again; report each change of the verdict, and each failure of a probe that ends the run."""
        tally, last = Tally(), None
        await self._parts.clock.sleep(probe.initial_delay)
        while True:
            problem = await self._ask(probe)
            tally = tally.answered(is_good=not problem)
            verdict = tally.verdict(probe)
            if problem:
                self._parts.event(self._pod, "Unhealthy", f"{probe.kind} failed: {problem}", "Warning")
            if verdict is not None and verdict is not last:
                last = verdict
                self._listener.on_verdict(self.container, probe, problem)
                if verdict and probe.kind == STARTUP:
                    self._begin_probes(has_started=True)
                    return
            await self._parts.clock.sleep(probe.period)

    async def _ask(self, probe: Probe) -> str:
        if not probe.command:
            at = PodPlace(self._port_of, self._launch.network)
            return await probes.answers(probe, self.container, clock=self._parts.clock, place=at)
        command = replace(self._launch, argv=[self._launch.visible(word) for word in probe.command])
        once = _Command()
        identity = f"{self._identity}/{next(_numbers)}"
        self._parts.processes.start(identity, command, once)
        try:
            async with self._parts.clock.timeout(probe.timeout):
                await once.has_ended.wait()
        except TimeoutError:
            return f"command timed out after {probe.timeout:g} s"
        finally:
            if not once.has_ended.is_set():
                self._parts.processes.signal(identity, signal.SIGKILL)
        return once.problem


class _Command:
    """A process beside the container's own: a probe or a hook."""

    def __init__(self) -> None:
        self.has_ended = asyncio.Event()
        self.problem = ""
        self._output = b""

    def on_started(self, pid: int) -> None:
        """It runs."""

    def on_failed(self, problem: str) -> None:
        self.problem = problem
        self.has_ended.set()

    def on_output(self, data: bytes) -> None:
        self._output = (self._output + data)[:_MOST_OUTPUT]

    def on_ended(self, status: int) -> None:
        if status:
            self.problem = self._output.decode(errors="replace").strip() or f"exit code {status}"
        self.has_ended.set()


def _end(file: Path) -> str:
    """The end of what a program has written into its file. If it has put a pipe there, that must not block the node."""
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        try:
            beginning = max(os.fstat(descriptor).st_size - _LONGEST_MESSAGE, 0)
            return os.pread(descriptor, _LONGEST_MESSAGE, beginning).decode(errors="replace")
        finally:
            os.close(descriptor)
    return ""
