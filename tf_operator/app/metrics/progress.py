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
        self._refused = Counter(
            "tf_operator_progress_handshakes_refused_total",
            "Connections for reports of progress that were closed because there were too many TLS handshakes.",
            registry=registry,
        )

    def handshake_refused(self) -> None:
        """``tf_operator_progress_handshakes_refused_total``."""
        self._refused.inc()

    def replied(self, code: int) -> None:
        """``tf_operator_progress_reports_total``."""
        self._reports.labels(str(code)).inc()
