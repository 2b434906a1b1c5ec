"""Reports of programs about their progress. Without a listener for them, these series do not exist.

Neighbour: ``registry``, which makes these.
"""

from prometheus_client import CollectorRegistry, Counter


class ProgressMetrics:
    """``tf_operator_progress_*``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reports = Counter(
            "tf_operator_progress_reports_total",
            "Reports of progress, by the status code of their reply.",
            ["code"],
            registry=registry,
        )

    def replied(self, code: int) -> None:
        """``tf_operator_progress_reports_total``."""
        self._reports.labels(str(code)).inc()
