"""Kubernetes' protobuf messages as Python's ``protobuf`` wants them described.

They come from ``protobuf.json`` (``hack/generate messages``), which is read, like the package, when the first client
speaks protobuf.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "kubernetes"
_ANY_LIST: Final = "AnyList"
_TYPES: Final = descriptor_pb2.FieldDescriptorProto
SCALARS: Final = {
    name: _TYPES.Type.Value(f"TYPE_{name.upper()}") for name in ("bool", "bytes", "double", "int32", "int64", "string")
}


@dataclass(frozen=True, slots=True)
class Field:
    number: int
    name: str
    kind: str
    """A scalar type, or the name of a message; of the items or values of a list or a map."""
    json_name: str
    is_list: bool
    is_map: bool
    is_pointer: bool
    """An empty value is a value."""
    is_written_empty: bool
    """JSON has it even if it is empty and no pointer."""
    is_inline: bool
    """Its fields are in JSON those of the message around it."""
    is_only: bool
    """In JSON the message is this list of texts."""


class _Table(msgspec.Struct):
    version: str
    kinds: dict[str, str]
    messages: dict[str, list[tuple[Any, ...]]]


@cache
def _table() -> _Table:
    file = resources.files(__package__).joinpath("protobuf.json")
    return msgspec.json.decode(file.read_bytes(), type=_Table)


def version() -> str:
    """The minor of Kubernetes whose messages these are."""
    return _table().version


def name_of(api_version: str, kind: str) -> str:
    # The options of a request name the group that the request is about.
    return "apis.meta.v1.DeleteOptions" if kind == "DeleteOptions" else _table().kinds.get(f"{api_version} {kind}", "")


def kinds() -> Mapping[str, str]:
    return _table().kinds


@cache
def fields(name: str) -> tuple[Field, ...]:
    return tuple(_field(*row) for row in _table().messages[name])


def _field(number: int, name: str, kind: str, flag: str, json_name: str = "") -> Field:
    return Field(
        number,
        name,
        kind.lstrip("[]{}"),
        json_name or name,
        is_list=kind.startswith("[]"),
        is_map=kind.startswith("{}"),
        is_pointer=flag == "p",
        is_written_empty=flag == "w",
        is_inline=flag == "i",
        is_only=flag == "s",
    )


@cache
def message_class(name: str) -> Any:  # noqa: ANN401 - protobuf makes it
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(_full(name)))


def any_list() -> Any:  # noqa: ANN401 - a message
    """A list whose metadata and items are bytes, which is the same on the wire."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{_ANY_LIST}"))()


def _full(name: str) -> str:
    return f"{_PACKAGE}.{_plain(name)}"


def _plain(name: str) -> str:
    return name.replace(".", "_")


@cache
def _pool() -> Any:  # noqa: ANN401 - as its stubs have it
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    for name in _table().messages:
        descriptor = file.message_type.add(name=_plain(name))
        for field in fields(name):
            _describe(descriptor, field, _full(name))
    any_list = file.message_type.add(name=_ANY_LIST)
    any_list.field.add(name="metadata", number=1, label=_TYPES.LABEL_OPTIONAL, type=_TYPES.TYPE_BYTES)
    any_list.field.add(name="items", number=2, label=_TYPES.LABEL_REPEATED, type=_TYPES.TYPE_BYTES)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _describe(descriptor: Any, field: Field, owner: str) -> None:  # noqa: ANN401 - a descriptor
    label = _TYPES.LABEL_REPEATED if field.is_list or field.is_map else _TYPES.LABEL_OPTIONAL
    entry_field = descriptor.field.add(name=field.name, number=field.number, label=label)
    if field.is_map:
        entry_name = f"{field.name[0].upper()}{field.name[1:]}Entry"
        entry = descriptor.nested_type.add(name=entry_name, options={"map_entry": True})
        entry.field.add(name="key", number=1, label=_TYPES.LABEL_OPTIONAL, type=_TYPES.TYPE_STRING)
        _set_type(entry.field.add(name="value", number=2, label=_TYPES.LABEL_OPTIONAL), field.kind)
        entry_field.type, entry_field.type_name = _TYPES.TYPE_MESSAGE, f".{owner}.{entry_name}"
    else:
        _set_type(entry_field, field.kind)


def _set_type(descriptor: Any, kind: str) -> None:  # noqa: ANN401 - a descriptor
    descriptor.type = SCALARS.get(kind, _TYPES.TYPE_MESSAGE)
    if kind not in SCALARS:
        descriptor.type_name = f".{_full(kind)}"
