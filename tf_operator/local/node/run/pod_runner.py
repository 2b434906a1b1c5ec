"""One pod on this node: carries out what ``lifecycle`` decides, and keeps the pod's status at what has happened.

A runner is a loop that wakes on every event (the pod has changed, a process has started or ended, a probe has its
verdict, a time has come), asks for the next step, and starts and stops containers. The status is written beside it, so
a slow API server never delays a stop or a restart.
"""

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tf_operator import quantity
from tf_operator.local.node import job_networks
from tf_operator.local.node.addresses import PodNames
from tf_operator.local.node.listeners import Listener
from tf_operator.local.node.node_parts import PODS, NodeParts
from tf_operator.local.node.pod import READINESS, STARTUP, LocalContainer, LocalPod
from tf_operator.local.node.run import lifecycle, pod_report
from tf_operator.local.node.run.container_run import ContainerRun, process_number
from tf_operator.local.node.run.lifecycle import PodStep
from tf_operator.local.node.run.probes import Probe
from tf_operator.local.node.run.status_writer import PodStatusWriter
from tf_operator.local.node.runtime import End, Problem, Runtime
from tf_operator.local.node.start.pod_setup import PodSetup
from tf_operator.local.node.start.program import CannotStart, bare_ports, launch, unseen_mounts
from tf_operator.local.node.start.volumes import CLAIM, Configs, references
from tf_operator.local.node.usage import ContainerSession
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey

_log = Logger(__name__)
_PAUSE = 1.0
"""After a request that failed."""
_RETRY = timedelta(seconds=2)
"""After something that a container needs was missing. Ten times as long after ten attempts."""


