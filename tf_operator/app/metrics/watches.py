"""Watches: how complete and how fresh the caches are. client-go measures little of this; the names are ours.

The label ``informer`` is the informer's name: what is watched, where, and by which labels: ``tfjobs.kubeflow.org in
team-a``, ``pods (training.kubeflow.org/operator-name=tfjob-controller)``. Its values come
through ``machinery.metrics_hooks``. Neighbour: ``registry``.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.metrics_hooks import ReflectorInstruments

_LIST_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class WatchFamilies:
    """``tf_operator_watch_*`` and ``tf_operator_informer_*``, for all informers of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(of: str, text: str, *labels: str) -> Counter:
            return Counter(f"tf_operator_{of}", text, ("informer", *labels), registry=registry)

        def gauge(of: str, text: str) -> Gauge:
            return Gauge(f"tf_operator_{of}", text, ("informer",), registry=registry)

        self.starts = counter("watch_starts_total", "Watches that the API server has accepted.")
        self.ends = counter("watch_ends_total", "Watches that have ended, by cause.", "cause")
        self.relists = counter("informer_relists_total", "Relists of caches, by cause.", "cause")
        self.undecodable = counter("informer_decode_errors_total", "Objects that could not be read.")
        self.handler_failures = counter("informer_handler_errors_total", "Handlers that failed because of a bug.")
        self.silence = gauge("watch_idle_seconds", "How long the quietest watch has received nothing.")
        self.objects = gauge("informer_objects", "Objects in the cache.")
        self.listed = gauge("informer_listed_objects", "Objects in the last complete list.")
        self.list_seconds = Histogram(
            "tf_operator_informer_list_duration_seconds",
            "How long a complete list takes.",
            ("informer",),
            registry=registry,
            buckets=_LIST_SECONDS,
        )

    def sample(self, informers: SharedInformerFactory) -> None:
        """Read how fresh and how full each cache is."""
        for name, seconds in informers.idle_seconds().items():
            self.silence.labels(name).set(seconds)
        for name, objects in informers.sizes().items():
            self.objects.labels(name).set(objects)


class ReflectorMetrics(ReflectorInstruments):
    def __init__(self, families: WatchFamilies, *, informer: str) -> None:
        self._informer = informer
        self._starts = families.starts.labels(informer)
        self._ends = families.ends
        self._relists = families.relists
        self._undecodable = families.undecodable.labels(informer)
        self._handler_failures = families.handler_failures.labels(informer)
        self._listed = families.listed.labels(informer)
        self._list_seconds = families.list_seconds.labels(informer)
        self._ends.labels(informer, "closed")
        # Before the first of either, or it would be no increase: a new leader asks only once.
        for cause in ("Expired", "asked"):
            self._relists.labels(informer, cause)

    def listed(self, items: int, seconds: float) -> None:
        self._listed.set(items)
        self._list_seconds.observe(seconds)

    def watching(self) -> None:
        self._starts.inc()

    def watch_ended(self, cause: str) -> None:
        self._ends.labels(self._informer, cause).inc()

    def relisted(self, cause: str) -> None:
        self._relists.labels(self._informer, cause).inc()

    def undecodable(self) -> None:
        self._undecodable.inc()

    def handler_failed(self) -> None:
        self._handler_failures.inc()
