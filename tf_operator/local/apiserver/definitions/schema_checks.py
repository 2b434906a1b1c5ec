"""What is wrong with the schema of a CustomResourceDefinition, as far as users get it wrong: types, defaults, patterns.

Rules are compiled when an object is checked for the first time, and not here: a CRD has to be stored in no time.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes, patterns, schema_causes, schemas
from tf_operator.local.apiserver.validation.schemas import Schema

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_NEEDS_NO_TYPE: Final = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")


def check(schema: Schema, path: str) -> Iterator[FieldCause]:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield causes.not_supported(f"{path}.type", kind, _TYPES)
        return
    if not kind and not any(schema.get(name) for name in _NEEDS_NO_TYPE):
        part_name = "fields" if "properties[" in path else "items" if path.endswith(".items") else "at the root"
        detail = (
            "must not be empty at the root"
            if part_name == "at the root"
            else f"must not be empty for specified object {part_name}"
        )
        yield causes.required(f"{path}.type", detail)
    if kind == "array" and not isinstance(schema.get("items"), Mapping):
        yield causes.required(f"{path}.items", "must be specified")
    if "default" in schema:
        yield from map(schema_causes.cause, schemas.violations(schema["default"], schema, f"{path}.default"))
    yield from _check_patterns(schema, path)
    for place, part in _parts(schema, path):
        yield from check(part, place)


def _check_patterns(schema: Schema, path: str) -> Iterator[FieldCause]:
    """Of a schema, and of all in those that ``anyOf`` and others combine with it."""
    if problem := patterns.problem(schema.get("pattern") or ""):
        detail = f"must be a valid regular expression, but isn't: {problem}"
        yield causes.invalid(f"{path}.pattern", schema["pattern"], detail)
    parts = [(f"{path}.not", schema["not"])] if schema.get("not") else []
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts += [(f"{path}.{keyword}[{index}]", part) for index, part in enumerate(schema.get(keyword) or ())]
    while parts:
        place, part = parts.pop()
        yield from _check_patterns(part, place)
        parts += _parts(part, place)


def _parts(schema: Schema, path: str) -> Iterator[tuple[str, Any]]:
    for name, part in schema.get("properties", {}).items():
        is_metadata = name == "metadata" and path.endswith("openAPIV3Schema")
        if not is_metadata:
            yield f"{path}.properties[{name}]", part
    for name in ("items", "additionalProperties"):
        if isinstance(part := schema.get(name), Mapping):
            yield f"{path}.{name}", part
