"""Server-side apply: who manages which fields of an object, and what an apply makes of it.

``managedFields`` is kept from the first apply of an object on; what was there before belongs to ``before-first-apply``,
the name that Kubernetes has for it. What others write later is theirs, and is not overwritten without ``force``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.local.apiserver.validation import built_in_fields
from tf_operator.local.apiserver.writes import scale, structured_merge
from tf_operator.local.apiserver.writes.structured_merge import Comparison, Fields, Path, Schema
from tf_operator.meta import Body, metadata_of, rfc3339

_APPLY, _UPDATE = "Apply", "Update"
_BEFORE: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OF_THE_SERVER: Final = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "resourceVersion")
_STRIPPED: Final = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)} | {("f:metadata", f"f:{name}") for name in _OF_THE_SERVER}
)
_MANAGED: Final = "managedFields"
_REPLICAS: Final[Fields] = frozenset({("f:spec", "f:replicas")})
"""Where a Scale has its number."""


@dataclass(frozen=True, slots=True)
class Manager:
    """Who manages fields; those who apply are the same for each version."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        name = f'"{self.name}"' + (f' with subresource "{self.subresource}"' if self.subresource else "")
        return name if self.operation == _APPLY else f"{name} using {self.api_version}"


@dataclass(frozen=True, slots=True)
class _Claim:
    fields: Fields
    time: str
    api_version: str


Managers = dict[Manager, _Claim]


@dataclass(frozen=True, slots=True)
class ManagedWrite:
    """What is asked for beside the object."""

    manager: str
    subresource: str
    is_forced: bool
    now: datetime


def checked(config: Body, query: Mapping[str, str]) -> str:
    manager = query.get("fieldManager", "")
    if not manager:
        cause = FieldCause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
        raise failures.invalid_options("PatchOptions", [cause])
    if not config.get("apiVersion") or not config.get("kind"):
        group, _, version = str(config.get("apiVersion") or "").rpartition("/")
        raise failures.bad_request(f"invalid object type: {group}/{version}, Kind={config.get('kind', '')}")
    if metadata_of(config).get(_MANAGED):
        raise failures.bad_request("metadata.managedFields must be nil")
    return manager


def applied(kind: Kind, live: Body | None, config: Body, request: ManagedWrite) -> tuple[Json, list[Json]]:
    """The object with a configuration applied, and its managers; raises ``ApiFailure`` for a conflict."""
    schema = _schema(kind)
    old = _plain(live or {name: config[name] for name in ("apiVersion", "kind")})
    new, managers = _apply(kind, old, config, request, schema=schema, managers=_managers(kind, live, request, schema))
    return new, _to_json(managers)


def applied_scale(kind: Kind, live: Body, config: Body, request: ManagedWrite) -> tuple[Json, list[Json]]:
    """The Scale of an object with a configuration applied, and the managers of the object.

    Whoever manages the number of replicas in one of them manages it in the other.
    """
    live_scale = scale.scale_of(kind, live)
    old_managers, place = _managers(kind, live, request, _schema(kind)), scale.replicas_path(kind)
    field: Path = tuple(f"f:{name}" for name in place)
    number = {who: replace(claim, fields=_REPLICAS) for who, claim in old_managers.items() if field in claim.fields}
    new, managers = _apply(scale.KIND, live_scale, config, request, schema=_schema(scale.KIND), managers=number)
    rest = {who: replace(claim, fields=claim.fields - {field}) for who, claim in old_managers.items()}
    for who in (who for who, claim in managers.items() if claim.fields >= _REPLICAS):
        fields = rest[who].fields if who in rest else frozenset()
        rest[who] = _Claim(fields | {field}, managers[who].time, kind.resource.api_version)
    return new, _to_json(rest)


def _managers(kind: Kind, live: Body | None, request: ManagedWrite, schema: Schema) -> Managers:
    """Those of an object; what was there before the first apply has one, too."""
    managers = _from_json(live or {})
    if live is None or managers:
        return managers
    nothing = {name: live[name] for name in ("apiVersion", "kind")}
    there = frozenset(structured_merge.compared(nothing, _plain(live), schema).added)
    version, subresource = kind.resource.api_version, "" if request.subresource == "scale" else request.subresource
    claim = _Claim(_ownable(kind, there, subresource), rfc3339(request.now), version)
    return {Manager(_BEFORE, _UPDATE, version, subresource): claim}


