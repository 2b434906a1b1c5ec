"""Requests to the apiserver, by the names and labels of client-go.

There the label ``verb`` is the HTTP method; ours is, too, so that one dashboard fits both. Neighbour: ``registry``.
"""

from prometheus_client import CollectorRegistry

from tf_operator.app.metrics.unlocked import Counter, Histogram, Number
from tf_operator.machinery.metrics_hooks import ClientInstruments

_METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}
_REPLY_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class ClientFamilies:
    """``rest_client_*``, for all clients of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "rest_client_requests_total",
            "Requests, by the code of the reply; <error> when there was none.",
            ("code", "method", "host"),
            registry=registry,
        )
        self.seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Time from sending a request to the head of its reply.",
            ("verb", "host"),
            registry=registry,
            buckets=_REPLY_SECONDS,
        )
        self.waits = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "How long a request waits for the operator's own rate limit.",
            ("verb", "host"),
            registry=registry,
            buckets=_REPLY_SECONDS,
        )
        self.retries = Counter(
            "rest_client_request_retries_total",
            "Requests that the client retried; the code is the name of the error.",
            ("code", "verb", "host"),
            registry=registry,
        )


class ClientMetrics(ClientInstruments):
    """The measures of the clients that speak to one apiserver."""

    def __init__(self, families: ClientFamilies, *, host: str) -> None:
        self._families = families
        self._host = host.removeprefix("https://").removeprefix("http://")
        # Found once: to look labels up costs more than to count, and this is done for every request.
        methods = ("GET", *_METHODS.values())
        self._seconds = {method: families.seconds.labels(method, self._host) for method in methods}
        self._waits = {method: families.waits.labels(method, self._host) for method in methods}
        self._requests: dict[tuple[str, str], Number] = {}

    def replied(self, verb: str, code: str, seconds: float) -> None:
        """``rest_client_requests_total`` and ``rest_client_request_duration_seconds``."""
        method = _method(verb)
        if (requests := self._requests.get((code, method))) is None:
            requests = self._requests[code, method] = self._families.requests.labels(code, method, self._host)
        requests.inc()
        self._seconds[method].observe(seconds)

    def throttled(self, verb: str, seconds: float) -> None:
        """``rest_client_rate_limiter_duration_seconds``."""
        self._waits[_method(verb)].observe(seconds)

    def retried(self, verb: str, cause: str) -> None:
        """``rest_client_request_retries_total``."""
        self._families.retries.labels(cause, _method(verb), self._host).inc()


def _method(verb: str) -> str:
    return _METHODS.get(verb, "GET")
