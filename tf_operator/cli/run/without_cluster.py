"""``tfjob run`` without a cluster: the API server, the operator and the node in this process, for one job.

When the command ends, nothing is left: no process, no port, no folder. ``tfjob local up`` is for what shall stay.
"""

import argparse
import asyncio
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Final

from tf_operator.cli import imports, session
from tf_operator.cli.run import gpu_notes, job_run, local_flags
from tf_operator.cli.run.job_run import RunOptions
from tf_operator.cli.run.milestones import Milestones
from tf_operator.client import AsyncTFJobs, NotPossible
from tf_operator.client.manifests.files import Manifest
from tf_operator.client.run import gpu_demand, own_machine, tensorflow_lines
from tf_operator.dialects import registry
from tf_operator.local import scratch
from tf_operator.local.node.gpus.devices import GpuError
from tf_operator.local.node.processes import supervisor
from tf_operator.local.node.processes.supervisor import SpawnerProcess
from tf_operator.local.state import StateFolder
from tf_operator.machinery import log

if TYPE_CHECKING:
    from tf_operator.app.local import LocalCluster

SERVED_AFTER: Final = 1.0
"""Seconds after the start of the job's first program."""
STARTED_WITHIN: Final = 5.0
"""Seconds until a job is served that has no program yet: it waits, for GPUs perhaps."""
_SILENT_FOR: Final = 1.0
"""Seconds until it is said what the end waits for."""


def run(arguments: argparse.Namespace, manifests: Sequence[Manifest]) -> int:
    local_flags.explain_images("without a cluster", arguments)
    log.before_first_record(_configure_logs)
    with scratch.folder() as folder:
        spawner = supervisor.start_spawner(folder.path / scratch.PROCESSES)
        return session.ended(lambda: _run(arguments, manifests, folder, spawner))


def _configure_logs() -> None:
    """Only what has failed: what the operator warns of is in the job's events, and nobody administers it here."""
    from tf_operator.app import logs  # noqa: PLC0415 (most jobs run without a warning)

    logs.configure("console", "error")


async def _run(
    arguments: argparse.Namespace, manifests: Sequence[Manifest], folder: StateFolder, spawner: SpawnerProcess
) -> int:
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _canceller())
    with imports.without_collection():
        from tf_operator.app import local  # noqa: PLC0415 (meanwhile the spawner starts)

    reached = Milestones(session.say, is_on=arguments.verbose)
    apis = tuple(api for api in registry.SERVED if any(api.has(manifest.body) for manifest in manifests))
    python, bodies = local.this_interpreter(), [manifest.body for manifest in manifests]
    hidden = tensorflow_lines.is_one if tensorflow_lines.are_hidden(python.variables, bodies) else job_run.never
    python = replace(python, variables=tensorflow_lines.quieter(python.variables))
    demand = gpu_demand.of(bodies)
    try:
        gpus = gpu_notes.checked(demand, arguments.gpus, shares=arguments.share_gpus)
        await own_machine.check_network(bodies)
        local_flags.explain_network(bodies)
    except (GpuError, NotPossible) as error:
        return session.failed(str(error))
    options = local.LocalOptions(folder, python, apis, spawner, gpus)
    async with local.live(options, on_step=reached.reached) as cluster:
        if gpus and cluster.node.gpus:
            cluster.node.gpus.on_given = gpu_notes.AssignmentNote(demand, gpus.usable).on_given
        jobs = AsyncTFJobs(arguments.namespace, kind=arguments.kind, transport=cluster.transport, clock=cluster.clock)
        kill = _killer(cluster)
        run_options = RunOptions(
            kill=kill, leaves_out=hidden, is_interactive=sys.stdin.isatty() and sys.stderr.isatty()
        )
        async with jobs:
            serving = asyncio.get_running_loop().create_task(_serve(cluster, folder, reached))
            try:
                return await job_run.follow(jobs, manifests, arguments, options=run_options, milestones=reached)
            finally:
                serving.cancel()
                await asyncio.wait([serving])
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGINT, kill)
                loop.call_later(_SILENT_FOR, _report_grace, cluster)


def _canceller() -> Callable[[], None]:
    """What cancels this task, once: a second Ctrl-C must not break off what ends its processes."""
    task = asyncio.current_task()

    def cancel() -> None:
        if task and not task.cancelling():
            task.cancel()

    return cancel


def _killer(cluster: "LocalCluster") -> Callable[[], None]:
    """What kills all programs, and says so once."""
    calls = count()

    def kill() -> None:
        if not next(calls):
            session.say("\nkilling all programs")
        cluster.node.kill()

    return kill


def _report_grace(cluster: "LocalCluster") -> None:
    if grace := cluster.node.longest_grace():
        session.say(f"waiting up to {grace:g} s for programs to end; Ctrl-C kills them")


async def _serve(cluster: "LocalCluster", folder: StateFolder, reached: Milestones) -> None:
    """Serve kubectl and the other verbs, in time for whoever looks on; a job of a moment needs none of it."""
    from tf_operator.app import local  # noqa: PLC0415 (as above)

    with suppress(TimeoutError):
        async with cluster.clock.timeout(STARTED_WITHIN):
            await reached.has_process.wait()
    await cluster.clock.sleep(SERVED_AFTER)
    try:
        # In a thread: it takes half a second, and what the job prints must not wait for that.
        await asyncio.to_thread(import_module, "tf_operator.local.endpoint")
        async with local.published(cluster, folder):
            reached.reached(f"for kubectl: export KUBECONFIG={shlex.quote(str(folder.kubeconfig))}")
            await asyncio.get_running_loop().create_future()
    except Exception as error:  # noqa: BLE001 (kubectl is a courtesy: the job goes on)
        reached.reached(f"kubectl is not served: {error}")
