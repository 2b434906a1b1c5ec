"""The metadata of an object: what a request may say in it, and what is wrong with that.

A field of the wrong type ends the request at once (400), as for the real server, which cannot decode it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.local.apiserver.validation import causes, names
from tf_operator.local.apiserver.validation.schemas import METADATA_FIELDS
from tf_operator.meta import Body

NameRule = Callable[[str], Iterator[str]]

_STRING_MAPS: Final = ("labels", "annotations")
_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid")
_MOST_BYTES: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def unknown(metadata: object) -> Iterator[str]:
    if isinstance(metadata, Mapping):
        yield from (f"metadata.{name}" for name in metadata if name not in METADATA_FIELDS)


def decode(metadata: Json) -> None:
    """Drop what is ``null``, as Go does when it reads it; raises ``ApiFailure`` for a field of the wrong type."""
    for name in ("name", "generateName", "namespace"):
        _expect(metadata.get(name), str, f"metadata.{name}", "string")
    for name in _STRING_MAPS:
        _decode_texts(metadata, name)
    _decode_items(metadata, "finalizers", item_type=str, go_type="string")
    _decode_items(metadata, "ownerReferences", item_type=dict, go_type="v1.OwnerReference")
    for owner in metadata.get("ownerReferences") or ():
        for name in _OWNER_FIELDS:
            _expect(owner.get(name), str, f"metadata.ownerReferences.{name}", "string")


def _decode_texts(metadata: Json, name: str) -> None:
    texts = metadata.get(name)
    _expect(texts, dict, f"metadata.{name}", "map[string]string")
    if texts:
        metadata[name] = {key: "" if value is None else value for key, value in texts.items()}
        for value in metadata[name].values():
            _expect(value, str, f"metadata.{name}", "string")


def _decode_items(metadata: Json, name: str, *, item_type: type, go_type: str) -> None:
    items = metadata.get(name)
    _expect(items, list, f"metadata.{name}", f"[]{go_type}")
    for item in items or ():
        _expect(item, item_type, f"metadata.{name}", go_type)


def _expect(value: object, expected_type: type, field: str, go_type: str) -> None:
    if value is not None and not isinstance(value, expected_type):
        json_type = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
        message = f"json: cannot unmarshal {json_type} into Go struct field ObjectMeta.{field} of type {go_type}"
        raise ApiFailure(400, "BadRequest", message)


def check(metadata: Body, name_rule: NameRule = names.subdomain, *, is_built_in: bool = False) -> Iterator[FieldCause]:
    name: str = metadata.get("name", "")
    if prefix := metadata.get("generateName", ""):
        masked = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from (causes.invalid("metadata.generateName", prefix, problem) for problem in name_rule(masked))
    if not name:
        yield causes.required("metadata.name", "name or generateName is required")
    for problem in name_rule(name) if name else ():
        yield causes.invalid("metadata.name", name, problem)
    annotations: Mapping[str, str] = metadata.get("annotations", {})
    for key in annotations:
        for problem in names.qualified(key.lower()):
            yield causes.invalid("metadata.annotations", key, problem)
    if sum(len(text.encode()) for pair in annotations.items() for text in pair) > _MOST_BYTES:
        yield causes.too_long("metadata.annotations", _MOST_BYTES)
    yield from labels(metadata.get("labels", {}), "metadata.labels")
    yield from _owners(metadata.get("ownerReferences", ()))
    yield from _finalizers(metadata.get("finalizers", ()), is_built_in=is_built_in)


def labels(by_key: Mapping[str, str], field: str) -> Iterator[FieldCause]:
    for key, value in by_key.items():
        for problem in names.qualified(key, "a valid label key"):
            yield causes.invalid(field, key, problem)
        for problem in names.label_value(value):
            yield causes.invalid(field, value, problem)


def _owners(owners: Any) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    for owner in owners:
        field = "metadata.ownerReferences"  # the real server does not say which
        version = owner.get("apiVersion") or ""
        if version.startswith("/") or not version:
            yield causes.invalid(f"{field}.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield causes.invalid(f"{field}.{name}", "", "must not be empty")
    controllers = [owner for owner in owners if owner.get("controller") is True]
    if len(controllers) > 1:
        first, second = controllers[:2]
        detail = (
            "Only one reference can have Controller set to true. Found"
            f' "true" in references for {first["kind"]}/{first["name"]} and {second["kind"]}/{second["name"]}'
        )
        yield causes.invalid("metadata.ownerReferences", owners, detail)


def _finalizers(finalizers: Any, *, is_built_in: bool) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    for index, finalizer in enumerate(finalizers):
        for problem in names.qualified(finalizer):
            yield causes.invalid("metadata.finalizers", finalizer, problem)
        if is_built_in and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield causes.invalid(f"metadata.finalizers[{index}]", finalizer, detail)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield causes.invalid("metadata.finalizers", list(finalizers), detail)
