"""Training jobs: five counters under the Go operator's names, and what it cannot say.

The labels ``job_namespace`` and ``framework`` are the Go operator's as well. No label ever holds the name of a job:
series would grow without end. A namespace that is not known beforehand appears with its first job, with 0 in every
series, and goes ten minutes after its last one; a series with an empty ``job_namespace`` stays, so that sums over
namespaces always have a value. A counter that comes back begins with 0, as after a restart: ``rate`` and ``increase``
stay right, because no scrape has missed what was counted before. Adding the counts of namespaces that have gone to
another series would keep bare sums of totals from falling, but every ``increase`` would then count them twice.

The series of one namespace cost 50 kB of memory and 16 kB of each scrape. So only so many namespaces have their own;
the jobs of the others are counted under the empty ``job_namespace``: who may create namespaces cannot fill the memory.

Only reading is for other threads than the operator's. Neighbours: ``registry``, and ``phases``, which counts jobs.
"""

from collections import Counter as Counts
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tf_operator.app.metrics.phases import PHASES, WAITING_PHASES, EarliestTime, JobPhases, PhaseEntry
from tf_operator.controller.metrics_hooks import JobInstruments
from tf_operator.job.record import LossCause
from tf_operator.machinery.clock import Clock
from tf_operator.planning.pods import usage

OUTCOMES: Final = ("succeeded", "failed")
KEPT_FOR: Final = 600.0
"""Seconds for which series outlive the last job of their namespace: ten scrapes at Prometheus' default interval."""
MOST_NAMESPACES: Final = 2000
_REMOVED_AT_ONCE: Final = 50
_LABELS = ("job_namespace", "framework")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_START_SECONDS = (1, 2, 5, 10, 20, 30, _MINUTE, 120, 300, 600, 1800, _HOUR, 4 * _HOUR, 12 * _HOUR, _DAY)
_RUN_SECONDS = (
    *(10, 30, _MINUTE, 300, 600, 1800, _HOUR, 2 * _HOUR, 4 * _HOUR, 8 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY, 30 * _DAY),
)