def _apply(
    kind: Kind, old: Json, config: Body, request: ManagedWrite, *, schema: Schema, managers: Managers
) -> tuple[Json, Managers]:
    for problem in structured_merge.problems(config, schema):
        raise ApiFailure(500, "", f"failed to create typed patch object ({_identity(config)}): {problem}")
    config = _writable(kind, config, request.subresource)
    manager = Manager(request.manager, _APPLY, "", request.subresource)
    last, old_managers = managers.get(manager), dict(managers)
    new = structured_merge.merged(old, _plain(config), schema)
    sent_fields = structured_merge.fields(_plain(config), schema)
    own_fields = _ownable(kind, sent_fields, request.subresource)
    managers[manager] = _Claim(own_fields, rfc3339(request.now), config["apiVersion"])
    if last is not None:
        fields_now = sent_fields.union(*(each.fields for each in managers.values()))
        new = _prune(new, last.fields, fields_now, schema)
        new = {**new, "metadata": {**_of_the_server(old), **metadata_of(new)}}
    change = structured_merge.compared(old, new, schema)
    conflicts = dict(_conflicts(managers, manager, change))
    if conflicts and not request.is_forced and not _is_upgrade(conflicts, old, manager, schema):
        raise _conflict(conflicts)
    _disown(managers, manager, change)
    if last is not None and old == new and {**managers, manager: last} == old_managers and last.fields == own_fields:
        managers[manager] = last
    return new, managers


def updated(kind: Kind, old: Body, new: Body, request: ManagedWrite) -> list[Json]:
    """The managers after another write; an object that was never applied has none."""
    managers = _from_json(old)
    if not managers:
        return []
    schema, version = _schema(kind), kind.resource.api_version
    change = structured_merge.compared(_plain(old), _plain(new), schema)
    manager = Manager(request.manager, _UPDATE, version, request.subresource)
    _disown(managers, manager, change)
    previous = managers.get(manager) or _Claim(frozenset(), "", version)
    changes = _ownable(kind, frozenset(change.added | change.modified), request.subresource)
    own_fields = (previous.fields - change.removed) | changes
    if own_fields != previous.fields:
        managers[manager] = _Claim(own_fields, rfc3339(request.now), version)
    return _to_json(managers)


