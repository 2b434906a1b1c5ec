"""JSON schemas of the served kinds, for editors and kubeconform, from the schemas of their CRDs.

A CRD's schema says a little more than JSON schema can: rules in CEL, and what a server does with lists and unknown
fields. The former are left to the server; of the latter one thing stays, that a field which is not listed is a mistake.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

# The layout that kubeconform and the public catalogues of CRDs use.
FOLDER: Final = Path("manifests/schemas")
_KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
_OF_THE_SERVER: Final = "x-kubernetes-"
_LISTS: Final = ("anyOf", "allOf", "oneOf")
_SINGLE: Final = ("items", "not", "additionalProperties")

Schema = Mapping[str, Any]


def files(crd: Mapping[str, Any], versions: list[dict[str, Any]]) -> Iterator[tuple[Path, str]]:
    group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
    for version in versions:
        name = version["name"]
        schema = of_kind(version["schema"]["openAPIV3Schema"], kind=kind, api_version=f"{group}/{name}")
        text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False) + "\n"
        yield FOLDER / group / f"{kind.lower()}_{name}.json", text


def of_kind(schema: Schema, *, kind: str, api_version: str) -> dict[str, Any]:
    whole = convert(schema)
    for field, value in (("apiVersion", api_version), ("kind", kind)):
        whole["properties"][field] |= {"type": "string", "const": value}
    # A CRD limits parts of it; its fields are those of every object.
    whole["properties"]["metadata"]["additionalProperties"] = True
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"{kind} {api_version}",
        **whole,
        "required": sorted({"apiVersion", "kind", "metadata", *whole.get("required", ())}),
    }


def convert(schema: Schema) -> dict[str, Any]:
    result = {key: _inside(key, value) for key, value in schema.items() if not key.startswith(_OF_THE_SERVER)}
    if "properties" in result and "type" in result and not schema.get(_KEEPS_UNKNOWN):
        result.setdefault("additionalProperties", False)
    if result.pop("nullable", False):
        if "type" in result:
            result["type"] = [result["type"], "null"]
        if "enum" in result:
            result["enum"] = [*result["enum"], None]
    return result


def _inside(key: str, value: Any) -> Any:  # noqa: ANN401 - any value of a keyword
    """The value of a keyword: it may be a schema, a list or a map of them."""
    if key == "properties":
        return {name: convert(child) for name, child in value.items()}
    if key in _LISTS:
        return [convert(child) for child in value]
    return convert(value) if key in _SINGLE and isinstance(value, Mapping) else value
