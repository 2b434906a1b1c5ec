"""The elector in a thread of its own, with its own event loop and connection; the work stays where it is.

Why a thread: what blocks the main loop must not cost the lease. Measured while 10,000 pods of 9 kB were decoded on
the main loop: a timer beside it came as late as the whole decoding took, a timer in a thread 0.1 s late, because
the decoding is done object by object; likewise with a loop that computes or waits for 12 s. Why not a process: only
one single call into C that holds the interpreter for more than eight seconds would need it, nothing here makes one
(lists are read in pages), and if one comes the lease is lost, but the fence is closed when the call returns.

    async with election.term() as term:      # returns once this process leads
        work = start_working()               # every write asks election.fence
        await term.wait_over()               # why it does not lead any more
    # leaving means that the work has ended: the Lease is released if it is still ours

Only the elector's thread moves the fence. A term never comes back: the next one needs another ``term()``.
"""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import cast

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.fence import Fence, LeaseClock
from tf_operator.machinery.election.heartbeat import Heartbeat
from tf_operator.machinery.election.leaderelection import ElectionConfig, LeaderElector, LossReason
from tf_operator.machinery.election.lease import Lease, Lock
from tf_operator.machinery.metrics_hooks import ElectionInstruments

OpenLock = Callable[[], AbstractAsyncContextManager[Lock]]
"""Opens a connection of its own for the Lease, on the event loop that it is called in."""


def make_identity(name: str) -> str:
    """An identity for the Lease: ``name`` for people, and what no other process has, nor another life of a pod."""
    return f"{name}_{uuid.uuid4()}"


class Term:
    """The time in which this process leads."""

    def __init__(self, over: asyncio.Future[LossReason]) -> None:
        self._over = over

    async def wait_over(self) -> LossReason:
        """Wait until this process no longer leads. By then the fence is closed already."""
        return await asyncio.shield(self._over)


class ElectionThread:
    """Stands for election beside the event loop that uses it.

    ``instruments`` are called in the other thread. ``heartbeat`` is that of the main loop, for probes.
    """

    def __init__(
        self,
        open_lock: OpenLock,
        *,
        identity: str,
        clock: Clock | None = None,
        config: ElectionConfig | None = None,
        instruments: ElectionInstruments | None = None,
    ) -> None:
        self._open_lock = open_lock
        self._identity = identity
        self._clock = clock or LeaseClock()
        self._config = config or ElectionConfig()
        self._instruments = instruments
        self.fence = Fence(self._clock)
        self.heartbeat = Heartbeat(self._clock)
        self.lease: Lease | None = None
        """As this candidate has seen it last; may be read in any thread."""

    @asynccontextmanager
    async def term(self) -> AsyncIterator[Term]:
        """Wait until this process leads. Leave when the work has ended: what is still ours is then released.

        Raises what the elector or its connection raised. One term at a time.
        """
        candidacy = _Candidacy(self._serve)
        with self.heartbeat.beating():
            try:
                await candidacy.wait_leading()
                yield Term(candidacy.over)
            finally:
                await candidacy.resign()
        candidacy.raise_failure()

    async def _serve(self, on_leading: Callable[[], object]) -> LossReason:
        async with self._open_lock() as lock:
            elector = LeaderElector(
                lock,
                identity=self._identity,
                clock=self._clock,
                fence=self.fence,
                heartbeat=self.heartbeat,
                config=self._config,
                instruments=self._instruments,
                on_observed=self._observe,
            )
            return await elector.serve(on_leading)

    def _observe(self, lease: Lease) -> None:
        self.lease = lease


class _Candidacy:
    """One call of ``serve`` in a thread, and what the main loop hears of it.

    Futures and events belong to the main loop, so the thread touches them only by ``_report``.
    """

    def __init__(self, serve: Callable[[Callable[[], object]], Awaitable[LossReason]]) -> None:
        self.over: asyncio.Future[LossReason] = asyncio.get_running_loop().create_future()
        self._serve = serve
        self._main = asyncio.get_running_loop()
        self._leading = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_resigned = False
        self._cancel: Callable[[], object] = lambda: None
        # A daemon: it must not keep a process alive that wants to end.
        threading.Thread(target=self._live, name="leader-election", daemon=True).start()

    async def wait_leading(self) -> None:
        """Wait until this process leads; raise what went wrong before."""
        self.over.add_done_callback(lambda _: self._leading.set())
        await self._leading.wait()
        self.raise_failure()

    def raise_failure(self) -> None:
        if self.over.done() and not self.over.cancelled():
            self.over.result()

    async def resign(self) -> None:
        """End it if it has not ended, and wait until the Lease is released, and connection and event loop closed.

        Also if that is cancelled, which is raised afterwards: a process must not end beside the thread.
        """
        self._is_resigned = True
        with suppress(RuntimeError):  # its loop has ended already
            self._cancel()
        cancellation: asyncio.CancelledError | None = None
        while not self._ended.is_set():
            try:
                await self._ended.wait()
            except asyncio.CancelledError as error:
                cancellation = error
        if cancellation:
            raise cancellation

    def _live(self) -> None:
        """All of the thread's life. A lack of file descriptors for its event loop is reported, too."""
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve_until_over())
        except BaseException as failure:  # noqa: BLE001 (it is raised again on the main loop)
            self._report(self._break_off, failure)
        finally:
            # Not before the event loop is closed, which may start a thread: if the interpreter ends before that one's
            # first step, Python 3.11 dies of SIGSEGV.
            self._report(self._ended.set)

    def _break_off(self, failure: BaseException) -> None:
        """End what has not ended: the main loop must not wait for what a thread that has ended would say."""
        if not self.over.done():
            self.over.set_exception(failure)

    async def _serve_until_over(self) -> None:
        """Serve until it is over or this process resigns, and report to the main loop how it ended."""
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[None]", asyncio.current_task())
        # In this order, against the opposite one in resign: whichever is first, one of the two is noticed.
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            if not self._is_resigned:
                ending = await self._serve(lambda: self._report(self._leading.set))
                self._report(self.over.set_result, ending)
        except asyncio.CancelledError:
            self._report(self.over.cancel)
        except Exception as failure:  # noqa: BLE001 (it is raised again on the main loop)
            self._report(self.over.set_exception, failure)

    def _report(self, callback: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the main loop has ended
            self._main.call_soon_threadsafe(callback, *arguments)
