"""An embedded API server for one test: its state is read and written without an event loop, and its edge is the test's.

    api = EmbeddedApi(clock)
    api.fail("create pods", refused(403, "Forbidden", "exceeded quota"))     # the next one never arrives
    await api.client.create(PODS, "ns", body)                                # as the operator does

``calls`` has every request of clients as ``verb resource name``. What the test itself does is in none.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from copy import deepcopy
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import yaml

from support.embedded.scripted_transport import client_of
from support.fake_clock import FakeClock
from support.pods.pod_groups import PLUGINS, VOLCANO, pod_group_crd
from support.resources import Json
from tf_operator.dialects import registry
from tf_operator.dialects.served import ServedAPI
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.definitions import custom_kinds
from tf_operator.local.apiserver.in_process import Edge, InProcess
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.requests import routes
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import path_of
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import Body, ObjectKey, key_of, rfc3339

OnWay = Callable[[str], Awaitable[object]]
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)
_TENSORBOARDS = Path(__file__).resolve().parents[3] / "manifests/crd/tensorboard/tensorboards.yaml"


@cache
def kinds(*more: ServedAPI) -> tuple[Kind, ...]:
    """All that an operator may meet. Made once: the rules of a CRD take long to be compiled."""
    crds = [api.crd.load(*api.conversion.versions) for api in dict.fromkeys((*registry.SERVED, *more))]
    crds += [yaml.safe_load(_TENSORBOARDS.read_text()), *map(pod_group_crd, (VOLCANO, PLUGINS))]
    return (*catalog.KINDS, *(kind for crd in crds for kind in custom_kinds.defined(crd)))


async def arrives(_call: str) -> None:
    """Nothing happens on the way."""


class EmbeddedApi(Edge):
    def __init__(self, clock: FakeClock, *apis: ServedAPI) -> None:
        self._numbers = count(1)
        self.clock = clock
        self.server = ApiServer(clock, kinds=kinds(*apis), uids=self.next_uid)
        self.client = client_of(InProcess(self.server, clock, edge=self), clock, attempts=1)
        self.calls: list[str] = []
        self.on_way: OnWay = arrives
        """Awaited with each call before it arrives."""
        self.garbles = ""
        """Calls of this verb get replies that are cut short."""
        self._failures: dict[str, deque[errors.ApiError]] = {}
        self._losses: dict[str, deque[errors.ApiError]] = {}

    @property
    def version(self) -> str:
        """Of all that is stored."""
        return str(self.server.store.version)

    def next_uid(self) -> str:
        return f"uid-{next(self._numbers)}"

    def fail(self, call: str, *failures: errors.ApiError) -> None:
        """The next calls that begin with ``call`` end in these errors, one each, and are not carried out."""
        self._failures.setdefault(call, deque()).extend(failures)

    def lose(self, call: str, *failures: errors.ApiError) -> None:
        """The same, but they are carried out."""
        self._losses.setdefault(call, deque()).extend(failures)

    def send(self, request: Request) -> Json:
        """What a request of the test is answered; it must succeed."""
        answer = self.server.handle(request)
        assert isinstance(answer, Response)
        assert answer.code < 300, answer.body
        return msgspec.json.decode(answer.body, type=dict[str, Any])

    def put(self, resource: Resource, body: Body) -> Json:
        """Store an object as it stands, whoever may have written it: neither validated nor completed."""
        self.make_namespace(body["metadata"].get("namespace", ""))
        metadata = {"uid": f"uid-of-{body['metadata']['name']}", "creationTimestamp": rfc3339(self.clock.now())}
        stored = deepcopy({"apiVersion": resource.api_version, "kind": resource.kind, **body})
        stored["metadata"] = metadata | stored["metadata"]
        self.server.store.commit(str(resource), path_of(key_of(stored)), stored)
        return stored

    def remove(self, resource: Resource, key: ObjectKey) -> None:
        """An object is gone from one moment to the next."""
        self.server.store.commit(str(resource), path_of(key), None)

    def make_namespace(self, name: str) -> None:
        if name and not self.find(NAMESPACES, ObjectKey("", name)):
            self.send(requests.create(NAMESPACES, "", {"metadata": {"name": name}}))

    def find(self, resource: Resource, key: ObjectKey) -> Json | None:
        stored = self.server.store.collection(str(resource)).objects.get(path_of(key))
        return dict(stored.body) if stored else None

    def of(self, resource: Resource) -> list[Json]:
        collection = self.server.store.collection(str(resource))
        return [dict(collection.objects[path].body) for path in collection.paths()]

    async def on_request(self, request: Request) -> None:
        call = self._named(request)
        self.calls.append(call)
        await self.on_way(call)
        _raise_next(self._failures, call)

    async def on_reply(self, request: Request, answer: Response | WatchStream) -> Response | WatchStream:
        if request.verb == self.garbles:
            return Response(200, b'{"metadata": {"na')
        if self._losses:
            _raise_next(self._losses, self._named(request))
        return answer

    def _named(self, request: Request) -> str:
        route = routes.route_of(request, self.server.registry)
        assert route, request.path
        name = route.name or (key_of(msgspec.json.decode(request.body or b"")).name if request.verb == "create" else "")
        about = "/".join(filter(None, (name, route.subresource))) or request.query.get("labelSelector", "")
        return f"{request.verb} {route.kind.resource} {about}".rstrip()


def _raise_next(failures: dict[str, deque[errors.ApiError]], call: str) -> None:
    for beginning, following in failures.items():
        if call.startswith(beginning) and following:
            raise following.popleft()


def refused(code: int, reason: str, message: str = "") -> errors.Refused:
    return errors.from_status(errors.Status(code=code, reason=reason, message=message))
