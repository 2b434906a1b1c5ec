"""The types of a CustomResourceDefinition's fields, as Go decodes them: nothing of another type is ever stored.

A definition that is stored is read at each start: one that cannot be would keep the server from starting.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure

_MAY_BE_NULL: Final = ("default", "example")
Texts = list[str] | UnsetType


class _Schema(msgspec.Struct, rename="camel", frozen=True):
    type: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    pattern: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    nullable: bool | UnsetType = UNSET
    required: Texts = UNSET
    enum: list[Any] | UnsetType = UNSET
    minimum: float | UnsetType = UNSET
    maximum: float | UnsetType = UNSET
    exclusive_minimum: bool | UnsetType = UNSET
    exclusive_maximum: bool | UnsetType = UNSET
    multiple_of: float | UnsetType = UNSET
    min_length: int | UnsetType = UNSET
    max_length: int | UnsetType = UNSET
    min_items: int | UnsetType = UNSET
    max_items: int | UnsetType = UNSET
    min_properties: int | UnsetType = UNSET
    max_properties: int | UnsetType = UNSET
    properties: dict[str, "_Schema"] | UnsetType = UNSET
    additional_properties: "_Schema | bool | UnsetType" = UNSET
    items: "_Schema | UnsetType" = UNSET
    all_of: list["_Schema"] | UnsetType = UNSET
    any_of: list["_Schema"] | UnsetType = UNSET
    one_of: list["_Schema"] | UnsetType = UNSET
    not_: "_Schema | UnsetType" = msgspec.field(name="not", default=UNSET)
    list_type: str | UnsetType = msgspec.field(name="x-kubernetes-list-type", default=UNSET)
    list_keys: Texts = msgspec.field(name="x-kubernetes-list-map-keys", default=UNSET)
    preserves: bool | UnsetType = msgspec.field(name="x-kubernetes-preserve-unknown-fields", default=UNSET)
    is_embedded: bool | UnsetType = msgspec.field(name="x-kubernetes-embedded-resource", default=UNSET)
    is_int_or_string: bool | UnsetType = msgspec.field(name="x-kubernetes-int-or-string", default=UNSET)
    rules: list["_Rule"] | UnsetType = msgspec.field(name="x-kubernetes-validations", default=UNSET)


class _Rule(msgspec.Struct, rename="camel", frozen=True):
    rule: str
    message: str | UnsetType = UNSET
    message_expression: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    field_path: str | UnsetType = UNSET
    optional_old_self: bool | UnsetType = UNSET


class _Column(msgspec.Struct, rename="camel", frozen=True):
    name: str
    type: str
    json_path: str
    description: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET


class _Selectable(msgspec.Struct, rename="camel", frozen=True):
    json_path: str


class _Scale(msgspec.Struct, rename="camel", frozen=True):
    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str | UnsetType = UNSET


class _Subresources(msgspec.Struct, frozen=True):
    status: dict[str, Any] | UnsetType = UNSET
    scale: _Scale | UnsetType = UNSET


class _Validation(msgspec.Struct, rename={"schema": "openAPIV3Schema"}, frozen=True):
    schema: _Schema | UnsetType = UNSET


class _Version(msgspec.Struct, rename="camel", frozen=True):
    name: str
    served: bool | UnsetType = UNSET
    storage: bool | UnsetType = UNSET
    deprecated: bool | UnsetType = UNSET
    deprecation_warning: str | UnsetType = UNSET
    schema: _Validation | UnsetType = UNSET
    subresources: _Subresources | UnsetType = UNSET
    additional_printer_columns: list[_Column] | UnsetType = UNSET
    selectable_fields: list[_Selectable] | UnsetType = UNSET


class _Names(msgspec.Struct, rename="camel", frozen=True):
    plural: str | UnsetType = UNSET
    singular: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    list_kind: str | UnsetType = UNSET
    short_names: Texts = UNSET
    categories: Texts = UNSET


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    group: str | UnsetType = UNSET
    scope: str | UnsetType = UNSET
    names: _Names | UnsetType = UNSET
    versions: list[_Version] | UnsetType = UNSET
    conversion: dict[str, Any] | UnsetType = UNSET


class _Status(msgspec.Struct, rename="camel", frozen=True):
    conditions: list[dict[str, Any]] | UnsetType = UNSET
    stored_versions: Texts = UNSET
    accepted_names: _Names | UnsetType = UNSET


class _Definition(msgspec.Struct, frozen=True):
    spec: _Spec | UnsetType = UNSET
    status: _Status | UnsetType = UNSET


def check(body: Json) -> None:
    """``ApiFailure`` for a field of the wrong type. One that is ``null`` is removed, as it is when Go reads it."""
    try:
        try:
            msgspec.convert(body, _Definition)
        except msgspec.ValidationError:
            _drop_nulls(body)
            msgspec.convert(body, _Definition)
    except (msgspec.ValidationError, RecursionError) as error:
        why = f'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: {error}'
        raise ApiFailure(400, "BadRequest", why) from None


def _drop_nulls(value: object) -> None:
    if isinstance(value, dict):
        for name in [name for name, found in value.items() if found is None and name not in _MAY_BE_NULL]:
            del value[name]
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _drop_nulls(part)
