"""A fault, and a rule: a trigger with a fault and how often it acts.

A fault on a request stands around it: it may wait, call ``proceed`` to send the request on, change the reply that
comes back, reply itself, or raise ``Cut``. A fault on a line returns what becomes of it. Some can do both: with a
trigger made by ``watch`` they act on lines, with any other on requests. Faults are values without a memory; rules
count.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self

from support.disturbances.fault_proxy.messages import Reply, Request
from support.disturbances.fault_proxy.request import Call
from support.disturbances.fault_proxy.trigger import Trigger
from support.disturbances.fault_proxy.watch import Line, Output, WatchStream


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request between client and apiserver."""

    call: Call
    request: Request
    proceed: Callable[[], Awaitable[Reply]]
    """Send the request to the next rule, at last to the apiserver."""
    forward_later: Callable[[Callable[[], Awaitable[object]]], None]
    """Forward the request once a function has returned, whether or not its client still waits."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with requests, with lines of watches, or with either."""

    label: str
    on_request: "Callable[[Rule, Exchange], Awaitable[Reply]] | None" = None
    on_line: "Callable[[Rule, Line, WatchStream], Awaitable[Output]] | None" = None
    now: Callable[[], Output] | None = None
    """What an open watch gets at once, by ``FaultProxy.now``."""
    fits: Callable[[Line, WatchStream], bool] = lambda _line, _stream: True
    """Whether there is anything to do to a line; if not, it passes and is not counted."""

    def __str__(self) -> str:
        return self.label


class Rule:
    """A fault waiting for its trigger. A context manager: leaving it takes the rule off and asserts that it fired."""

    def __init__(
        self,
        trigger: Trigger,
        fault: Fault,
        *,
        nth: int | None = None,
        at_most: int | None = None,
        at_least: int = 1,
        chance: float = 1.0,
        random: Random,
        on_change: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.trigger = trigger
        self.fault = fault
        self.random = random
        self.released = asyncio.Event()
        self.matched = 0
        """How many requests or lines its trigger fitted."""
        self.fired = 0
        """On how many of them the fault acted."""
        self._is_on = True
        self._nth = nth or 1
        self._at_most = 1 if nth is not None and at_most is None else at_most
        self._at_least = at_least
        self._chance = chance
        self._on_change = on_change
        self._loop = loop
        self._on_line = fault.on_line if trigger.is_watch else None
        self._on_request = None if self._on_line or trigger.is_about_lines else fault.on_request
        if not (self._on_line or self._on_request):
            raise ValueError(f"{fault} never acts on {'lines' if trigger.is_watch else 'requests'}: {trigger}")

    def has_fired(self) -> bool:
        """Say whether it acted at least once; for ``until``."""
        return self.fired > 0

    def release(self) -> None:
        """Let go what the fault holds, and hold nothing more."""
        self._loop.call_soon_threadsafe(self.released.set)

    def off(self) -> None:
        """Act no more, and let go what is held."""
        self._is_on = False
        self.release()

    def assert_fired(self) -> None:
        """Fail a run without the fault: it proved nothing."""
        if self.fired < self._at_least:
            raise AssertionError(f"{self} fired {self.fired} times, at least {self._at_least} expected")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.off()
        if error is None:
            self.assert_fired()

    def __str__(self) -> str:
        return f"{self.fault} on {self.trigger} (fitted {self.matched} times)"

    async def around(self, exchange: Exchange) -> Reply:
        if not self._on_request or not self.trigger.fits(exchange.call) or not self._acts_on(exchange.call):
            return await exchange.proceed()
        return await self._on_request(self, exchange)

    async def on_line(self, line: Line, stream: WatchStream) -> Output:
        fits = self._on_line and self.trigger.fits_line(stream.call, line) and self.fault.fits(line, stream)
        if not self._on_line or not fits or not self._acts_on(stream.call):
            return [line]
        return await self._on_line(self, line, stream)

    def _acts_on(self, call: Call) -> bool:
        if not self._is_on:
            return False
        self.matched += 1
        is_due = self.matched >= self._nth and (self._at_most is None or self.fired < self._at_most)
        if not is_due or (self._chance < 1 and self.random.random() >= self._chance):
            return False
        self.fired += 1
        call.faults.append(str(self.fault))
        self._on_change()
        return True
