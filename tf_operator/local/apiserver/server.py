"""The embedded API server: requests in, answers out. No sockets, no tasks, and no time but the clock's.

    server = ApiServer(clock, kinds=catalog.KINDS)
    answer = server.handle(Request(...))        # a Response, or the WatchStream of a watch

``handle`` never raises, nor does ``begin``, which is for a server that others share. What controllers of a cluster do
with what is stored (garbage collection, the end of namespaces) is a step of its own, ``collect``: whoever runs the
server decides when.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from msgspec import structs

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.forms import media_types
from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import ApiFailure, Parts, Response
from tf_operator.local.apiserver.reads import gets, watches
from tf_operator.local.apiserver.reads.views import MOST_AT_ONCE, View, view_of
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.registry import Registry
from tf_operator.local.apiserver.requests import bodies, routes
from tf_operator.local.apiserver.requests.routes import Route
from tf_operator.local.apiserver.storage.store import HISTORY, Commit, Journal, NotStored, VersionedStore, path_of
from tf_operator.local.apiserver.writes import deletes, scale, stamps, writer
from tf_operator.local.apiserver.writes.collector import Collector
from tf_operator.local.apiserver.writes.deletes import Deleter
from tf_operator.local.apiserver.writes.writer import ObjectWriter, WriteOptions
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import Body, key_of, uid_of

_log = Logger(__name__)
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_APPLY = "application/apply-patch+yaml"
_NO_SUCH_UID = "uid mismatch: the provided object specified uid {}, and no existing object was found"


class ApiServer:
    def __init__(
        self,
        clock: Clock,
        *,
        kinds: Iterable[Kind],
        journal: Journal | None = None,
        history: int = HISTORY,
        uids: Callable[[], str] = lambda: str(uuid4()),
        has_controllers: bool = True,
    ) -> None:
        """Without ``has_controllers``, ``collect`` leaves alone what has lost its owner or its namespace."""
        self._clock = clock
        self.registry = Registry(kinds, on_removal=lambda kind: self.store.collection(str(kind.storage)).notify())
        self.store = VersionedStore(journal, history=history)
        changes = [
            Commit(entry.version, collection.name, path, None, entry)
            for collection in self.store.collections
            for path, entry in collection.objects.items()
        ]
        for change in changes:
            self.registry.on_change(change)
        self.store.listeners.append(self.registry.on_change)
        self._writer = ObjectWriter(self.store, self.registry, clock=clock, uids=uids)
        self._deleter = Deleter(self.store, clock=clock)
        self._collector = Collector(
            self.store,
            self.registry,
            writer=self._writer,
            deleter=self._deleter,
            clock=clock,
            has_controllers=has_controllers,
        )
        for change in changes:
            self._collector.on_change(change)
        self.store.listeners.append(self._collector.on_change)

    def handle(self, request: Request) -> Response | WatchStream:
        """Answer a request. An error is a Status, too; this never raises."""
        answer = self.begin(request)
        if isinstance(answer, Response | WatchStream):
            return answer
        while True:
            try:
                next(answer)
            except StopIteration as end:
                response: Response = end.value
                return response

    def begin(self, request: Request) -> Response | WatchStream | Parts:
        """As ``handle``; but what may take long comes in parts, between which others can have their turn."""
        deprecation = ""
        try:
            route = routes.route_of(request, self.registry)
            deprecation = route.kind.deprecation if route else ""
            answer = self._document(request) if route is None else self._answer(request, route)
        except Exception as error:  # noqa: BLE001 (a defect must not end the server, which others use)
            answer = _failed(request, error)
        if isinstance(answer, Response):
            return media_types.translated(_warned(answer, deprecation), request.accept)
        if isinstance(answer, WatchStream):
            answer.headers = _warnings([deprecation])
            return answer
        return _guarded(request, answer, deprecation)

    def collect(self) -> bool:
        """Delete what has lost its owners or its namespace, one step; whether anything has changed."""
        return self._collector.step()

    @property
    def collects_again_at(self) -> float | None:
        """When ``collect`` has to be called again, by the monotonic clock, because something could not be deleted."""
        return self._collector.retry_at

    def on_garbage(self, wake: Callable[[], object]) -> None:
        """Call ``wake`` (from inside of a write: do little) when ``collect`` may have something to do."""
        self._collector.wake = wake

    def _document(self, request: Request) -> Response:
        from tf_operator.local.apiserver.discovery import documents  # noqa: PLC0415 (a training needs none)

        return documents.answer(request, self.registry)

    def _answer(self, request: Request, route: Route) -> Response | WatchStream | Parts:
        view = view_of(route.kind, request.accept, request.query, verb=route.verb)
        if route.kind.read is not None:
            from tf_operator.local.apiserver.reads import computed  # noqa: PLC0415 (few ask)

            return computed.answer(route, request.query, view=view, now=self._clock.now())
        return self._answer_stored(request, route, view)

    def _answer_stored(self, request: Request, route: Route, view: View) -> Response | WatchStream | Parts:
        query, now = request.query, self._clock.now()
        match route.verb:
            case "get":
                return self._get(request, route, view)
            case "list":
                return gets.list_objects(self.store, route, query, view=view, now=now)
            case "watch":
                is_served = partial(self.registry.serves, route.kind)
                return watches.watch(self.store, route, query, view=view, clock=self._clock, is_served=is_served)
            case "delete":
                return self._delete(request, route, view)
            case "deletecollection":
                return self._delete_all(request, route, view)
            case _:
                return self._write(request, route, view)

    def _get(self, request: Request, route: Route, view: View) -> Response:
        if route.subresource != "scale":
            return gets.get(self.store, route, request.query, view=view, now=self._clock.now())
        return Response.of(scale.scale_of(route.kind, gets.served(route.kind, gets.stored_at(self.store, route))))

    def _write(self, request: Request, route: Route, view: View) -> Response:
        is_apply = route.verb == "patch" and bodies.media_type(request) == _APPLY
        options = WriteOptions.of(route.verb, request.query, is_apply=is_apply)
        response = self._write_kind(request, route, view, options=options)
        return structs.replace(response, headers=_warnings(options.warnings)) if options.warnings else response

    def _write_kind(self, request: Request, route: Route, view: View, *, options: WriteOptions) -> Response:
        kind, now = route.kind, self._clock.now()
        if route.subresource == "scale":
            return self._scale(request, route, options)
        if route.verb == "patch":
            return self._patch(request, route, view, options=options)
        payload = bodies.sent_object(request, kind)
        options.note_repeated(request)
        if kind.answer is not None:
            return Response.of(kind.answer(bodies.framed(kind, payload, self.registry), now), 201)
        if route.verb == "update":
            code = 200 if gets.has_stored(self.store, route) else 201
            return view.one(self._writer.update(route, payload, options), now, code=code)
        if route.subresource:
            self._act(route, payload, options)
            return Response.of(_success({}, code=201), 201)
        return view.one(self._writer.create(route, payload, options), now, code=201)

    def _act(self, route: Route, payload: Json, options: WriteOptions) -> None:
        if route.subresource not in route.kind.deleting:
            self._writer.act(route, payload, options)
            return
        deletion = deletes.options_within(payload, is_dry_run=options.is_dry_run)
        self._deleter.check(route, deletion)
        self._writer.act(route, payload, replace(options, is_dry_run=deletion.is_dry_run))
        # The version was looked at, and is another one by now.
        self._deleter.delete(structs.replace(route, verb="delete", subresource=""), replace(deletion, version=None))

    def _scale(self, request: Request, route: Route, options: WriteOptions) -> Response:
        kind, payload, change = route.kind, dict[str, Any](), None
        if route.verb != "patch":
            payload = bodies.framed(scale.KIND, bodies.sent_object(request, scale.KIND), self.registry)
        elif bodies.media_type(request) == _APPLY:
            payload, managers = self._applied_scale(request, route)
            options = replace(options, managed_fields=managers)
        else:
            change = self._change(request, kind)

        def scaled(body: Body) -> Json:
            new = change(scale.scale_of(kind, body)) if change else payload
            if not bodies.is_of(scale.KIND, new):
                raise failures.changed_kind()
            stamps.place(scale.KIND, new["metadata"], route.key)
            writer.check_uid(route, new["metadata"], uid_of(body))
            return scale.scaled(kind, body, new)

        entry = self._writer.patch(structs.replace(route, subresource=""), scaled, options)
        return Response.of(scale.scale_of(kind, gets.served(kind, entry)))

    def _applied_scale(self, request: Request, route: Route) -> tuple[Json, list[Json]]:
        from tf_operator.local.apiserver.writes import server_side_apply as ssa  # noqa: PLC0415 (few clients use it)

        sent = structs.replace(request, content_type=bodies.ACCEPTED[1])
        config = bodies.sent_object(sent, route.kind, needs_kind=False)
        manager, live = ssa.checked(config, request.query), gets.served(route.kind, gets.stored_at(self.store, route))
        bodies.check_name(config, route.name)
        is_forced = routes.flag(request.query, "force")
        return ssa.applied_scale(
            route.kind, live, config, ssa.ManagedWrite(manager, "scale", is_forced, self._clock.now())
        )

    def _patch(self, request: Request, route: Route, view: View, *, options: WriteOptions) -> Response:
        if bodies.media_type(request) == _APPLY:
            return self._apply(request, route, view, options=options)
        change = self._change(request, route.kind)
        options.note_repeated(request)
        entry = self._writer.patch(route, change, options)
        return view.one(entry, self._clock.now())

    def _apply(self, request: Request, route: Route, view: View, *, options: WriteOptions) -> Response:
        from tf_operator.local.apiserver.writes import server_side_apply as ssa  # noqa: PLC0415 (few clients use it)

        kind, now = route.kind, self._clock.now()
        sent = structs.replace(request, content_type=bodies.ACCEPTED[1])
        config = bodies.sent_object(sent, kind, needs_kind=False)
        manager = ssa.checked(config, request.query)
        live = gets.served(kind, gets.stored_at(self.store, route)) if gets.has_stored(self.store, route) else None
        if live is not None:
            bodies.check_name(config, route.name)
        write = ssa.ManagedWrite(manager, route.subresource, routes.flag(request.query, "force"), now)
        body, managers = ssa.applied(kind, live, config, write)
        options = replace(options, managed_fields=managers)
        options.note_repeated(request)
        if live is None and route.subresource:
            raise failures.not_found(kind, route.name)
        if live is None and (uid := uid_of(config)):
            raise failures.conflict(kind, route.name, _NO_SUCH_UID.format(uid))
        if live is None:
            # A version is none of what there is not.
            body["metadata"] = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
            return view.one(self._writer.create(route, body, options), now, code=201)
        return view.one(self._writer.patch(route, lambda _: body, options), now)

    def _change(self, request: Request, kind: Kind) -> Callable[[Body], Json]:
        from tf_operator.local.apiserver.writes import patches  # noqa: PLC0415

        media = bodies.media_type(request)
        if media == _PATCHES[2] and kind.is_custom:
            raise failures.unsupported_media_type((*_PATCHES[:2], _APPLY))
        if media not in _PATCHES:
            raise ApiFailure(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
        body = request.body or b""
        bodies.check_size(body)
        return lambda current: patches.apply(media, current, body, kind)

    def _delete(self, request: Request, route: Route, view: View) -> Response:
        entry, is_gone = self._deleter.delete(route, deletes.options_of(request))
        if is_gone and not route.kind.returns_deleted:
            resource, metadata = route.kind.resource, entry.body["metadata"]
            details = {"name": route.name, "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
            return Response.of(_success({name: value for name, value in details.items() if value}))
        return view.one(entry, self._clock.now())

    def _delete_all(self, request: Request, route: Route, view: View) -> Parts:
        options = deletes.options_of(request)
        collection = self.store.collection(str(route.kind.storage))
        entries, meta = gets.page(self.store, route, request.query)
        for number, entry in enumerate(entries, 1):
            key = key_of(entry.body)
            now = collection.objects.get(path_of(key))
            if now is not None and uid_of(now.body) == uid_of(entry.body):  # others may have been faster
                self._deleter.delete(Route("delete", route.kind, key.namespace, key.name), options)
            if number % MOST_AT_ONCE == 0:
                yield
        return (yield from view.many(entries, meta, self._clock.now()))


def _guarded(request: Request, parts: Parts, deprecation: str) -> Parts:
    try:
        answer = yield from parts
    except Exception as error:  # noqa: BLE001 (as in ``begin``)
        answer = _failed(request, error)
    return media_types.translated(_warned(answer, deprecation), request.accept)


def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, ApiFailure):
        return Response.of(error.status(), error.code)
    if isinstance(error, NotStored):
        return Response.of(failures.internal(str(error)).status(), 500)
    _log.exception("request panicked", method=request.method, path=request.path)
    return Response.of(failures.internal(f"{type(error).__name__} while the request was handled").status(), 500)


def _warned(answer: Response, text: str) -> Response:
    """The same, which says first that the version is deprecated."""
    if not text:
        return answer
    both = filter(None, [_warnings([text])["Warning"], answer.headers.get("Warning")])
    return structs.replace(answer, headers={**answer.headers, "Warning": ", ".join(both)})


def _warnings(texts: Iterable[str]) -> dict[str, str]:
    lines = (line for text in texts for line in text.splitlines()[1:] or [text] if line)  # below a headline, if any
    header = ", ".join(f'299 - "{_quoted(line.strip())}"' for line in lines)
    return {"Warning": header} if header else {}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _success(details: Json, *, code: int = 0) -> dict[str, Any]:
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | ({"details": details} if details else {}) | ({"code": code} if code else {})
