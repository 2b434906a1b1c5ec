"""The network between one operator and its API server, and what interrupts the operator itself.

Everything is drawn from one stream of chance, so that the same seed brings the same weather. What is sent and received
by an operator that is stopped waits for it, as in the kernel.
"""

import asyncio
import math
import random
from collections.abc import Callable

from support.embedded.embedded_api import refused
from support.fake_clock import FakeClock
from tf_operator.local.apiserver.in_process import Edge
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Request

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
Answer = Response | WatchStream


class Network(Edge):
    """Calm at first. ``trouble`` is the share of requests, replies and lines that something happens to."""

    def __init__(
        self, clock: FakeClock, chance: random.Random, *, on_answer: Callable[[Request, Answer], object]
    ) -> None:
        """``on_answer`` is called in the moment in which the server has carried a request out."""
        self.trouble = 0.0
        self.slowness = 0.0
        """The longest delay on a way, in seconds."""
        self.lag = 0.0
        """The longest further delay of lines of watches."""
        self.refuses = False
        """Whether no connection can be made."""
        self.acts_in = math.inf
        """After so many steps of writes, each of which is sent and answered, something happens to the operator."""
        self.act: Callable[[], object] = lambda: None
        self._clock = clock
        self._chance = chance
        self._on_answer = on_answer
        self._flows = asyncio.Event()
        self._flows.set()

    def stop(self) -> None:
        """From now on nothing gets through, in either direction; it waits."""
        self._flows.clear()

    def go_on(self) -> None:
        self._flows.set()

    def calm_down(self) -> None:
        self.trouble = self.slowness = self.lag = 0.0
        self.refuses, self.acts_in = False, math.inf
        self.go_on()

    async def on_request(self, request: Request) -> None:
        self._step(request)
        await self._travel()
        if self._strikes():
            raise self._chance.choice(
                [
                    errors.Unreachable("refused"),
                    refused(429, "TooManyRequests"),
                    refused(503, "ServiceUnavailable"),
                    refused(500, "InternalError"),
                ]
            )

    async def on_reply(self, request: Request, answer: Answer) -> Answer:
        self._on_answer(request, answer)
        self._step(request)
        await self._travel()
        if self._strikes():
            match self._chance.randrange(3):
                case 0:
                    raise errors.ReplyLost("the reply was lost")
                case 1:
                    raise refused(504, "Timeout")
            return Response(200, b'{"metadata": {"na')
        return answer

    async def on_lines(self, _request: Request, lines: list[bytes]) -> list[bytes]:
        if self.lag:
            await self._clock.sleep(self._chance.random() * self.lag)
        await self._travel()
        if self._strikes():
            raise errors.ReplyLost("the watch was cut")
        if self._strikes():
            return [*lines, *lines]
        return lines

    def _step(self, request: Request) -> None:
        if request.verb in WRITES:
            self.acts_in -= 1
            if self.acts_in == 0:
                self.act()

    async def _travel(self) -> None:
        if self.slowness:
            await self._clock.sleep(self._chance.random() ** 3 * self.slowness)
        if not self._flows.is_set():
            await self._flows.wait()
        if self.refuses:
            raise errors.Unreachable("no route to host")

    def _strikes(self) -> bool:
        return self._chance.random() < self.trouble
