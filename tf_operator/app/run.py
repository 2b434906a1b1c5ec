"""``tf-operator run``: everything that exists in the process, and who is given what.

Read ``_live`` from top to bottom: it is the list. ``lifecycle`` says in which order all this starts and ends,
``controllers`` and ``wiring`` what works, ``clients`` what speaks to the API server. Exit codes: 0 after SIGTERM,
1 when the process cannot start or a part of it has failed.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack

from tf_operator.app import (
    clients,
    config_file,
    controllers,
    detect,
    job_queue,
    lifecycle,
    logs,
    signals,
    wiring,
)
from tf_operator.app.controller_config import ConfigFileError
from tf_operator.app.http import certificates, endpoints, health, metrics_auth, server
from tf_operator.app.metrics import loop_monitor, registry
from tf_operator.app.options.options import Options
from tf_operator.app.progress import serving as progress
from tf_operator.app.webhook import endpoint as webhook
from tf_operator.controller.conflicts import ConflictDetector, ConflictingController
from tf_operator.machinery import event_loop
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport.config import ConfigurationError

_log = Logger(__name__)
_CANNOT_START = (
    ConfigurationError,
    certificates.CertificateError,
    ConfigFileError,
    ConflictingController,
    server.ServerError,
)


def run(options: Options, *, make_controller: wiring.MakeController = wiring.make_controller) -> int:
    """Run until a signal, and return the exit code of the process."""
    logs.configure(options.log_format, options.log_level)
    for warning in options.warnings:
        _log.warning(warning)
    try:
        event_loop.run(_run(options, make_controller))
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
        detector = detect.Detector(to_server.occasional(), clock, namespace=next(iter(options.namespaces), ""))
        if (full_options := await signals.unless_stopped(stop, detector.complete(options))) is None:
            return
        options, file = full_options, full_options.controller_config_file
        settings = wiring.settings(options)
        config = config_file.ConfigFile(file, settings, metrics.config.failed) if file else None
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
            settings=progress.with_server(options.progress, config.settings if config else lambda: settings),
        )
        working = controllers.make_all(context, make_controller)
        probes.watch(informers, config=to_server.config)
        _sample(metrics, informers, working)
        life = lifecycle.Lifecycle(
            {**working, **_queue(context, metrics, probes)},
            informers=informers,
            recorder=recorder,
            election=election or lifecycle.NoElection(),
            clock=clock,
            stop=stop,
            drain_timeout=options.drain_timeout,
            wait_until_clear=conflicts.wait_until_clear,
        )
        leader = to_server.occasional(clients.guard(election))
        serving = webhook.serving(options, to_server.occasional(), leader, probes=probes, metrics=metrics)
        parts = stack.enter_context(serving)
        stack.enter_context(progress.serving(context, to_server.reviews(), election, monitor=monitor, metrics=metrics))
        if config:
            parts["controller config"] = config.follow(clock)
        await life.run(monitor=monitor.measure(), conflicts=conflicts.watch(), **parts)


def _sample(
    metrics: registry.Metrics, informers: SharedInformerFactory, working: Mapping[str, wiring.Runnable]
) -> None:
    metrics.sample_informers(informers)
    for name, controller in working.items():
        metrics.sample_queue(name, controller.queue)


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
        controllers=controllers.frameworks(options),
        workers=options.workers,
        lease=options.election.name if options.election else "",
        namespaces=options.namespaces,
        clock=clock,
    )
