"""The node: registers itself, takes every pod that has no node yet, and runs each of its pods in a task of its own.

It is the scheduler, too, in the simplest form: one node, where requests count only if they should. It talks to the API
server as a kubelet does, through an ``ApiClient``, over HTTP or within the process. A pod that breaks its runner fails,
and no other one notices.
"""

import asyncio
import os
import shutil
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from tf_operator.local import short_paths
from tf_operator.local.node import cached_objects, job_networks, registration, scheduling, usage
from tf_operator.local.node import pod as pods
from tf_operator.local.node.addresses import Addresses, PodNames
from tf_operator.local.node.cached_objects import CachedObject
from tf_operator.local.node.claims import ClaimKeeper
from tf_operator.local.node.gpus import assignment, devices
from tf_operator.local.node.gpus.devices import GpuError
from tf_operator.local.node.gpus.journal import GpuJournal
from tf_operator.local.node.gpus.keeper import GpuKeeper
from tf_operator.local.node.job_networks import JobNetworks
from tf_operator.local.node.listeners import ListenerWatch, subject_of
from tf_operator.local.node.logs.node_logs import NodeLogs
from tf_operator.local.node.node_parts import NODES, PODS, SERVICES, NodeParts, NodeSettings
from tf_operator.local.node.pod import LocalPod
from tf_operator.local.node.processes import memory_limits, network
from tf_operator.local.node.processes.supervisor import Processes, SpawnerProcess
from tf_operator.local.node.requested import Requests
from tf_operator.local.node.run import pod_report
from tf_operator.local.node.run.pod_runner import PodRunner
from tf_operator.local.node.start.pod_setup import container_ports
from tf_operator.local.node.usage import MoreUsage, UsageMeter
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.events.event_object import Reporter
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import Body, ObjectKey

_log = Logger(__name__)
_PAUSE = 1.0
"""After a failure."""


