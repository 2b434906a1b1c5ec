"""How the process lives and ends: what runs always, what runs while it leads, and in which order it all stops.

    always:          informers, event recorder, measurement of the event loop
    while leading:   the controllers, after a relist of the caches
    at the end:      1 the controllers drain   2 last events are posted   3 the Lease is released   4 the rest stops

Everything runs in one task group: a part that fails ends the process, because a process without one of its parts is
worse than a restart. A lost term is different: another process may lead already, so the controllers are cancelled at
once, without draining, and this process stands for election again with warm caches.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Self, cast

from tf_operator.app.wiring import Working
from tf_operator.machinery import log
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.leaderelection import LossReason
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.log import Logger

LAST_EVENTS = 2.0
"""Seconds within which the last events have to be posted."""

_log = Logger(__name__)


class LeaderTerm(Protocol):
    """The time in which this process leads."""

    async def wait_over(self) -> LossReason:
        """Wait until it no longer does."""


class Election(Protocol):
    """Decides which process leads: ``ElectionThread`` or ``NoElection``."""

    def term(self) -> AbstractAsyncContextManager[LeaderTerm]:
        """Wait until this process leads; exit it when the work has ended."""


class NoElection:
    """An election that has one candidate and no Lease."""

    @asynccontextmanager
    async def term(self) -> AsyncIterator[Self]:
        yield self

    async def wait_over(self) -> LossReason:
        return cast("LossReason", await asyncio.get_running_loop().create_future())


async def _nothing_to_wait_for() -> None:
    pass


class Lifecycle:
    """One life of the process; ``run`` returns after ``stop`` is set and all has ended in order."""

    def __init__(
        self,
        controllers: Mapping[str, Working],
        *,
        informers: SharedInformerFactory,
        recorder: EventRecorder,
        election: Election,
        clock: Clock,
        stop: asyncio.Event,
        drain_timeout: float,
        wait_until_clear: Callable[[], Awaitable[object]] = _nothing_to_wait_for,
    ) -> None:
        """``controllers`` by name: they begin and end together.

        ``wait_until_clear`` returns when the process may stand for election; it is called with complete caches.
        """
        self._controllers = controllers
        self._informers = informers
        self._recorder = recorder
        self._election = election
        self._clock = clock
        self._stop = stop
        self._drain_timeout = drain_timeout
        self._wait_until_clear = wait_until_clear

    async def run(self, **others: Coroutine[Any, Any, object]) -> None:
        """Run everything, with ``others`` beside what always runs. Raises when a part fails."""
        async with asyncio.TaskGroup() as core:
            always = {"informers": self._informers.run(), "event recorder": self._recorder.run(), **others}
            lasting = [core.create_task(self._lasting(name, part)) for name, part in always.items()]
            standing = core.create_task(self._stand())
            await self._stop.wait()
            standing.cancel()
            await asyncio.wait([standing])
            for task in lasting:
                task.cancel()

    async def _lasting(self, name: str, part: Coroutine[Any, Any, object]) -> None:
        """Run a part that ends by cancellation only; if it ends by itself, that is a bug and ends the process."""
        await part
        if not self._stop.is_set():
            raise RuntimeError(f"the {name} ended unexpectedly")

    async def _stand(self) -> None:
        await self._informers.wait_synced()
        _log.info("caches synced")
        await self._wait_until_clear()
        while True:
            async with self._election.term() as term:
                await self._lead(term)

    async def _lead(self, term: LeaderTerm) -> None:
        """Run the controllers until the term is over, or until this is cancelled because of ``stop``."""
        async with asyncio.TaskGroup() as work:
            working = work.create_task(self._work())
            try:
                _log.warning("lost leadership", cause=str(await term.wait_over()))
            finally:
                if self._stop.is_set():
                    await self._drain()
                working.cancel()

    async def _work(self) -> None:
        # The caches may not have the last writes of the previous leader yet. However long a relist takes, the end of
        # the term ends it, too.
        await self._informers.refresh()
        _log.info("workers started")
        async with asyncio.TaskGroup() as tasks:
            for name, controller in self._controllers.items():
                with log.bound(controller=name):
                    tasks.create_task(self._lasting(f"controller {name}", controller.run()))

    async def _drain(self) -> None:
        try:
            async with self._clock.timeout(self._drain_timeout), asyncio.TaskGroup() as drains:
                for controller in self._controllers.values():
                    drains.create_task(controller.drain())
        except TimeoutError:
            _log.warning("some reconciles did not finish in time", seconds=self._drain_timeout)
        await self._recorder.drain(LAST_EVENTS)
