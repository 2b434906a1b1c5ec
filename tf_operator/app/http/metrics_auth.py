"""Who may read the metrics: clients with a token that the API server knows, of a user that it allows to.

The answers are the API server's (``transport.authn``), and are remembered for a while: a yes for longer than a no. It
fails closed: no token or a bad one is 401, a user without the right is 403, and while the API server cannot be asked it
is 503.

Anybody who can connect may send tokens, so what unknown tokens cost is bounded: two reviews at once, one in two seconds
from one address and some more from all; the rest is 429. They use up neither the reviews of known tokens nor the memory
of them. Tokens are renewed every hour: from an address that has shown a known token, a new one is reviewed like a known
one, so a flood from other addresses does not end the scrapes. Clients behind one address share its limit.

Tokens are kept as digests under a key of this process, and are never logged.

``Reviewer`` asks, on the operator's event loop, which has the client. ``Authorizer`` remembers and limits, on the loop
of the HTTP server: a flood of bad tokens does not reach the operator's loop.
"""

import asyncio
import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from enum import Enum

from tf_operator.app.http.server import HttpReply, Page, PageRequest
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import authn, errors
from tf_operator.machinery.transport.client import ApiClient

ALLOWED_FOR, DENIED_FOR = 60.0, 10.0
"""Seconds for which an answer is used: a right that is taken away, or given, takes effect that much later."""
KNOWN_FOR = 3600.0
"""Seconds for which a token that was allowed has reviews of its own; no scrape interval is longer."""
MOST_KNOWN, MOST_DENIED, MOST_CLIENTS = 64, 256, 256
CLIENT_PER_SECOND, CLIENT_BURST = 0.5, 5
"""Unknown tokens that are reviewed for one address; a scraper has a new one every hour."""
UNKNOWN_PER_SECOND, UNKNOWN_BURST = 8.0, 20
"""Those for all addresses together that have shown no known token."""
REVIEWS_AT_ONCE = 2
LOG_EVERY = 60.0
DECISION_WITHIN, REVIEW_WITHIN = 5.0, 2.0
"""Seconds for a decision, and for each of the two reviews that it needs; Prometheus waits for 10."""

BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]{1,16384}=*) *", re.IGNORECASE)

_log = Logger(__name__)


class Decision(Enum):
    """What becomes of a request for protected metrics: the status and the words of the reply."""

    ALLOWED = 200, ""
    UNAUTHENTICATED = 401, "A bearer token that the API server knows is needed."
    FORBIDDEN = 403, "This user may not read this page: a ClusterRole has to allow it, by nonResourceURLs."
    RATE_LIMITED = 429, "Too many unknown tokens; try again later."
    UNAVAILABLE = 503, "The API server could not be asked who may read this page; the log says why."

    @property
    def reply(self) -> HttpReply:
        status, words = self.value
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if self is Decision.UNAUTHENTICATED:
            headers["WWW-Authenticate"] = "Bearer"
        return HttpReply(status, f"{words}\n".encode(), headers)


Review = Callable[[str], Awaitable[Decision]]
"""Decides about a token."""
Authorize = Callable[[str, str], Awaitable[Decision]]
"""Decides about a token, from a client's address."""


def protected(page: Page, authorize: Authorize) -> Page:
    """The page, for requests with a token that is allowed."""

    async def protected_page(request: PageRequest) -> HttpReply:
        token = BEARER.fullmatch(request.headers.get("Authorization", ""))
        decision = await authorize(token[1], request.client) if token else Decision.UNAUTHENTICATED
        return await page(request) if decision is Decision.ALLOWED else decision.reply

    return protected_page


