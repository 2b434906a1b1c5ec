"""A job without a cluster: everything that exists in one process on a laptop, and who is given what.

Read ``live`` from top to bottom: it is the list. The operator is that of ``run``, the same controllers, caches and
events, over a transport that ends in the API server of this process. It needs no election, and nobody scrapes it.

A training has to start within a second, so nothing is imported here that is not needed before: HTTP, for kubectl, and
the journal are ``serve``'s.
"""

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tf_operator.app import lifecycle, wiring
from tf_operator.app.options.options import Options
from tf_operator.app.progress.local import PACE, LocalProgress
from tf_operator.controller.conflicts import ConflictDetector
from tf_operator.controller.metrics_hooks import QueueDecisions
from tf_operator.dialects import registry
from tf_operator.dialects.served import ServedAPI
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.in_process import InProcess
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import Journal
from tf_operator.local.local_kinds import ENDED_JOBS, JOB_CURVES
from tf_operator.local.log_source import LogSource
from tf_operator.local.log_transport import LogTransport
from tf_operator.local.node import machine, requested, usage
from tf_operator.local.node.gpus import gpu_settings
from tf_operator.local.node.gpus.devices import GPU, MIG, GpuError
from tf_operator.local.node.gpus.gpu_settings import GpuSettings
from tf_operator.local.node.machine import Interpreter, machine_capacity
from tf_operator.local.node.node_parts import NodeSettings
from tf_operator.local.node.process_node import ProcessNode
from tf_operator.local.node.processes.supervisor import SpawnerProcess
from tf_operator.local.state import StateError, StateFolder
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.clock import Clock, SystemClock, Timer
from tf_operator.machinery.events.event_object import Reporter
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.log import Logger
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.transport import Transport
from tf_operator.meta import Body, key_of, resource_version_of, text_of
from tf_operator.planning.child_kinds import network_policy
from tf_operator.planning.job_queue.schedule import QueueRules

if TYPE_CHECKING:
    from tf_operator.app.local_kinds.ended_jobs import EndedJobs

_QUEUE_PERIOD: Final = 0.1
"""Seconds: nobody is to wait for a queue in which nobody waits."""
DRAIN_WITHIN: Final = 2.0
"""Seconds that reconciles have at the end; each of them takes milliseconds here."""
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_HTTPS: Final = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}
FIRST: Final[tuple[Body, ...]] = (
    *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES),
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {"clusterIP": "10.96.0.1", "ports": [_HTTPS]},
    },
)
"""What a cluster has before anybody creates anything: programs ask for it to see whether they are in one."""


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """Which GPUs pods can have, in the words of ``--gpus``, and whether several pods can have the same."""

    names: str = ""
    shares: bool = False


_ALL_GPUS: Final = GpuChoice()


def endpoints(address: str) -> tuple[Body, ...]:
    """Where the Service of the API server leads: to the address at which it listens."""
    host, _, port = address.removeprefix("https://").partition(":")
    about = {"name": "kubernetes", "namespace": "default"}
    ports = [{"name": "https", "port": int(port), "protocol": "TCP"}]
    subset = {"addresses": [{"ip": host}], "ports": ports}
    old = {"apiVersion": "v1", "kind": "Endpoints", "metadata": about, "subsets": [subset]}
    labelled = {**about, "labels": {"kubernetes.io/service-name": "kubernetes"}}
    part = {"addresses": [host], "conditions": {"ready": True}}
    new = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": labelled, "addressType": "IPv4"}
    return old, {**new, "endpoints": [part], "ports": ports}


_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """What can be chosen about a local process."""

    folder: StateFolder
    """This process owns it. Logs, volumes and what a node has to remember are in it."""
    interpreter: Interpreter
    """What stands for images."""
    apis: tuple[ServedAPI, ...] = registry.SERVED
    spawner_process: SpawnerProcess | None = None
    """That of the node, if it was started before."""
    gpus: GpuSettings | None = None
    """``None`` on a machine that has none."""
    queued: tuple[str, ...] = ()
    """How the names of resources begin of which jobs wait until all that they ask for is free, so that no two of them
    hold each other's."""
    enforces_requests: bool = False
    """Whether pods wait until the CPU and memory that they request are free."""


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """What a local process has for those who use it."""

    server: ApiServer
    transport: Transport
    """Of clients in this process."""
    logs: LogSource
    clock: Clock
    node: ProcessNode


def _ignore(_step: str) -> None:
    """Nobody wants to know."""


