"""The fields of built-in kinds, and how a body is decoded by them, as Go decodes JSON into its types.

A field of the wrong type ends the request (400), an unknown one is dropped, and so is what is empty. The names and
types come from ``built_in.json`` (``hack/generate kinds``), which is read when the first object is decoded.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from tf_operator import quantity
from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.validation import object_meta
from tf_operator.local.apiserver.validation.schemas import Schema, type_name
from tf_operator.meta import Body, GroupVersionResource

Definitions = Mapping[str, Schema]
_KEPT_EMPTY: Final = frozenset({"holderIdentity", "storageClassName", "volumeAttributesClassName"})
"""Texts that say something else when they are empty than when they are missing."""
_KEPT_NULL: Final = frozenset({"lastProbeTime", "lastTransitionTime"})
_GO_TYPES: Final = {"string": "string", "integer": "int32", "boolean": "bool", "number": "float64"}
_QUANTITY: Final = r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_TYPE_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_MINIMA: Final = {"int32": -(2**31), "int64": -(2**63)}
_INT_OR_STRING: Final = ("integer", "string")
_ALLOWED: Final = {"number": ("number", "integer")}
_FRAME: Final = frozenset({"apiVersion", "kind", "metadata"})


@cache
def definitions() -> Definitions:
    file = resources.files(__package__).joinpath("built_in.json")
    by_name: Definitions = msgspec.json.decode(file.read_bytes())
    return by_name


def definition_of(resource: GroupVersionResource) -> str:
    """The name of the definition of a built-in kind; there may be none."""
    events = {"": "CoreV1Event", "events.k8s.io": "EventsV1Event"}
    if resource.plural == "events":
        return events.get(resource.group, "")
    return f"{resource.version.upper()}{resource.kind}"


class BuiltInFields:
    def __init__(self, resource: GroupVersionResource) -> None:
        self._kind, self._version = resource.kind, resource.version
        self._name = definition_of(resource)

    def decode(self, body: Json) -> None:
        """Drop what is unknown or empty, in place; raises ``ApiFailure`` for a wrong type."""
        try:
            self._decode(body)
        except _WrongTypeError as error:
            message = f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}: {error}'
            raise ApiFailure(400, "BadRequest", message) from None

    def unknown(self, body: Body) -> tuple[str, ...]:
        """What ``decode`` drops because no field has this name, as ``fieldValidation`` reports it."""
        copy: Json = msgspec.json.decode(msgspec.json.encode(body))
        try:
            paths = [*self._decode(copy), *object_meta.unknown(body.get("metadata"))]
        except _WrongTypeError:
            return ()
        return tuple(f'unknown field "{path}"' for path in paths)

    def _decode(self, body: Json) -> list[str]:
        fields = {name: value for name, value in body.items() if name not in _FRAME}
        decoder = _Decoder(definitions())
        decoder.fields(fields, definitions()[self._name]["properties"], "", self._kind)
        for name in body.keys() - fields.keys() - _FRAME:
            del body[name]
        body |= fields
        return decoder.unknown


class _WrongTypeError(Exception):
    """A value that Go's types cannot hold."""


