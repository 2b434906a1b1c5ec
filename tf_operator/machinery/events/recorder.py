"""Kubernetes Events: what happened to an object, shown by ``kubectl describe``.

Recording never waits and never fails: ``event`` notes down what happened, and the senders of ``run`` post it later,
through a client with a budget of its own. On the way events are aggregated (what happened again is counted up in the
Event that exists), paced for each object that they are about, and bounded in number. What is given up is counted, by
cause, through ``RecorderInstruments``. ``event_object`` has the format, and the reasons for it.

One entry for each topic, in one of three states:

    event() --> waiting in line --> being posted --> posted, and remembered for a while
                   '--- failed: later, a few times ---'
"""

import asyncio
import heapq
import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from msgspec import structs

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.events import event_object
from tf_operator.machinery.events.event_object import EVENTS, EventKey, EventSeries, Reference, Reporter, Severity
from tf_operator.machinery.log import Logger
from tf_operator.machinery.metrics_hooks import RecorderInstruments
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import ApiClient

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class RecorderLimits:
    """How much is noted down, and how fast it is posted."""

    burst: int = 10
    """Events about one object at once, after a quiet time. client-go: 25."""
    interval: float = 6.0
    """Seconds for each further one: with the burst, never more than 20 in a minute. client-go: 300 s."""
    longest_delay: float = 60.0
    """An event about an object that has so many before it is given up."""
    waiting: int = 2000
    """Events that are not posted yet. A namespace may have as many as there are places left, so one that fills its
    share (half of all when it is alone) always leaves places for the others."""
    remembered: int = 4096
    """Topics that are posted, and objects whose pace is known."""
    remembered_for: float = 600.0
    tries: int = 6
    """With growing delays between them: an apiserver may be away for half a minute."""
    senders: int = 4
    texts: int = 3
    """Of the same kind, that have an Event each: those after them share one. client-go: 10. So few, because together
    with the burst they leave room for what else happens to the object."""


@dataclass(slots=True)
class _Entry:
    topic: EventKey
    tally: EventSeries
    posted: int = 0
    """How many of the tally have reached the apiserver."""
    earlier: int = 0
    """How many it had counted before the tally began."""
    failures: int = 0
    posted_at: float = 0.0


@dataclass(slots=True)
class _Texts:
    """The texts that have an Event each, and when there was the last one."""

    digests: set[int] = field(default_factory=set)
    at: float = 0.0