@asynccontextmanager
async def live(
    options: LocalOptions, *, journal: Journal | None = None, on_step: Callable[[str], object] = _ignore
) -> AsyncIterator[LocalCluster]:
    """Build everything, and live until the block is left: then programs have their grace periods, and nothing runs.

    ``on_step`` is called with ``server ready`` and ``operator ready``.
    """
    clock, stop = SystemClock(), asyncio.Event()

    def read_metrics(now: datetime) -> Iterable[Body]:
        return node.pod_metrics(now)

    progress = LocalProgress(clock, options.folder)
    computed = [Kind(usage.POD_METRICS, "pod", read=read_metrics)] if usage.is_known() else []
    computed.append(Kind(JOB_CURVES, "jobcurves", read=progress.curves.read))
    ended = _ended_jobs(options, clock) if journal else None
    computed += [Kind(ENDED_JOBS, "endedjob", read=ended.read)] if ended else []
    server = ApiServer(clock, kinds=(*catalog.KINDS, *computed), journal=journal)
    for body in (*FIRST, *(api.crd.load(*api.conversion.versions) for api in options.apis)):
        install(server, body)
    if ended:
        ended.open(server.store)
    in_process = InProcess(server, clock)
    on_step("server ready")

    node = ProcessNode(
        _client(in_process, clock),
        clock=clock,
        settings=NodeSettings(
            options.folder.node,
            options.interpreter,
            machine_capacity(),
            gpus=options.gpus,
            enforces_requests=options.enforces_requests,
            shared_port=progress.port,
        ),
        spawner_process=options.spawner_process,
    )
    rules = QueueRules(counts=options.queued) if options.queued else None
    kinds = (network_policy.KIND,)  # stored as in a cluster; the node goes by the mark on pods
    operator_options = Options(apis=options.apis, election=None, job_queue=rules, child_kinds=kinds)
    operator = make_operator(in_process, operator_options, clock=clock, stop=stop, on_step=on_step, progress=progress)
    failed: Exception | None = None
    async with asyncio.TaskGroup() as parts:
        running = parts.create_task(
            operator.run(node=node.run(), collector=_collect(server, clock), progress=progress.run())
        )
        try:
            yield LocalCluster(server, LogTransport(in_process, node.logs, clock), node.logs, clock, node)
        except Exception as error:  # noqa: BLE001 (raised below, not as one of a group of failures)
            failed = error
        finally:
            stop.set()
            await asyncio.wait([running])
            if ended:
                ended.close()
    if failed:
        raise failed


def _ended_jobs(options: LocalOptions, clock: Clock) -> "EndedJobs":
    from tf_operator.app.local_kinds.ended_jobs import EndedJobs  # noqa: PLC0415 (a job's own process keeps none)

    return EndedJobs(options.folder.history, clock, options.apis)


def serve(
    folder: StateFolder,
    gpus: GpuChoice = _ALL_GPUS,
    *,
    enforces_requests: bool = False,
    on_ready: Callable[[], object] = lambda: None,
) -> int:
    """``tfjob local up``: all of it, and HTTPS for kubectl, until a signal; the exit code of the process."""
    from tf_operator.app import logs  # noqa: PLC0415 (a job's own process needs no log of the operator)

    logs.configure("console", "info")
    with folder.owned():
        asyncio.run(_serve(folder, gpus, on_ready, enforces_requests=enforces_requests))
        folder.forget()
    return 0


async def _serve(
    folder: StateFolder, gpus: GpuChoice, on_ready: Callable[[], object], *, enforces_requests: bool
) -> None:
    from tf_operator.app import signals  # noqa: PLC0415 (as above)
    from tf_operator.local.apiserver.storage.journal import SqliteJournal  # noqa: PLC0415

    with signals.stopping() as stop:
        signals.on_hangup(stop.set)
        usable_gpus = machine_gpus(gpus)
        are_own = usable_gpus is not None and bool(usable_gpus.usable) and not gpus.shares
        options = LocalOptions(
            folder,
            this_interpreter(),
            gpus=usable_gpus,
            queued=(*((GPU, MIG) if are_own else ()), *(requested.COUNTED if enforces_requests else ())),
            enforces_requests=enforces_requests,
        )
        await serve_until(stop, options, on_ready, journal=SqliteJournal(folder.journal))


async def serve_until(
    stop: asyncio.Event, options: LocalOptions, on_ready: Callable[[], object], *, journal: Journal | None = None
) -> None:
    """Serve kubectl and other processes; then programs have their grace periods, and a signal kills them."""
    from tf_operator.app import signals  # noqa: PLC0415 (as above)

    folder = options.folder
    async with (
        live(options, journal=journal, on_step=_log.info) as cluster,
        published(cluster, folder) as address,
    ):
        for body in endpoints(address):
            install(cluster.server, body)
        _log.info("listening", address=address)
        on_ready()
        await stop.wait()
        if grace := cluster.node.longest_grace():
            _log.info("waiting for programs to end; another signal kills them", at_most=f"{grace:g} s")
        folder.record(address, is_ending=True, ends_within=grace)
        signals.insisting(lambda: _kill(cluster.node))