def _schema(kind: Kind) -> Schema:
    definitions, name = built_in_fields.definitions(), built_in_fields.definition_of(kind.resource)
    if not kind.is_custom and name in definitions:
        return Schema.of(definitions, {"$ref": name})
    frame = {"metadata": {"$ref": "V1ObjectMeta"}, "apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    whole = kind.schema or {"x-kubernetes-preserve-unknown-fields": True}
    return Schema(definitions, {**whole, "properties": {**whole.get("properties", {}), **frame}})


def _plain(body: Body) -> Json:
    """Without the managers."""
    metadata = {name: value for name, value in metadata_of(body).items() if name != _MANAGED}
    return {**body, "metadata": metadata}


def _identity(config: Body) -> str:
    metadata, (group, _, version) = metadata_of(config), str(config["apiVersion"]).rpartition("/")
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={config['kind']}"


def _ownable(kind: Kind, fields: Fields, subresource: str) -> Fields:
    """Those that a request can own: not the server's, and not those that it does not write."""
    apart = {f"f:{name}" for name in _not_written(kind, subresource)}
    return frozenset(path for path in fields - _STRIPPED if path[0] not in apart)


def _not_written(kind: Kind, subresource: str) -> tuple[str, ...]:
    if subresource == "status":
        return ("spec", "metadata") if kind.is_custom else ("spec",)
    return ("status",) if "status" in kind.subresources else ()


def _writable(kind: Kind, config: Body, subresource: str) -> Json:
    """What counts of a configuration; its name always does."""
    apart = _not_written(kind, subresource)
    fields = {name: value for name, value in config.items() if name not in apart}
    return {**fields, "metadata": _of_the_server(config)} if "metadata" in apart else fields


def _from_json(body: Body) -> Managers:
    managers: Managers = {}
    for entry in metadata_of(body).get(_MANAGED) or ():
        version = entry.get("apiVersion", "")
        is_apply = entry["operation"] == _APPLY
        who = Manager(entry["manager"], entry["operation"], "" if is_apply else version, entry.get("subresource", ""))
        fields = structured_merge.from_json(entry.get("fieldsV1") or {})
        managers[who] = _Claim(fields, entry.get("time", ""), version)
    return managers


def _to_json(managers: Managers) -> list[Json]:
    def entry(who: Manager, claim: _Claim) -> Json:
        frame = {"manager": who.name, "operation": who.operation, "apiVersion": claim.api_version, "time": claim.time}
        part = {"subresource": who.subresource} if who.subresource else {}
        return {**frame, "fieldsType": "FieldsV1", "fieldsV1": structured_merge.to_json(claim.fields), **part}

    owners = {who: claim for who, claim in managers.items() if claim.fields}
    claims = sorted(owners.items(), key=lambda pair: (pair[0].operation, pair[1].time, pair[0].name))
    return [entry(who, claim) for who, claim in claims]


def _of_the_server(body: Body) -> Json:
    """What nobody applies, and nobody can take away."""
    return {name: value for name, value in metadata_of(body).items() if name in _OF_THE_SERVER}


def _prune(new: Json, last: Fields, fields_now: Fields, schema: Schema) -> Json:
    """Without what was applied the last time, is not applied now, and is nobody else's."""

    def fields_of(value: Json) -> Fields:
        return structured_merge.with_holders(structured_merge.fields(value, schema), schema)

    last_fields = structured_merge.with_holders(last, schema)
    paths = structured_merge.with_holders(fields_now, schema)
    all_of_it = fields_of(new)
    rest = structured_merge.without(new, last_fields, schema)
    rest = structured_merge.without(new, all_of_it - (fields_of(rest) | paths), schema)
    result: Json = structured_merge.without(new, (all_of_it - fields_of(rest)) & last_fields, schema)
    return result


def _conflicts(managers: Managers, manager: Manager, change: Comparison) -> Iterator[tuple[Manager, Fields]]:
    for who, claim in managers.items():
        if who != manager and (fields := claim.fields & (change.modified | change.added)):
            yield who, fields


def _disown(managers: Managers, manager: Manager, change: Comparison) -> None:
    """What has changed is no longer that of others."""
    changes = change.modified | change.added | change.removed
    for who, claim in tuple(managers.items()):
        if who != manager:
            managers[who] = replace(claim, fields=claim.fields - changes)
            if not managers[who].fields:
                del managers[who]


def _is_upgrade(conflicts: Mapping[Manager, Fields], old: Body, manager: Manager, schema: Schema) -> bool:
    """Whether kubectl takes over what it applied by itself before: the annotation says what that was."""
    text = metadata_of(old).get("annotations", {}).get(_LAST_APPLIED)
    if manager.name != _KUBECTL or not text:
        return False
    annotation: Path = ("f:metadata", "f:annotations", f"f:{_LAST_APPLIED}")
    try:
        applied_fields = structured_merge.fields(msgspec.json.decode(text), schema) | {annotation}
    except msgspec.DecodeError:
        return False
    return all(fields <= applied_fields for fields in conflicts.values())


def _conflict(conflicts: Mapping[Manager, Fields]) -> ApiFailure:
    paths = {
        str(who): list(map(structured_merge.path_text, structured_merge.ordered(fields)))
        for who, fields in conflicts.items()
    }
    pairs = [(who, path) for who in sorted(paths) for path in paths[who]]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path} for who, path in pairs
    ]
    if len(pairs) == 1:
        message = f"Apply failed with 1 conflict: conflict with {pairs[0][0]}: {pairs[0][1]}"
    else:
        lines = [line for who in sorted(paths) for line in (f"conflicts with {who}:", *(f"- {p}" for p in paths[who]))]
        message = f"Apply failed with {len(pairs)} conflicts: " + "\n".join(lines)
    return ApiFailure(409, "Conflict", message, details={"causes": causes})
