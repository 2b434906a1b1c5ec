"""The conversion webhook. Without it, none of these series exist.

Neighbour: ``registry``, which makes these.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge


class WebhookMetrics:
    """``tf_operator_webhook_*``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ready = Gauge(
            "tf_operator_webhook_ready",
            "1 while this replica has a valid certificate for reviews, and the CRDs name its Service.",
            registry=registry,
        )
        self._stored = Gauge(
            "tf_operator_webhook_older_stored_versions",
            "Older versions in which objects may be stored; reading these needs the webhook.",
            ["crd"],
            registry=registry,
        )

    def read_outage_by(self, outage: Callable[[], str]) -> None:
        """Call ``outage`` whenever the metrics are rendered; it is empty while reviews are answered."""
        self._ready.set_function(lambda: not outage())

    def stored(self, crd: str, older: int) -> None:
        """``tf_operator_webhook_older_stored_versions``."""
        self._stored.labels(crd).set(older)
