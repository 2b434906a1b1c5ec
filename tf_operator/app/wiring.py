"""How controllers are built: what the process gives them, what they have to be, and the parts of one.

``run`` builds a ``ControllerContext`` and hands it to a factory, once for each served API; what comes back works
whenever this process leads. So the process can be tested with a controller of three lines, and a controller without a
process. Each controller has its own informer of jobs, queue, notes and pending writes; what watches children, and every
budget, is shared.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import Any, Protocol

from tf_operator.app.options.options import Kueue, Options
from tf_operator.controller import caches, resources
from tf_operator.controller.conflicts import ConflictDetector
from tf_operator.controller.controller import Controller
from tf_operator.controller.debounce import Debounce
from tf_operator.controller.handlers import OnChild, OnJob, OnPod
from tf_operator.controller.job_notes import JobNotes
from tf_operator.controller.kueue import make_kueue_caches
from tf_operator.controller.metrics_hooks import JobInstruments, ReconcileInstruments
from tf_operator.controller.observe import Observer
from tf_operator.controller.progress.intake import ProgressIntake
from tf_operator.controller.progress.reports import DEFAULT_PACE, Pace
from tf_operator.controller.reconciler import Reconciler
from tf_operator.controller.reporter import PlanReporter
from tf_operator.controller.writing.execute import Executor
from tf_operator.controller.writing.shares import Shares, Slots
from tf_operator.controller.writing.writes import Writer
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.consistency import PendingWrites
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.cache.informer import Handler, Informer
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.metrics_hooks import QueueInstruments
from tf_operator.machinery.queue.workqueue import RateLimitedQueue, WorkQueue
from tf_operator.machinery.ratelimit import ExponentialBackoff
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Scope
from tf_operator.meta import ObjectKey
from tf_operator.planning.snapshot import Settings
from tf_operator.projections.jobs import DecodedJobs, StoredJob, phase_of, spec_of

COMPONENT = "tfjob-controller"
"""Who reports events; the Go operator's name."""
FIRST_RETRY, LONGEST_RETRY = 0.05, 60.0
"""Seconds after which a failed reconcile is retried: doubled each time, up to the longest."""


