"""OpenAPI v3, as far as ``kubectl`` needs it: ``explain``, and to know that the server itself validates fields.

A path says only which kind it is about. Strategic merge patches are not offered here, although built-in kinds take
them: ``kubectl apply`` then uses the merge keys that are compiled into it, which are the same.
"""

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.validation import built_in_fields

_ROOT: Final = "/openapi/v3"
_TYPES: Final = ("application/json-patch+json", "application/merge-patch+json")
_QUERY: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_REFERENCE: Final = re.compile(r'"\$ref":"(\w+)"')
_ANY_OBJECT: Final[Json] = {"type": "object"}
_FRAME: Final[Json] = {
    "apiVersion": {"type": "string", "description": "The version of the schema of this object."},
    "kind": {"type": "string", "description": "The resource that this object represents."},
    "metadata": {"type": "object", "description": "Standard object's metadata."},
}


def document(path: str, kinds: Iterable[Kind]) -> Json | None:
    """The answer to a path of OpenAPI v3; ``None`` for any other path."""
    versions = {_place(kind): kind.resource.api_version for kind in kinds}
    if path == _ROOT:
        return {"paths": {place: {"serverRelativeURL": _url(place, kinds)} for place in sorted(versions)}}
    place = path.removeprefix(f"{_ROOT}/")
    return _described(_of(place, kinds)) if place in versions else None


def _place(kind: Kind) -> str:
    return f"apis/{kind.resource.api_version}" if kind.resource.group else f"api/{kind.resource.version}"


def _of(place: str, kinds: Iterable[Kind]) -> list[Kind]:
    return [kind for kind in kinds if _place(kind) == place]


def _url(place: str, kinds: Iterable[Kind]) -> str:
    """With a hash, so that clients can keep the document as long as it is the same."""
    content = [(kind.resource.plural, kind.schema) for kind in _of(place, kinds)]
    return f"{_ROOT}/{place}?hash={zlib.crc32(msgspec.json.encode(content)):08X}"


def _described(kinds: Iterable[Kind]) -> Json:
    paths: Json = {}
    schemas: Json = {}
    for kind in kinds:
        schemas |= _definitions(built_in_fields.definition_of(kind.resource)) if not kind.is_custom else {}
        schemas[_name(kind)] = _schema(kind)
        paths |= _paths(kind)
    info = {"title": "Kubernetes", "version": "embedded"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _name(kind: Kind) -> str:
    group, version, name = kind.resource.group or "core", kind.resource.version, kind.resource.kind
    return ".".join([*reversed(group.split(".")), version, name])


def _group_version_kind(kind: Kind) -> Json:
    resource = kind.resource
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema(kind: Kind) -> Json:
    name = built_in_fields.definition_of(kind.resource)
    definition = _definitions(name).get(_public(name), _ANY_OBJECT) if not kind.is_custom else _ANY_OBJECT
    schema: Mapping[str, Any] = kind.schema or definition
    properties = {**schema.get("properties", {}), **_FRAME}
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": [_group_version_kind(kind)]}


def _definitions(name: str) -> Json:
    all_definitions, by_public_name = built_in_fields.definitions(), dict[str, Any]()
    waiting = [name] if name in all_definitions else []
    while waiting:
        if _public(name := waiting.pop()) not in by_public_name:
            text = msgspec.json.encode(all_definitions[name]).decode()
            waiting += _REFERENCE.findall(text)
            by_public_name[_public(name)] = msgspec.json.decode(
                _REFERENCE.sub(lambda match: f'"$ref":"#/components/schemas/{_public(match[1])}"', text)
            )
    return by_public_name


def _public(name: str) -> str:
    """As ``kubectl explain`` shows it: what follows the last dot."""
    return f"io.k8s.{built_in_fields.struct(name)}"


def _paths(kind: Kind) -> Json:
    resource = kind.resource
    collection = f"/{_place(kind)}/" + ("namespaces/{namespace}/" if resource.is_namespaced else "") + resource.plural
    if kind.answer is not None:
        return {collection: {"post": _operation(kind, "post")}}
    one = ("get", "put", "patch", "delete")
    return {
        collection: {method: _operation(kind, method) for method in ("get", "post", "delete")},
        f"{collection}/{{name}}": {method: _operation(kind, method) for method in one},
    }


def _operation(kind: Kind, method: str) -> Json:
    reference = {"schema": {"$ref": f"#/components/schemas/{_name(kind)}"}}
    answers = {"200": {"description": "OK", "content": {"application/json": reference}}}
    operation: Json = {"x-kubernetes-group-version-kind": _group_version_kind(kind), "responses": answers}
    if method in ("post", "put", "patch"):
        types = _TYPES if method == "patch" else ("application/json",)
        body = _ANY_OBJECT if method == "patch" else reference["schema"]
        operation["parameters"] = _QUERY
        operation["requestBody"] = {"content": {name: {"schema": body} for name in types}}
    return operation
