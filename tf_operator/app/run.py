"""``tf-operator run``: everything that exists in the process, and who is given what.

Read ``_live`` from top to bottom: it is the list. ``lifecycle`` says in which order all this starts and ends,
``wiring`` what a controller is made of, ``clients`` what speaks to the API server. Exit codes: 0 after SIGTERM,
1 when the process cannot start or a part of it has failed.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from tf_operator.app import (
    clients,
    config_file,
    controller_config,
    job_queue,
    lifecycle,
    logs,
    signals,
    tensorboards,
    wiring,
)
from tf_operator.app.http import certificates, endpoints, health, metrics_auth, server
from tf_operator.app.metrics import loop_monitor, registry
from tf_operator.app.options.options import Kueue, Options
from tf_operator.app.webhook import endpoint as webhook
from tf_operator.controller.conflicts import ConflictDetector, ConflictingController
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.election.election_thread import ElectionThread
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.planning import gang_schedulers
from tf_operator.planning.snapshot import Settings

_log = Logger(__name__)
_CANNOT_START = (
    ConfigurationError,
    certificates.CertificateError,
    controller_config.ConfigFileError,
    ConflictingController,
    server.ServerError,
)


def run(options: Options, *, make_controller: wiring.MakeController = wiring.make_controller) -> int:
    """Run until a signal, and return the exit code of the process."""
    logs.configure(options.log_format, options.log_level)
    for warning in options.warnings:
        _log.warning(warning)
    try:
        with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
            runner.run(_run(options, make_controller))
    except _CANNOT_START as error:
        _log.error("cannot start", error=str(error))
        return 1
    except Exception:  # noqa: BLE001 (reported in the log, and by the exit code)
        _log.exception("a part of the process failed")
        return 1
    _log.info("ended")
    return 0


async def _run(options: Options, make_controller: wiring.MakeController) -> None:
    try:
        await _live(options, make_controller)
    except ExceptionGroup as failures:  # of parts that run beside each other
        if conflict := failures.subgroup(ConflictingController):
            raise conflict.exceptions[0] from None
        raise


async def _live(options: Options, make_controller: wiring.MakeController) -> None:
    """Build everything, and live until a signal."""
    clock = SystemClock()
    metrics = _metrics(options, clock)
    monitor = loop_monitor.LoopMonitor(clock, metrics.loop)
    probes = health.Health(clock, monitor.heartbeat)
    reviewer = metrics_auth.Reviewer(clock, endpoints.METRICS_PATH)
    served = endpoints.endpoints(
        options, metrics=metrics, health=probes, monitor=monitor, reviewer=reviewer, clock=clock
    )
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(signals.stopping())
        stack.enter_context(monitor.heartbeat.beating())
        listening = stack.enter_context(server.serving(*served))
        _log.info("listening", addresses=[str(address) for address in listening])

        # Credentials are read here, by a plugin perhaps, which may hang.
        connecting = stack.enter_async_context(clients.Clients(options, clock, metrics))
        if (to_server := await signals.unless_stopped(stop, connecting)) is None:
            return
        if (full_options := await signals.unless_stopped(stop, _with_what_is_installed(options, to_server))) is None:
            return
        options, settings = full_options, wiring.settings(full_options)
        config = _config(options, settings, metrics)
        kinds = [str(api.resource) for api in options.apis]
        _log.info("starting", release=clients.release(), apiserver=to_server.host, resources=kinds)
        reviewer.use(to_server.reviews())
        informers, recorder, election = to_server.informers(), to_server.recorder(), to_server.election()
        conflicts = ConflictDetector(clock, recorder=recorder, is_overridden=options.overrides_existing_controller)
        context = wiring.ControllerContext(
            client=to_server.jobs(election),
            informers=informers,
            recorder=recorder,
            clock=clock,
            options=options,
            controllers=metrics.controllers,
            conflicts=conflicts,
            settings=config.settings if config else lambda: settings,
        )
        controllers = _controllers(context, make_controller)
        probes.watch(informers, config=to_server.config)
        metrics.sample_informers(informers)
        for name, controller in controllers.items():
            metrics.sample_queue(name, controller.queue)
        life = lifecycle.Lifecycle(
            {**controllers, **_queue(context, metrics, probes)},
            informers=informers,
            recorder=recorder,
            election=election or lifecycle.NoElection(),
            clock=clock,
            stop=stop,
            drain_timeout=options.drain_timeout,
            wait_until_clear=conflicts.wait_until_clear,
        )
        parts = _webhook(options, to_server, election, stack, probes=probes, metrics=metrics)
        if config:
            parts["controller config"] = config.follow(clock)
        await life.run(monitor=monitor.measure(), conflicts=conflicts.watch(), **parts)


async def _with_what_is_installed(options: Options, to_server: clients.Clients) -> Options:
    """The options with what depends on what else the cluster has."""
    if options.kueue is Kueue.EXTERNAL:
        options = replace(options, kueue_version=await to_server.kueue_version())
        _log.info("queues of Kueue", version=options.kueue_version)
    if options.restarts_in_place and not await to_server.can_restart_in_place():
        _log.warning("before Kubernetes 1.36 no pod restarts in place; those of elastic jobs are replaced")
        options = replace(options, restarts_in_place=False)
    return await _with_gang_scheduler(options, to_server)


async def _with_gang_scheduler(options: Options, to_server: clients.Clients) -> Options:
    """The options with a gang scheduler that is installed, if they leave it open which one, or which version of it."""

    async def served(name: str) -> str:
        versions = gang_schedulers.versions(name)
        return (await to_server.gang_scheduler(versions) if versions else "") or name

    by_job = tuple([await served(name) for name in options.gang_schedulers_by_job])
    name, rules = await served(options.gang_scheduler), options.job_queue
    if options.finds_gang_scheduler:
        name = await to_server.gang_scheduler(gang_schedulers.BY_PREFERENCE)
        _log.info("gang scheduling", scheduler=name or "none is installed")
        if not name and not rules and await to_server.may_read_nodes():
            _log.info("jobs are admitted whole, by what the nodes have left")
            rules = replace(options.queue_rules, resizes=False)
    return replace(options, gang_scheduler=name, gang_schedulers_by_job=by_job, job_queue=rules)


def _config(options: Options, settings: Settings, metrics: registry.Metrics) -> config_file.ConfigFile | None:
    file = options.controller_config_file
    return config_file.ConfigFile(file, settings, metrics.config.failed) if file else None


def _webhook(
    options: Options,
    to_server: clients.Clients,
    election: ElectionThread | None,
    stack: AsyncExitStack,
    *,
    probes: health.Health,
    metrics: registry.Metrics,
) -> dict[str, Coroutine[Any, Any, object]]:
    """What has to run for the webhook that converts older versions; it is served until the stack is left."""
    if not options.webhook:
        return {}
    client, leader = to_server.webhook(), to_server.webhook(clients.guard(election))
    serving = webhook.serving(options.webhook, options.apis, client, leader, probes=probes, measures=metrics.webhook())
    return stack.enter_context(serving)


def _controllers(
    context: wiring.ControllerContext, make_controller: wiring.MakeController
) -> dict[str, wiring.Runnable]:
    """One for each served API, and those of TensorBoards, by name."""
    of_jobs = {api.controller: make_controller(context, api) for api in context.options.apis}
    return {**of_jobs, **tensorboards.make_controllers(context)}


def _queue(
    context: wiring.ControllerContext, metrics: registry.Metrics, probes: health.Health
) -> dict[str, wiring.Working]:
    """The job queue, by its name, where there is one."""
    if not context.options.job_queue:
        return {}
    instruments = metrics.job_queue()
    planner = job_queue.make_queue_planner(context, context.options.job_queue, instruments)
    instruments.read_stall_by(lambda: planner.stalled_seconds)
    probes.watch_loop("job queue", lambda: planner.stalled_seconds)
    return {"job-queue": planner}


def _metrics(options: Options, clock: Clock) -> registry.Metrics:
    return registry.Metrics(
        controllers={api.controller: api.framework for api in options.apis} | tensorboards.frameworks(options),
        workers=options.workers,
        lease=options.election.name if options.election else "",
        namespaces=options.namespaces,
        clock=clock,
    )


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, when it is installed (``pip install tf-operator[uvloop]``); else asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 (it is optional)
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
