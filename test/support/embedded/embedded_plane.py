"""The embedded API server in place of a control plane: the same interface, in a thread of the test process.

It has neither an operator nor a node. Whoever has a token may do everything: there is no RBAC. The requests of the
operator are logged as kube-apiserver's audit log has them, and every commit is kept as etcd would tell it.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

import yaml

from lab import kubeconfig
from lab.control_plane import access as plane_access
from lab.control_plane import servers as plane_servers
from lab.control_plane.api import Body
from lab.control_plane.etcd import Batch, Change, WatchLostError
from lab.control_plane.plane import ControlPlane
from lab.kubeconfig import Access
from support.registry_keys import PREFIX
from support.resources import Json
from tf_operator.app import local
from tf_operator.local import certificate
from tf_operator.local.apiserver import in_process
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.http import https
from tf_operator.local.apiserver.http.guard import Guard, Headers
from tf_operator.local.apiserver.messages import ApiFailure, Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.requests import routes
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import Commit, Stored
from tf_operator.local.state import StateFolder
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport.requests import Request

_CRDS = Path(__file__).resolve().parents[3] / "manifests" / "crd"
_START_SECONDS = 30.0
_KEPT = 20_000
"""Commits that can still be watched from: more than one test makes."""
_BUILT_IN = frozenset(str(kind.storage) for kind in catalog.KINDS)


class Sender(NamedTuple):
    """Who sent a request."""

    login: str
    user_agent: str


_NOBODY = Sender("", "")
_SENDER: ContextVar[Sender] = ContextVar("_SENDER")


class EmbeddedPlane(ControlPlane):
    """A plane without processes; it ends with this one."""

    def __init__(self, root: Path, *, collects: bool) -> None:
        super().__init__(root, None)
        self._collects = collects
        self._url = ""
        self._failure: BaseException | None = None
        self._commits = CommitLog()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="embedded plane", daemon=True)
        self._is_up, self._end = threading.Event(), asyncio.Event()

    @classmethod
    def start(cls, root: Path, *, collects: bool) -> Self:
        """Serve from a new folder, with the CRD of TFJobs, and on request with a garbage collector."""
        plane = cls(root, collects=collects)
        for folder in (root, plane.layout.pki, plane.layout.audit_policy.parent):
            folder.mkdir(mode=0o700)
        plane_access.write_tokens(plane.layout.tokens)
        plane._thread.start()
        if not plane._is_up.wait(_START_SECONDS) or plane._failure:
            raise RuntimeError("the embedded plane did not start") from plane._failure
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": plane_access.OPERATOR_NAMESPACE}})
        for path in sorted(_CRDS.glob("*.yaml")):
            crd = yaml.load(path.read_text(), yaml.CSafeLoader)
            plane.admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        return plane

    @property
    def state(self) -> dict[str, Any]:
        return {"features": ["audit"], "servers": {plane_servers.APISERVER: {"url": self._url}}}

    def store(self) -> "CommitLog":
        return self._commits

    def grant(self, *manifests: Body) -> None:
        """Nothing: everybody may do everything."""

    def down(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 (raised by whoever waits for the start)
            self._failure = error
        finally:
            self._is_up.set()

    async def _serve(self) -> None:
        clock = SystemClock()
        folder = StateFolder(self.layout.pki / "certificate")
        folder.create()
        credentials = certificate.credentials(folder, clock.now())
        server = ApiServer(clock, kinds=catalog.KINDS, has_controllers=self._collects)
        server.store.listeners.append(self._commits.on_commit)
        for body in local.FIRST:
            local.install(server, body)
        in_process.collect_soon(server)
        listener = https.listen()
        port = listener.getsockname()[1]
        self._url = f"https://127.0.0.1:{port}"
        self.layout.serving_cert.write_bytes(credentials.authority)
        self._write_kubeconfigs(credentials.authority.decode())
        tokens = [(self.token(user.name), user.login) for user in plane_access.USERS]
        guard = _GuardOfUsers(tokens, port=port)
        with self.audit_log.open("w", buffering=1) as log:
            handle = _LoggedServer(server, log).handle
            async with https.serving(handle, listener, guard=guard, tls=credentials.tls, logs=_NoLogs(), clock=clock):
                self._is_up.set()
                await self._end.wait()

    def _write_kubeconfigs(self, authority: str) -> None:
        for user in plane_access.USERS:
            access = Access(self._url, self.token(user.name), authority)
            kubeconfig.write(self.layout.kubeconfig(user.name), access, user=user.name)


class CommitLog:
    """Every commit since the start, for recorders in other threads."""

    def __init__(self) -> None:
        self._commits: list[tuple[Commit, str]] = []
        """Each with the user agent of who has created the object."""
        self._creators: dict[tuple[str, str], str] = {}
        self._first = 2  # the version of the first commit of a new store
        self._lock = threading.Lock()
        self._readers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        pass

    def on_commit(self, commit: Commit) -> None:
        place = commit.collection, commit.path
        if commit.old is None:
            self._creators[place] = _SENDER.get(_NOBODY).user_agent
        with self._lock:
            self._commits.append((commit, self._creators[place]))
            if len(self._commits) > 2 * _KEPT:
                del self._commits[:_KEPT]
                self._first += _KEPT
            for loop, news in self._readers:
                with suppress(RuntimeError):  # its loop has ended
                    loop.call_soon_threadsafe(news.set)

    async def revision(self) -> int:
        """That of the last commit: nothing that was answered is later."""
        with self._lock:
            return self._first + len(self._commits) - 1

    @asynccontextmanager
    async def watch(self, start: int) -> AsyncIterator[AsyncIterator[Batch]]:
        """Every change from a revision on."""
        reader = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._readers.append(reader)
        try:
            yield self._batches(start, reader[1])
        finally:
            with self._lock:
                self._readers.remove(reader)

    async def _batches(self, start: int, news: asyncio.Event) -> AsyncIterator[Batch]:
        while True:
            news.clear()
            with self._lock:
                if start < self._first:
                    raise WatchLostError(f"revision {start} is no longer kept")
                fresh = self._commits[start - self._first :]
            if fresh:
                yield Batch(tuple(_change(commit, creator) for commit, creator in fresh), is_whole=True)
                start += len(fresh)
            else:
                await news.wait()


def _change(commit: Commit, creator: str) -> Change:
    plural, _, group = commit.collection.partition(".")
    # What is built in is kept without its group, as in etcd.
    place = plural if commit.collection in _BUILT_IN else f"{group}/{plural}"
    return Change(
        revision=commit.version,
        key=f"{PREFIX}{place}/{commit.path}",
        value=_encoded(commit.new),
        previous=_encoded(commit.old),
        is_creation=commit.old is None,
        creator=creator,
    )


def _encoded(stored: Stored | None) -> bytes | None:
    return None if stored is None else stored.served(stored.body["apiVersion"], None)[1]


class _GuardOfUsers(Guard):
    """Lets several users in, and remembers whose request it is."""

    def __init__(self, tokens: Iterable[tuple[str, str]], *, port: int) -> None:
        """``tokens``: each with the login that it is for."""
        self._guards = {
            f"Bearer {token}": (login, Guard(token, hosts=certificate.HOSTS, port=port)) for token, login in tokens
        }

    def check(self, headers: Headers) -> None:
        tokens = headers.getall("Authorization", ())
        login, guard = self._guards.get(tokens[0] if tokens else "", next(iter(self._guards.values())))
        guard.check(headers)
        _SENDER.set(Sender(login, next(iter(headers.getall("User-Agent", ())), "")))


class _LoggedServer:
    """A server, and the audit log of what the operator asks."""

    def __init__(self, server: ApiServer, log: TextIO) -> None:
        self._server = server
        self._log = log
        self._number = count()

    def handle(self, request: Request) -> Response | WatchStream:
        """Answer a request; it is logged before it is answered, like on a real plane."""
        sender, received = _SENDER.get(), datetime.now(UTC)
        answer = self._server.handle(request)
        if sender.login == plane_access.OPERATOR.login:
            event = {
                "auditID": str(next(self._number)),
                "verb": request.verb,
                **self._target(request),
                "responseStatus": {"code": answer.code if isinstance(answer, Response) else 200},
                "user": {"username": sender.login},
                "userAgent": sender.user_agent,
                "requestReceivedTimestamp": received.isoformat(timespec="microseconds"),
            }
            self._log.write(json.dumps(event) + "\n")
        return answer

    def _target(self, request: Request) -> Json:
        try:
            route = routes.route_of(request, self._server.registry)
        except ApiFailure:
            return {}
        if route is None:
            return {}
        sent = json.loads(request.body or b"{}") if route.verb == "create" else {}
        target = {
            "apiGroup": route.kind.resource.group,
            "resource": route.kind.resource.plural,
            "subresource": route.subresource,
            "namespace": route.namespace,
            "name": route.name or sent.get("metadata", {}).get("name", ""),
        }
        return {"verb": route.verb, "objectRef": target}


class _NoLogs:
    """No container runs."""

    async def read(self, *_: object, **__: object) -> AsyncIterator[bytes]:
        yield b""
