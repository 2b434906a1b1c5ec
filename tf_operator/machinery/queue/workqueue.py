"""The queue between watch events and workers: which key is to be worked on next.

Handlers ``add`` keys, workers take them out, and the queue promises what makes a level-triggered controller
right: a key is never worked on twice at once; an event that arrives during the work leads to another reconcile
after it; a thousand events for a waiting key are one reconcile; and keys leave in the order they came, so a noisy
one cannot starve the others, because it waits at the end of the line again after each reconcile. Flows of keys, such
as namespaces, take turns. A key whose work is long and done in shares, or of which only work that can wait is left,
has a low priority meanwhile: other keys overtake it.

Three classes, one power each, as in client-go: ``WorkQueue`` orders, ``DelayingQueue`` adds later,
``RateLimitedQueue`` lets a limiter say how much later. A worker reads::

    async for key in queue:  # ends when the queue was shut down and is empty
        with queue.done_after(key):
            await reconcile(key)

There is one event loop and no lock: whatever changes the queue is a plain ``def`` and therefore atomic. Only
``get`` and ``shut_down_with_drain`` suspend, and neither holds a key or a half-made change while it does.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from itertools import count
from operator import itemgetter
from typing import Generic, Self, TypeVar

from tf_operator.machinery.clock import Clock, Timer
from tf_operator.machinery.metrics_hooks import QueueInstruments
from tf_operator.machinery.queue.fair_line import FairLine, Flow
from tf_operator.machinery.ratelimit import RateLimiter

K = TypeVar("K", bound=Hashable)

NORMAL_PER_LOW = 4
"""So many keys of normal priority are handed out for one of low priority, if both wait: none waits for ever."""


class QueueEnded(Exception):
    """The queue was shut down and has no key left; the worker may go home."""


class WorkQueue(Generic[K]):
    """Keys in the order they came, each at most once, none while it is being worked on.

    Between ``get`` and the ``done`` that follows it, a key is *in work*. A key that was accepted and not handed
    out yet is *pending*, and so may be both: then it is held back until ``done``. Invariant: the two lines hold,
    in the order of getting there, exactly the keys that are pending and not in work.
    """

    def __init__(
        self, clock: Clock, instruments: QueueInstruments | None = None, *, flow: Flow[K] = lambda _: None
    ) -> None:
        """``flow``: of which flow a key is; by default there is one."""
        self._clock = clock
        self._instruments = instruments or QueueInstruments()
        self._line = FairLine(flow)
        self._low_line = FairLine(flow)
        self._low: set[K] = set()
        """Keys of low priority, wherever they are."""
        self._overtook = 0
        """How many keys were handed out since the last one of low priority, while one waited."""
        self._pending: dict[K, float] = {}
        """Every accepted key, and when it was accepted. client-go: ``dirty``."""
        self._in_work: dict[K, float] = {}
        """Every key in a worker's hands, and since when. client-go: ``processing``."""
        self._getters: deque[asyncio.Future[None]] = deque()
        """Those who wait in ``get`` and were not woken yet."""
        self._is_shutting_down = False
        self._is_paused = False
        self._drained = asyncio.Event()

    def add(self, key: K) -> None:
        """Have the key worked on: soon, or again after the work that goes on.

        A key that is pending already stays where it is. After shut-down, and in a pause, this does nothing.
        """
        if not self.accepts_keys or key in self._pending:
            return
        self._pending[key] = self._clock.monotonic()
        if key not in self._in_work:
            self._put_in_line(key)
        self._instruments.added()
        self._instruments.depth(self.depth)

    async def get(self) -> K:
        """Wait for the next key, which is the caller's until ``done``. Raises ``QueueEnded`` at the end.

        Safe to cancel at any moment: a key leaves the line only when this returns it. The other tasks always
        get a turn first: otherwise a thousand reconciles that find nothing to do, and so never wait, would block them.
        """
        await self._clock.sleep(0)
        while not self.has_waiting:
            if self._is_shutting_down:
                raise QueueEnded
            await self._wait_to_be_woken()
        return self._hand_out()

    def done(self, key: K) -> None:
        """The work on the key is over, well or badly; if it was added meanwhile, it gets in line now.

        Each ``get`` needs exactly one ``done``: a second one raises ``KeyError``. client-go ignores it, and
        with it the bug that would let two workers have the same key.
        """
        seconds = self._clock.monotonic() - self._in_work.pop(key)
        if key in self._pending:
            self._put_in_line(key)
        self._note_drained()
        self._instruments.worked(seconds)

    def lower_priority(self, key: K) -> None:
        """Let other keys overtake this one whenever it waits, until ``restore_priority``.

        Which line a key is in is decided when it gets there, so call this while the key is in work.
        """
        self._low.add(key)

    def restore_priority(self, key: K) -> None:
        """Treat the key as all others from the next time it gets in line."""
        self._low.discard(key)

    @contextmanager
    def done_after(self, key: K) -> Iterator[None]:
        """Call ``done`` when the block is left, whichever way: also by an error or a cancellation."""
        try:
            yield
        finally:
            self.done(key)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> K:
        try:
            return await self.get()
        except QueueEnded:
            raise StopAsyncIteration from None

    def pause(self) -> None:
        """Drop what is pending, and accept nothing before ``resume``: there are no workers.

        Else a standby would collect keys for weeks, and all of them would count as having waited for so long.
        """
        self._is_paused = True
        self._line.clear()
        self._low_line.clear()
        self._low.clear()
        self._pending.clear()
        self._instruments.depth(0)
        self._note_drained()

    def resume(self) -> None:
        """Accept keys again. What came in the pause is lost: a controller that starts adds all objects."""
        self._is_paused = False

    def shut_down(self) -> None:
        """Accept no more keys; workers empty the line and then get ``QueueEnded``.

        Called during ``shut_down_with_drain``, it ends that wait at once.
        """
        self._close()
        self._drained.set()

    async def shut_down_with_drain(self) -> None:
        """As ``shut_down``, and wait until every accepted key is done.

        client-go waits only for the keys in work; a key still in line would be left behind. Without workers
        this never ends: bound it by ``Clock.timeout``. To cancel it is safe, the queue stays shut down.
        """
        self._close()
        self._drained.clear()
        self._note_drained()
        await self._drained.wait()

    @property
    def is_shutting_down(self) -> bool:
        return self._is_shutting_down

    @property
    def has_waiting(self) -> bool:
        """Whether a key waits for a worker: long work that is done in shares yields to it."""
        return bool(self._line or self._low_line)

    def is_in_work(self, key: K) -> bool:
        """Whether a worker has the key."""
        return key in self._in_work

    @property
    def depth(self) -> int:
        """How many accepted keys were not handed out yet, as ``workqueue_depth`` counts in client-go.

        This includes those held back because they are in work.
        """
        return len(self._pending)

    @property
    def unfinished_seconds(self) -> float:
        """The ages of all reconciles in progress, added up: ``workqueue_unfinished_work_seconds``."""
        now = self._clock.monotonic()
        return sum(now - since for since in self._in_work.values())

    @property
    def longest_running_seconds(self) -> float:
        """The age of the oldest reconcile: ``workqueue_longest_running_processor_seconds``."""
        now = self._clock.monotonic()
        return max((now - since for since in self._in_work.values()), default=0.0)

    @property
    def accepts_keys(self) -> bool:
        """Whether there are workers, or soon will be."""
        return not (self._is_shutting_down or self._is_paused)

    def _close(self) -> None:
        self._is_shutting_down = True
        while self._getters:
            self._wake_one()

    def _put_in_line(self, key: K) -> None:
        (self._low_line if key in self._low else self._line).append(key)
        self._wake_one()

    def _hand_out(self) -> K:
        key = self._next_in_line()
        now = self._clock.monotonic()
        self._in_work[key] = now
        seconds = now - self._pending.pop(key)
        self._instruments.waited(seconds)
        self._instruments.depth(self.depth)
        return key

    def _next_in_line(self) -> K:
        if not self._low_line:
            return self._line.popleft()
        if self._line and self._overtook < NORMAL_PER_LOW:
            self._overtook += 1
            return self._line.popleft()
        self._overtook = 0
        return self._low_line.popleft()

    def _wake_one(self) -> None:
        # To be woken is a hint to look at the line, not a key in the hand: another worker may be faster, and
        # then this one waits again. Handing keys over directly would lose those of cancelled getters.
        if self._getters:
            getter = self._getters.popleft()
            if not getter.done():  # else cancelled in this very turn of the loop, and about to pass it on
                getter.set_result(None)

    async def _wait_to_be_woken(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter in self._getters:
                self._getters.remove(getter)
            else:
                # Woken and cancelled in the same turn: the wake-up was meant for somebody who takes the key.
                self._wake_one()
            raise

    def _note_drained(self) -> None:
        if not self._pending and not self._in_work:
            self._drained.set()


class DelayingQueue(WorkQueue[K]):
    """A WorkQueue that also adds keys later.

    However many keys wait, there is one timer on the Clock, set for the earliest. They wait in a sorted list
    and not in a heap: a key that moves to an earlier moment must leave its old place, and a heap could only
    leave a tombstone there. A job with a deadline in a week that is retried every minute would leave 10,000.
    """

    def __init__(
        self, clock: Clock, instruments: QueueInstruments | None = None, *, flow: Flow[K] = lambda _: None
    ) -> None:
        super().__init__(clock, instruments, flow=flow)
        self._entries: dict[K, tuple[float, int, K]] = {}
        """Key to its entry in the timeline: when it is due, a running number, the key."""
        self._timeline: list[tuple[float, int, K]] = []
        """The same entries, the earliest first. The running number keeps keys from being compared."""
        self._numbers = count()
        self._timer: Timer | None = None
        self._timer_at: float | None = None
        self._after_work: dict[K, float] = {}
        """Keys in work that are added again so many seconds after it."""

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key when ``seconds`` have passed; zero or less adds it now.

        For a key that already waits for its time the earlier one wins. An ``add`` in between takes nothing
        back: the later addition was a promise too. What still waits at shut-down is dropped.
        """
        if not self.accepts_keys:
            return
        self._instruments.retried()
        if seconds <= 0:
            self.add(key)
        else:
            self._schedule(key, self._clock.monotonic() + seconds)

    def add_debounced(self, key: K, seconds: float) -> None:
        """Add the key soon, so that what follows within ``seconds`` is the same reconcile. Not counted as a retry.

        Nothing is lost by the wait: a reconcile sees the state when it begins. A key that is pending already will.
        """
        if self.accepts_keys and key not in self._pending:
            self._schedule(key, self._clock.monotonic() + seconds)

    def add_after_work(self, key: K, seconds: float) -> None:
        """As ``add_debounced``; but while the key is in work, which may bring about more, from the end of that on."""
        if key in self._in_work:
            self._after_work[key] = min(seconds, self._after_work.get(key, seconds))
        else:
            self.add_debounced(key, seconds)

    def done(self, key: K) -> None:
        super().done(key)
        if key in self._after_work:
            self.add_debounced(key, self._after_work.pop(key))

    def pause(self) -> None:
        """As above; what waits for its time is dropped, too."""
        self._drop_delayed()
        self._after_work.clear()
        super().pause()

    @property
    def delayed(self) -> int:
        return len(self._timeline)

    def _schedule(self, key: K, moment: float) -> None:
        waiting = self._entries.get(key)
        if waiting is not None:
            if waiting[0] <= moment:
                return
            del self._timeline[bisect_left(self._timeline, waiting)]
        self._entries[key] = entry = (moment, next(self._numbers), key)
        insort(self._timeline, entry)
        self._set_timer()

    def _set_timer(self) -> None:
        """Have the one timer stand at the earliest entry, or none without entries."""
        moment = self._timeline[0][0] if self._timeline else None
        if moment == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = moment
        self._timer = None if moment is None else self._clock.call_at(moment, self._add_due)

    def _add_due(self) -> None:
        """Add what is due, in the order of its time; the timer may be early, then it is set again."""
        self._timer = self._timer_at = None
        ready = bisect_right(self._timeline, self._clock.monotonic(), key=itemgetter(0))
        entries, self._timeline = self._timeline[:ready], self._timeline[ready:]
        for _, _, key in entries:
            del self._entries[key]
            self.add(key)
        self._set_timer()

    def _close(self) -> None:
        self._drop_delayed()
        super()._close()

    def _drop_delayed(self) -> None:
        self._entries.clear()
        self._timeline.clear()
        self._set_timer()


class RateLimitedQueue(DelayingQueue[K]):
    """A DelayingQueue that asks a limiter how long a failed key waits."""

    def __init__(
        self,
        clock: Clock,
        limiter: RateLimiter[K],
        *,
        instruments: QueueInstruments | None = None,
        flow: Flow[K] = lambda _: None,
    ) -> None:
        super().__init__(clock, instruments, flow=flow)
        self._limiter = limiter

    def add_rate_limited(self, key: K) -> None:
        """Add the key when the limiter allows; each call since the last ``forget`` makes it wait longer."""
        if self.accepts_keys:
            self.add_after(key, self._limiter.delay(key))

    def forget(self, key: K) -> None:
        """The key succeeded, or is given up: its next failure is its first. This is not ``done``."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """How often the key was added rate-limited since it was last forgotten."""
        return self._limiter.retries(key)
