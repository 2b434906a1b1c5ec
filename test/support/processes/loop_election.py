"""The election of a process that shares its event loop with others: what ``ElectionThread`` is to the thread of one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.election_thread import OpenLock, Term
from tf_operator.machinery.election.fence import Fence
from tf_operator.machinery.election.heartbeat import Heartbeat
from tf_operator.machinery.election.leaderelection import LeaderElector, LossReason


class LoopElection:
    """Stands for election beside the work, on the same loop. What stops the one stops the other."""

    def __init__(self, open_lock: OpenLock, *, identity: str, clock: Clock, chance: Callable[[], float]) -> None:
        self.fence = Fence(clock)
        self._open_lock = open_lock
        self._identity = identity
        self._clock = clock
        self._chance = chance
        self._heartbeat = Heartbeat(clock)

    @asynccontextmanager
    async def term(self) -> AsyncIterator[Term]:
        """Wait until this process leads. Leave when the work has ended: what is still ours is then released."""
        leading = asyncio.Event()
        serving = asyncio.ensure_future(self._serve(leading))
        serving.add_done_callback(lambda _: leading.set())
        with self._heartbeat.beating():
            try:
                await leading.wait()
                if serving.done():
                    serving.result()
                yield Term(serving)
            finally:
                serving.cancel()
                await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()

    async def _serve(self, leading: asyncio.Event) -> LossReason:
        async with self._open_lock() as lock:
            elector = LeaderElector(
                lock,
                identity=self._identity,
                clock=self._clock,
                fence=self.fence,
                heartbeat=self._heartbeat,
                chance=self._chance,
            )
            return await elector.serve(leading.set)
