"""What the replicas of one job print, for as long as somebody looks: the last lines of all, however much there is.

A program may print faster than any browser shows it. What a page has not read when it is pushed out is counted.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import aclosing
from itertools import islice
from typing import Final

from tf_operator.cli import failures
from tf_operator.cli.ui import feed, job_page
from tf_operator.cli.ui.feed import RunningFeed
from tf_operator.cli.ui.job_feed import BROKEN
from tf_operator.client import ApiError, AsyncTFJobs, NotFound, NotPossible
from tf_operator.client.run import tensorflow_lines
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import ExponentialBackoff

MOST_FOLLOWED: Final = 20
"""Replicas of a job whose logs are read at once: each is a connection. Of a larger job, one at a time."""
_MOST_LINES: Final = 4000
_MOST_CHARACTERS: Final = 4 * 1024 * 1024
_LONGEST_LINE: Final = 4000
_TAIL: Final = 200
"""Of each replica."""
_SHORTEST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 20.0
"""Seconds until a log is asked for again that was refused."""
_BEGUN_AFTER: Final = 1.0
_LINES_AT_ONCE: Final = 250
"""To a page that has the first ones: four times a second is more than anybody reads, and no work for a browser."""
_BURST: Final = 2000
_PAUSE: Final = 0.25
"""Seconds after each burst: a program that prints without end is read late, and costs neither side all it has."""


class LogFeed(RunningFeed):
    """The last lines of one replica, or of all."""

    def __init__(self, jobs: AsyncTFJobs, name: str, replica: str, clock: Clock) -> None:
        """``replica``: as in ``worker-0``; empty for all, if they are few, or else for the one that says most."""
        super().__init__()
        self._jobs = jobs
        self._name = name
        self._replica = replica
        self._clock = clock
        self.lines = deque[tuple[str, str] | tuple[str, str, bool]]()
        """Replica and text; and True if TensorFlow has written it of itself."""
        self._characters = 0
        self.count = 0
        """Lines since the beginning."""
        self.begins_at = 0
        """How many lines there were before a refusal."""
        self.head = b""
        self.end = b""
        self._has_begun = False
        self._beginnings = 0

    async def run(self) -> None:
        """Read until the job has ended, and what its programs printed is read."""
        pauses = ExponentialBackoff[str](base=_SHORTEST_PAUSE, cap=_LONGEST_PAUSE)
        while True:
            try:
                await self._follow()
            except (NotFound, NotPossible) as error:
                self._end(feed.printable(failures.sentence(error)))
                return
            except ApiError as error:
                self._end(feed.printable(failures.sentence(error)))
                if self._has_begun:
                    pauses.forget("")
            else:
                self._end("The job has ended, and so have its logs.")
                return
            await self._clock.sleep(pauses.delay(""))

    async def _follow(self) -> None:
        job = await self._jobs.get(self._name)
        if not self._replica and job.spec.pod_count > MOST_FOLLOWED:
            self._replica = job_page.main_replica(job)
        self._has_begun = False
        # After a refusal only what is not refused soon is a beginning: pages are cleared for it.
        beginning = self._clock.call_at(self._clock.monotonic() + _BEGUN_AFTER, self._begin)
        if not self.end:
            self._begin()
        stream = self._jobs.logs(job, replica=self._replica, follow=True, tail=_TAIL, longest=4 * _LONGEST_LINE)
        try:
            async with aclosing(stream) as lines:
                async for line in lines:
                    self._begin()
                    self._add(line.replica, feed.printable(line.text, _LONGEST_LINE))
                    if self.count % _BURST == 0:
                        await self._clock.sleep(_PAUSE)
            self._begin()
        finally:
            beginning.cancel()

    def _begin(self) -> None:
        """The log is read from here: what was read before a refusal comes again."""
        if self._has_begun:
            return
        self._has_begun = True
        self.lines.clear()
        self._characters, self.end, self.begins_at = 0, b"", self.count
        self._beginnings += 1
        self.head = feed.frame("log", {"replica": self._replica, "tail": _TAIL, "beginning": self._beginnings})
        self.changed()

    def broke(self) -> None:
        self._end(BROKEN)

    def _add(self, replica: str, text: str) -> None:
        self.lines.append((replica, text, True) if tensorflow_lines.is_own(text) else (replica, text))
        self._characters += len(text)
        self.count += 1
        while len(self.lines) > _MOST_LINES or self._characters > _MOST_CHARACTERS:
            self._characters -= len(self.lines.popleft()[1])
        self.changed()

    def _end(self, text: str) -> None:
        self.end = feed.frame("logend", text)
        self.changed()


class LogCursor:
    def __init__(self, source: LogFeed) -> None:
        self._source = source
        self._read = 0
        """Lines, of all that there were."""
        self._sent = dict[str, bytes]()

    def news(self) -> list[bytes]:
        return list(self._frames())

    def _frames(self) -> Iterator[bytes]:
        source = self._source
        yield from self._event_if_changed("head", source.head)
        self._read = max(self._read, source.begins_at)
        first = source.count - len(source.lines)
        if self._read < first:
            if self._read > source.begins_at:
                yield feed.frame("skipped", first - self._read)
            self._read = first
        most = _LINES_AT_ONCE if self._read > source.begins_at else _MOST_LINES
        lines = list(islice(source.lines, self._read - first, self._read - first + most))
        if lines:
            self._read += len(lines)
            yield feed.frame("lines", lines)
        else:
            yield from self._event_if_changed("end", source.end)

    def _event_if_changed(self, name: str, text: bytes) -> Iterator[bytes]:
        if text != self._sent.get(name, b""):
            self._sent[name] = text
            yield from (text,) if text else ()

    @property
    def is_ended(self) -> bool:
        return False
