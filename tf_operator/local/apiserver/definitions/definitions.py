"""CustomResourceDefinitions: the kind itself, and the kinds that its objects define.

Objects of several versions are converted in this process, by the code of ``tfjob convert``; a CRD of anybody else can
only have versions that differ in nothing (``conversion.strategy: None``).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver.ages import age
from tf_operator.local.apiserver.built_in import columns
from tf_operator.local.apiserver.definitions import json_path, scale_numbers, schema_checks
from tf_operator.local.apiserver.discovery import groups
from tf_operator.local.apiserver.kinds import Column, Json, Kind, ScalePaths
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.local.apiserver.storage.store import Completion
from tf_operator.local.apiserver.validation import causes, names, object_meta, schema_causes, schemas
from tf_operator.local.apiserver.validation.built_in_fields import BuiltInFields
from tf_operator.local.apiserver.validation.rules import Rules
from tf_operator.meta import Body, GroupVersionResource, parse_time, rfc3339

RESOURCE: Final = GroupVersionResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
_FIELDS: Final = BuiltInFields(RESOURCE)
_SCOPES: Final = ("Cluster", "Namespaced")
_BLOCKING: Final = frozenset(
    {"FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid", "FieldValueNotSupported"}
)
_NOT_CHECKED: Final = causes.invalid(
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation",
)
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def kind() -> Kind:
    """The kind of the definitions themselves."""
    return Kind(
        RESOURCE,
        "customresourcedefinition",
        ("crd", "crds"),
        categories=("api-extensions",),
        subresources=frozenset({"status"}),
        has_generation=True,
        prepare=_prepare,
        unknown_fields=_FIELDS.unknown,
        validate=_validate,
        columns=columns.DEFINITIONS,
        has_age_column=False,
        merge_keys={"metadata.ownerReferences": "uid", "metadata.finalizers": "", "status.conditions": "type"},
        defines=defined,
    )


def _prepare(body: Json, stored: Body | None, now: datetime) -> Json:
    object_meta.decode(body["metadata"])
    _FIELDS.decode(body)
    spec = body["spec"] = body.get("spec") or {}
    spec_names = spec["names"] = spec.get("names") or {}
    if spec_names.get("kind"):
        spec_names.setdefault("singular", spec_names["kind"].lower())
        spec_names.setdefault("listKind", f"{spec_names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    status = body.get("status") or {}
    if stored is None or not status.get("conditions"):
        status["conditions"] = [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ]
    storage = [version.get("name") for version in spec.get("versions") or () if version.get("storage")]
    status["acceptedNames"] = spec_names
    status["storedVersions"] = list(dict.fromkeys([*status.get("storedVersions", ()), *storage]))
    return body | {"status": status}


def _condition(name: str, reason: str, message: str, now: datetime) -> Json:
    when = {"lastTransitionTime": rfc3339(now)}
    return {"type": name, "status": "True", **when, "reason": reason, "message": message}


def _validate(body: Body, stored: Body | None) -> tuple[FieldCause, ...]:
    return (*object_meta.check(body["metadata"], is_built_in=True), *_check(body["spec"], body, stored))


def _check(spec: Body, body: Body, stored: Body | None) -> Iterator[FieldCause]:
    plural, group, scope = spec["names"].get("plural", ""), spec.get("group", ""), spec.get("scope", "")
    if body["metadata"].get("name") != f"{plural}.{group}":
        yield causes.invalid("metadata.name", body["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
    named = {"spec.group": group, "spec.names.plural": plural, "spec.names.kind": spec["names"].get("kind")}
    yield from (causes.required(field) for field, value in named.items() if not value)
    if scope not in _SCOPES:
        yield causes.not_supported("spec.scope", scope, _SCOPES)
    versions = spec.get("versions") or ()
    if sum(version.get("storage") is True for version in versions) != 1:
        yield causes.invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        yield from _check_version(version, f"spec.versions[{index}]", is_only=len(versions) == 1)
    yield from _check_stored_versions(body.get("status") or {}, {version.get("name") for version in versions})
    old_spec: Body = spec if stored is None else stored["spec"]
    for name in ("group", "scope"):
        if spec.get(name) != old_spec.get(name):
            yield causes.invalid(f"spec.{name}", spec.get(name), "field is immutable")


def _check_stored_versions(status: Body, served: set[Any]) -> Iterator[FieldCause]:
    if not status.get("storedVersions"):
        yield causes.invalid("status.storedVersions", None, "must have at least one stored version")
    for index, name in enumerate(status.get("storedVersions", ())):
        if name not in served:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
                " status.storedVersions"
            )
            yield causes.invalid(f"status.storedVersions[{index}]", name, detail)


def _check_version(version: Body, path: str, *, is_only: bool) -> Iterator[FieldCause]:
    name = version.get("name", "")
    for problem in names.label_1035(name):
        yield causes.invalid(f"{path}.name", name, problem)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        place = "spec.validation" if is_only else f"{path}.schema"
        yield from schema_checks.check(schema, f"{place}.openAPIV3Schema")
    else:
        yield causes.required(f"{path}.schema.openAPIV3Schema")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        place = f"{path}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield causes.required(f"{place}.name")
        if column.get("type") not in _CELLS:
            yield causes.not_supported(f"{place}.type", column.get("type", ""), sorted(_CELLS))
        yield from _check_path(column, place)
    for index, entry in enumerate(version.get("selectableFields") or ()):
        yield from _check_path(entry, f"{path}.selectableFields[{index}]")


def _check_path(entry: Body, path: str) -> Iterator[FieldCause]:
    text = entry.get("jsonPath", "")
    if not text:
        yield causes.required(f"{path}.jsonPath")
    try:
        json_path.compiled(text)
    except json_path.PathError as error:
        yield causes.invalid(f"{path}.jsonPath", text, str(error))


def defined(definition: Body) -> tuple[Kind, ...]:
    """A kind for each version that the definition serves."""
    spec = definition["spec"]
    versions = spec["versions"]
    storage = _resource(spec, next(version["name"] for version in versions if version.get("storage")))
    convert = _converter(spec) if len(versions) > 1 else None
    return tuple(
        replace(
            _defined(spec, version, since=int(definition["metadata"].get("resourceVersion", 0))),
            stored_as=None if version["name"] == storage.version else storage,
            convert=convert,
        )
        for version in versions
        if version.get("served")
    )


def _deprecation(spec: Body, version: Body) -> str:
    """The warning of a version that is deprecated, in the words of the real server."""
    if not version.get("deprecated"):
        return ""
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    usable = [other["name"] for other in spec["versions"] if other.get("served") and not other.get("deprecated")]
    newer = sorted((other for other in usable if groups.rank(other) < groups.rank(name)), key=groups.rank)
    advice = f"; use {group}/{newer[0]} {kind}" if newer else ""
    return str(version.get("deprecationWarning") or f"{group}/{name} {kind} is deprecated{advice}")


def _resource(spec: Body, version: str) -> GroupVersionResource:
    spec_names, is_namespaced = spec["names"], spec["scope"] == "Namespaced"
    return GroupVersionResource(
        spec["group"], version, spec_names["plural"], spec_names["kind"], is_namespaced=is_namespaced
    )


def _defined(spec: Body, version: Body, *, since: int) -> Kind:
    spec_names: Body = spec["names"]
    schema: schemas.Schema = version["schema"]["openAPIV3Schema"]
    subresources: Body = version.get("subresources") or {}
    scale = _scale(subresources["scale"]) if "scale" in subresources else None
    objects = _CustomObjects(schema, scale)
    selectable = [entry["jsonPath"] for entry in version.get("selectableFields") or ()]
    return Kind(
        _resource(spec, version["name"]),
        spec_names.get("singular") or spec_names["kind"].lower(),
        tuple(spec_names.get("shortNames") or ()),
        categories=tuple(spec_names.get("categories") or ()),
        subresources=frozenset(subresources),
        has_generation=True,
        prepare=objects.prepare,
        validate=objects.validate,
        validate_status=objects.validate_status,
        unknown_fields=objects.unknown_fields,
        columns=tuple(map(_column, version.get("additionalPrinterColumns") or (_AGE,))),
        has_age_column=False,
        fields={path.removeprefix("."): _selector(path) for path in selectable},
        schema=schema,
        completion=Completion(since, objects.completed),
        is_custom=True,
        scale=scale,
        deprecation=_deprecation(spec, version),
    )


class _CustomObjects:
    """What a schema does with the objects of its kind."""

    def __init__(self, schema: schemas.Schema, scale: ScalePaths | None) -> None:
        self._scale = scale
        properties = {name: part for name, part in schema.get("properties", {}).items() if name != "metadata"}
        self._schema = {**schema, "properties": properties}
        self._rules = Rules(schema)
        # Rules may ask for the name, so metadata stays for them; a schema cannot say more about it than the server.

    def prepare(self, body: Json, _: Body | None, __: datetime) -> Json:
        """Fill what was pruned as it was sent (``unknown_fields``), or was stored."""
        object_meta.decode(body["metadata"])
        schemas.fill(body, self._schema)
        return body

    def completed(self, stored: Body) -> Json:
        """As a stored object is read: it may be older than the schema."""
        body: Json = msgspec.json.decode(msgspec.json.encode(stored))
        with suppress(schemas.NumberError):
            list(schemas.prune(body, self._schema))
        schemas.fill(body, self._schema)
        return body

    def unknown_fields(self, sent: Json) -> tuple[str, ...]:
        """Prune what was sent; what of it is unknown."""
        try:
            paths = (*schemas.prune(sent, self._schema), *object_meta.unknown(sent.get("metadata")))
        except schemas.NumberError:
            kind, version = sent["kind"], sent["apiVersion"].rpartition("/")[2]
            problem = "json: cannot unmarshal number into Go value of type float64"
            message = f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}'
            raise ApiFailure(400, "BadRequest", message) from None
        return tuple(f'unknown field "{path}"' for path in paths)

    def validate(self, body: Body, stored: Body | None) -> tuple[FieldCause, ...]:
        """All that is wrong; rules need an object that keeps the schema."""
        return self._validate(body, stored)

    def validate_status(self, body: Body, stored: Body | None) -> tuple[FieldCause, ...]:
        """What is wrong with a status: nobody is asked now for what stands in the spec."""
        return self._validate(body, stored, is_status=True)

    def _validate(self, body: Body, stored: Body | None, *, is_status: bool = False) -> tuple[FieldCause, ...]:
        old = schemas.MISSING if stored is None else stored
        is_update = stored is not None  # a status that is updated is validated by itself: texts begin below it
        broken = self._status_violations(body, old) if is_status else schemas.violations(body, self._schema, old=old)
        problems = [
            *object_meta.check(body["metadata"]),
            *(_of_status(cause) if is_update else cause for cause in map(schema_causes.cause, broken)),
            *(scale_numbers.check(body, self._scale, is_status=is_status) if self._scale else ()),
            *map(schema_causes.cause, schemas.repeated(body, self._schema)),
        ]
        if not any(cause.reason in _BLOCKING for cause in problems):
            return (*problems, *self._rules.check(body, stored))
        return (*problems, *((_NOT_CHECKED,) if self._rules.exist else ()))

    def _status_violations(self, body: Body, old: schemas.Node) -> Iterator[schemas.Violation]:
        schema = schemas.property_of(self._schema, "status")
        if schema is not None and "status" in body:
            yield from schemas.violations(body["status"], schema, "status", schemas.correlated(old, "status"))


def _of_status(cause: FieldCause) -> FieldCause:
    if not cause.field.startswith("status."):
        return cause
    return replace(
        cause, message=cause.message.replace(f"{cause.field} in", f"{cause.field.removeprefix('status.')} in")
    )


def _scale(paths: Body) -> ScalePaths:
    def parts(name: str) -> tuple[str, ...]:
        return tuple(part for part in paths.get(name, "").split(".") if part)

    return ScalePaths(parts("specReplicasPath"), parts("statusReplicasPath"), parts("labelSelectorPath"))


def _selector(path: str) -> Callable[[Body], str]:
    find = json_path.compiled(path)

    def read(body: Body) -> str:
        values = find(body)
        return _text(values[0]) if values else ""

    return read


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _column(entry: Mapping[str, Any]) -> Column:
    find, kind_of_cell = json_path.compiled(entry["jsonPath"]), entry["type"]

    def cell(body: Body, now: datetime) -> object:
        values = find(body)
        return _CELLS[kind_of_cell](values[0], now) if values else None

    return Column(
        entry["name"],
        kind_of_cell,
        cell,
        format=entry.get("format", ""),
        description=entry.get("description", _description(entry["jsonPath"])),
        priority=entry.get("priority", 0),
    )


def _description(path: str) -> str:
    return f"Custom resource definition column (in JSONPath format): {path}"


def _number(value: object, _: datetime) -> object:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(value: object, _: datetime) -> object:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_CELLS: Final[Mapping[str, Callable[[Any, datetime], object]]] = {
    "string": lambda value, _: _text(value),
    "integer": _integer,
    "number": _number,
    "boolean": lambda value, _: value if isinstance(value, bool) else None,
    "date": lambda value, now: age(parse_time(value), now) if isinstance(value, str) else None,
}


def _converter(spec: Body) -> Callable[[Body, str], Json]:
    group, name = spec["group"], spec["names"]["kind"]
    strategy = (spec.get("conversion") or {}).get("strategy", "None")

    def convert(body: Body, api_version: str) -> Json:
        if body["apiVersion"] == api_version:
            return dict(body)
        if conversion := _conversion(group, name):
            return conversion(body, api_version)
        if strategy != "None":
            message = f"the embedded API server calls no webhook to convert {name}.{group}; a cluster (--context) does"
            raise ApiFailure(500, "InternalError", message)
        return {**body, "apiVersion": api_version}

    return convert


@cache
def _conversion(group: str, name: str) -> Callable[[Body, str], Json] | None:
    """The conversion of an API that the operator serves."""
    from tf_operator.dialects import registry  # noqa: PLC0415 - only for definitions with several versions
    from tf_operator.dialects.served import ConversionError  # noqa: PLC0415

    apis = (*registry.SERVED, *registry.ON_REQUEST)
    candidates = [api for api in apis if (api.resource.group, api.resource.kind) == (group, name)]
    if not any(api.conversion.versions for api in candidates):
        return None

    def convert(body: Body, api_version: str) -> Json:
        versions = {api_version.rpartition("/")[2], body["apiVersion"].rpartition("/")[2]}
        api = next((api for api in candidates if api.resource.version in versions), candidates[0])
        try:
            return api.conversion.convert(body, api_version.rpartition("/")[2])
        except ConversionError as error:
            message = f"conversion for {body['apiVersion']}, Kind={name} failed: {error}"
            raise ApiFailure(500, "InternalError", message) from None

    return convert
