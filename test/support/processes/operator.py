"""All that `tf-operator run` starts to work on jobs, on an event loop that several such processes share.

Informers, queues, controllers, executors, the job queue, the recorder of events and the election are the real ones, put
together as ``app.run`` does. Not here: sockets, threads, signals, HTTP endpoints, metrics. The edge of the process, to
its API server, is whoever's simulates the network; its clock can be stopped, and the process with it.
"""

import asyncio
import math
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext

from support.fake_clock import FakeClock
from support.processes.loop_election import LoopElection
from support.processes.process_clock import ProcessClock
from tf_operator.app import clients, controllers, job_queue, lifecycle, wiring
from tf_operator.app.options.options import Options
from tf_operator.controller.conflicts import ConflictDetector
from tf_operator.controller.controller import Controller
from tf_operator.controller.metrics_hooks import QueueDecisions, ReconcileInstruments
from tf_operator.controller.reconciler import Reconciler
from tf_operator.local.apiserver.in_process import Edge, InProcess
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.election import lease
from tf_operator.machinery.events.event_object import Reporter
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.metrics_hooks import ReflectorInstruments
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.transport import no_guard
from tf_operator.meta import ObjectKey


class Panics(ReconcileInstruments, QueueDecisions, ReflectorInstruments):
    """What nothing that happens outside of a process may cause."""

    def __init__(self) -> None:
        self.counted = 0

    def panicked(self) -> None:
        self.counted += 1

    handler_failed = panicked


class Operator:
    """One process, from its start to its end."""

    def __init__(
        self, name: str, options: Options, server: ApiServer, *, world: FakeClock, edge: Edge, rate: float, seed: int
    ) -> None:
        """``rate`` is how fast its clock goes, ``seed`` what it draws its pauses from."""
        self.name = name
        self.clock = ProcessClock(world, rate)
        self.panics = Panics()
        self.transport = InProcess(server, world, edge=edge, collects=False)
        self._chance = random.Random(seed).random
        self._stop = asyncio.Event()
        assert options.election
        key = ObjectKey(options.election.namespace, options.election.name)
        self.election = LoopElection(
            lambda: lease.open_lock(nullcontext(self.transport), key, clock=self.clock),
            identity=name,
            clock=self.clock,
            chance=self._chance,
        )
        self.informers = SharedInformerFactory(
            client=self._client(math.inf, 1),
            clock=self.clock,
            chance=self._chance,
            instruments=lambda _: self.panics,
        )
        recorder = EventRecorder(
            self._client(clients.EVENTS_PER_SECOND, clients.EVENTS_AT_ONCE),
            clock=self.clock,
            reporter=Reporter(wiring.COMPONENT, name),
            chance=self._chance,
        )
        conflicts = ConflictDetector(self.clock, recorder=recorder)
        settings = wiring.settings(options)
        unmeasured = wiring.Unmeasured(reconciles=self.panics)
        context = wiring.ControllerContext(
            client=self._client(options.qps, options.burst, self.election.fence.check),
            informers=self.informers,
            recorder=recorder,
            clock=self.clock,
            options=options,
            controllers=dict.fromkeys(controllers.frameworks(options), unmeasured),
            conflicts=conflicts,
            settings=lambda: settings,
        )
        self.controllers = controllers.make_all(context, wiring.make_controller)
        working: dict[str, wiring.Working] = dict(self.controllers)
        if options.job_queue:
            working["job-queue"] = job_queue.make_queue_planner(context, options.job_queue, self.panics)
        life = lifecycle.Lifecycle(
            working,
            informers=self.informers,
            recorder=recorder,
            election=self.election,
            clock=self.clock,
            stop=self._stop,
            drain_timeout=options.drain_timeout,
            wait_until_clear=conflicts.wait_until_clear,
        )
        self.running = asyncio.ensure_future(life.run(conflicts=conflicts.watch()))

    def terminate(self) -> None:
        """SIGTERM."""
        self._stop.set()

    def sizes(self) -> Iterator[tuple[str, int]]:
        """How much is kept for jobs, by where."""
        for name, controller in self.controllers.items():
            queue = controller.queue
            assert isinstance(queue, RateLimitedQueue)
            yield f"keys in the queue of {name}", queue.depth + queue.delayed + len(queue._low)
            if isinstance(controller, Controller) and isinstance(controller.reconciler, Reconciler):
                reconciler = controller.reconciler
                yield f"notes of {name}", len(reconciler.notes)
                yield f"costs of {name}", len(reconciler.debounce)
                yield f"pending writes of {name}", reconciler.pending_writes.owners

    def _client(self, qps: float, burst: int, guard: Callable[[], object] = no_guard) -> ApiClient:
        budget = TokenBucket(self.clock, qps=qps, burst=burst)
        return ApiClient(self.transport, clock=self.clock, budget=budget, guard=guard)