class ControllerInstruments(Protocol):
    @property
    def jobs(self) -> JobInstruments:
        """Of its jobs."""

    @property
    def phases(self) -> Handler[StoredJob] | None:
        """What counts its jobs by phase, if anything does."""

    @property
    def queue(self) -> QueueInstruments:
        """Of its queue."""

    @property
    def reconciles(self) -> ReconcileInstruments:
        """Of its reconciles."""


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """The instruments of a process that nobody scrapes."""

    jobs: JobInstruments = field(default_factory=JobInstruments)
    phases: Handler[StoredJob] | None = None
    queue: QueueInstruments = field(default_factory=QueueInstruments)
    reconciles: ReconcileInstruments = field(default_factory=ReconcileInstruments)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What the controllers of a process are built from."""

    client: ApiClient
    """For everything that only a leader may do: where there is an election, the fence guards each request."""
    informers: SharedInformerFactory
    """All that are needed have to be requested in the factory; they run on every replica, leading or not."""
    recorder: EventRecorder
    clock: Clock
    options: Options
    controllers: Mapping[str, ControllerInstruments]
    """The measures of each, by its name."""
    conflicts: ConflictDetector
    """Watches the jobs for changes by other controllers."""
    settings: Callable[[], Settings]
    """What plans depend on at the moment."""
    progress_pace: Pace = DEFAULT_PACE
    progress_intakes: dict[str, ProgressIntake] = field(default_factory=dict)
    """Where reports of programs go, by the API version of their jobs; filled as controllers are made."""
    slots: Slots = field(default_factory=Slots)
    """For writes in flight: however many controllers there are, the API server sees one operator."""

    def scopes(self, label_selector: str = "") -> tuple[Scope, ...]:
        """What to watch of a resource: everything, or each namespace that is served."""
        return tuple(Scope(namespace, label_selector) for namespace in self.options.namespaces or ("",))


class Working(Protocol):
    """What works while this process leads."""

    async def run(self) -> None:
        """Work until cancelled. Called again in each term, with current caches, except where an informer is behind."""

    async def drain(self) -> None:
        """Start no further reconcile, and return when those that run are done. The end of the process follows."""


class Runnable(Working, Protocol):
    """What works on keys."""

    @property
    def queue(self) -> WorkQueue[Any]:
        """The keys that wait for work; its ages are measured."""


MakeController = Callable[[ControllerContext, ServedAPI], Runnable]


def make_controller(context: ControllerContext, api: ServedAPI) -> Controller:
    options, clock, metrics = context.options, context.clock, context.controllers[api.controller]
    own_caches = caches.make_caches(
        context.informers,
        namespaces=options.namespaces,
        gang_scheduler=options.gang_scheduler,
        gang_schedulers_by_job=options.gang_schedulers_by_job,
        child_kinds=options.child_kinds,
        api=api,
        served=options.apis,
    )
    workloads = None
    if options.kueue is Kueue.EXTERNAL:
        workloads = make_kueue_caches(
            context.informers, context.scopes(), version=options.kueue_version, served=options.apis
        )
    backoff = ExponentialBackoff[ObjectKey](base=FIRST_RETRY, cap=LONGEST_RETRY)
    queue = RateLimitedQueue[ObjectKey](clock, backoff, instruments=metrics.queue, flow=attrgetter("namespace"))
    queue.pause()  # until this process leads
    jobs, debounce, decoded = own_caches.jobs.store, Debounce(), DecodedJobs(api)
    notes = JobNotes(
        clock,
        lambda uid: phase_of(jobs.by_uid(uid)),
        lambda uid: decoded.found(jobs.by_uid(uid)),
        context.progress_pace,
    )
    pending_writes = PendingWrites(own_caches.views(), clock, uncached=resources.uncached())
    own_caches.jobs.add_handler(OnJob(queue, debounce, notes, pending_writes))
    own_caches.pods.add_handler(OnPod(OnChild(queue, debounce, jobs, notes, own_caches.pods.resource)))
    groups = dict.fromkeys(own_caches.groups.values())
    further = (*own_caches.extras.values(), workloads.workloads if workloads else None)
    for children in (own_caches.services, *groups, *further):
        if children:
            children.add_handler(OnChild(queue, debounce, jobs, notes, children.resource))
    context.conflicts.observe(own_caches.jobs, api, metrics.jobs)
    context.progress_intakes[api.resource.api_version] = ProgressIntake(
        jobs, decoded, own_caches.pods.store, queue, notes.progress_reports
    )
    if metrics.phases:
        own_caches.jobs.add_handler(metrics.phases)

    executor = Executor(
        writer=Writer(context.client, pending_writes),
        shares=Shares(jobs, queue, clock, context.slots),
        notes=notes,
        api=api,
        jobs=own_caches.jobs.resource,
        reporter=_reporter(context, api, own_caches.jobs),
    )
    observer = Observer(own_caches, notes, context.client, clock, decoded, context.settings, workloads)
    return Controller(
        queue=queue,
        jobs=jobs,
        reconciler=Reconciler(observer, executor, pending_writes, notes, debounce, clock),
        notes=notes,
        clock=clock,
        instruments=metrics.reconciles,
        workers=options.workers,
    )


def _reporter(context: ControllerContext, api: ServedAPI, jobs: Informer[StoredJob]) -> PlanReporter:
    specs = (lambda uid: spec_of(jobs.store.by_uid(uid))) if context.options.logs_ended_jobs else None
    return PlanReporter(jobs.resource, context.recorder, context.controllers[api.controller].jobs, api, specs)


def settings(options: Options) -> Settings:
    """What plans depend on, but for what a file says."""
    delay = options.restart_delay
    return Settings(
        cluster_domain=options.cluster_domain,
        gang_scheduler=options.gang_scheduler,
        isolates_jobs=options.isolates_jobs,
        has_job_queue=options.job_queue is not None,
        restarts_in_place=options.restarts_in_place,
        without_tensorboards={
            api.resource.api_version: reason
            for api in options.apis
            if api.tensorboards_in and (reason := options.without_tensorboards(api))
        },
        restart_delay=timedelta(seconds=delay.base),
        longest_restart_delay=timedelta(seconds=delay.cap),
        backoff_reset_after=timedelta(seconds=delay.reset_after),
    )
