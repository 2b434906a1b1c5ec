"""The work queue and the reconciles of its keys, by the names of client-go and controller-runtime.

The label ``controller`` says whose they are. The buckets are kept, since dashboards have quantiles over them.
Neighbour: ``registry``, which makes these.
"""

from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from tf_operator.app.metrics.jobs import JobMetrics
from tf_operator.app.metrics.phases import JobPhases
from tf_operator.app.metrics.unlocked import Counter, Gauge, Histogram
from tf_operator.controller.metrics_hooks import ReconcileInstruments, ReconcileResult
from tf_operator.machinery.metrics_hooks import QueueInstruments
from tf_operator.machinery.queue.workqueue import WorkQueue

_QUEUE_SECONDS = tuple(1e-8 * 10**power for power in range(12))
_RECONCILE_SECONDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)


class QueueFamilies:
    """``workqueue_*``, for all queues of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("name", "controller")

        def gauge(of: str, text: str) -> Gauge:
            return Gauge(f"workqueue_{of}", text, labels, registry=registry)

        def counter(of: str, text: str) -> Counter:
            return Counter(f"workqueue_{of}", text, labels, registry=registry)

        def histogram(of: str, text: str) -> Histogram:
            return Histogram(f"workqueue_{of}", text, labels, registry=registry, buckets=_QUEUE_SECONDS)

        self.depth = gauge("depth", "Keys that are waiting for a worker.")
        self.unfinished = gauge("unfinished_work_seconds", "Sum of the ages of all running reconciles.")
        self.longest = gauge("longest_running_processor_seconds", "The age of the oldest running reconcile.")
        self.adds = counter("adds_total", "Keys that were added to the queue.")
        self.retries = counter("retries_total", "Keys that were added after a delay or a failure.")
        self.waits = histogram("queue_duration_seconds", "How long a key waits for a worker.")
        self.works = histogram("work_duration_seconds", "How long a worker processes a key.")


class QueueMetrics(QueueInstruments):
    """``workqueue_*`` of one queue."""

    def __init__(self, families: QueueFamilies, *, controller: str) -> None:
        name = (controller, controller)
        self._depth = families.depth.labels(*name)
        self._unfinished = families.unfinished.labels(*name)
        self._longest = families.longest.labels(*name)
        self._adds = families.adds.labels(*name)
        self._retries = families.retries.labels(*name)
        self._waits = families.waits.labels(*name)
        self._works = families.works.labels(*name)

    def depth(self, keys: int) -> None:
        """``workqueue_depth``."""
        self._depth.set(keys)

    def added(self) -> None:
        """``workqueue_adds_total``."""
        self._adds.inc()

    def waited(self, seconds: float) -> None:
        """``workqueue_queue_duration_seconds``."""
        self._waits.observe(seconds)

    def worked(self, seconds: float) -> None:
        """``workqueue_work_duration_seconds``."""
        self._works.observe(seconds)

    def retried(self) -> None:
        """``workqueue_retries_total``."""
        self._retries.inc()

    def sample(self, queue: WorkQueue[Any]) -> None:
        """Read the ages of what the queue has given out."""
        self._unfinished.set(queue.unfinished_seconds)
        self._longest.set(queue.longest_running_seconds)


class ReconcileFamilies:
    """``controller_runtime_reconcile_*``, for all controllers of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(of: str, text: str, *labels: str) -> Counter:
            return Counter(f"controller_runtime_{of}", text, ("controller", *labels), registry=registry)

        def gauge(of: str, text: str) -> Gauge:
            return Gauge(f"controller_runtime_{of}", text, ("controller",), registry=registry)

        self.ends = counter("reconcile_total", "Reconciles, by how they ended.", "result")
        self.errors = counter("reconcile_errors_total", "Reconciles that failed.")
        self.panics = counter("reconcile_panics_total", "Reconciles that panicked.")
        self.busy = gauge("active_workers", "Workers that are processing a key.")
        self.workers = gauge("max_concurrent_reconciles", "All workers.")
        self.seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile takes.",
            ("controller",),
            registry=registry,
            buckets=_RECONCILE_SECONDS,
        )


class ReconcileMetrics(ReconcileInstruments):
    """``controller_runtime_reconcile_*`` of one controller."""

    def __init__(self, families: ReconcileFamilies, *, controller: str, workers: int) -> None:
        self._ends = {result: families.ends.labels(controller, result.value) for result in ReconcileResult}
        self._errors = families.errors.labels(controller)
        self._panics = families.panics.labels(controller)
        self._busy = families.busy.labels(controller)
        self._seconds = families.seconds.labels(controller)
        families.workers.labels(controller).set(workers)

    def began(self) -> None:
        """``controller_runtime_active_workers``."""
        self._busy.inc()

    def ended(self, result: ReconcileResult, seconds: float) -> None:
        """``controller_runtime_reconcile_total`` and its time."""
        self._busy.dec()
        self._seconds.observe(seconds)
        self._ends[result].inc()
        if result is ReconcileResult.ERROR:
            self._errors.inc()

    def panicked(self) -> None:
        """``controller_runtime_reconcile_panics_total``."""
        self._panics.inc()


class ControllerMetrics(NamedTuple):
    jobs: JobMetrics
    """Shared by all controllers of the same framework."""
    queue: QueueMetrics
    reconciles: ReconcileMetrics

    @property
    def phases(self) -> JobPhases:
        return self.jobs.phases
