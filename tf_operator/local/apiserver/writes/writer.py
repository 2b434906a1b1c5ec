"""Create, update and patch: from what is sent to what is stored.

The order of the steps is kube-apiserver's, because it decides which of several errors a request ends in: frame, place,
namespace, defaults, validation, quota, existence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.forms import repeated_fields
from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.local.apiserver.reads import gets
from tf_operator.local.apiserver.registry import Registry
from tf_operator.local.apiserver.requests import bodies
from tf_operator.local.apiserver.requests.routes import Route
from tf_operator.local.apiserver.storage.store import Stored, VersionedStore, path_of
from tf_operator.local.apiserver.writes import stamps
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import Body, ObjectKey

_BEYOND_UINT64: Final = 2**64
_UNKNOWN: Final = "unknown"
"""The manager of who does not say who they are."""
_LONGEST_VERSION: Final = 1000
"""Characters: leading zeros count nothing, but Python reads no number of any length."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the query says about a write."""

    is_dry_run: bool = False
    field_validation: str = "Warn"
    warnings: list[str] = field(default_factory=list)
    """What the answer warns of: filled while the request is carried out."""
    causes: list[FieldCause] = field(default_factory=list)
    """What is wrong already, before validation."""
    manager: str = _UNKNOWN
    """Who writes, for the record that server-side apply begins."""
    managed_fields: list[Json] | None = None
    """What server-side apply records about who manages the object."""

    @classmethod
    def of(cls, verb: str, query: Mapping[str, str], *, is_apply: bool = False) -> "WriteOptions":
        dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "") or "Warn"
        causes = []
        if dry_run not in {"", "All"}:
            causes.append(_not_supported("dryRun", f'["{dry_run}"]', '"All"'))
        if validation not in {"Ignore", "Strict", "Warn"}:
            causes.append(_not_supported("fieldValidation", f'"{validation}"', '"", "Ignore", "Strict", "Warn"'))
        if verb == "patch" and not is_apply and query.get("force"):
            message = "Forbidden: may not be specified for non-apply patch"
            causes.append(FieldCause("force", "FieldValueForbidden", message))
        if causes:
            raise failures.invalid_options(f"{verb.capitalize()}Options", causes)
        manager = query.get("fieldManager") or _UNKNOWN
        return cls(is_dry_run=dry_run == "All", field_validation=validation, manager=manager)

    def note_repeated(self, request: Request) -> None:
        """Warn of fields that stand twice in what was sent, of which the last counts."""
        if self.field_validation != "Ignore":
            self.warnings.extend(repeated_fields.problems(request.body or b"", bodies.media_type(request)))


def _not_supported(field_name: str, value: str, values: str) -> FieldCause:
    message = f"Unsupported value: {value}: supported values: {values}"
    return FieldCause(field_name, "FieldValueNotSupported", message)


