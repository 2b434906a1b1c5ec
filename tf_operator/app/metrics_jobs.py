"""Training jobs: five counters under the Go operator's names, and what it cannot say.

The labels ``job_namespace`` and ``framework`` are the Go operator's as well. No label ever holds the name of a job:
series would grow without end. A namespace that is not known beforehand appears with its first job; until then a series
with an empty ``job_namespace`` stands for all, so that sums over namespaces begin with 0. Neighbour: ``metrics``.
"""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from tf_operator.controller.instruments import JobInstruments, Phases

FRAMEWORK = "tensorflow"
OUTCOMES = ("succeeded", "failed")
PHASES = ("New", "Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
_LABELS = ("job_namespace", "framework")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_START_SECONDS = (1, 2, 5, 10, 20, 30, _MINUTE, 120, 300, 600, 1800, _HOUR, 4 * _HOUR, 12 * _HOUR, _DAY)
_RUN_SECONDS = (
    *(10, 30, _MINUTE, 300, 600, 1800, _HOUR, 2 * _HOUR, 4 * _HOUR, 8 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY, 30 * _DAY),
)


class JobMetrics(JobInstruments):
    """The measures of all jobs."""

    def __init__(self, registry: CollectorRegistry, *, namespaces: Iterable[str] = ()) -> None:
        self._namespaces = tuple(namespaces) or ("",)

        def counter(of: str, text: str, *labels: str) -> Counter:
            return Counter(of, text, (*_LABELS, *labels), registry=registry)

        def histogram(of: str, text: str, *labels: str, buckets: tuple[int, ...]) -> Histogram:
            return Histogram(of, text, (*_LABELS, *labels), registry=registry, buckets=buckets)

        self._created = counter("training_operator_jobs_created_total", "Jobs that were accepted.")
        self._succeeded = counter("training_operator_jobs_successful_total", "Jobs that have succeeded.")
        self._failed = counter("training_operator_jobs_failed_total", "Jobs that have failed.")
        self._restarted = counter("training_operator_jobs_restarted_total", "Starts of a replica after its first.")
        self._deleted = counter("training_operator_jobs_deleted_total", "Jobs deleted when their time was over.")
        self._backoff = counter("tf_operator_jobs_backoff_exceeded_total", "Jobs that failed: no restart was left.")
        self._deadline = counter("tf_operator_jobs_deadline_exceeded_total", "Jobs that failed: they ran too long.")
        self._reasons = counter("tf_operator_jobs_failed_by_reason_total", "Jobs that have failed.", "reason")
        self._restarts = counter(
            "tf_operator_replica_restarts_total", "Starts of a replica after its first.", "replica_type", "reason"
        )
        self._time_to_running = histogram(
            "tf_operator_job_time_to_running_seconds",
            "From the start of a job until all of its replicas run.",
            buckets=_START_SECONDS,
        )
        self._duration = histogram(
            "tf_operator_job_duration_seconds", "From the start of a job to its end.", "outcome", buckets=_RUN_SECONDS
        )
        self._phases = _PhaseCollector(self._namespaces)
        registry.register(self._phases)
        self._begin_with_zero()

    def _begin_with_zero(self) -> None:
        plain = (self._created, self._succeeded, self._failed, self._restarted, self._deleted)
        for namespace in self._namespaces:
            for family in (*plain, self._backoff, self._deadline, self._time_to_running):
                family.labels(namespace, FRAMEWORK)
            for outcome in OUTCOMES:
                self._duration.labels(namespace, FRAMEWORK, outcome)

    def created(self, namespace: str) -> None:
        """``training_operator_jobs_created_total``."""
        self._created.labels(namespace, FRAMEWORK).inc()

    def succeeded(self, namespace: str) -> None:
        """``training_operator_jobs_successful_total``."""
        self._succeeded.labels(namespace, FRAMEWORK).inc()

    def failed(self, namespace: str, reason: str) -> None:
        """``training_operator_jobs_failed_total``, and by reason."""
        self._failed.labels(namespace, FRAMEWORK).inc()
        self._reasons.labels(namespace, FRAMEWORK, reason).inc()

    def restarted(self, namespace: str, *, replica_type: str, reason: str) -> None:
        """``training_operator_jobs_restarted_total``, and by type and reason."""
        self._restarted.labels(namespace, FRAMEWORK).inc()
        self._restarts.labels(namespace, FRAMEWORK, replica_type, reason).inc()

    def deleted(self, namespace: str) -> None:
        """``training_operator_jobs_deleted_total``."""
        self._deleted.labels(namespace, FRAMEWORK).inc()

    def backoff_exceeded(self, namespace: str) -> None:
        """``tf_operator_jobs_backoff_exceeded_total``."""
        self._backoff.labels(namespace, FRAMEWORK).inc()

    def deadline_exceeded(self, namespace: str) -> None:
        """``tf_operator_jobs_deadline_exceeded_total``."""
        self._deadline.labels(namespace, FRAMEWORK).inc()

    def time_to_running(self, namespace: str, seconds: float) -> None:
        """``tf_operator_job_time_to_running_seconds``."""
        self._time_to_running.labels(namespace, FRAMEWORK).observe(seconds)

    def duration(self, namespace: str, seconds: float, *, outcome: str) -> None:
        """``tf_operator_job_duration_seconds``."""
        self._duration.labels(namespace, FRAMEWORK, outcome).observe(seconds)

    def count_phases_by(self, source: Phases) -> None:
        """``tf_operator_jobs``."""
        self._phases.source = source

    def sample(self) -> None:
        """Count the jobs. Only on the event loop that knows them."""
        self._phases.sample()


class _PhaseCollector:
    """``tf_operator_jobs``: the counts of the last sample, and no series for what is no longer there."""

    def __init__(self, namespaces: tuple[str, ...]) -> None:
        self.source: Phases = dict
        self._zeros = {(namespace, phase): 0 for namespace in namespaces for phase in PHASES}
        self._counts: Mapping[tuple[str, str], int] = self._zeros

    def sample(self) -> None:
        """Ask the source; the counts are replaced as a whole, because another thread may be reading them."""
        self._counts = {**self._zeros, **self.source()}

    def collect(self) -> Iterator[Metric]:
        """The family, for the registry."""
        text = "Jobs that there are now, by their phase."
        family = GaugeMetricFamily("tf_operator_jobs", text, labels=(*_LABELS, "phase"))
        for (namespace, phase), count in self._counts.items():
            family.add_metric((namespace, FRAMEWORK, phase), count)
        yield family