class Reviewer:
    """Asks the API server about tokens, for one path. Lives on the event loop of its client."""

    def __init__(self, clock: Clock, path: str) -> None:
        self._clock = clock
        self._path = path
        self._client: ApiClient | None = None
        self._log_at = clock.monotonic()

    def use(self, client: ApiClient) -> None:
        self._client = client

    async def review(self, token: str) -> Decision:
        if self._client is None:
            return Decision.UNAVAILABLE
        try:
            user = await authn.review_token(self._client, token)
            if user is None:
                return Decision.UNAUTHENTICATED
            is_allowed = await authn.is_allowed(self._client, user, verb="get", path=self._path)
        except errors.ApiError as error:
            self._report(error)
            return Decision.UNAVAILABLE
        return Decision.ALLOWED if is_allowed else Decision.FORBIDDEN

    def _report(self, error: errors.ApiError) -> None:
        """Once a minute: Prometheus never stops asking."""
        if self._clock.monotonic() < self._log_at:
            return
        self._log_at = self._clock.monotonic() + LOG_EVERY
        hint = "the ClusterRole for protected metrics is missing" if isinstance(error, errors.Forbidden) else ""
        more = {"hint": hint} if hint else {}
        _log.error("metrics authorization unavailable", path=self._path, error=str(error), **more)


class Authorizer:
    """Decides about tokens by ``review``, and remembers. All of it on one event loop."""

    def __init__(self, clock: Clock, review: Review) -> None:
        self._clock = clock
        self._review = review
        self._salt = os.urandom(32)
        self._allowed = _Memory(MOST_KNOWN)
        self._denied = _Memory(MOST_DENIED)
        self._known_clients = _Memory(MOST_KNOWN)
        """Addresses that a known token came from."""
        self._budgets: OrderedDict[str, TokenBucket] = OrderedDict()
        """Of the latest addresses that unknown tokens came from."""
        self._budget_of_unknown = TokenBucket(clock, qps=UNKNOWN_PER_SECOND, burst=UNKNOWN_BURST)
        self._reviews_of_known = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._reviews_of_unknown = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def authorize(self, token: str, client: str = "") -> Decision:
        """Whether who has this token may read the page; ``client`` is the address that it comes from, if known."""
        key = hashlib.blake2b(token.encode(), key=self._salt, digest_size=32).digest()
        decision = self._cached_decision(key) or await self._cached_review(key, token, client)
        if decision is Decision.ALLOWED:
            self._known_clients.add(client.encode(), decision, self._clock.monotonic())
        return decision

    async def _cached_review(self, key: bytes, token: str, client: str) -> Decision:
        now = self._clock.monotonic()
        if self._allowed.age(key, now) < KNOWN_FOR:
            reviews_at_once = self._reviews_of_known
        elif not self._budget_of(client).try_acquire():
            return Decision.RATE_LIMITED
        elif self._known_clients.age(client.encode(), now) < KNOWN_FOR:
            reviews_at_once = self._reviews_of_known
        elif self._budget_of_unknown.try_acquire():
            reviews_at_once = self._reviews_of_unknown
        else:
            return Decision.RATE_LIMITED
        async with reviews_at_once:
            # Another request with the same token may have been first.
            return self._cached_decision(key) or self._cache_decision(key, await self._review(token))

    def _budget_of(self, client: str) -> TokenBucket:
        if client not in self._budgets:
            self._budgets[client] = TokenBucket(self._clock, qps=CLIENT_PER_SECOND, burst=CLIENT_BURST)
            if len(self._budgets) > MOST_CLIENTS:
                self._budgets.popitem(last=False)
        self._budgets.move_to_end(client)
        return self._budgets[client]

    def _cached_decision(self, key: bytes) -> Decision | None:
        now = self._clock.monotonic()
        if self._allowed.age(key, now) < ALLOWED_FOR:
            return Decision.ALLOWED
        return self._denied.decision(key) if self._denied.age(key, now) < DENIED_FOR else None

    def _cache_decision(self, key: bytes, decision: Decision) -> Decision:
        if decision is Decision.ALLOWED:
            self._allowed.add(key, decision, self._clock.monotonic())
        elif decision is not Decision.UNAVAILABLE:
            self._allowed.drop(key)
            self._denied.add(key, decision, self._clock.monotonic())
        return decision


class _Memory:
    """What was decided about the latest so many tokens or addresses, and when."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[bytes, tuple[Decision, float]] = OrderedDict()

    def add(self, key: bytes, decision: Decision, at: float) -> None:
        self._entries[key] = decision, at
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def drop(self, key: bytes) -> None:
        self._entries.pop(key, None)

    def decision(self, key: bytes) -> Decision:
        return self._entries[key][0]

    def age(self, key: bytes, now: float) -> float:
        """How long ago it was decided; infinite when it was not."""
        entry = self._entries.get(key)
        return now - entry[1] if entry else float("inf")
