"""The work queue and the reconciles of its keys, by the names of client-go and controller-runtime.

Both are about one controller. Their buckets are kept, since dashboards have quantiles over them. Neighbour:
``registry``, which makes these.
"""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tf_operator.controller.instruments import ReconcileInstruments, ReconcileResult
from tf_operator.machinery.metrics_hooks import QueueInstruments
from tf_operator.machinery.queue.workqueue import WorkQueue

_QUEUE_SECONDS = tuple(1e-8 * 10**power for power in range(12))
_RECONCILE_SECONDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)


class QueueMetrics(QueueInstruments):
    """``workqueue_*`` of one queue."""

    def __init__(self, registry: CollectorRegistry, *, name: str) -> None:
        labels = {"name": name, "controller": name}
        names = tuple(labels)

        def gauge(of: str, text: str) -> Gauge:
            return Gauge(f"workqueue_{of}", text, names, registry=registry).labels(**labels)

        def counter(of: str, text: str) -> Counter:
            return Counter(f"workqueue_{of}", text, names, registry=registry).labels(**labels)

        def histogram(of: str, text: str) -> Histogram:
            found = Histogram(f"workqueue_{of}", text, names, registry=registry, buckets=_QUEUE_SECONDS)
            return found.labels(**labels)

        self._depth = gauge("depth", "Keys that wait for a worker.")
        self._unfinished = gauge("unfinished_work_seconds", "The ages of all running reconciles, added up.")
        self._longest = gauge("longest_running_processor_seconds", "The age of the oldest running reconcile.")
        self._adds = counter("adds_total", "Keys that were added to the queue.")
        self._retries = counter("retries_total", "Keys that were added after a delay or a failure.")
        self._waits = histogram("queue_duration_seconds", "How long a key waits for a worker.")
        self._works = histogram("work_duration_seconds", "How long a worker has a key.")

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


class ReconcileMetrics(ReconcileInstruments):
    """``controller_runtime_reconcile_*`` of one controller."""

    def __init__(self, registry: CollectorRegistry, *, controller: str, workers: int) -> None:
        def counter(of: str, text: str, *labels: str) -> Counter:
            return Counter(f"controller_runtime_{of}", text, ("controller", *labels), registry=registry)

        def gauge(of: str, text: str) -> Gauge:
            return Gauge(f"controller_runtime_{of}", text, ("controller",), registry=registry).labels(controller)

        ends = counter("reconcile_total", "Reconciles, by how they ended.", "result")
        self._ends = {result: ends.labels(controller, result.value) for result in ReconcileResult}
        self._errors = counter("reconcile_errors_total", "Reconciles that failed.").labels(controller)
        self._panics = counter("reconcile_panics_total", "Reconciles that panicked.").labels(controller)
        self._busy = gauge("active_workers", "Workers that have a key.")
        gauge("max_concurrent_reconciles", "All workers.").set(workers)
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile takes.",
            ("controller",),
            registry=registry,
            buckets=_RECONCILE_SECONDS,
        ).labels(controller)

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
