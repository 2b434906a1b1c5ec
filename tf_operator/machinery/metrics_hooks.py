"""What the machinery measures, as classes whose methods do nothing.

Every part calls its instruments at the moment something happens; an owner of metrics derives a class
and passes it in (``app.metrics`` does, for Prometheus). So machinery can be used without any metrics
library, and a test can count with a list. Gauges that change while nothing happens (an age, the longest
running reconcile) are not pushed through here: the owner has a property, read on demand.
"""


class QueueInstruments:
    """A work queue's measures; the names of client-go's metrics are given for each."""

    def depth(self, keys: int) -> None:
        """``workqueue_depth``: keys that wait for a worker now."""

    def added(self) -> None:
        """``workqueue_adds_total``: a key was accepted (not: was already waiting)."""

    def waited(self, seconds: float) -> None:
        """``workqueue_queue_duration_seconds``: from accepted to handed to a worker."""

    def worked(self, seconds: float) -> None:
        """``workqueue_work_duration_seconds``: from handed to a worker to done."""

    def retried(self) -> None:
        """``workqueue_retries_total``: a key was added after a delay or a failure."""


class ClientInstruments:
    """The API client's measures."""

    def replied(self, verb: str, code: str, seconds: float) -> None:
        """``rest_client_requests_total`` and its duration; the code is ``<error>`` when no reply came."""

    def throttled(self, verb: str, seconds: float) -> None:
        """``rest_client_rate_limiter_duration_seconds``: waited for our own rate limit."""

    def retried(self, verb: str, cause: str) -> None:
        """``rest_client_request_retries_total``: one call is sent again by the client itself."""


class ReflectorInstruments:
    """A reflector's measures."""

    def listed(self, items: int, seconds: float) -> None:
        """A complete list was read, by list or by watch-list."""

    def watching(self) -> None:
        """A watch was accepted by the apiserver."""

    def watch_ended(self, cause: str) -> None:
        """A watch ended: ``closed``, or an error's name."""

    def relisted(self, cause: str) -> None:
        """A relist was needed, with the error's name that forced it; ``asked`` by a new leader."""

    def undecodable(self) -> None:
        """One object could not be decoded and is passed over."""

    def handler_failed(self) -> None:
        """A handler raised on one object."""


class ElectionInstruments:
    """A leader elector's measures."""

    def leading(self, is_leader: bool) -> None:  # noqa: FBT001 (a gauge's value)
        """``leader_election_master_status``."""

    def attempted(self, outcome: str) -> None:
        """One try to get or keep the Lease is over: it is ``ours`` or ``theirs``, or the error's name."""

    def slow_path(self) -> None:
        """``leader_election_slowpath_total``: a renewal had to read the Lease first."""

    def transition(self) -> None:
        """This process saw the Lease change hands."""


class RecorderInstruments:
    """The event recorder's measures."""

    def sent(self) -> None:
        """An event reached the apiserver."""

    def lost(self, cause: str) -> None:
        """An event was given up: ``overflow``, ``rate``, ``shutdown``, or an error's name."""
