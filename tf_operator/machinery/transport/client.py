"""Single calls to the apiserver: rate-limited, timed, repeated where that is safe, with clear errors.

Step 1 of the path of a watch event: ``stream`` yields the chunks of a watch.

The policy for repeating a call is here and nowhere else (``_may_repeat``, ``ATTEMPTS``, ``GIVE_UP_AFTER``): a read
may always be sent again; a write only when the server has certainly not carried it out. When the outcome of a write
is unknown, the caller has to check, because only the caller knows what it meant to reach. Longer waiting is the work
queue's job. Who has a loop with a pause of its own does not want this: repeating inside of repeating multiplies the
requests of an outage. So reflectors use ``send_once`` and ``stream``, and the elector's client has ``attempts=1``.

Every client has a budget of its own (``budget``): leases and events are sent through clients with their own, so
that a burst of pod creations can never starve a renewal.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec
import tenacity

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.metrics_hooks import ClientInstruments
from tf_operator.machinery.transport import errors, requests, responses
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.machinery.transport.transport import Reply, Transport, no_guard
from tf_operator.meta import Body, ObjectKey

REPLY_WITHIN = 40.0
"""Longer than the 34 s after which an apiserver without etcd answers 504: an answer beats a guess."""
WORDS_WITHIN = 5.0
"""For the body of a 4xx, whose status counts anyhow."""
GIVE_UP_AFTER = 30.0
ATTEMPTS = 5
_READS = frozenset({"get", "list", "watch"})
_GROWING = tenacity.wait_exponential(multiplier=0.2, max=10) + tenacity.wait_random(0, 0.2)

T = TypeVar("T")


class Budget(Protocol):
    """Meters out requests, as ``ratelimit.TokenBucket`` does."""

    async def wait(self) -> None:
        """Return when the next request may be sent."""


class ApiClient:
    """Calls over one transport, within one budget. Cheap: make one for each budget."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        budget: Budget,
        guard: Callable[[], object] = no_guard,
        instruments: ClientInstruments | None = None,
        reply_within: float = REPLY_WITHIN,
        attempts: int = ATTEMPTS,
    ) -> None:
        """``guard`` raises when nothing may be sent: a leader's client for writes has its ``Fence.check``.

        Asked before the wait for the budget, so that a lost leader takes nothing from it; after it; when there is a
        connection, since reaching the apiserver may take longer than a lease lasts; and immediately before the first
        byte of a body is written.
        """
        self._transport = transport
        self.clock = clock
        self._budget = budget
        self._guard = guard
        self._instruments = instruments or ClientInstruments()
        self._reply_within = reply_within
        self._attempts = attempts

    async def get(self, resource: Resource, key: ObjectKey) -> Body:
        """Read one object; ``NotFound`` when there is none."""
        return await self._call(requests.get(resource, key), responses.read_object)

    async def create(self, resource: Resource, namespace: str, body: Mapping[str, Any]) -> Body:
        return await self._call(requests.create(resource, namespace, body), responses.read_object)

    async def merge_patch(
        self,
        resource: Resource,
        key: ObjectKey,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        is_dry_run: bool = False,
    ) -> Body:
        request = requests.merge_patch(resource, key, body, subresource=subresource, is_dry_run=is_dry_run)
        return await self._call(request, responses.read_object)

    async def update(self, resource: Resource, key: ObjectKey, body: Mapping[str, Any]) -> Body:
        return await self._call(requests.update(resource, key, body), responses.read_object)

    async def delete(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str,
        version: str = "",
        propagation: str = "",
        grace_seconds: int | None = None,
    ) -> Body:
        """Delete this object, and no other of its name; ``NotFound`` when it is gone.

        With a ``version`` only if it has not changed since; else ``Conflict``.
        Returns the object, when it stays for a while (a grace period, finalizers), or else a Status.
        """
        request = requests.delete(
            resource, key, uid=uid, version=version, propagation=propagation, grace_seconds=grace_seconds
        )
        return await self._call(request, responses.read_object)

    async def write(self, request: Request) -> ObjectMeta:
        """Send a write, and return which object was stored, and at which version. The rest of the reply is not read."""
        return await self._call(request, responses.read_identity)

    async def send(self, request: Request) -> bytes:
        """Send a request and return the body of a 2xx; everything else is an ``ApiError``."""
        return await self._call(request, bytes)

    async def send_once(self, request: Request) -> bytes:
        """As ``send``, but whatever it ends in, it is not repeated: for callers that have a pause of their own."""
        await self._take_turn(request)
        try:
            async with self.clock.timeout(self._reply_within), self._reply_to(request) as reply:
                return await reply.read()
        except TimeoutError as error:
            raise self._time_limit_error() from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch or a list and hand out its chunks as they arrive; an error status is raised, never streamed.

        The head has to come in the time that a plain call has. Not repeated on failure: how to go on is the
        reflector's decision. Silence is the reader's to notice.
        """
        async with AsyncExitStack() as stack:
            yield aiter(await self._open(request, stack))

    @asynccontextmanager
    async def stream_repeated(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``stream``, but a request that fails before the head has come is repeated, as by ``send``."""
        async with AsyncExitStack() as stack:
            yield aiter(await self._repeated(request, lambda: self._open(request, stack)))

    async def _open(self, request: Request, stack: AsyncExitStack) -> Reply:
        await self._take_turn(request)
        try:
            async with self.clock.timeout(self._reply_within):
                return await stack.enter_async_context(self._reply_to(request))
        except TimeoutError as error:
            raise self._time_limit_error() from error

    async def _call(self, request: Request, decode: Callable[[bytes], T]) -> T:
        """Send, read the reply, and repeat according to the policy."""

        async def attempt() -> T:
            return decode(await self.send_once(request))

        return await self._repeated(request, attempt)

    async def _repeated(self, request: Request, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of an attempt, the first one or one that follows by the policy."""
        began = self.clock.monotonic()
        try:
            return await attempt()
        except errors.ApiError as error:
            # Most calls succeed at once; only what did not is worth tenacity's bookkeeping, which begins with this.
            pending_errors = [error]

        def has_taken_too_long(state: tenacity.RetryCallState) -> bool:
            return state.attempt_number >= self._attempts or self.clock.monotonic() - began > GIVE_UP_AFTER

        async def next_attempt() -> T:
            if pending_errors:
                raise pending_errors.pop()
            return await attempt()

        repeating = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda error: _may_repeat(request, error)),
            stop=has_taken_too_long,
            wait=_wait_before_repeating,
            sleep=self.clock.sleep,
            before_sleep=lambda state: self._instruments.retried(request.verb, _cause(state)),
            reraise=True,
        )
        return await repeating(next_attempt)

    async def _take_turn(self, request: Request) -> None:
        """Wait for the budget. Not part of the time limit: what has not been sent cannot have been lost."""
        self._guard()
        began = self.clock.monotonic()
        await self._budget.wait()
        self._guard()
        self._instruments.throttled(request.verb, self.clock.monotonic() - began)

    def _reply_to(self, request: Request) -> "_Call":
        exchange = self._transport.send(request, before_send=self._guard)
        return _Call(exchange, request.verb, clock=self.clock, instruments=self._instruments, refuse=self._refuse)

    def _time_limit_error(self) -> errors.ReplyLost:
        """What the time limit says of a call that ran into it."""
        return errors.ReplyLost(f"no reply within {self._reply_within:g} s")

    async def _refuse(self, reply: Reply) -> NoReturn:
        if reply.status >= 400:
            wait = errors.retry_after(reply.header("Retry-After"), self.clock.now())
            error = errors.refused(reply.status, await self._words(reply), retry_after=wait)
            raise _explain(error, self._transport.problem)
        if reply.status >= 300:
            raise errors.Redirected(
                f"HTTP {reply.status} from {self._transport.host}: not followed, the token would go along"
            )
        raise errors.Garbled(f"HTTP {reply.status} from {self._transport.host}: another protocol was not asked for")

    async def _words(self, reply: Reply) -> bytes:
        """The body of an error. Of a 4xx, which certainly did nothing, what has come of it in a while is enough.

        Who does not read a large request may send a reply that ends with the connection, and keep that open.
        """
        if reply.status >= 500:
            return await reply.read()
        text = bytearray()
        with suppress(TimeoutError):
            async with self.clock.timeout(WORDS_WITHIN):
                async for chunk in reply:
                    text += chunk
        return bytes(text)


class _Call:
    """Sends, measures, and turns whatever is no success into its error. A call that the guard stopped is none.

    An async context manager; a class, because it is made for every call.
    """

    __slots__ = ("_clock", "_exchange", "_instruments", "_refuse", "_verb")

    def __init__(
        self,
        exchange: AbstractAsyncContextManager[Reply],
        verb: str,
        *,
        clock: Clock,
        instruments: ClientInstruments,
        refuse: Callable[[Reply], Awaitable[NoReturn]],
    ) -> None:
        self._exchange = exchange
        self._verb = verb
        self._clock = clock
        self._instruments = instruments
        self._refuse = refuse

    async def __aenter__(self) -> Reply:
        start = self._clock.monotonic()
        try:
            reply = await self._exchange.__aenter__()
        except (errors.ApiError, asyncio.CancelledError):  # the latter is how a time limit ends it; no guard does
            self._instruments.replied(self._verb, "<error>", self._clock.monotonic() - start)
            raise
        self._instruments.replied(self._verb, str(reply.status), self._clock.monotonic() - start)
        if not 200 <= reply.status < 300:
            try:
                await self._refuse(reply)
            except BaseException as error:
                await self._exchange.__aexit__(type(error), error, error.__traceback__)
                raise
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exchange.__aexit__(kind, error, trace)


def _may_repeat(request: Request, error: BaseException) -> bool:
    """Whether the client itself sends the call again. The one place for this policy."""
    match error:
        case errors.Unreachable() | errors.Throttled():
            return True  # certainly not carried out
        case errors.Unreadable() | errors.ResourceVersionTooLarge():
            return False  # the same again, or a decision that only the caller can make
        case errors.ReplyLost() | errors.Garbled() | errors.ServerFailed():
            return request.verb in _READS
        case _:
            return False


def _wait_before_repeating(state: tenacity.RetryCallState) -> float:
    """A growing, random time; but no less than the server asked for."""
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.retry_after if isinstance(error, errors.ApiError) else None
    return max(retry_after or 0.0, _GROWING(state))


def _cause(state: tenacity.RetryCallState) -> str:
    error = state.outcome.exception() if state.outcome else None
    return error.name if isinstance(error, errors.ApiError) else "<error>"


def _explain(refusal: errors.Refused, problem: str) -> errors.Refused:
    """The same error; a 401 with the reason why we have no better credentials."""
    if not problem or not isinstance(refusal, errors.Unauthorized):
        return refusal
    message = f"{refusal} (and reading the credentials again failed: {problem})"
    return errors.Unauthorized(refusal.code, msgspec.structs.replace(refusal.status, message=message))