class EventRecorder:
    """Notes events down at any time, and posts them while ``run`` runs."""

    def __init__(
        self,
        client: ApiClient,
        *,
        clock: Clock,
        reporter: Reporter,
        instruments: RecorderInstruments | None = None,
        limits: RecorderLimits | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._clock = clock
        self._reporter = reporter
        self._instruments = instruments or RecorderInstruments()
        self._limits = limits or RecorderLimits()
        self._chance = chance
        self._waiting: dict[EventKey, _Entry] = {}
        """Everything that is in line or being posted."""
        self._waiting_in: Counter[str] = Counter()
        """The same, counted by namespace."""
        self._line: list[tuple[float, int, _Entry]] = []
        """A heap: when each is due."""
        self._order = count()
        # By hand: three bounded maps of three lines each are no reason to depend on cachetools.
        self._entries: OrderedDict[EventKey, _Entry] = OrderedDict()
        self._pace: OrderedDict[str, float] = OrderedDict()
        """By UID of an object: when it will have its whole burst again."""
        self._texts: OrderedDict[EventKey, _Texts] = OrderedDict()
        """By what is alike but for the text."""
        self._complaint = ""
        self._is_closed = False
        self._line_changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def event(
        self,
        regarding: Reference,
        severity: Severity,
        *,
        reason: str,
        message: str,
        related: Reference | None = None,
    ) -> None:
        """Note down that something happened to ``regarding``. Returns at once, and never raises.

        With the same ``related`` (a pod, say), reason and message it is the same Event, counted up. Messages
        beyond the first few share one, which shows the latest.
        """
        now, text = self._clock.now(), event_object.printable(message)
        topic = self._topic(EventKey(regarding, reason, related), text)
        tally = EventSeries(severity, text if topic.text is not None else event_object.combined(text), now, now)
        if entry := self._waiting.get(topic):
            entry.tally = entry.tally.followed_by(tally)
        elif cause := self._refusal(regarding):
            self._instruments.lost(cause)
        else:
            entry = self._recall(topic)
            self._waiting[topic] = entry or _Entry(topic, tally)
            self._waiting_in[regarding.key.namespace] += 1
            if entry:
                entry.tally = entry.tally.followed_by(tally)
            self._idle.clear()
            self._put_in_line(self._waiting[topic], self._take_turn(regarding.uid))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as senders:
            for _ in range(self._limits.senders):
                senders.create_task(self._send())

    async def drain(self, within: float) -> None:
        """Take no more events, and wait for ``run`` to post the rest; what is left after ``within`` is lost."""
        self._is_closed = True
        with suppress(TimeoutError):
            async with self._clock.timeout(within):
                await self._idle.wait()
        for entry in list(self._waiting.values()):
            self._give_up(entry, "shutdown")
        self._line.clear()

    def _topic(self, alike: EventKey, text: str) -> EventKey:
        """The Event of a text: its own, or after the first few that of all further ones."""
        now, texts = self._clock.monotonic(), self._texts.pop(alike, None)
        if texts is None or now - texts.at >= self._limits.remembered_for:
            texts = _Texts()
        texts.at, digest = now, hash(text)
        if len(texts.digests) < self._limits.texts:
            texts.digests.add(digest)
        self._texts[alike] = texts
        if len(self._texts) > self._limits.remembered:
            self._texts.popitem(last=False)
        return structs.replace(alike, text=text) if digest in texts.digests else alike

    def _refusal(self, regarding: Reference) -> str:
        """Why no further event about this object is taken; empty when it is."""
        if self._is_closed:
            return "shutdown"
        if self._waiting_in[regarding.key.namespace] >= self._limits.waiting - len(self._waiting):
            return "overflow"
        return "rate" if self._delay(regarding.uid) > self._limits.longest_delay else ""

    def _delay(self, uid: str) -> float:
        now, slack = self._clock.monotonic(), (self._limits.burst - 1) * self._limits.interval
        return max(0.0, self._pace.get(uid, now) - slack - now)

    def _take_turn(self, uid: str) -> float:
        """Take the object's next turn; when it is."""
        now, delay = self._clock.monotonic(), self._delay(uid)
        self._pace[uid] = max(self._pace.pop(uid, now), now) + self._limits.interval
        if len(self._pace) > self._limits.remembered:
            self._pace.popitem(last=False)
        return now + delay

    def _recall(self, topic: EventKey) -> _Entry | None:
        """What is known of an Event that was posted before."""
        entry = self._entries.pop(topic, None)
        is_fresh = entry and self._clock.monotonic() - entry.posted_at < self._limits.remembered_for
        return entry if is_fresh else None

    def _put_in_line(self, entry: _Entry, moment: float) -> None:
        heapq.heappush(self._line, (moment, next(self._order), entry))
        self._line_changed.set()

    async def _send(self) -> None:
        while True:
            await self._post(await self._next())

    async def _next(self) -> _Entry:
        while True:
            wait = self._line[0][0] - self._clock.monotonic() if self._line else None
            if wait is not None and wait <= 0:
                return heapq.heappop(self._line)[2]
            self._line_changed.clear()
            with suppress(TimeoutError):
                async with self._clock.timeout(wait):
                    await self._line_changed.wait()

    async def _post(self, entry: _Entry) -> None:
        tally = entry.tally  # it may grow meanwhile
        try:
            await self._write(entry, tally)
        except Exception as error:  # noqa: BLE001 (one event is not worth more than the event)
            self._on_failure(entry, error)
            return
        self._instruments.sent()
        self._complaint = ""
        entry.posted, entry.failures, entry.posted_at = tally.count, 0, self._clock.monotonic()
        if self._waiting.get(entry.topic) is not entry:
            return  # given up in the meantime
        if entry.tally.count > entry.posted:
            self._put_in_line(entry, self._take_turn(entry.topic.regarding.uid))
            return
        self._remove(entry)
        self._entries[entry.topic] = entry
        if len(self._entries) > self._limits.remembered:
            self._entries.popitem(last=False)

    async def _write(self, entry: _Entry, tally: EventSeries) -> None:
        key = entry.topic.event_key(self._reporter)
        if entry.posted:
            with suppress(errors.NotFound):  # it lived for an hour: the apiserver's own time limit
                await self._count_up(entry, tally)
                return
        try:
            event = event_object.make_event(entry.topic, _with_earlier(tally, entry.earlier), self._reporter)
            await self._client.create(EVENTS, key.namespace, event)
        except errors.AlreadyExists:
            # A patch that changes nothing writes nothing, and returns the object: we have no right to get events.
            existing = await self._client.merge_patch(EVENTS, key, {})
            entry.earlier = event_object.counted_before(existing, tally, self._reporter)
            await self._count_up(entry, tally)

    async def _count_up(self, entry: _Entry, tally: EventSeries) -> None:
        """Say how often it has happened, not that it has happened again: so it can be repeated."""
        patch = event_object.make_patch(_with_earlier(tally, entry.earlier), self._reporter)
        await self._client.merge_patch(EVENTS, entry.topic.event_key(self._reporter), patch)

    def _on_failure(self, entry: _Entry, error: Exception) -> None:
        entry.failures += 1
        if _is_permanent(error) or entry.failures >= self._limits.tries:
            self._give_up(entry, type(error).__name__)
            self._complain(entry, error)
        elif self._waiting.get(entry.topic) is entry:
            delay = getattr(error, "retry_after", None) or 2.0 ** (entry.failures - 1) * (0.5 + self._chance())
            self._put_in_line(entry, self._clock.monotonic() + delay)

    def _complain(self, entry: _Entry, error: Exception) -> None:
        """Log why events are lost; but in a namespace that is full of jobs not for each of them."""
        if self._complaint != (cause := type(error).__name__):
            about = str(entry.topic.regarding.key)
            _log.warning("an event could not be recorded", about=about, cause=cause, error=str(error))
        self._complaint = cause

    def _give_up(self, entry: _Entry, cause: str) -> None:
        if self._waiting.get(entry.topic) is entry:
            self._remove(entry)
            for _ in range(entry.tally.count - entry.posted):
                self._instruments.lost(cause)

    def _remove(self, entry: _Entry) -> None:
        del self._waiting[entry.topic]
        namespace = entry.topic.regarding.key.namespace
        self._waiting_in[namespace] -= 1
        if not self._waiting_in[namespace]:
            del self._waiting_in[namespace]
        if not self._waiting:
            self._idle.set()


def _with_earlier(tally: EventSeries, earlier: int) -> EventSeries:
    return structs.replace(tally, count=tally.count + earlier)


def _is_permanent(error: Exception) -> bool:
    """Whether trying again cannot help: no right, no quota, no such namespace, or nothing that an apiserver takes."""
    permanent = errors.NotFound | errors.Forbidden | errors.Invalid | errors.TooLarge
    is_plain_4xx = type(error) is errors.Refused or (isinstance(error, errors.NotAdmitted) and error.code < 500)
    return isinstance(error, permanent) or is_plain_4xx or not isinstance(error, errors.ApiError)
