"""What happens to a request, on the event loop of the proxy.

A request is numbered and logged, goes through the rules (the one added first is outermost) and on to an apiserver, and
its reply comes back the same way. The lines of watches go through the rules one by one. ``proxy`` is the outside,
which tests use.
"""

import ssl
import time
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial

from support.disturbances.fault_proxy.listener import Listener, Tasks
from support.disturbances.fault_proxy.messages import JSON_TYPE, Body, Cut, Ending, Reply, Request
from support.disturbances.fault_proxy.request import Call
from support.disturbances.fault_proxy.rule import Exchange, Fault, Rule
from support.disturbances.fault_proxy.trigger import Trigger
from support.disturbances.fault_proxy.upstream import Upstream
from support.disturbances.fault_proxy.watch import EventLog, WatchStream

Predicate = Callable[[], object]


class Engine:
    """Rules, logs, listeners and apiservers. Everything that changes it runs on its event loop."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self.rules: tuple[Rule, ...] = ()
        self.calls: list[Call] = []
        self.listeners: dict[str, Listener] = {}
        self.tasks = Tasks()
        self.route: Callable[[Call], int] = lambda _call: 0
        self._upstreams = upstreams
        self._logs: dict[tuple[str, str], EventLog] = {}
        self._streams: set[WatchStream] = set()
        self._waiters: list[tuple[Predicate, Future[None]]] = []

    def open_listener(self, client: str, context: ssl.SSLContext) -> None:
        listener = Listener(client, context=context, answer=self._answer, tasks=self.tasks)
        self.listeners[client] = listener
        listener.listen()

    async def close(self) -> None:
        """End everything; late writes that are not due yet are never made."""
        for listener in self.listeners.values():
            listener.close()
        await self.tasks.close()
        for upstream in self._upstreams:
            await upstream.close()

    def strike(self, trigger: Trigger, fault: Fault) -> int:
        """Let a fault act on all open watches that the trigger fits, at once; return how many there are."""
        if fault.now is None:
            raise TypeError(f"{fault} needs a line to act on: use it with on()")
        streams = [stream for stream in self._streams if trigger.fits(stream.call)]
        for stream in streams:
            stream.strike(fault.now())
            stream.call.faults.append(f"now {fault}")
        self.changed()
        return len(streams)

    def open_watches(self, trigger: Trigger) -> int:
        return sum(trigger.fits(stream.call) for stream in self._streams)

    def wait_for(self, predicate: Predicate, done: Future[None]) -> None:
        """Complete *done* when the predicate is true; it is asked after everything that happens here."""
        self._waiters.append((predicate, done))
        self.changed()

    def changed(self) -> None:
        """Ask those who wait whether it was this that they waited for."""
        for waiter in list(self._waiters):
            predicate, done = waiter
            try:
                if not done.done() and not predicate():
                    continue
            except Exception as error:  # noqa: BLE001 - the function of a test; the test gets its error
                done.set_exception(error)
            if not done.done():
                done.set_result(None)
            self._waiters.remove(waiter)

    @asynccontextmanager
    async def _answer(self, request: Request, listener: Listener) -> AsyncIterator[Reply]:
        """Reply to a request, for as long as the context lasts."""
        call = Call.of(request, number=len(self.calls) + 1, at=time.monotonic(), client=listener.client)
        self.calls.append(call)
        self.changed()
        try:
            async with AsyncExitStack() as stack:
                forward = partial(self._forward, call, request)
                later = partial(self._forward_later, call, forward)
                exchange = Exchange(call, request, partial(forward, stack), later)
                reply = await self._ruled(exchange)
                call.code = reply.code
                self.changed()
                yield reply
                self._ended(call, "clean")
        except Cut as cut:
            call.upstream_error = str(cut.__cause__ or "")
            self._ended(call, cut.ending.value)
            raise
        except (CancelledError, OSError):
            self._ended(call, "left")
            raise

    def _ended(self, call: Call, ending: str) -> None:
        call.end(ending, time.monotonic())
        self.changed()

    async def _ruled(self, exchange: Exchange) -> Reply:
        for rule in reversed(self.rules):
            exchange = replace(exchange, proceed=partial(rule.around, exchange))
        try:
            return await exchange.proceed()
        except Cut:
            raise
        except Exception as error:
            self.tasks.errors.append(error)
            raise Cut(Ending.RST) from error

    async def _forward(self, call: Call, request: Request, stack: AsyncExitStack) -> Reply:
        call.upstream = self.route(call)
        sending = self._upstreams[call.upstream].send(request, is_plain=call.verb == "watch")
        reply = await stack.enter_async_context(sending)
        call.upstream_code = reply.code
        self.changed()
        if call.verb == "watch" and reply.code == 200 and reply.content_type.startswith(JSON_TYPE):
            return reply.with_body(self._lines(self._watch(call, stack, reply)))
        return reply

    def _forward_later(
        self, call: Call, forward: Callable[[AsyncExitStack], Awaitable[Reply]], due: Callable[[], Awaitable[object]]
    ) -> None:
        async def work() -> None:
            await due()
            try:
                async with AsyncExitStack() as stack:
                    await (await forward(stack)).drain()
            except Cut as cut:
                call.upstream_error = str(cut.__cause__)
            self.changed()

        self.tasks.spawn(work())

    def _watch(self, call: Call, stack: AsyncExitStack, reply: Reply) -> WatchStream:
        log = self._logs.setdefault((call.group, call.resource), EventLog())
        stream = WatchStream(call, log, lambda: self.rules)
        self._streams.add(stream)
        stack.callback(self._streams.discard, stream)
        stack.callback(self.tasks.spawn(stream.pump(reply.body)))
        return stream

    async def _lines(self, stream: WatchStream) -> Body:
        async with aclosing(stream.body()) as pieces:
            async for piece in pieces:
                yield piece
                self.changed()