class ObjectWriter:
    def __init__(self, store: VersionedStore, registry: Registry, *, clock: Clock, uids: Callable[[], str]) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._uids = uids

    def create(self, route: Route, payload: object, options: WriteOptions) -> Stored:
        kind, now = route.kind, self._clock.now()
        body = self._framed(kind, payload, options)
        metadata = body["metadata"]
        stamps.place(kind, metadata, route.key)
        version = metadata.get("resourceVersion", "")
        objects = self._store.collection(str(kind.storage)).objects

        def is_taken(name: str) -> bool:
            return path_of(ObjectKey(route.namespace, name)) in objects

        stamps.stamp_new(kind, metadata, uid=self._uids(), now=now, is_taken=is_taken)
        if options.managed_fields is not None:
            metadata["managedFields"] = options.managed_fields
        self._check_namespace(kind, metadata.get("name", ""), route.namespace)
        if "status" in kind.subresources and kind.is_custom:
            body.pop("status", None)
        body = self._prepared(kind, body, None, options)
        options.warnings.extend([kind.caution] if kind.caution else [])
        if kind.admit is not None:
            kind.admit(body, self._listing)
        key = ObjectKey(route.namespace, metadata["name"])
        collection, path = str(kind.storage), path_of(key)
        if not options.is_dry_run and _version_of({"resourceVersion": version}, is_strict=False):
            raise ApiFailure(500, "", "resourceVersion should not be set on objects to be created")
        if path in objects:
            stored_metadata = objects[path].body["metadata"]
            raise failures.already_exists(kind, key.name, is_terminating="deletionTimestamp" in stored_metadata)
        if options.is_dry_run and version:
            metadata["resourceVersion"] = version  # which only the storage looks at, and replaces
        return self._commit(collection, path, self._for_storage(kind, body), options)

    def update(self, route: Route, payload: object, options: WriteOptions) -> Stored:
        """Replace an object, or its part that is a subresource."""
        kind = route.kind
        body = self._framed(kind, payload, options)
        stamps.place(kind, body["metadata"], route.key)
        if kind.may_create_by_update and not gets.has_stored(self._store, route):
            check_uid(route, body["metadata"], "")
            _version_of(body["metadata"])
            if not options.is_dry_run:
                body["metadata"].pop("resourceVersion", None)
            return self.create(route, body, options)
        entry = gets.stored_at(self._store, route)
        check_uid(route, body["metadata"], entry.body["metadata"]["uid"])
        return self._replace(route, entry, body, options)

    def patch(self, route: Route, change: Callable[[Body], object], options: WriteOptions) -> Stored:
        entry = gets.stored_at(self._store, route)
        body = change(gets.served(route.kind, entry))
        if not bodies.is_of(route.kind, body):
            raise failures.changed_kind()
        body = self._framed(route.kind, body, options)
        stamps.place(route.kind, body["metadata"], route.key)
        try:
            return self._replace(route, entry, body, options)
        except ApiFailure as failure:
            if failure.code != 400:
                raise
            # What would be a bad request in a body is invalid as what a patch makes of an object.
            raise ApiFailure(422, "Invalid", str(failure)) from failure

    def act(self, route: Route, payload: object, options: WriteOptions) -> None:
        """Do what a POST to a subresource asks for."""
        entry = gets.stored_at(self._store, route)
        body = route.kind.actions[route.subresource](_copy(route.kind, entry), _mapping(payload), self._clock.now())
        self._commit_change(route, entry, body, options)

    def amend(self, route: Route, change: Callable[[Json], object]) -> None:
        """Change an object as the server itself does: neither defaults nor validation stand in the way."""
        entry = gets.stored_at(self._store, route)
        body = _copy(route.kind, entry)
        change(body)
        self._commit_change(route, entry, body, WriteOptions())

    def _framed(self, kind: Kind, payload: object, options: WriteOptions) -> Json:
        body = bodies.framed(kind, payload, self._registry)
        is_ignored, warnings_so_far = options.field_validation == "Ignore", set(options.warnings)
        if kind.unknown_fields is not None and (kind.is_custom or not is_ignored):
            # Of what was sent: nothing but the known fields of metadata is taken along.
            unknown = kind.unknown_fields(body)
            if not kind.is_custom:  # whose decoder looks into no field that it does not know
                unknown_paths = tuple(text.removeprefix("unknown field ").rstrip('"') for text in unknown)
                options.warnings[:] = [text for text in options.warnings if not _is_below(text, unknown_paths)]
            options.warnings.extend(text for text in unknown if not is_ignored and text not in warnings_so_far)
        return stamps.ordered(body)

    def _replace(self, route: Route, entry: Stored, body: Json, options: WriteOptions) -> Stored:
        kind, metadata = route.kind, body["metadata"]
        old = _copy(kind, entry)
        version = _version_of(metadata)
        if not version and (kind.is_custom or kind.must_name_version):
            raise failures.version_required(kind, route.name)
        if version and version != entry.version:
            raise failures.conflict(kind, route.name)
        options.causes.extend(stamps.immutable_causes(metadata, old["metadata"]))
        stamps.carry_over(metadata, old["metadata"])
        body = self._merge(route, body, old)
        if options.managed_fields is not None:
            body = {**body, "metadata": {**body["metadata"], "managedFields": options.managed_fields}}
        if route.subresource not in kind.changes or options.causes:
            if route.subresource == "status" and kind.validate_status is not None:
                kind = replace(kind, validate=kind.validate_status)
            body = self._prepared(kind, body, gets.served(kind, entry), options)
        if options.managed_fields is None and entry.body["metadata"].get("managedFields"):
            body = {**body, "metadata": self._with_managers(route, entry, body, options)}
        return self._commit_change(route, entry, body, options)

    def _with_managers(self, route: Route, entry: Stored, body: Json, options: WriteOptions) -> Json:
        from tf_operator.local.apiserver.writes import server_side_apply as ssa  # noqa: PLC0415 (few objects are applied)

        write = ssa.ManagedWrite(options.manager, route.subresource, is_forced=True, now=self._clock.now())
        managers = ssa.updated(route.kind, gets.served(route.kind, entry), body, write)
        return {**body["metadata"], "managedFields": managers}

    def _merge(self, route: Route, body: Json, old: Json) -> Json:
        kind, subresource = route.kind, route.subresource
        if change := kind.changes.get(subresource):
            return stamps.ordered(change(old, body, self._clock.now()))
        if subresource == "status":
            metadata = (
                old["metadata"]
                if kind.is_custom
                else {
                    **body["metadata"],
                    **{name: old["metadata"][name] for name in ("ownerReferences",) if name in old["metadata"]},
                }
            )
            rest = {name: value for name, value in old.items() if name != "status"}
            return rest | {"metadata": metadata} | ({"status": body["status"]} if "status" in body else {})
        if "status" in kind.subresources:
            body.pop("status", None)
            if "status" in old:
                body["status"] = old["status"]
        return body

    def _prepared(self, kind: Kind, body: Json, old: Body | None, options: WriteOptions) -> Json:
        name = body["metadata"].get("name", "")
        if not name:
            message = "Required value: name or generateName is required"
            raise failures.invalid(kind, name, [FieldCause("metadata.name", "FieldValueRequired", message)])
        if options.warnings and options.field_validation == "Strict":
            raise failures.strict(kind, options.warnings)
        if kind.prepare is not None:
            body = kind.prepare(body, old, self._clock.now())
        causes = [*options.causes, *(() if kind.validate is None else kind.validate(body, old))]
        if causes:
            raise failures.invalid(kind, name, causes)
        return body

    def _commit_change(self, route: Route, entry: Stored, body: Json, options: WriteOptions) -> Stored:
        kind = route.kind
        stamps.count_generation(kind, body, gets.served(kind, entry))
        body = stamps.ordered(self._for_storage(kind, body))
        if stamps.is_same(body, entry.body):
            return entry
        collection, path = str(kind.storage), path_of(route.key)
        if _is_done(kind, entry.body, body):
            if not options.is_dry_run:
                self._store.commit(collection, path, None)
            return Stored(body, entry.version)
        return self._commit(collection, path, body, options)

    def _commit(self, collection: str, path: str, body: Json, options: WriteOptions) -> Stored:
        if options.is_dry_run:
            return Stored(body, 0)
        self._store.commit(collection, path, body)
        return self._store.collection(collection).objects[path]

    def _for_storage(self, kind: Kind, body: Json) -> Json:
        storage = kind.storage.api_version
        if kind.convert is not None and storage != body["apiVersion"]:
            body = kind.convert(body, storage)
        return stamps.ordered(body)

    def _listing(self, resource: str, namespace: str) -> list[Body]:
        collection = self._store.collection(resource)
        return [collection.objects[path].body for path in collection.paths(namespace)]

    def _check_namespace(self, kind: Kind, name: str, namespace: str) -> None:
        """Nothing is created in a namespace that does not exist, or is terminating."""
        namespaces = self._registry.namespaces
        if not namespace or namespaces is None:
            return
        entry = self._store.collection(str(namespaces.storage)).objects.get(namespace)
        if entry is None:
            raise failures.not_found(namespaces, namespace)
        if entry.body["metadata"].get("deletionTimestamp"):
            reason = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = FieldCause(
                "metadata.namespace", "NamespaceTerminating", f"namespace {namespace} is being terminated"
            )
            raise failures.forbidden(kind, name, reason, causes=[cause])


