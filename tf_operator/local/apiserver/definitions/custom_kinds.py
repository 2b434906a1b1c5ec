"""The kinds that a CustomResourceDefinition defines, and what its schema does with their objects."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

import msgspec

from tf_operator.local.apiserver.definitions import columns, conversion, scale_numbers
from tf_operator.local.apiserver.kinds import Json, Kind, ScalePaths, version_rank
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.local.apiserver.storage.store import Completion
from tf_operator.local.apiserver.validation import causes, object_meta, schema_causes, schemas
from tf_operator.local.apiserver.validation.rules import Rules
from tf_operator.meta import Body, GroupVersionResource

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


def defined(definition: Body) -> tuple[Kind, ...]:
    spec = definition["spec"]
    versions = spec["versions"]
    storage = _resource(spec, next(version["name"] for version in versions if version.get("storage")))
    convert = conversion.converter(spec) if len(versions) > 1 else None
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
    newer = sorted((other for other in usable if version_rank(other) < version_rank(name)), key=version_rank)
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
        columns=tuple(map(columns.column, version.get("additionalPrinterColumns") or (_AGE,))),
        has_age_column=False,
        fields={path.removeprefix("."): columns.selector(path) for path in selectable},
        schema=schema,
        completion=Completion(since, objects.completed),
        is_custom=True,
        scale=scale,
        deprecation=_deprecation(spec, version),
    )


class _CustomObjects:
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

    def completed(self, old: Body) -> Json:
        """As a stored object is read: it may be older than the schema."""
        body: Json = msgspec.json.decode(msgspec.json.encode(old))
        with suppress(schemas.NumberError):
            list(schemas.prune(body, self._schema))
        schemas.fill(body, self._schema)
        return body

    def unknown_fields(self, body: Json) -> tuple[str, ...]:
        """Prune what was sent; what of it is unknown."""
        try:
            paths = (*schemas.prune(body, self._schema), *object_meta.unknown(body.get("metadata")))
        except schemas.NumberError:
            kind, version = body["kind"], body["apiVersion"].rpartition("/")[2]
            problem = "json: cannot unmarshal number into Go value of type float64"
            message = f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}'
            raise ApiFailure(400, "BadRequest", message) from None
        return tuple(f'unknown field "{path}"' for path in paths)

    def validate(self, body: Body, old: Body | None) -> tuple[FieldCause, ...]:
        """All that is wrong; rules need an object that keeps the schema."""
        return self._validate(body, old)

    def validate_status(self, body: Body, old: Body | None) -> tuple[FieldCause, ...]:
        """What is wrong with a status: nobody is asked now for what stands in the spec."""
        return self._validate(body, old, is_status=True)

    def _validate(self, body: Body, old_body: Body | None, *, is_status: bool = False) -> tuple[FieldCause, ...]:
        old = schemas.MISSING if old_body is None else old_body
        is_update = old_body is not None  # a status that is updated is validated by itself: texts begin below it
        violations = (
            self._status_violations(body, old) if is_status else schemas.violations(body, self._schema, old=old)
        )
        problems = [
            *object_meta.check(body["metadata"]),
            *(_of_status(cause) if is_update else cause for cause in map(schema_causes.cause, violations)),
            *(scale_numbers.check(body, self._scale, is_status=is_status) if self._scale else ()),
            *map(schema_causes.cause, schemas.repeated(body, self._schema)),
        ]
        if not any(cause.reason in _BLOCKING for cause in problems):
            return (*problems, *self._rules.check(body, old_body))
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
