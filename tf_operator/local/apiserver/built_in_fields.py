"""The fields of built-in kinds, and how a body is decoded by them, as Go decodes JSON into its types.

A field of the wrong type ends the request (400), an unknown one is dropped, and so is what is empty. The names and
types come from ``built_in.json`` (``hack/generate kinds``), which is read when the first object is decoded.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver import object_meta
from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.schemas import Schema, below, type_name
from tf_operator.meta import Body, GroupVersionResource
from tf_operator.planning import quantity

Definitions = Mapping[str, Schema]
_METADATA: Final = "V1ObjectMeta"
_KEPT_EMPTY: Final = frozenset({"storageClassName", "volumeAttributesClassName"})
"""Texts that say something else when they are empty than when they are missing."""
_KEPT_NULL: Final = frozenset({"lastProbeTime", "lastTransitionTime"})
_GO_TYPES: Final = {"string": "string", "integer": "int32", "boolean": "bool", "number": "float64"}
_QUANTITY: Final = r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_JSON_TYPES: Final = {"integer": "number", "boolean": "bool"}


@cache
def definitions() -> Definitions:
    """All of them, by name."""
    file = resources.files(__package__).joinpath("built_in.json")
    found: Definitions = msgspec.json.decode(file.read_bytes())
    return found


def definition_of(resource: GroupVersionResource) -> str:
    """The name of the definition of a built-in kind; there may be none."""
    events = {"": "CoreV1Event", "events.k8s.io": "EventsV1Event"}
    return events.get(resource.group, "") if resource.plural == "events" else f"V1{resource.kind}"


class BuiltInFields:
    """The fields of one kind."""

    def __init__(self, resource: GroupVersionResource) -> None:
        self._kind, self._version = resource.kind, resource.version
        self._name = definition_of(resource)

    def decode(self, body: Json) -> None:
        """Drop what is unknown or empty, in place; raises ``ApiFailure`` for a wrong type."""
        try:
            for _unknown in self._walk(body):
                pass
        except _WrongTypeError as error:
            message = f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}: {error}'
            raise ApiFailure(400, "BadRequest", message) from None

    def unknown(self, sent: Body) -> tuple[str, ...]:
        """What ``decode`` drops because no field has this name, as ``fieldValidation`` reports it."""
        copy: Json = msgspec.json.decode(msgspec.json.encode(sent))
        try:
            found = [*self._walk(copy), *object_meta.unknown(sent.get("metadata"))]
        except _WrongTypeError:
            return ()
        return tuple(f'unknown field "{path}"' for path in found)

    def _walk(self, body: Json) -> Iterator[str]:
        root = definitions()[self._name]["properties"]
        for name in list(body):
            if name in ("apiVersion", "kind", "metadata"):
                continue
            if name not in root:
                del body[name]
                yield name
            else:
                yield from _decode_field(body, name, root[name], name, owner=self._kind)


class _WrongTypeError(Exception):
    """A value that Go's types cannot hold."""


def _wrong_type(value: object, path: str, *, owner: str, go_type: str) -> _WrongTypeError:
    """As Go's json package words it."""
    what = _JSON_TYPES.get(type_name(value), type_name(value))
    return _WrongTypeError(f"json: cannot unmarshal {what} into Go struct field {owner}.{path} of type {go_type}")


def _decode_field(holder: Json, name: str, schema: Schema, path: str, *, owner: str) -> Iterator[str]:
    value = holder[name]
    if value is None:
        if name not in _KEPT_NULL:
            del holder[name]
        return
    if "oneOf" in schema:
        holder[name] = _quantity(value)
        return
    if "$ref" in schema:
        owner = schema["$ref"].removeprefix("Core").removeprefix("V1")
        schema = definitions()[schema["$ref"]]
    if isinstance(value, float) and value.is_integer():
        holder[name] = value = int(value)
    yield from _decode(value, schema, path, owner=owner)
    if (value == "" and name not in _KEPT_EMPTY) or value == [] or (value == {} and "additionalProperties" in schema):
        del holder[name]


def _decode(value: Any, schema: Schema, path: str, *, owner: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    wanted = schema.get("type", "")
    is_right = not wanted or type_name(value) == wanted or (wanted == "number" and type_name(value) == "integer")
    if not is_right:
        raise _wrong_type(value, path, owner=owner, go_type=_go_type(schema, owner))
    if isinstance(value, list):
        yield from _decode_items(value, schema["items"], path, owner=owner)
    elif isinstance(value, dict) and "properties" in schema:
        for name in list(value):
            if name not in schema["properties"]:
                del value[name]
                yield below(path, name)
            else:
                yield from _decode_field(value, name, schema["properties"][name], below(path, name), owner=owner)
    elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), Mapping):
        for name in list(value):
            value[name] = _quantity(value[name]) if "oneOf" in schema["additionalProperties"] else value[name] or ""
            yield from _decode(value[name], schema["additionalProperties"], path, owner=owner)


def _quantity(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """A number as text; texts stay as they are, if they are quantities."""
    amount = None if isinstance(value, bool) else quantity.parse(value)
    if amount is None:
        raise _WrongTypeError("quantities must match the regular expression " + _QUANTITY)
    return value if isinstance(value, str) else quantity.text(amount)


def _decode_items(items: list[Any], schema: Schema, path: str, *, owner: str) -> Iterator[str]:
    if "$ref" in schema:
        owner = schema["$ref"].removeprefix("Core").removeprefix("V1")
        schema = definitions()[schema["$ref"]]
    for index, item in enumerate(items):
        if item is None:
            items[index] = {} if schema.get("type") == "object" else ""
        for removed in _decode(items[index], schema, path, owner=owner):
            yield f"{path}[{index}]{removed.removeprefix(path)}"


def _go_type(schema: Schema, owner: str) -> str:
    if schema.get("type") == "array":
        items = schema["items"]
        inner = (
            f"v1.{items['$ref'].removeprefix('Core').removeprefix('V1')}" if "$ref" in items else _go_type(items, owner)
        )
        return f"[]{inner}"
    if "additionalProperties" in schema:
        return f"map[string]{_go_type(schema['additionalProperties'], owner)}"
    return _GO_TYPES.get(schema.get("type", ""), f"v1.{owner}")
