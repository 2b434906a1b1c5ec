"""Whose tokens are: pods show the token that their kubelet has made for them, and the API server says which pod it is.

The token has to be meant for this server and bound to a pod. The answer is remembered until the token expires; tokens
that nobody knows cost as little as at protected metrics (``metrics_auth.Authorizer``). Tokens are kept as digests.

``PodReviewer`` asks, on the operator's event loop. ``PodTokens`` remembers, on the loop of the HTTP server.
"""

import base64
import binascii
import hashlib
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from tf_operator.app.http.metrics_auth import LOG_EVERY, Authorizer, Decision
from tf_operator.app.http.server import HttpReply
from tf_operator.controller.progress.intake import TokenOwner
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import authn, errors
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.meta import list_of
from tf_operator.planning.bodies.progress_reporting import AUDIENCE

MOST_TOKENS: Final = 10_000
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_ACCOUNT: Final = "system:serviceaccount:"

_log = Logger(__name__)

Identify = Callable[[str], Awaitable[TokenOwner | Decision]]
"""The pod that a token is bound to, or why it is refused."""


class PodReviewer:
    """Asks the API server about tokens. Lives on the event loop of its client."""

    def __init__(self, clock: Clock, client: ApiClient) -> None:
        self._clock = clock
        self._client = client
        self._log_at = clock.monotonic()

    async def identify(self, token: str) -> TokenOwner | Decision:
        try:
            user = await authn.review_token(self._client, token, audience=AUDIENCE)
        except errors.ApiError as error:
            self._report(error)
            return Decision.UNAVAILABLE
        uids = list_of(user.extra.get(_POD_UID)) if user else ()
        if user is None or len(uids) != 1 or not user.name.startswith(_ACCOUNT):
            return Decision.UNAUTHENTICATED
        namespace = user.name.removeprefix(_ACCOUNT).partition(":")[0]
        return TokenOwner(pod_uid=str(uids[0]), namespace=namespace)

    def _report(self, error: errors.ApiError) -> None:
        """Once a minute: programs never stop reporting."""
        if self._clock.monotonic() >= self._log_at:
            self._log_at = self._clock.monotonic() + LOG_EVERY
            _log.error("reports of progress cannot be authenticated", error=str(error))


class PodTokens:
    """Remembers whose tokens are. All of it on one event loop."""

    def __init__(self, clock: Clock, identify: Identify) -> None:
        self._clock = clock
        self._identify = identify
        self._authorizer = Authorizer(clock, self._review)
        self._salt = os.urandom(32)
        self._owners: OrderedDict[bytes, tuple[TokenOwner, float]] = OrderedDict()
        """Until when, in seconds since the epoch."""

    async def authenticate(self, token: str, client: str) -> TokenOwner | HttpReply:
        if owner := self._cached_owner(token):
            return owner
        decision = await self._authorizer.authorize(token, client)
        if owner := self._cached_owner(token):
            return owner
        # One that has expired since it was allowed is unknown to the API server, too.
        return (Decision.UNAUTHENTICATED if decision is Decision.ALLOWED else decision).reply

    async def _review(self, token: str) -> Decision:
        owner = await self._identify(token)
        if isinstance(owner, Decision):
            return owner
        self._owners[self._digest(token)] = owner, _expiry(token)
        if len(self._owners) > MOST_TOKENS:
            self._owners.popitem(last=False)
        return Decision.ALLOWED

    def _cached_owner(self, token: str) -> TokenOwner | None:
        digest = self._digest(token)
        owner, expiry = self._owners.get(digest, (None, 0.0))
        if owner and expiry <= self._clock.now().timestamp():
            del self._owners[digest]
            return None
        return owner

    def _digest(self, token: str) -> bytes:
        return hashlib.blake2b(token.encode(), key=self._salt, digest_size=32).digest()


class _Claims(msgspec.Struct):
    exp: float


def _expiry(token: str) -> float:
    """When a token that the API server has accepted expires; in the past if it does not say so."""
    try:
        claims = base64.urlsafe_b64decode(token.split(".")[1] + "==")
        return msgspec.json.decode(claims, type=_Claims).exp
    except (IndexError, binascii.Error, msgspec.MsgspecError, UnicodeDecodeError):
        return 0.0
