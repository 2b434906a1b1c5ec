"""The training of ``make demo`` on a real control plane: its node, and what ``tfjob run`` shows, in this process.

A kubelet would serve the logs of its pods. This node has no server, so the reader is in the process of the node.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from demonstration import node
from demonstration.interruption import SIGNALS
from tf_operator.app import logs
from tf_operator.cli import main as tfjob
from tf_operator.cli.manifests import submission
from tf_operator.cli.run import job_run, local_flags
from tf_operator.cli.run.job_run import RunOptions
from tf_operator.cli.run.milestones import Milestones
from tf_operator.client import AsyncTFJobs
from tf_operator.local.log_transport import LogTransport
from tf_operator.machinery import log


class RealTraining:
    """One job on a control plane; ``on_end`` says what to do next, where ``keeps`` says to stay until a signal."""

    def __init__(self, kubeconfig: Path, folder: Path, *, on_end: Callable[[], object], keeps: bool) -> None:
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._on_end = on_end
        self._keeps = keeps
        self._heard: list[signal.Signals] = []

    def run(self, command: list[str]) -> int:
        """Do what ``tfjob run`` does with these arguments; its exit code, or 128 and the number of a signal."""
        log.before_first_record(lambda: logs.configure("console", "error"))
        try:
            return asyncio.run(self._run(command))
        except asyncio.CancelledError:
            return 128 + self._heard[0] if self._heard else 1

    async def _run(self, command: list[str]) -> int:
        self._listen()
        arguments = tfjob.make_parser("run").parse_args(["run", *command])
        manifests = submission.read_one(arguments)
        if manifests is None:
            return 1
        async with node.living(self._kubeconfig, self._folder) as here:
            jobs = AsyncTFJobs(
                "default", transport=LogTransport(here.transport, here.node.logs, here.clock), clock=here.clock
            )
            options = RunOptions(kill=here.node.kill, is_interactive=sys.stdin.isatty() and sys.stderr.isatty())
            async with jobs:
                code = await job_run.follow(
                    jobs,
                    [replace(it, body=local_flags.prepared(it.body, arguments)) for it in manifests],
                    arguments,
                    options=options,
                    milestones=Milestones(print, is_on=False),
                )
            if code == 0:
                self._on_end()
                await self._stay()
            return code

    async def _stay(self) -> None:
        """Live on until a signal, which is then a normal end."""
        if self._keeps:
            self._listen()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    def _listen(self) -> None:
        """Have the first signal cancel this task; a second one must not break off what ends the processes."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()

        def hear(number: signal.Signals) -> None:
            self._heard.append(number)
            if task and len(self._heard) == 1:
                task.cancel()

        for number in SIGNALS:
            loop.add_signal_handler(number, hear, number)