class ProcessNode:
    """A node whose pods are processes. ``run`` until cancelled; then nothing of it is left.

    A cancelled node lets programs end as a kubelet does: hooks, SIGTERM, and SIGKILL after the pod's grace period.
    ``kill`` ends that at once.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        clock: Clock,
        settings: NodeSettings,
        spawner_process: SpawnerProcess | None = None,
    ) -> None:
        gpus = settings.gpus
        journal = GpuJournal(gpus.folder, settings.folder) if gpus else None
        recorder = EventRecorder(client, clock=clock, reporter=Reporter("kubelet", settings.name))
        self._parts = NodeParts(
            settings,
            client,
            clock,
            recorder,
            processes=Processes(settings.folder / "processes", spawner_process),
            addresses=Addresses(start=os.getpid() * 97),
            logs=NodeLogs(settings.folder / "logs", clock, most_bytes=settings.log_bytes),
            networks=JobNetworks(settings.shared_port, clock),
            limits=memory_limits.find(),
            gpus=GpuKeeper(gpus.usable, journal, clock, shares=gpus.shares) if gpus and journal else None,
        )
        self.logs = self._parts.logs
        self.gpus = self._parts.gpus
        self._pods = Informer(PODS, client=client, clock=clock, decode=pods.read)
        self._services = Informer(SERVICES, client=client, clock=clock, decode=cached_objects.read)
        self._nodes = Informer(NODES, client=client, clock=clock, decode=cached_objects.read)
        self._claims = ClaimKeeper(self._parts, is_used=self._is_used)
        self._runners: dict[str, PodRunner] = {}
        self._pod_tasks: set[asyncio.Task[None]] = set()
        self._binding: set[asyncio.Task[None]] = set()
        self._requests = Requests(settings.name, settings.capacity)
        self._is_ending = False
        self._tasks: asyncio.TaskGroup | None = None
        self._greeted: set[str] = set()
        self._meter = UsageMeter()

    async def run(self) -> None:
        """Run pods until cancelled. Every process has ended when this returns, and every folder of a pod is gone."""
        shutil.rmtree(self._parts.settings.folder / "pods", ignore_errors=True)
        self._parts.processes.open()
        if self._parts.gpus:
            self._parts.gpus.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._pods.add_handler(self)
                tasks.create_task(self._parts.recorder.run(), name="events of the node")
                tasks.create_task(self._services.run(), name="services of the node")
                tasks.create_task(self._nodes.run(), name="the node itself")
                tasks.create_task(self._claims.run(), name="claims of the node")
                tasks.create_task(self._watch_pods(), name="pods of the node")
                tasks.create_task(registration.register(self._parts), name="register the node")
                tasks.create_task(self._clean_logs(), name="logs of the node")
                tasks.create_task(self._parts.networks.run(), name="networks of jobs")
                short_path = short_paths.keep(self._parts.settings.folder, self._parts.clock)
                tasks.create_task(short_path, name="short path of the node")
                listeners = ListenerWatch(self._parts, lambda: [runner.listener for runner in self._runners.values()])
                tasks.create_task(listeners.run(), name="listeners of the node")
                if self._parts.gpus:
                    tasks.create_task(self._give_gpus(self._parts.gpus), name="GPUs of the node")
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    await self._end_pods()
        finally:
            self._parts.processes.close()
            if self._parts.gpus:
                self._parts.gpus.close()
            if self._parts.limits:
                self._parts.limits.close()
            short_paths.remove(self._parts.settings.folder)
            shutil.rmtree(self._parts.settings.folder / "pods", ignore_errors=True)

    def kill(self) -> None:
        self._is_ending = True
        for runner in self._runners.values():
            runner.on_node_ending()
            runner.on_gone()

    def longest_grace(self) -> float:
        return max((runner.grace_seconds for runner in self._runners.values() if runner.has_programs), default=0.0)

    async def _end_pods(self) -> None:
        """Let all programs end, while their output is read."""
        self._is_ending = True
        for runner in self._runners.values():
            runner.on_node_ending()
        if self._pod_tasks:
            await asyncio.wait(self._pod_tasks)

    def pod_metrics(self, now: datetime) -> Iterator[Body]:
        return self._meter.metrics((runner.sessions() for runner in self._runners.values()), now, self._gpu_usage())

    def _gpu_usage(self) -> MoreUsage:
        """What is to be added of GPUs for a container; the driver is asked once."""
        keeper = self._parts.gpus
        if keeper is None:
            return usage.nothing_more
        try:
            loads = devices.loads()
        except GpuError as error:
            _log.warning("GPUs are not measured", cause=str(error))
            return usage.nothing_more
        return lambda pod, container: keeper.usage(pod, container, loads)

    def on_add(self, item: LocalPod) -> None:
        self._requests.note(item, self._pods.store, has_ended=pod_report.is_final)
        if self._parts.gpus:
            self._parts.gpus.on_changed()
        if runner := self._runners.get(item.uid):
            runner.on_changed(item)
        elif self._is_ending:
            return
        elif item.spec.node_name == self._parts.settings.name:
            self._take(item)
        elif self._is_unscheduled(item):
            if reason := self.refusal(item):
                self.on_refused(item, reason)
            elif not self._needs_gpus(item):
                self.on_assigned(item)

    def _is_unscheduled(self, pod: LocalPod) -> bool:
        is_placed = pod.spec.node_name or self._requests.is_assumed(pod.uid)
        return not (is_placed or pod.deletion or pod.spec.scheduling_gates)

    def refusal(self, pod: LocalPod) -> str:
        settings = self._parts.settings
        own = self._nodes.store.get(ObjectKey("", settings.name))
        reason = scheduling.refusal(own, pod) if own else ""
        if reason or not settings.enforces_requests or not (reasons := self._requests.reasons(pod)):
            return reason
        return scheduling.sentence(reasons)

    def _needs_gpus(self, pod: LocalPod) -> bool:
        return bool(self._parts.gpus and self._parts.gpus.needs(pod))

    async def _give_gpus(self, keeper: GpuKeeper) -> None:
        for others in (self._nodes, self._pods):
            await others.wait_synced()
        await keeper.run(self)

    def waiting(self) -> Iterator[LocalPod]:
        for pod in self._pods.store if not self._is_ending else ():
            if self._is_unscheduled(pod) and self._needs_gpus(pod) and not self.refusal(pod):
                yield pod

    def active(self) -> set[str]:
        nodes = ("", self._parts.settings.name)
        pods = (pod for pod in self._pods.store if pod.spec.node_name in nodes and not pod_report.is_final(pod))
        running = (uid for uid, runner in self._runners.items() if runner.has_programs)
        return {*(pod.uid for pod in pods), *running}

    def on_assigned(self, pod: LocalPod) -> None:
        self._requests.assume(pod)
        if not self._parts.settings.enforces_requests and (excess := self._requests.excess(pod)):
            self._parts.recorder.event(subject_of(pod), "Warning", reason="RequestsExceedMachine", message=excess)
        self._spawn(self._bind(pod), f"schedule {pod.key}", self._binding)

    def on_refused(self, pod: LocalPod, reason: str) -> None:
        self._spawn(self._refuse(pod, reason), f"schedule {pod.key}", self._binding)

    def on_update(self, old: LocalPod, new: LocalPod) -> None:
        self.on_add(new)
        if pod_report.is_final(new) and not pod_report.is_final(old):
            self._on_room()

    def on_delete(self, last: LocalPod, *, final_state_known: bool) -> None:  # noqa: ARG002 (the handler's form)
        self._requests.forget(last.uid)
        self._on_room()
        if self._parts.gpus:
            self._parts.gpus.on_changed()
        if runner := self._runners.get(last.uid):
            runner.on_gone()
        else:
            self._parts.logs.remove(last.key, last.uid)

    async def _watch_pods(self) -> None:
        """Watch pods, once it is known what may occur in them, and whether they are taken."""
        for others in (self._services, self._nodes, self._claims):
            await others.wait_synced()
        self._nodes.add_handler(_NodeChanges(self._look_again))
        await self._pods.run()

    def _on_room(self) -> None:
        """A pod has ended."""
        if self._parts.settings.enforces_requests:
            self._look_again()

    def _look_again(self) -> None:
        """The node has changed, or a pod has ended: others that were refused may be taken, the most urgent first."""
        for item in sorted((item for item in self._pods.store if not item.spec.node_name), key=assignment.rank):
            self.on_add(item)

    def _is_used(self, claim: ObjectKey) -> bool:
        return any(runner.uses(claim) for runner in self._runners.values())

    async def _clean_logs(self) -> None:
        """Logs stay until their pod is deleted, perhaps while no node ran."""
        await self._pods.wait_synced()
        self._parts.logs.keep_only({item.uid for item in self._pods.store})

    def _take(self, pod: LocalPod) -> None:
        self._parts.logs.know(pod.key, pod.uid)
        if pod_report.is_final(pod) and not pod.deletion:
            return
        # What the last node has interrupted never runs again: its successor needs the GPUs.
        gpus = None if pod_report.was_interrupted(pod) else self._parts.gpus
        rejection = gpus.adopt(pod) if gpus else None
        if rejection and not pod.deletion:
            self._spawn(self._reject(pod, *rejection), f"reject {pod.key}", self._binding)
            return
        names = PodNames(
            self._parts.addresses,
            pod.uid,
            pod.key.namespace,
            hosts=cached_objects.NamesIn(self._services, pod.key.namespace),
            own=lambda: self._service_of(pod) or pod.key,
            own_ports=container_ports(pod),
            domain=pod.spec.subdomain,
        )
        self._greet(pod)
        self._runners[pod.uid] = runner = PodRunner(self._parts, pod, names)
        self._spawn(self._run(runner, pod), f"pod {pod.key}", self._pod_tasks)

    def _greet(self, pod: LocalPod) -> None:
        """Say once for each job what stands for its images."""
        owner, who = pod.owner, subject_of(pod).uid
        if who not in self._greeted:
            self._greeted.add(who)
            interpreter = self._parts.settings.interpreter.of(pod)
            name = f"{owner.kind} {owner.name}" if owner else f"pod {pod.key.name}"
            _log.info("images are not used: programs run in this environment", of=name, python=interpreter.python)
            message = f"images are not used: the programs of {name} run in the environment of {interpreter.python}"
            self._parts.event(pod, "ImageNotUsed", message)
            if job_networks.is_isolated(pod):
                self._parts.event(pod, "OwnNetwork", f"the programs of {name} get {network.MEANING}")
            if (needs := assignment.needs_of(pod)) and not self._needs_gpus(pod):
                of_all = f"no GPU can be used here: {', '.join(sorted(needs))} of {name} is ignored"
                self._parts.event(pod, "GpuIgnored", of_all)

    async def _run(self, runner: PodRunner, pod: LocalPod) -> None:
        try:
            await runner.run()
        except Exception as error:  # noqa: BLE001 (a pod that no node could run harms no other)
            # As text: a log that renders the local variables of a huge pod stops the loop for a minute.
            _log.error("a pod cannot be run", pod=str(pod.key), trace=traceback.format_exc())
            runner.on_gone()
            await self._fail(pod, error)
        finally:
            self._runners.pop(pod.uid, None)
            self._claims.on_pod_ended()
            if self._parts.gpus:
                self._parts.gpus.on_changed()
            self._parts.addresses.release(pod.uid)
            self._parts.logs.close(pod.uid)
            if self._pods.store.by_uid(pod.uid) is None:
                self._parts.logs.remove(pod.key, pod.uid)

    async def _fail(self, pod: LocalPod, error: Exception) -> None:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        await self._reject(pod, "NodeFailure", f"{type(error).__name__}: {error}")

    async def _reject(self, pod: LocalPod, reason: str, message: str) -> None:
        status = pod_report.rejected(reason, message, now=self._parts.clock.now())
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        with suppress(errors.ApiError):
            await self._parts.client.merge_patch(PODS, pod.key, patch, subresource="status")

    def _service_of(self, pod: LocalPod) -> ObjectKey | None:
        """By which others reach the pod: as a host in a Service, or else the Service of its own name, before others."""
        labels, own, spec = pod.metadata.labels, pod.key, pod.spec
        keys = list[ObjectKey]()
        for service in self._services.store:
            key, selector = service.metadata.key, service.spec.selector
            if key.namespace == own.namespace and selector and selector.items() <= labels.items():
                keys.append(key)
        if spec.hostname and ObjectKey(own.namespace, spec.subdomain) in keys:
            return ObjectKey(own.namespace, f"{spec.hostname}.{spec.subdomain}")
        return own if own in keys else next(iter(keys), None)

    async def _bind(self, item: LocalPod) -> None:
        metadata = item.metadata
        target = {"apiVersion": "v1", "kind": "Node", "name": self._parts.settings.name}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "target": target,
        }
        path = requests.path_of(PODS, metadata.key, "binding")
        while True:
            try:
                await self._parts.client.send(Request("create", "POST", path, body=msgspec.json.encode(body)))
            except (errors.NotFound, errors.Conflict):
                return  # it is gone, or has a node
            except errors.ApiError as error:
                _log.warning("a pod cannot be bound", pod=str(metadata.key), error=str(error))
                await self._parts.clock.sleep(_PAUSE)
            else:
                return

    async def _refuse(self, item: LocalPod, reason: str) -> None:
        """Say that a pod waits for this node, unless it is known."""
        if status := pod_report.unscheduled(item, reason, now=self._parts.clock.now()):
            self._parts.event(item, "FailedScheduling", reason, "Warning")
            patch = {"metadata": {"uid": item.metadata.uid}, "status": status}
            with suppress(errors.ApiError):
                await self._parts.client.merge_patch(PODS, item.metadata.key, patch, subresource="status")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str, running: set[asyncio.Task[None]]) -> None:
        """Do the work in a task that is in ``running`` until it has ended."""
        assert self._tasks is not None  # noqa: S101 (handlers are called while it runs)
        task = self._tasks.create_task(work, name=name)
        running.add(task)
        task.add_done_callback(running.discard)


class _NodeChanges:
    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def on_add(self, item: CachedObject) -> None:
        """There is a Node."""

    def on_update(self, old: CachedObject, new: CachedObject) -> None:
        if old.spec != new.spec:
            self._call()

    def on_delete(self, last: CachedObject, *, final_state_known: bool) -> None:
        """A Node is gone."""
