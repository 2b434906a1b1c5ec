"""One Lease on an embedded API server, and the way to it with everything that can go wrong there.

``LeaseStore`` is that server: versions, UIDs, conflicts and validation are its own. ``LeaseApi`` is one client of it,
with the calls of ``ApiClient`` that ``LeaseLock`` makes, so that tests of the election run through all of the product's
own code down to that seam. The fate of each call is a value: how long it takes to arrive, whether it is carried out,
and what comes back when. What has been sent arrives although its caller has given up.
"""

import asyncio
import math
import secrets
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from support.fake_clock import FakeClock
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import Commit, path_of
from tf_operator.machinery.election.lease import LEASES
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import ObjectKey

Body = dict[str, Any]
KEY = ObjectKey("tf-operator", "tf-operator")
_NAMESPACES = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)


def conflict() -> errors.Conflict:
    return errors.Conflict(409, errors.Status(reason="Conflict"))


def failed() -> errors.ServerFailed:
    return errors.ServerFailed(500, errors.Status(reason="InternalError"))


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one call. ``after`` infinite: no reply ever comes."""

    delay: float = 0.0
    is_carried_out: bool = True
    after: float = 0.0
    error: errors.ApiError | None = None
    """What the caller gets instead of the reply."""


FINE = Fate()
HANGS = Fate(is_carried_out=False, after=math.inf)
REPLY_LOST = Fate(error=errors.ReplyLost("the reply was lost"))
FAILS = Fate(is_carried_out=False, error=failed())


class LeaseStore:
    """The one Lease, and every state that it has been in."""

    def __init__(self) -> None:
        self.writes: list[Body] = []
        self.server = ApiServer(FakeClock(), kinds=catalog.KINDS)
        self.server.store.listeners.append(self._on_commit)
        self._send(requests.create(_NAMESPACES, "", {"metadata": {"name": KEY.namespace}}))

    @property
    def body(self) -> Body | None:
        stored = self.server.store.collection(str(LEASES)).objects.get(path_of(KEY))
        return dict(stored.body) if stored else None

    @property
    def spec(self) -> Body:
        content: Body = (self.body or {}).get("spec") or {}
        return content

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    def put(self, spec: object, **metadata: object) -> None:
        """Have it stored like this, whatever the API server would say."""
        metadata_so_far = (self.body or {}).get("metadata") or {
            "namespace": KEY.namespace,
            "name": KEY.name,
            "uid": secrets.token_hex(4),
        }
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {**metadata_so_far, **metadata},
            "spec": spec,
        }
        self.server.store.commit(str(LEASES), path_of(KEY), body)

    def delete(self) -> None:
        self.server.store.commit(str(LEASES), path_of(KEY), None)

    def get(self) -> Body:
        return self._send(requests.get(LEASES, KEY))

    def create(self, body: Mapping[str, Any]) -> Body:
        return self._send(requests.create(LEASES, KEY.namespace, body))

    def update(self, body: Mapping[str, Any]) -> Body:
        """Replace it, if it is the version and the object that the body names."""
        return self._send(requests.update(LEASES, KEY, body))

    def _send(self, request: Request) -> Body:
        answer = self.server.handle(request)
        assert isinstance(answer, Response)
        if answer.code >= 300:
            raise errors.refused(answer.code, answer.body)
        return msgspec.json.decode(answer.body, type=Body)

    def _on_commit(self, change: Commit) -> None:
        if change.collection == str(LEASES) and change.new:
            self.writes.append(dict(change.new.body))


class LeaseApi:
    """One client. ``fates`` by verb are used up in order, then ``usual`` decides."""

    def __init__(
        self, store: LeaseStore, clock: FakeClock, *, deliver: Callable[[Callable[[], object]], object] | None = None
    ) -> None:
        self.calls: list[str] = []
        self.sent_at: list[float] = []
        self.fates: defaultdict[str, deque[Fate]] = defaultdict(deque)
        self.usual: Callable[[], Fate] = lambda: FINE
        self._store = store
        self._clock = clock
        self._deliver = deliver or (lambda callback: callback())

    async def get(self, resource: Resource, key: ObjectKey) -> Body:
        return await self._call("get", self._store.get)

    async def create(self, resource: Resource, namespace: str, body: Mapping[str, Any]) -> Body:
        return await self._call("create", lambda: self._store.create(body))

    async def update(self, resource: Resource, key: ObjectKey, body: Mapping[str, Any]) -> Body:
        return await self._call("update", lambda: self._store.update(body))

    async def _call(self, verb: str, carry_out: Callable[[], Body]) -> Body:
        self.calls.append(verb)
        self.sent_at.append(self._clock.monotonic())
        fate = self.fates[verb].popleft() if self.fates[verb] else self.usual()
        reply: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        self._later(fate.delay, lambda: self._arrive(fate, carry_out, reply))
        return await reply

    def _arrive(self, fate: Fate, carry_out: Callable[[], Body], reply: "asyncio.Future[Body]") -> None:
        body: Body = {}
        error: errors.ApiError | None = None
        if fate.is_carried_out:
            try:
                body = carry_out()
            except errors.ApiError as refused:
                error = refused
        error = fate.error or error

        def answer() -> None:
            if reply.done():
                return  # the caller has given up
            if error:
                reply.set_exception(error)
            else:
                reply.set_result(body)

        self._later(fate.after, lambda: self._deliver(answer))

    def _later(self, seconds: float, callback: Callable[[], object]) -> None:
        if seconds == 0:
            callback()
        elif seconds < math.inf:
            self._clock.call_at(self._clock.monotonic() + seconds, callback)
