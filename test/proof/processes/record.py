"""What happened in a life: commits of the store, writes of operators, faults; and what must hold for all of it."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import msgspec

from proof.processes import jobs
from proof.processes.cluster import NAMESPACE
from support import invariants
from support.audit import Request as Sent
from support.audit import Requests
from support.fake_clock import FakeClock
from support.history import History, Revision
from support.invariants import JobLife
from support.pods.pod_lives import lives_of
from support.registry_keys import Place
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.requests import routes
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import Commit
from tf_operator.machinery.election.lease import LEASES
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import key_of

_READS = frozenset({"get", "list", "watch"})
_UNFENCED = frozenset({str(LEASES), "events"})
"""What every operator may write."""
_LISTED = frozenset({"restarts", "counts", "conditions", "success is final", "pods of the spec"})
"""What the status of mlkube.io does not say, or says otherwise."""


class Record:
    """All of it, in its order."""

    def __init__(self, server: ApiServer, clock: FakeClock) -> None:
        self._server = server
        self._clock = clock
        self._commits: list[Commit] = []
        self._moments: list[tuple[float, str]] = []
        self._sent: list[Sent] = []
        self._strays: list[str] = []
        self._changed_at = 0.0
        server.store.listeners.append(self._on_commit)

    def note(self, text: str) -> None:
        self._moments.append((self._clock.monotonic(), text))

    def on_answer(self, operator: str, request: Request, answer: Response | WatchStream) -> None:
        """The server has carried out, or refused, what an operator has sent."""
        if request.verb in _READS or not isinstance(answer, Response):
            return
        route = routes.route_of(request, self._server.registry)
        assert route
        resource = str(route.kind.resource)
        if resource in _UNFENCED:
            return
        name = route.name or (key_of(msgspec.json.decode(request.body or b"")).name if request.verb == "create" else "")
        about = f"{resource}/{route.subresource}" if route.subresource else resource
        self.note(f"{operator}: {request.verb} {about} {name}: {answer.code}")
        at = f"{self._clock.monotonic():012.3f}"
        self._sent.append(Sent(request.verb, about, route.namespace, name, answer.code, operator, "", at))
        if (holder := self._holder()) != operator:
            self._strays.append(f"fence: {operator} sent {request.verb} {about} {name}, and the Lease was {holder}'s")

    def quiet_seconds(self) -> float:
        """How long nothing has changed, but for Leases and events."""
        return self._clock.monotonic() - self._changed_at

    def complaints(self) -> Iterator[str]:
        """What contradicts an invariant."""
        yield from self._strays
        history = self._history()
        for life in self._lives(history):
            for name, rule in invariants.RULES.items():
                resource = life.versions[0].resource
                if not (resource.endswith("mlkube.io") and name in _LISTED):
                    yield from (f"{name}: {life.name}: {text}" for text in rule(life))
        requests = Requests(tuple(self._sent))
        yield from invariants.requests_in_order(history, requests, NAMESPACE)

    def lines(self) -> Iterator[str]:
        """For people, and to compare lives."""
        begin = self._moments[0][0]
        for moment, text in self._moments:
            yield f"{moment - begin:9.3f} {text}"

    def _holder(self) -> str:
        leases = self._server.store.collection(str(LEASES)).objects.values()
        return next((str(lease.body["spec"].get("holderIdentity")) for lease in leases), "")

    def _on_commit(self, change: Commit) -> None:
        if change.collection not in _UNFENCED:
            self._commits.append(change)
            self._changed_at = self._clock.monotonic()
            how = "created" if change.old is None else "changed" if change.new else "deleted"
            self.note(f"{change.version} {change.collection} {change.path} {how} {_gist(change)}")

    def _history(self) -> History:
        return History(tuple(map(_revision, self._commits)))

    def _lives(self, history: History) -> Iterator[JobLife]:
        for resource, kind in jobs.BY_RESOURCE.items():
            versions: dict[str, list[Revision]] = defaultdict(list)
            for entry in history.of(resource):
                versions[entry.uid].append(_translated(entry, kind))
            for uid, entries in versions.items():
                children = history.owned_by(uid)
                yield JobLife(tuple(entries), children, tuple(lives_of(history, children)))


def _revision(change: Commit) -> Revision:
    plural, _, group = change.collection.partition(".")
    namespace, _, name = change.path.rpartition("/")
    how: Literal["create", "update", "delete"] = "update"
    if change.old is None or change.new is None:
        how = "create" if change.new else "delete"
    new = dict(change.new.body) if change.new else None
    old = dict(change.old.body) if change.old else None
    return Revision(change.version, Place(group, plural, namespace, name), how, new, old)


def _translated(entry: Revision, kind: jobs.Kind) -> Revision:
    body = entry.body and jobs.translated(entry.body, kind)
    return replace(entry, body=body, previous=entry.previous and jobs.translated(entry.previous, kind))


def _gist(change: Commit) -> str:
    body = change.last.body if change.new is None else change.new.body
    if change.collection == "pods":
        state = "terminating" if "deletionTimestamp" in body["metadata"] else ""
        return f"{body['status'].get('phase')} {body['status'].get('reason', '')} {state} {body['metadata']['uid']}"
    kind = jobs.BY_RESOURCE.get(change.collection)
    if kind is None:
        return ""
    status = kind.wording.status(body.get("status", {}))
    conditions = [("" if e["status"] == "True" else "!") + e["type"] for e in status.get("conditions", ())]
    return f"{conditions} restarts {status.get('restarts', 0)}"
