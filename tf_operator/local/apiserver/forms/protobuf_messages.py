"""Kubernetes' protobuf messages and the JSON of the same objects, field by field, as Go's types have them.

``protobuf_descriptors`` has the messages, and Python's ``protobuf`` reads and writes their bytes;
here is how a message differs from JSON: fields that are inlined, texts that are messages, what is empty and therefore
not written. Nothing is lost on the way: what one side cannot hold raises ``UnknownFieldError``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from tf_operator.local.apiserver.forms import go_base64, protobuf_descriptors
from tf_operator.local.apiserver.forms.protobuf_descriptors import SCALARS, Field, fields, message_class
from tf_operator.local.apiserver.kinds import Json
from tf_operator.meta import Body

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAGIC: Final = b"k8s\x00"


class UnknownFieldError(Exception):
    """A field that the other form of an object cannot hold; the text is its path."""


@dataclass(frozen=True, slots=True)
class Form:
    """How one message is read and written. Only some differ from an object with their fields."""

    read: Callable[[Any, str], Any]
    """The JSON of a message; the second is its path, for errors."""
    write: Callable[[Any, Any, str], None]
    """Fill a message from JSON."""


def parse(name: str, data: bytes) -> Any:  # noqa: ANN401 - a message of protobuf
    """A message from its bytes; ``ValueError`` if they are damaged."""
    message = message_class(name)()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    return message


def to_json(name: str, data: bytes, path: str) -> Any:  # noqa: ANN401 - any JSON
    return _form(name).read(parse(name, data), path)


def to_bytes(name: str, body: object, path: str) -> bytes:
    message = message_class(name)()
    _form(name).write(message, body, path)
    raw: bytes = message.SerializeToString()
    return raw


def filled(name: str, body: Body) -> Any:  # noqa: ANN401 - a message
    message = message_class(name)()
    for field, value in body.items():
        if isinstance(value, Mapping):
            for inner, text in value.items():
                setattr(getattr(message, field), inner, text)
        else:
            setattr(message, field, value)
    return message


def list_bytes(meta: Body, items: Sequence[bytes]) -> bytes:
    """The bytes of a list: messages and bytes are the same on the wire."""
    any_list = protobuf_descriptors.any_list()
    any_list.metadata = to_bytes("apis.meta.v1.ListMeta", meta, "metadata")
    any_list.items.extend(items)
    data: bytes = any_list.SerializeToString()
    return data


@cache
def _form(name: str) -> Form:
    message_fields = fields(name)
    if len(message_fields) == 1 and message_fields[0].is_only:
        return Form(_read_texts, _write_texts)
    return _FORMS.get(name) or _object_form(name)


def _object_form(name: str) -> Form:
    by_name = {field.name: field for field in fields(name)}
    by_json = json_fields(name)

    def read(message: Any, path: str) -> Json:  # noqa: ANN401 - a message
        check_known(message, path)
        body: Json = {}
        for descriptor, value in message.ListFields():
            _read_field(body, by_name[descriptor.name], value, path)
        return body

    def write(message: Any, body: Body, path: str) -> None:  # noqa: ANN401 - a message
        for key, value in body.items():
            place = by_json.get(key)
            if place is None:
                raise UnknownFieldError(f"{path}.{key}")
            holder = message
            for inline in place[:-1]:
                holder = getattr(holder, inline.name)
                holder.SetInParent()
            _write_field(holder, place[-1], value, f"{path}.{key}")

    return Form(read, write)


@cache
def json_fields(name: str) -> Mapping[str, tuple[Field, ...]]:
    """Where a field of the JSON is: the last is the field, those before are the inlined messages around it."""
    by_name: dict[str, tuple[Field, ...]] = {}
    for field in fields(name):
        if field.is_inline:
            by_name |= {key: (field, *place) for key, place in json_fields(field.kind).items()}
        else:
            by_name[field.json_name] = (field,)
    return by_name


def check_known(message: Any, path: str) -> None:  # noqa: ANN401 - a message
    """Raise ``UnknownFieldError`` for a field of the message that nobody has described."""
    for unknown in UnknownFieldSet(message):
        raise UnknownFieldError(f"{path}, number {unknown.field_number}")


def _read_field(body: Json, field: Field, value: Any, path: str) -> None:  # noqa: ANN401 - as protobuf has it
    path = f"{path}.{field.json_name}"
    if field.is_inline:
        body |= _form(field.kind).read(value, path.rpartition(".")[0])
    elif field.is_map:
        body[field.json_name] = {key: _read(field.kind, value[key], path) for key in sorted(value)}
    elif field.is_list:
        body[field.json_name] = [_read(field.kind, item, f"{path}[{index}]") for index, item in enumerate(value)]
    elif field.is_pointer or field.is_written_empty or value not in ("", b"", 0):
        body[field.json_name] = _read(field.kind, value, path)


def _read(kind: str, value: Any, path: str) -> Any:  # noqa: ANN401 - any JSON
    if kind == "bytes":
        return go_base64.encode(value)
    return value if kind in SCALARS else _form(kind).read(value, path)


def _write_field(message: Any, field: Field, value: Any, path: str) -> None:  # noqa: ANN401 - any JSON
    if field.is_map:
        _write_map(getattr(message, field.name), field.kind, value or {}, path)
    elif field.is_list:
        items = getattr(message, field.name)
        for item in value or ():
            if field.kind in SCALARS:
                items.append(_scalar(field.kind, item, path))
            else:
                _form(field.kind).write(items.add(), item, path)
    elif field.kind not in SCALARS:
        inner = getattr(message, field.name)
        if value is not None or field.kind in _TIMES:
            inner.SetInParent()
            _form(field.kind).write(inner, value, path)
    elif value is not None:
        setattr(message, field.name, _scalar(field.kind, value, path))


def _write_map(target: Any, kind: str, values: Body, path: str) -> None:  # noqa: ANN401 - a map of protobuf
    for key, value in values.items():
        if kind in SCALARS:
            target[key] = _scalar(kind, value, f"{path}.{key}")
        else:
            _form(kind).write(target[key], value, f"{path}.{key}")


def _scalar(kind: str, value: Any, path: str) -> Any:  # noqa: ANN401 - any JSON
    if kind == "bytes":
        return go_base64.decode(value or "")
    if kind.startswith("int") and isinstance(value, float):
        value = int(value) if value.is_integer() else value
    if isinstance(value, bool) is not (kind == "bool"):
        raise UnknownFieldError(path)
    return value


# The messages that are something else in JSON.


def _read_time(message: Any, path: str) -> str | None:  # noqa: ANN401 - a message
    """Go has seconds only, and nothing of the beginning of its calendar."""
    check_known(message, path)
    if not message.ByteSize():
        return None
    return (_EPOCH + timedelta(seconds=message.seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_micro_time(message: Any, path: str) -> str | None:  # noqa: ANN401 - a message
    whole = _read_time(message, path)
    return whole and f"{whole[:-1]}.{message.nanos // 1000:06}Z"


def _write_time(message: Any, text: str | None, path: str) -> None:  # noqa: ANN401 - a message
    if not text:
        return
    try:
        distance = datetime.fromisoformat(text) - _EPOCH
    except (TypeError, ValueError):
        raise UnknownFieldError(path) from None
    message.seconds = distance // timedelta(seconds=1)
    message.nanos = distance.microseconds * 1000


def _read_quantity(message: Any, path: str) -> str:  # noqa: ANN401 - a message
    check_known(message, path)
    return message.string or "0"


def _write_quantity(message: Any, value: object, _: str) -> None:  # noqa: ANN401 - a message
    message.string = str(value)


def _read_int_or_string(message: Any, path: str) -> int | str:  # noqa: ANN401 - a message
    check_known(message, path)
    value: int | str = message.strVal if message.type else message.intVal
    return value


def _write_int_or_string(message: Any, value: object, _: str) -> None:  # noqa: ANN401 - a message
    message.type = int(isinstance(value, str))
    setattr(message, "strVal" if isinstance(value, str) else "intVal", value)


def _raw_form(name: str) -> Form:
    """JSON travels as it is; what a client has put into a message of its own is not known here."""

    def read(message: Any, path: str) -> Any:  # noqa: ANN401 - a message, and any JSON
        check_known(message, path)
        raw = getattr(message, name)
        if raw.startswith(_MAGIC):
            raise UnknownFieldError(f"{path} (protobuf inside of protobuf)")
        return msgspec.json.decode(raw) if raw else None

    def write(message: Any, value: object, _: str) -> None:  # noqa: ANN401 - a message
        setattr(message, name, msgspec.json.encode(value))

    return Form(read, write)


def _read_texts(message: Any, path: str) -> list[str]:  # noqa: ANN401 - a message
    check_known(message, path)
    return list(message.items)


def _write_texts(message: Any, texts: Sequence[str], _: str) -> None:  # noqa: ANN401 - a message
    message.items.extend(texts or ())


def _schema_or(read_other: Callable[[Any, str], Any], write_other: Callable[[Any, Any, str], None]) -> Form:
    def read(message: Any, path: str) -> Any:  # noqa: ANN401 - a message, and any JSON
        check_known(message, path)
        return _form(_SCHEMA).read(message.schema, path) if message.HasField("schema") else read_other(message, path)

    def write(message: Any, value: Any, path: str) -> None:  # noqa: ANN401 - a message, and any JSON
        if isinstance(value, Mapping):
            message.schema.SetInParent()
            _form(_SCHEMA).write(message.schema, value, path)
        else:
            write_other(message, value, path)

    return Form(read, write)


def _read_allows(message: Any, _: str) -> bool:  # noqa: ANN401 - a message
    return bool(message.allows)


def _write_allows(message: Any, value: bool, _: str) -> None:  # noqa: ANN401, FBT001 - a message, and what JSON has
    message.allows = value


def _read_schemas(message: Any, path: str) -> list[Any]:  # noqa: ANN401 - a message
    return [_form(_SCHEMA).read(item, f"{path}[{index}]") for index, item in enumerate(message.jSONSchemas)]


def _write_schemas(message: Any, schemas: Sequence[Body], path: str) -> None:  # noqa: ANN401 - a message
    for schema in schemas:
        _form(_SCHEMA).write(message.jSONSchemas.add(), schema, path)


def _read_property(message: Any, _: str) -> list[str]:  # noqa: ANN401 - a message
    return list(message.property)


def _write_property(message: Any, names: Sequence[str], _: str) -> None:  # noqa: ANN401 - a message
    message.property.extend(names)


_SCHEMA: Final = "apiextensions.v1.JSONSchemaProps"
_TIMES: Final = frozenset({"apis.meta.v1.Time", "apis.meta.v1.MicroTime"})
_FORMS: Final[Mapping[str, Form]] = {
    "apis.meta.v1.Time": Form(_read_time, _write_time),
    "apis.meta.v1.MicroTime": Form(_read_micro_time, _write_time),
    "api.resource.Quantity": Form(_read_quantity, _write_quantity),
    "util.intstr.IntOrString": Form(_read_int_or_string, _write_int_or_string),
    "apis.meta.v1.FieldsV1": _raw_form("Raw"),
    "runtime.RawExtension": _raw_form("raw"),
    "apiextensions.v1.JSON": _raw_form("raw"),
    f"{_SCHEMA}OrBool": _schema_or(_read_allows, _write_allows),
    f"{_SCHEMA}OrArray": _schema_or(_read_schemas, _write_schemas),
    f"{_SCHEMA}OrStringArray": _schema_or(_read_property, _write_property),
}