class PodRunner:
    """Runs one pod until it is gone. ``run`` in a task; the other methods say what has happened."""

    def __init__(self, parts: NodeParts, pod: LocalPod, names: PodNames) -> None:
        self._parts = parts
        self._pod = pod
        self._names = names
        self._since = pod_report.began_at(self._pod) or parts.clock.now()
        self._runtimes: dict[str, Runtime] = pod_report.recovered(self._pod, parts.clock.now())
        self._containers = {container.name: container for container in self._pod.containers}
        self._runs: dict[str, ContainerRun] = {}
        self._setup = PodSetup(parts, self._pod, names)
        self._writer = PodStatusWriter(parts, pod)
        self._changed = asyncio.Event()
        self._is_gone = False
        self._node_ends = False
        self._attempts = 0
        self._warned: set[str] = set()

    async def run(self) -> None:
        """Run the pod until it is gone, or is over and was deleted, or nothing of it runs when the node ends."""
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._writer.run(), name=f"status of {self._pod.key}")
            if pod_report.was_interrupted(self._pod):
                self._report(PodStep(ending=lifecycle.Ending.INTERRUPTED, is_over=True))
            elif not pod_report.is_final(self._pod):
                try:
                    await self._run_containers(tasks)
                finally:
                    self._parts.networks.release(self._pod)
            while not (self._pod.deletion or self._is_left):
                await self._wait(None)
            if not self._is_left:
                await self._confirm_deletion()
            while not self._is_left:
                await self._wait(None)  # a finalizer holds it
            writing.cancel()
        await asyncio.to_thread(shutil.rmtree, self._parts.settings.pod_folder(self._pod), ignore_errors=True)

    def sessions(self) -> tuple[LocalPod, list[ContainerSession]]:
        """The pod, and its containers that run."""
        running = [(name, runtime, runtime.started_at) for name, runtime in self._runtimes.items()]
        return self._pod, [
            ContainerSession(name, process_number(runtime.container_id), began)
            for name, runtime, began in running
            if began is not None
        ]

    def on_changed(self, pod: LocalPod) -> None:
        self._pod = pod
        self._writer.is_newest(pod)
        self._changed.set()

    @property
    def grace_seconds(self) -> float:
        return self._pod.grace_seconds

    @property
    def has_programs(self) -> bool:
        return bool(self._runs)

    @property
    def listener(self) -> Listener:
        """Where its programs may listen in the network of the machine."""
        own = self._names.own_ports if self._runs and not job_networks.is_isolated(self._pod) else ()
        return Listener(self._pod, [self._names.port_of(port) for port in own])

    def uses(self, claim: ObjectKey) -> bool:
        return claim.namespace == self._pod.key.namespace and (CLAIM, claim.name) in references(self._pod)

    @property
    def _is_left(self) -> bool:
        return self._is_gone or self._node_ends

    def on_node_ending(self) -> None:
        """The node ends: programs have their grace period. What is stored of the pod stays, for the next node."""
        self._node_ends = True
        self._changed.set()

    def on_gone(self) -> None:
        """The pod is no more: somebody has deleted it by force. Nothing of it may go on."""
        self._is_gone = True
        for run in self._runs.values():
            run.kill()
        self._changed.set()

    def on_run_started(self, container: LocalContainer, container_id: str) -> None:
        if self._parts.gpus:
            self._parts.gpus.on_started(self._pod, process_number(container_id))
        now = self._parts.clock.now()
        self._set(container, self._runtimes[container.name].began(container_id, now, container))
        self._parts.event(self._pod, "Started", f"Started container {container.name}")

    def on_run_ended(self, container: LocalContainer, end: End) -> None:
        """The process of a container has ended, or could not be started."""
        del self._runs[container.name]
        runtime = self._runtimes[container.name].ended(end, self._parts.settings.first_backoff)
        self._set(container, runtime)
        if end.reason == "StartError":
            self._parts.event(self._pod, "Failed", f"Error: {end.message}", "Warning")
        if runtime.backoff and container.restarts_after(end.code) and not self._pod.deletion:
            message = f"Back-off restarting failed container {container.name} in pod {self._pod.key.name}"
            self._parts.event(self._pod, "BackOff", message, "Warning")

    def on_verdict(self, container: LocalContainer, probe: Probe, problem: str) -> None:
        runtime = self._runtimes[container.name]
        if probe.kind == READINESS:
            self._set(container, replace(runtime, is_ready=not problem and runtime.has_started))
        elif problem:
            message = f"Container {container.name} failed {probe.kind}, will be restarted"
            self._parts.event(self._pod, "Killing", message)
            self._stop(container.name)
        elif probe.kind == STARTUP:
            self._set(container, replace(runtime, has_started=True, is_ready=READINESS not in container.probes))

    def _set(self, container: LocalContainer, runtime: Runtime) -> None:
        self._runtimes[container.name] = runtime
        self._changed.set()

    async def _run_containers(self, tasks: asyncio.TaskGroup) -> None:
        """Live through the pod's life, until nothing of it runs and its last status is to be written."""
        while True:
            self._changed.clear()
            step = self._step()
            for name in step.stop:
                self._parts.event(self._pod, "Killing", f"Stopping container {name}")
                self._stop(name)
            for name in step.kill:
                self._kill(name)
            if step.resets:
                now = self._parts.clock.now()
                self._runtimes = {name: runtime.reset(now, step.resets_at) for name, runtime in self._runtimes.items()}
                continue
            if step.start and not self._is_gone:
                await self._start(step.start, tasks)
                continue
            if not (self._node_ends or any(runtime.is_starting for runtime in self._runtimes.values())):
                self._report(step)
            if step.is_over or (self._is_gone and not self._runs):
                return
            await self._wait(step)

    def _step(self) -> PodStep:
        now = self._parts.clock.now()
        return lifecycle.next_step(self._pod, self._runtimes, since=self._since, now=now, node_ends=self._node_ends)

    async def _wait(self, step: PodStep | None) -> None:
        """Return when something has happened, or the step's time has come."""
        wait = None
        if step and step.wake_at:
            wait = max((step.wake_at - self._parts.clock.now()).total_seconds(), 0.0)
        with suppress(TimeoutError):
            async with self._parts.clock.timeout(wait):
                await self._changed.wait()
        if step is None:
            self._changed.clear()

    async def _start(self, names: tuple[str, ...], tasks: asyncio.TaskGroup) -> None:
        """Start containers; those for which something is missing wait."""
        try:
            configs, network = await self._setup.read_configs(), await self._setup.join_network()
            for name in names if not self._is_left else ():
                self._start_one(self._containers[name], configs, network, tasks)
        except CannotStart as error:
            self._refuse(names, error.problem)
        except OSError as error:  # a full disk, a folder that is read-only
            self._refuse(names, Problem("CreateContainerConfigError", f"a folder or file cannot be made: {error}"))

    def _refuse(self, names: tuple[str, ...], problem: Problem) -> None:
        """Let containers wait that cannot be started as things are, and try again later."""
        self._attempts += 1
        retry_at = self._parts.clock.now() + _RETRY * min(self._attempts, 10)
        for name in names:
            if not self._runtimes[name].is_active:
                self._runtimes[name] = self._runtimes[name].refused(problem, retry_at)
        reason = "FailedMount" if problem.reason == "ContainerCreating" else "Failed"
        self._parts.event(self._pod, reason, f"Error: {problem.message}", "Warning")

    def _start_one(
        self, container: LocalContainer, configs: Configs, network: tuple[str, ...], tasks: asyncio.TaskGroup
    ) -> None:
        around = self._setup.surroundings(container, configs)
        program = launch(self._pod, container, around)
        self._setup.check_folder(container, program)
        self._warn_unseen(container, unseen_mounts(container, around.mounts))
        self._warn_bare(container, {port: around.ports[port] for port in bare_ports(container, around.ports)})
        runtime = self._runtimes[container.name]
        restarts = runtime.restarts + (runtime.end is not None)
        log = self._parts.logs.begin(self._pod.uid, container.name, restarts)
        message_file = self._setup.message_file(container)
        message_file.unlink(missing_ok=True)
        run = ContainerRun(
            self._parts,
            container=container,
            pod=self._pod,
            launch=replace(program, group=self._group(container, restarts), network=network),
            log=log,
            message_file=message_file,
            listener=self,
            tasks=tasks,
            port_of=self._names.port_of,
        )
        run.start()
        self._runs[container.name] = run
        self._runtimes[container.name] = runtime.starting()

    def _group(self, container: LocalContainer, restarts: int) -> str:
        """The control group of a run, if it has a limit and the system keeps it."""
        limit, limits = quantity.parse(container.spec.resources.limits.get("memory")), self._parts.limits
        group = limits.make(f"{self._pod.uid}-{container.name}-{restarts}", int(limit)) if limit and limits else None
        return str(group) if group else ""

    def _warn_unseen(self, container: LocalContainer, mounts: list[str]) -> None:
        for volume in mounts:
            if volume not in self._warned:
                self._warned.add(volume)
                variable = f"TF_OPERATOR_VOLUME_{volume}".replace("-", "_").upper()
                message = (
                    f"The path of volume {volume} is mentioned neither in the command nor in the environment of "
                    f"container {container.name}: processes have no mounts, its program finds the folder in {variable}"
                )
                self._parts.event(self._pod, "MountNotVisible", message, "Warning")

    def _warn_bare(self, container: LocalContainer, ports: Mapping[int, int]) -> None:
        for port, real in ports.items():
            if f"port {port}" not in self._warned:
                self._warned.add(f"port {port}")
                message = (
                    f"Container {container.name} mentions port {port} as a bare number, which stays as it is: pods "
                    f"share one address here, and others reach this port at {real}. Take it from the variable "
                    f"TF_OPERATOR_PORT_{port}, in a shell as ${{TF_OPERATOR_PORT_{port}:-{port}}}"
                )
                self._parts.event(self._pod, "PortNotReplaced", message, "Warning")

    def _stop(self, name: str) -> None:
        runtime = self._runtimes[name]
        if run := self._runs.get(name):
            self._runtimes[name] = replace(runtime, is_stopping=True, is_ready=False)
            run.stop(lambda: self._pod.grace_seconds)

    def _kill(self, name: str) -> None:
        if run := self._runs.get(name):
            self._parts.event(self._pod, "Killing", f"Killing container {name}: a rule restarts all containers")
            self._runtimes[name] = replace(self._runtimes[name], is_killed=True, is_ready=False)
            run.kill()

    def _report(self, step: PodStep) -> None:
        now, runtimes = self._parts.clock.now(), dict(self._runtimes)

        def make(pod: LocalPod) -> dict[str, Any]:
            return pod_report.report(pod, runtimes, step, since=self._since, now=now)

        self._writer.want(make)

    async def _confirm_deletion(self) -> None:
        """Say that nothing of the pod is left: the API server may forget it."""
        if not pod_report.is_final(self._pod):
            await self._writer.wait_written()
        while True:
            try:
                await self._parts.client.delete(PODS, self._pod.key, uid=self._pod.uid, grace_seconds=0)
            except (errors.NotFound, errors.Conflict):
                return  # it is gone, or another pod has its name
            except errors.ApiError as error:
                _log.warning("a pod that has ended cannot be deleted", pod=str(self._pod.key), error=str(error))
                await self._parts.clock.sleep(_PAUSE)
            else:
                return
