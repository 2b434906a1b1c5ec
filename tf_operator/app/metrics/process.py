"""The process itself: who leads, what became of events, how late the event loop is.

``leader_election_*`` are client-go's names. A loop that is late says so by ``tf_operator_event_loop_lag_seconds``; one
that is blocked cannot say anything, so the age of its heartbeat is read by the thread that renders.
"""

import platform
from collections.abc import Callable
from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from tf_operator.machinery.metrics_hooks import ElectionInstruments, RecorderInstruments

_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def add_build_info(registry: CollectorRegistry) -> None:
    """Say which release this is, as labels of a series whose value is 1."""
    info = Info("tf_operator_build", "Which release runs, on which Python.", registry=registry)
    info.info({"version": metadata.version("tf-operator"), "python": platform.python_version()})


class ElectionMetrics(ElectionInstruments):
    """``leader_election_*`` of one Lease."""

    def __init__(self, registry: CollectorRegistry, *, name: str) -> None:
        def counter(of: str, text: str, *labels: str) -> Counter:
            return Counter(of, text, ("name", *labels), registry=registry)

        status = Gauge("leader_election_master_status", "1 while this process leads.", ("name",), registry=registry)
        self._status = status.labels(name)
        self._slow_paths = counter(
            "leader_election_slowpath_total", "Renewals that had to read the Lease first."
        ).labels(name)
        self._transitions = counter(
            "tf_operator_leader_election_transitions_total", "How often the Lease changed its holder."
        ).labels(name)
        self._attempts = counter(
            "tf_operator_leader_election_attempts_total",
            "Attempts to acquire or renew the Lease, by its holder afterwards: ours, theirs, or the name of an error.",
            "outcome",
        )
        self._name = name
        for outcome in ("ours", "theirs"):
            self._attempts.labels(name, outcome)

    def leading(self, is_leader: bool) -> None:  # noqa: FBT001 (a gauge's value)
        """``leader_election_master_status``."""
        self._status.set(is_leader)

    def attempted(self, outcome: str) -> None:
        self._attempts.labels(self._name, outcome).inc()

    def slow_path(self) -> None:
        """``leader_election_slowpath_total``."""
        self._slow_paths.inc()

    def transition(self) -> None:
        """The Lease changed hands."""
        self._transitions.inc()


class RecorderMetrics(RecorderInstruments):
    """What became of Events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sent = Counter("tf_operator_events_sent_total", "Events that were posted.", registry=registry)
        self._dropped = Counter(
            "tf_operator_events_dropped_total", "Events that were dropped, by cause.", ("cause",), registry=registry
        )
        for cause in ("overflow", "rate", "shutdown"):
            self._dropped.labels(cause)

    def sent(self) -> None:
        self._sent.inc()

    def lost(self, cause: str) -> None:
        self._dropped.labels(cause).inc()


class ConfigMetrics:
    """What became of changes of the operator's own configuration."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._errors = Counter(
            "tf_operator_config_reload_errors_total",
            "Invalid changes of the controller config file.",
            registry=registry,
        )

    def failed(self) -> None:
        self._errors.inc()


class LoopMetrics:
    """How late the event loop is."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Histogram(
            "tf_operator_event_loop_lag_seconds",
            "How late the event loop woke a task.",
            registry=registry,
            buckets=_LAG_SECONDS,
        )
        self._age = Gauge(
            "tf_operator_event_loop_heartbeat_age_seconds",
            "How long ago the event loop last ran; about a second while it is not blocked.",
            registry=registry,
        )

    def lagged(self, seconds: float) -> None:
        self._lag.observe(seconds)

    def read_age_by(self, age: Callable[[], float]) -> None:
        """Call ``age`` whenever the metrics are rendered."""
        self._age.set_function(age)
