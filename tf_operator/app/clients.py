"""Everything that speaks to the API server: who has which connection, and which budget.

Two connections, because a request must never wait for a place that a watch has taken; the Lease has a third one, in a
thread of its own. Separate budgets, so that watches, requests for jobs, events and reviews do not starve each other.
"""

import math
import socket
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from importlib import metadata
from types import TracebackType
from typing import Self

from tf_operator.app import wiring
from tf_operator.app.http.metrics_auth import REVIEW_WITHIN
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options.options import Options
from tf_operator.controller.job_queue.projections import NODES
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
from tf_operator.machinery.transport import discovery, errors, requests
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.machinery.transport.shared_config import SharedConfig
from tf_operator.machinery.transport.transport import no_guard
from tf_operator.meta import ObjectKey
from tf_operator.planning import gang_schedulers
from tf_operator.planning.kueue import state
from tf_operator.text import one_line

_log = Logger(__name__)

CALLS_AT_ONCE = 48
"""More make no API server faster, and to open a connection costs as much as ten calls."""
SOME_TIME = 5.0
"""Seconds between questions to an API server that does not answer."""
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
        """The informers of the process."""
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

    async def gang_scheduler(self, names: Iterable[str]) -> str:
        """The first of these gang schedulers whose PodGroups are served; empty for none. Waits for an API server."""
        scope = Scope(next(iter(self._options.namespaces), ""))
        for name in names:
            scheduler = gang_schedulers.find(name)
            if scheduler and await self._is_served(scheduler.resource, scope):
                return name
        return ""

    async def kueue_version(self) -> str:
        """The newest version of Workloads that is served, or would be the first one tried when Kueue is installed."""
        scope = Scope(next(iter(self._options.namespaces), ""))
        for version in state.VERSIONS:
            if await self._is_served(state.workloads(version), scope):
                return version
        return state.VERSIONS[0]

    async def can_restart_in_place(self) -> bool:
        """Whether pods may have containers that restart all others."""
        client = self.webhook()
        while True:
            try:
                release_info = await discovery.release(client)
                return tuple(map(_number, (release_info.get("major"), release_info.get("minor")))) >= (1, 36)
            except errors.ApiError as error:
                _log.warning("the API server's version cannot be found out yet", error=one_line(str(error)))
                await self._clock.sleep(SOME_TIME)

    async def may_read_nodes(self) -> bool:
        """Whether nodes may be listed."""
        return await self._is_served(NODES, Scope())

    async def _is_served(self, resource: Resource, scope: Scope) -> bool:
        """Whether there are such objects, and they may be listed: without rights nobody is asked for what is absent."""
        client = self.webhook()
        while True:
            try:
                served = await discovery.served(client, resource.api_version)
                if resource.plural not in {kind.name for kind in served}:
                    return False
                await client.send(requests.list_page(resource, scope, limit=1))
            except errors.NotFound:
                return False
            except errors.Forbidden as error:
                # Rights do not come by themselves, and without them its gangs could not be made anyway.
                _log.warning("what cannot be listed counts as not installed", error=one_line(str(error)))
                return False
            except errors.ApiError as error:
                _log.warning("what is installed cannot be found out yet", error=one_line(str(error)))
                await self._clock.sleep(SOME_TIME)
            else:
                return True

    def recorder(self) -> EventRecorder:
        """The recorder of events."""
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

    def webhook(self, allowed: Callable[[], object] = no_guard) -> ApiClient:
        """A client that keeps the certificate of the webhook: a few requests now and then.

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
        key = ObjectKey(election_options.namespace, election_options.name)
        return ElectionThread(
            lambda: lease.open_lock(
                Connection(self.config, clock=clock, pool_size=2), key, clock=clock, instruments=instruments
            ),
            identity=make_identity(self._name),
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


def _number(text: object) -> int:
    """The number of a release, of which some clouds write ``36+``."""
    digits = str(text).rstrip("+")
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def release() -> str:
    """The release of the operator."""
    return metadata.version("tf-operator")