_RESOURCES: Final = {
    usage.CPU: "cpu",
    usage.MEMORY: "memory",
    **{name: name for name in ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu")},
}
_OTHERS: Final = "other"
"""All others, of which a tenant may request any that a template can name."""

Family = TypeVar("Family", Counter, Gauge, Histogram)


class JobFamilies:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(of: str, text: str, *labels: str) -> Counter:
            return Counter(of, text, (*_LABELS, *labels), registry=registry)

        def gauge(of: str, text: str, *labels: str) -> Gauge:
            return Gauge(of, text, (*_LABELS, *labels), registry=registry)

        def histogram(of: str, text: str, *labels: str, buckets: tuple[int, ...]) -> Histogram:
            return Histogram(of, text, (*_LABELS, *labels), registry=registry, buckets=buckets)

        self.namespaces = 0
        """How many namespaces have series of their own that come and go; one with jobs of two kinds counts twice."""
        self.created = counter("training_operator_jobs_created_total", "Jobs that were accepted.")
        self.succeeded = counter("training_operator_jobs_successful_total", "Jobs that have succeeded.")
        self.failed = counter("training_operator_jobs_failed_total", "Jobs that have failed.")
        self.restarted = counter("training_operator_jobs_restarted_total", "Starts of a replica after its first.")
        self.deleted = counter("training_operator_jobs_deleted_total", "Jobs deleted after their TTL.")
        self.backoff = counter(
            "tf_operator_jobs_backoff_exceeded_total", "Jobs that failed because they reached backoffLimit."
        )
        self.deadline = counter(
            "tf_operator_jobs_deadline_exceeded_total", "Jobs that failed because they reached activeDeadlineSeconds."
        )
        self.conflicts = counter("tf_operator_jobs_conflicting_writes_total", "Status changes by other controllers.")
        self.reasons = counter("tf_operator_jobs_failed_by_reason_total", "Jobs that have failed.", "reason")
        self.nodes_avoided = counter("tf_operator_nodes_avoided_total", "How often a job began to avoid a node.")
        self.resumed_behind = counter(
            "tf_operator_jobs_resumed_behind_total", "Programs that resumed before their last checkpoint."
        )
        self.restarts = counter(
            "tf_operator_replica_restarts_total", "Starts of a replica after its first.", "replica_type", "reason"
        )
        self.growths = counter(
            "tf_operator_memory_growths_total", "OOM kills after which new pods have more memory.", "replica_type"
        )
        self.used = counter(
            "tf_operator_resource_seconds_total", "What ended runs of pods had requested, times seconds.", "resource"
        )
        self.lost = counter("tf_operator_lost_seconds_total", "Time that restarts have cost jobs.", "cause")
        self.time_to_running = histogram(
            "tf_operator_job_time_to_running_seconds",
            "Time from the start of a job until all its replicas run.",
            buckets=_START_SECONDS,
        )
        self.duration = histogram(
            "tf_operator_job_duration_seconds",
            "Time from the start of a job to its end.",
            "outcome",
            buckets=_RUN_SECONDS,
        )
        self.jobs = gauge("tf_operator_jobs", "Current jobs, by phase.", "phase")
        self.hung = gauge(
            "tf_operator_jobs_hung",
            "Jobs whose program has made no progress for longer than their progressPolicy allows.",
        )
        self.oldest_pending = gauge(
            "tf_operator_oldest_pending_job_age_seconds",
            "Age of the oldest job that is not running, by phase.",
            "phase",
        )

    @property
    def plain_counters(self) -> tuple[Counter, ...]:
        """Those without further labels."""
        go_operators = (self.created, self.succeeded, self.failed, self.restarted, self.deleted)
        own = (self.backoff, self.deadline, self.conflicts, self.nodes_avoided, self.resumed_behind)
        return (*go_operators, *own)


class NamespaceSeries:
    """All series of one namespace. They begin with 0, so that the first failure is an increase."""

    def __init__(
        self, families: JobFamilies, namespace: str, framework: str, clock: Clock, *, reasons: Iterable[str]
    ) -> None:
        self.jobs = 0
        self._families = families
        self._labels = (namespace, framework)
        self._clock = clock
        self._children: dict[tuple[Any, tuple[str, ...]], Any] = {}
        for family in families.plain_counters:
            self.of(family)
        self.of(families.time_to_running)
        for outcome in OUTCOMES:
            self.of(families.duration, outcome)
        for reason in reasons:
            self.of(families.reasons, reason)
        for resource in (*_RESOURCES.values(), _OTHERS):
            self.of(families.used, resource)
        for cause in LossCause:
            self.of(families.lost, cause)
        for phase in PHASES:
            self.of(families.jobs, phase)
        self.of(families.hung)
        self._pending = {phase: EarliestTime() for phase in WAITING_PHASES}
        for phase, earliest in self._pending.items():
            self.of(families.oldest_pending, phase).set_function(partial(self._age, earliest))

    def of(self, family: Family, *more: str) -> Family:
        if (child := self._children.get((family, more))) is None:
            child = self._children[family, more] = family.labels(*self._labels, *more)
        return cast("Family", child)

    def enter(self, job: PhaseEntry) -> None:
        self.jobs += 1
        self.of(self._families.jobs, job.phase).inc()
        self.of(self._families.hung).inc(job.is_hung)
        if job.waits_since and job.phase in self._pending:
            self._pending[job.phase].add(job.uid, job.waits_since)

    def leave(self, job: PhaseEntry) -> None:
        self.jobs -= 1
        self.of(self._families.jobs, job.phase).dec()
        self.of(self._families.hung).dec(job.is_hung)
        if job.phase in self._pending:
            self._pending[job.phase].remove(job.uid)

    def remove(self) -> None:
        for family, more in self._children:
            family.remove(*self._labels, *more)

    def _age(self, earliest: EarliestTime) -> float:
        """Called by the thread that renders; it reads one attribute."""
        since = earliest.value
        return max(0.0, (self._clock.now() - since).total_seconds()) if since else 0.0


class JobMetrics(JobInstruments):
    """The measures of all jobs of one framework, which is one kind of jobs."""

    def __init__(
        self,
        families: JobFamilies,
        clock: Clock,
        *,
        framework: str = "tensorflow",
        namespaces: Iterable[str] = (),
        reasons: Iterable[str] = (),
    ) -> None:
        """``namespaces`` that are served, as far as is known, always have series; ``reasons`` are those of failures."""
        self._families = families
        self._reasons = tuple(reasons)
        self._framework = framework
        self._clock = clock
        self._permanent = frozenset(namespaces) or frozenset({""})
        self._series = {name: self._begin(name) for name in self._permanent}
        self._others = self._series.get("")
        """Of the namespaces for which there was no room when their first job came."""
        self._jobs_of_others = Counts[str]()
        self._unused: dict[str, float] = {}
        """Namespaces without a job, and when their series end; in that order."""
        self.phases = JobPhases(self._enter, self._leave)

    def created(self, namespace: str) -> None:
        """``training_operator_jobs_created_total``."""
        self._in(namespace).of(self._families.created).inc()

    def taken_up(self, namespace: str, *, restarts: Iterable[tuple[str, str]], growths: Iterable[str]) -> None:
        """Series by type begin with its first job: no namespace has all types, and no job all reasons."""
        series = self._in(namespace)
        for replica_type, reason in restarts:
            series.of(self._families.restarts, replica_type, reason)
        for replica_type in growths:
            series.of(self._families.growths, replica_type)

    def succeeded(self, namespace: str) -> None:
        """``training_operator_jobs_successful_total``."""
        self._in(namespace).of(self._families.succeeded).inc()

    def failed(self, namespace: str, reason: str) -> None:
        """``training_operator_jobs_failed_total``, and by reason."""
        self._in(namespace).of(self._families.failed).inc()
        self._in(namespace).of(self._families.reasons, reason).inc()

    def restarted(self, namespace: str, *, replica_type: str, reason: str) -> None:
        """``training_operator_jobs_restarted_total``, and by type and reason."""
        self._in(namespace).of(self._families.restarted).inc()
        self._in(namespace).of(self._families.restarts, replica_type, reason).inc()

    def node_avoided(self, namespace: str, *, nodes: int) -> None:
        """``tf_operator_nodes_avoided_total``."""
        self._in(namespace).of(self._families.nodes_avoided).inc(nodes)

    def resumed_behind(self, namespace: str) -> None:
        """``tf_operator_jobs_resumed_behind_total``."""
        self._in(namespace).of(self._families.resumed_behind).inc()

    def used(self, namespace: str, resource: str, amount: float) -> None:
        """``tf_operator_resource_seconds_total``."""
        self._in(namespace).of(self._families.used, _RESOURCES.get(resource, _OTHERS)).inc(amount)

    def lost(self, namespace: str, cause: str, seconds: float) -> None:
        """``tf_operator_lost_seconds_total``."""
        self._in(namespace).of(self._families.lost, cause).inc(seconds)

    def memory_grown(self, namespace: str, *, replica_type: str) -> None:
        """``tf_operator_memory_growths_total``."""
        self._in(namespace).of(self._families.growths, replica_type).inc()

    def deleted(self, namespace: str) -> None:
        """``training_operator_jobs_deleted_total``."""
        self._in(namespace).of(self._families.deleted).inc()

    def backoff_exceeded(self, namespace: str) -> None:
        """``tf_operator_jobs_backoff_exceeded_total``."""
        self._in(namespace).of(self._families.backoff).inc()

    def deadline_exceeded(self, namespace: str) -> None:
        """``tf_operator_jobs_deadline_exceeded_total``."""
        self._in(namespace).of(self._families.deadline).inc()

    def time_to_running(self, namespace: str, seconds: float) -> None:
        """``tf_operator_job_time_to_running_seconds``."""
        self._in(namespace).of(self._families.time_to_running).observe(seconds)

    def duration(self, namespace: str, seconds: float, *, outcome: str) -> None:
        """``tf_operator_job_duration_seconds``."""
        self._in(namespace).of(self._families.duration, outcome).observe(seconds)

    def changed_by_another(self, namespace: str) -> None:
        """``tf_operator_jobs_conflicting_writes_total``."""
        self._in(namespace).of(self._families.conflicts).inc()

    def sample(self) -> None:
        """End the series of namespaces whose time is over; a few at a time, because work waits meanwhile."""
        now = self._clock.monotonic()
        for namespace in list(islice(self._unused, _REMOVED_AT_ONCE)):
            if self._unused[namespace] > now:
                return
            del self._unused[namespace]
            self._series.pop(namespace).remove()
            self._families.namespaces -= 1

    def _in(self, namespace: str) -> NamespaceSeries:
        if namespace not in self._series:
            self.sample()  # perhaps nobody scrapes: series of namespaces that are gone have to end all the same
            if self._others and (namespace in self._jobs_of_others or self._families.namespaces >= MOST_NAMESPACES):
                return self._others
            self._series[namespace] = self._begin(namespace)
            self._families.namespaces += 1
            self._unused[namespace] = self._clock.monotonic() + KEPT_FOR
        return self._series[namespace]

    def _begin(self, namespace: str) -> NamespaceSeries:
        return NamespaceSeries(self._families, namespace, self._framework, self._clock, reasons=self._reasons)

    def _enter(self, job: PhaseEntry) -> None:
        series = self._in(job.namespace)
        series.enter(job)
        if series is self._others:
            self._jobs_of_others[job.namespace] += 1
        self._unused.pop(job.namespace, None)

    def _leave(self, job: PhaseEntry) -> None:
        series = self._in(job.namespace)
        series.leave(job)
        if series is self._others:
            self._jobs_of_others[job.namespace] -= 1
            if not self._jobs_of_others[job.namespace]:
                del self._jobs_of_others[job.namespace]
        elif not series.jobs and job.namespace not in self._permanent:
            self._unused[job.namespace] = self._clock.monotonic() + KEPT_FOR