def _kill(node: ProcessNode) -> None:
    _log.warning("killing all programs")
    node.kill()


def published(cluster: LocalCluster, folder: StateFolder) -> AbstractAsyncContextManager[str]:
    """Serve kubectl by HTTPS and write its kubeconfig into the folder; yields the address."""
    from tf_operator.local import endpoint  # noqa: PLC0415 (takes as long as everything else together)

    return endpoint.published(folder, cluster.server.begin, logs=cluster.logs, clock=cluster.clock)


def this_interpreter() -> Interpreter:
    """That of the shell in which this was typed, with its variables, in its folder."""
    return Interpreter(machine.user_python(os.environ), dict(os.environ), str(Path.cwd()))


def machine_gpus(choice: GpuChoice = _ALL_GPUS) -> GpuSettings | None:
    """Those that the shell in which this was typed can use; raises ``GpuError`` if the choice is not among them."""
    try:
        return gpu_settings.of_machine(os.environ, choice.names, shares=choice.shares)
    except GpuError as error:
        if choice.names:
            raise
        _log.warning("GPUs are not used", cause=str(error))
        return None


def make_operator(
    transport: Transport,
    options: Options,
    *,
    clock: Clock,
    stop: asyncio.Event,
    on_step: Callable[[str], object],
    progress: LocalProgress,
) -> lifecycle.Lifecycle:
    """The operator for an API server that nobody else uses."""
    client = _client(transport, clock)
    informers = SharedInformerFactory(client=client, clock=clock)
    recorder = EventRecorder(client, clock=clock, reporter=Reporter(wiring.COMPONENT, "local"))
    conflicts = ConflictDetector(clock, recorder=recorder, is_overridden=True)
    settings = replace(wiring.settings(options), has_one_node=True, marks_isolated=True, progress=progress.server)
    context = wiring.ControllerContext(
        client=client,
        informers=informers,
        recorder=recorder,
        clock=clock,
        options=options,
        controllers={api.controller: wiring.Unmeasured() for api in options.apis},
        conflicts=conflicts,
        settings=lambda: settings,
        progress_pace=PACE,
        progress_intakes=progress.intakes,
    )

    async def on_synced() -> None:
        on_step("operator ready")

    working: dict[str, wiring.Working] = {api.controller: wiring.make_controller(context, api) for api in options.apis}
    if options.job_queue:
        from tf_operator.app import job_queue  # noqa: PLC0415 (one job has nobody to wait for)

        unmeasured = QueueDecisions()
        working["job-queue"] = job_queue.make_queue_planner(
            context, options.job_queue, unmeasured, period=_QUEUE_PERIOD
        )
    return lifecycle.Lifecycle(
        working,
        informers=informers,
        recorder=recorder,
        election=lifecycle.NoElection(),
        clock=clock,
        stop=stop,
        drain_timeout=DRAIN_WITHIN,
        wait_until_clear=on_synced,
    )


def install(server: ApiServer, body: Body) -> None:
    """Create an object that has to be there, or replace the one that an earlier release has left."""
    kind = server.registry.of_kind(text_of(body, "apiVersion"), text_of(body, "kind"))
    if kind is None:
        raise LookupError(f"the server knows no {text_of(body, 'kind')}")
    key = key_of(body)
    stored = server.handle(requests.get(kind.resource, key))
    if not isinstance(stored, Response) or stored.code != 200:
        answer = server.handle(requests.create(kind.resource, key.namespace, body))
    else:
        version = {"resourceVersion": resource_version_of(msgspec.json.decode(stored.body))}
        replacement: dict[str, Any] = {**body, "metadata": {**body["metadata"], **version}}
        answer = server.handle(requests.update(kind.resource, key, replacement))
    if not isinstance(answer, Response) or answer.code >= 300:
        problem = text_of(msgspec.json.decode(answer.body), "message") if isinstance(answer, Response) else answer
        raise StateError(f"{text_of(body, 'kind')} {key.name} cannot be installed: {problem}")


def _client(transport: Transport, clock: Clock) -> ApiClient:
    return ApiClient(transport, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1))


async def _collect(server: ApiServer, clock: Clock) -> None:
    """Do what the garbage collector and the controller of namespaces do in a cluster, after each change."""
    changed = asyncio.Event()
    changed.set()
    server.store.listeners.append(lambda _: changed.set())
    timer: Timer | None = None
    while True:
        await changed.wait()
        changed.clear()
        while server.collect():
            await clock.sleep(0)
        if timer is not None:
            timer.cancel()
        again = server.collects_again_at
        timer = None if again is None else clock.call_at(again, changed.set)