def _is_below(warning: str, places: tuple[str, ...]) -> bool:
    """Whether a warning about a repeated field is about one that is unknown anyway, or is in such a field."""
    field_name = warning.removeprefix("duplicate field ")
    return any(field_name.startswith((f'{place}"', f"{place}.", f"{place}[")) for place in places)


def _version_of(metadata: Body, *, is_strict: bool = True) -> int:
    """The version that a body names; 0 is none. What is no number is none, or (500, as the real server) an error."""
    text = metadata.get("resourceVersion") or "0"
    if len(text) <= _LONGEST_VERSION and text.isascii() and text.isdigit() and int(text) < _BEYOND_UINT64:
        return int(text)
    if is_strict:
        raise failures.unparsable_version(text)
    return 0


def check_uid(route: Route, metadata: Body, stored_uid: str) -> None:
    """A UID in an update is a precondition, and the real server shows where it is checked."""
    uid, resource = metadata.get("uid"), route.kind.resource
    if uid and uid != stored_uid:
        place = "/".join(part for part in (resource.group if route.kind.is_custom else "", resource.plural) if part)
        reason = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{place}/{path_of(route.key)}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}"
        )
        raise failures.conflict(route.kind, route.name, reason)


def finalizers_of(kind: Kind, body: Body) -> tuple[str, ...]:
    finalizers = tuple(body["metadata"].get("finalizers", ()))
    return finalizers + tuple(body.get("spec", {}).get("finalizers", ())) if kind.is_namespace else finalizers


def _is_done(kind: Kind, old: Body, new: Body) -> bool:
    """Whether an update of a terminating object removes the last that kept it."""
    metadata = old["metadata"]
    has_no_grace = kind.is_namespace or metadata.get("deletionGracePeriodSeconds") == 0
    return "deletionTimestamp" in metadata and has_no_grace and not finalizers_of(kind, new)


def _copy(kind: Kind, entry: Stored) -> Json:
    copy: Json = msgspec.json.decode(entry.served(kind.resource.api_version, kind.convert, kind.completion)[1])
    return copy


def _mapping(payload: object) -> Json:
    if not isinstance(payload, dict):
        raise failures.bad_request("the object provided is no JSON object")
    return payload