class _Decoder:
    """Decodes one body, in place. It runs for each write, so it is written to be fast."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self.unknown: list[str] = []
        """The paths of fields that were dropped because nobody knows them."""

    def fields(self, holder: Json, schemas: Schema, path: str, owner: str) -> None:
        for name, value in list(holder.items()):
            schema = schemas.get(name)
            if schema is None:
                del holder[name]
                self.unknown.append(f"{path}{name}")
            elif value and type(value) is str and schema.get("type") == "string":
                continue  # most of all values
            elif value is None:
                if name not in _KEPT_NULL:
                    del holder[name]
            elif not value and _is_left_out(name, value, schema):
                del holder[name]
            else:
                holder[name] = self._value(value, schema, f"{path}{name}", owner)

    def _value(self, value: Any, schema: Schema, path: str, owner: str) -> Any:  # noqa: ANN401 - any JSON
        reference = schema.get("$ref")
        if reference and not (value in (True, False) and "x-or-boolean" in schema):
            schema, owner = self._definitions[reference], struct(reference)
        schema_type = schema.get("type", "")
        if type(value) is float and value.is_integer():
            value = int(value)
        actual = _TYPE_NAMES.get(type(value), "")
        if "oneOf" in schema:
            return _quantity(value)
        types = (
            _INT_OR_STRING if schema.get("x-kubernetes-int-or-string") else _ALLOWED.get(schema_type, (schema_type,))
        )
        if types != ("",) and actual not in types:
            raise _wrong_type(value, path, owner=owner, go_type=_go_type(schema, owner))
        if actual == "integer":
            _check_range(value, schema, path, owner)
        if actual in ("array", "object"):
            self._inside(value, schema, path, owner)
        return value

    def _inside(self, value: Any, schema: Schema, path: str, owner: str) -> None:  # noqa: ANN401 - any JSON
        if "properties" in schema:
            self.fields(value, schema["properties"], f"{path}.", owner)
        elif "items" in schema:
            items = schema["items"]
            value[:] = [self._item(item, items, f"{path}[{index}]", owner) for index, item in enumerate(value)]
        elif "additionalProperties" in schema:
            entries = schema["additionalProperties"]
            for name, item in value.items():
                value[name] = self._value("" if item is None else item, entries, path, owner)

    def _item(self, item: Any, schema: Schema, path: str, owner: str) -> Any:  # noqa: ANN401 - any JSON
        if item is None:
            item = {} if "$ref" in schema else ""
        return self._value(item, schema, path, owner)


def _check_range(value: int, schema: Schema, path: str, owner: str) -> None:
    go_type = "int32" if schema.get("x-kubernetes-int-or-string") else schema.get("format", "int64")
    if not _MINIMA[go_type] <= value < -_MINIMA[go_type]:
        raise _wrong_type(value, path, owner=owner, go_type=go_type, suffix=f" {value}")


def _is_left_out(name: str, value: object, schema: Schema) -> bool:
    """Whether Go leaves an empty value out: a text, a list, a map; but not ``false``, 0, or an object."""
    schema_type = schema.get("type")
    if schema_type == "string":
        return value == "" and name not in _KEPT_EMPTY
    return (schema_type == "array" and value == []) or (value == {} and "additionalProperties" in schema)


def _quantity(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """A number as text; texts stay as they are, if they are quantities."""
    amount = None if isinstance(value, bool) else quantity.parse(value)
    if amount is None:
        raise _WrongTypeError("quantities must match the regular expression " + _QUANTITY)
    return value if isinstance(value, str) else quantity.text(amount)


def _wrong_type(value: object, path: str, *, owner: str, go_type: str, suffix: str = "") -> _WrongTypeError:
    """As Go's json package words it, which counts no items."""
    json_type = {"integer": "number", "boolean": "bool"}.get(type_name(value), type_name(value)) + suffix
    place = re.sub(r"\[\d+\]", "", path)
    return _WrongTypeError(f"json: cannot unmarshal {json_type} into Go struct field {owner}.{place} of type {go_type}")


def struct(reference: str) -> str:
    """The name of the Go type behind a definition."""
    return reference.removeprefix("Core").removeprefix("V1")


def _go_type(schema: Schema, owner: str) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int32"  # as Go reads what is no text
    if schema.get("type") == "array":
        items = schema["items"]
        inner = f"v1.{struct(items['$ref'])}" if "$ref" in items else _go_type(items, owner)
        return f"[]{inner}"
    if "additionalProperties" in schema:
        return f"map[string]{_go_type(schema['additionalProperties'], owner)}"
    return schema.get("format") or _GO_TYPES.get(schema.get("type", ""), f"v1.{owner}")
