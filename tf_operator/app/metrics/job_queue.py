"""The job queue. Without it, none of these series exist.

Neighbour: ``registry``, which makes these.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from tf_operator.controller.metrics_hooks import QueueDecisions
from tf_operator.planning.job_queue.jobs import Decision, Resize


class JobQueueMetrics(QueueDecisions):
    """``tf_operator_job_queue_*``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(of: str, text: str) -> Counter:
            return Counter(f"tf_operator_job_queue_{of}", text, registry=registry)

        self._waiting = Gauge("tf_operator_job_queue_length", "Jobs that wait for room.", registry=registry)
        self._admitted = counter("admitted_jobs_total", "Jobs that were admitted.")
        self._grown = counter("grown_jobs_total", "How often running jobs got more replicas.")
        self._shrunk = counter("shrunk_jobs_total", "How often running jobs gave up workers for a waiting job.")
        self._panics = counter("panics_total", "How often planning panicked because of a job, or as a whole: a bug.")
        self._set_aside = Gauge(
            "tf_operator_job_queue_skipped_jobs",
            "Jobs that are left out of plans because planning panics on them.",
            registry=registry,
        )
        self._stalled = Gauge(
            "tf_operator_job_queue_stalled_seconds",
            "How long the leader has failed to plan the job queue; 0 while it plans, and on standbys.",
            registry=registry,
        )

    def waiting(self, jobs: int) -> None:
        """``tf_operator_job_queue_length``."""
        self._waiting.set(jobs)

    def panicked(self) -> None:
        """``tf_operator_job_queue_panics_total``."""
        self._panics.inc()

    def set_aside(self, jobs: int) -> None:
        """``tf_operator_job_queue_skipped_jobs``."""
        self._set_aside.set(jobs)

    def read_stall_by(self, seconds: Callable[[], float]) -> None:
        """Call ``seconds`` whenever the metrics are rendered."""
        self._stalled.set_function(seconds)

    def decided(self, decision: Decision) -> None:
        if not isinstance(decision, Resize):
            self._admitted.inc()
        elif decision.workers < decision.job.workers:
            self._shrunk.inc()
        else:
            self._grown.inc()
