"""Measures how late something came, less what this machine was late itself.

Where tests share two cores with other programs, everything may stand still for a second, and no timer is to blame. So
while it runs, a Stopwatch sets itself a short timer again and again, and adds up by how much they were late: that much
more is allowed for. The worst one alone would not do: what is measured goes through several processes.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Self

from tf_operator.machinery.clock import SystemClock

ON_TIME = timedelta(seconds=1)
_TICK = 0.05
_CLOCK = SystemClock()


class Stopwatch:
    def __init__(self) -> None:
        self._late = 0.0
        self._began = _CLOCK.monotonic()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *failure: object) -> None:
        if self._task:
            self._task.cancel()

    @property
    def seconds(self) -> float:
        """How long it has run, less what the machine was late."""
        return _CLOCK.monotonic() - self._began - self._late

    def assert_on_time(self, at: str, due: datetime) -> None:
        """What happened at this moment of the audit log was due then: not early, and at most a second late."""
        moment = datetime.fromisoformat(at)
        late = moment - due
        assert late >= timedelta(0), f"{-late} too early"
        assert late <= ON_TIME + timedelta(seconds=self._late), f"{late} late; the machine itself {self._late:.2f} s"

    @staticmethod
    async def passes(moment: datetime) -> None:
        await _CLOCK.sleep(max((moment - datetime.now(UTC)).total_seconds(), 0.0))

    async def _tick(self) -> None:
        while True:
            began = _CLOCK.monotonic()
            await _CLOCK.sleep(_TICK)
            self._late += max(_CLOCK.monotonic() - began - _TICK, 0.0)
