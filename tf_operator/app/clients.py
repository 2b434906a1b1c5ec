"""Everything that speaks to the API server: who has which connection, and which budget.

Two connections, because a request must never wait for a place that a watch has taken; the Lease has a third one, in a
thread of its own. Separate budgets, so that watches, requests for jobs, events and reviews do not starve each other.
"""

import math
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib import metadata
from types import TracebackType
from typing import Self

from tf_operator.app import wiring
from tf_operator.app.http.metrics_auth import REVIEW_WITHIN
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options.options import Options
from tf_operator.app.progress import relay
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election import lease
from tf_operator.machinery.election.election_thread import ElectionThread, make_identity
from tf_operator.machinery.election.fence import LeaseClock
from tf_operator.machinery.events.event_object import Reporter
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.log import Logger
from tf_operator.machinery.metrics_hooks import ClientInstruments
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.shared_config import SharedConfig
from tf_operator.machinery.transport.transport import no_guard
from tf_operator.meta import ObjectKey

_log = Logger(__name__)

CALLS_AT_ONCE = 48
"""More make no API server faster, and to open a connection costs as much as ten calls."""
EVENTS_PER_SECOND, EVENTS_AT_ONCE = 50.0, 100


class Clients:
    """The clients of one process; ``async with`` opens and closes their connections."""

    def __init__(self, options: Options, clock: Clock, metrics: Metrics) -> None:
        self._options = options
        self._clock = clock
        self._metrics = metrics
        self._name = options.pod_name or socket.gethostname()
        source = InCluster() if options.is_in_cluster else KubeConfig(options.kubeconfig)
        self.config = SharedConfig(source, clock=clock)
        """Where the API server is, and the credentials for it, read once for all connections."""
        self._watching = self._connection(places=0)
        self._calling = self._connection(places=CALLS_AT_ONCE)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:
            for connection in (self._watching, self._calling):
                await opened.enter_async_context(connection)
            self._stack = opened.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @property
    def host(self) -> str:
        """The address of the API server."""
        return self._calling.host

    def informers(self) -> SharedInformerFactory:
        # Reflectors have pauses of their own, which is budget enough.
        budget = TokenBucket(self._clock, qps=math.inf, burst=1)
        return SharedInformerFactory(
            client=ApiClient(self._watching, clock=self._clock, budget=budget, instruments=self._instruments()),
            clock=self._clock,
            instruments=self._metrics.reflector,
        )

    def jobs(self, election: ElectionThread | None) -> ApiClient:
        """The client of the controller; without the Lease no request is sent."""
        budget = TokenBucket(self._clock, qps=self._options.qps, burst=self._options.burst)
        return ApiClient(
            self._calling, clock=self._clock, budget=budget, guard=guard(election), instruments=self._instruments()
        )

    def recorder(self) -> EventRecorder:
        budget = TokenBucket(self._clock, qps=EVENTS_PER_SECOND, burst=EVENTS_AT_ONCE)
        return EventRecorder(
            ApiClient(self._calling, clock=self._clock, budget=budget, instruments=self._instruments()),
            clock=self._clock,
            reporter=Reporter(wiring.COMPONENT, self._name),
            instruments=self._metrics.recorder,
        )

    def reviews(self) -> ApiClient:
        """Sends once, and does not wait for long: scrapers come again. Their number is limited by who asks."""
        return ApiClient(
            self._calling,
            clock=self._clock,
            budget=TokenBucket(self._clock, qps=math.inf, burst=1),
            instruments=self._instruments(),
            reply_within=REVIEW_WITHIN,
            attempts=1,
        )

    def occasional(self, allowed: Callable[[], object] = no_guard) -> ApiClient:
        """A client for a few requests now and then: it detects what is installed, and keeps the webhook's certificate.

        ``allowed`` raises where nothing may be sent, as ``guard`` does.
        """
        budget = TokenBucket(self._clock, qps=1, burst=10)
        return ApiClient(
            self._calling, clock=self._clock, budget=budget, guard=allowed, instruments=self._instruments()
        )

    def election(self) -> ElectionThread | None:
        """An elector with a connection of its own; ``None`` when this process is the only one."""
        election_options, clock, instruments = self._options.election, LeaseClock(), self._instruments()
        if election_options is None:
            return None
        key, identity = ObjectKey(election_options.namespace, election_options.name), make_identity(self._name)
        progress = self._options.progress
        annotations = relay.annotations(identity, progress.own_address if progress else None)
        return ElectionThread(
            lambda: lease.open_lock(
                Connection(self.config, clock=clock, pool_size=2),
                key,
                clock=clock,
                instruments=instruments,
                annotations=annotations,
            ),
            identity=identity,
            clock=clock,
            config=election_options.config,
            instruments=self._metrics.election,
        )

    def _connection(self, *, places: int) -> Connection:
        return Connection(self.config, clock=self._clock, user_agent=f"tf-operator/{release()}", pool_size=places)

    def _instruments(self) -> ClientInstruments:
        return self._metrics.client(self.host)


def guard(election: ElectionThread | None) -> Callable[[], object]:
    """What raises ``NotLeading`` where only a leader may write."""
    return election.fence.check if election else no_guard


def release() -> str:
    return metadata.version("tf-operator")
