"""What is sent to pages: feeds, which many may read, and the frames of an event stream.

A feed keeps what a page needs to know now, never what one has not read yet: a browser that is slow, or asleep, misses
steps in between and costs nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import msgspec

from tf_operator import text as texts
from tf_operator.machinery.log import Logger

MOST_TEXT: Final = 1000
"""Characters of a message that somebody's object or program has."""
MOST_FEEDS: Final = 32
"""Jobs, and logs of jobs, that are followed at once."""

_log = Logger(__name__)


class TooMany(Exception):
    """There are as many feeds as there may be."""


class Cursor(Protocol):
    """What one page has read of a feed."""

    def news(self) -> list[bytes]:
        """The next frames; empty when there are none now."""

    @property
    def is_ended(self) -> bool:
        """Whether no more will come."""


class Feed:
    """Something that changes, and wakes whoever reads it."""

    def __init__(self) -> None:
        self._readers = set[Callable[[], object]]()

    @contextmanager
    def heard(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call this after each change."""
        self._readers.add(callback)
        try:
            yield
        finally:
            self._readers.discard(callback)

    def changed(self) -> None:
        for callback in tuple(self._readers):
            callback()


class RunningFeed(Feed):
    async def run(self) -> None:
        """Follow what it shows, until cancelled or until nothing follows. Raises only for a bug."""
        raise NotImplementedError

    def broke(self) -> None:
        """``run`` has failed for a reason that nobody has foreseen."""


F = TypeVar("F", bound=RunningFeed)


class SharedFeeds:
    """The feeds that somebody reads: each runs once, for as long as it is read."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._open = dict[object, _Shared]()

    @asynccontextmanager
    async def reading(self, key: object, make: Callable[[], F]) -> AsyncIterator[F]:
        """The feed of this key, made if nobody reads one that runs; ``TooMany`` when there are too many others."""
        shared = self._open.get(key)
        if shared is None or shared.task.done():
            if len(self._open) >= MOST_FEEDS:
                raise TooMany
            feed = make()
            shared = self._open[key] = _Shared(feed, self._tasks.create_task(_kept_up(feed)))
        shared.readers += 1
        try:
            yield shared.feed  # type: ignore[misc] # made by the caller's own function
        finally:
            shared.readers -= 1
            if not shared.readers:
                shared.task.cancel()
                if self._open.get(key) is shared:
                    del self._open[key]


@dataclass(slots=True)
class _Shared:
    feed: RunningFeed
    task: asyncio.Task[None]
    readers: int = 0


async def _kept_up(feed: RunningFeed) -> None:
    try:
        await feed.run()
    except Exception:  # noqa: BLE001 (a bug must not end the pages of other jobs)
        _log.exception("a page cannot be kept up")
        feed.broke()


def frame(event: str, value: object) -> bytes:
    """One event of a stream. JSON has no line end."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(value))


def frame_of(event: str, encoded: Sequence[bytes]) -> bytes:
    """One event whose value is a list of values that are JSON already."""
    return b"event: %s\ndata: [%s]\n\n" % (event.encode(), b",".join(encoded))


def printable(text: str, most: int = MOST_TEXT) -> str:
    """Somebody's text: of bounded length, without what changes how other text is shown."""
    return texts.shortened(texts.printable(texts.without_commands(text[: 2 * most])), most)
