"""How server-side apply merges the lists and maps of built-in kinds, from Kubernetes' published OpenAPI description.

It is that of the newest minor in ``hack/lab/tools/modules``, which its Go module brings. What is kept, ``lists.json``,
is one line for each type: of a field, whether its list is a set or a map by which keys, and whether a map is one value.
A field that is not named is a list that is one value, or a map of which each entry is one. Defaults are those of keys.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

FILE: Final = Path("hack/crd/lists.json")
MODULE: Final = "k8s.io/kubernetes"
_DOCUMENTS: Final = "api/openapi-spec/v3/*_openapi.json"
_TYPE: Final = re.compile(r"io\.k8s\.[\w.-]*?(\w+)\.(v[12])\.(\w+)")
_KEYS: Final = "x-kubernetes-list-map-keys"
_LIST, _MAP = "x-kubernetes-list-type", "x-kubernetes-map-type"
_WHOLE: Final = ""
"""In the place of a field: the type itself."""


def text(module: Path) -> str:
    """The file; ``module`` is the folder of the Go module."""
    schemas: dict[str, Any] = {}
    for document in sorted(module.glob(_DOCUMENTS)):
        schemas |= json.loads(document.read_text(encoding="utf-8")).get("components", {}).get("schemas", {})
    by_type: dict[str, dict[str, Any]] = {}
    for name, schema in sorted(schemas.items()):
        if match := _TYPE.fullmatch(name):
            by_type.setdefault(_named(match), {}).update(_fields(schema))
    for name, key, default in _defaults(schemas):
        by_type[name].setdefault(key, {})["default"] = default
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in by_type.items() if fields)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _fields(schema: Mapping[str, Any]) -> dict[str, Any]:
    fields = [(_WHOLE, schema), *schema.get("properties", {}).items()]
    return {name: rule for name, field in fields if (rule := _rule(field))}


def _rule(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema.get(_MAP) == "atomic":
        return {_MAP: "atomic"}
    if schema.get(_LIST) in ("map", "set"):
        return {name: schema[name] for name in (_LIST, _KEYS) if name in schema}
    return {}


def _defaults(schemas: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Type, key and default of keys that need not be given."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            reference = field.get("items", {}).get("$ref", "").rpartition("/")[2]
            item = schemas.get(reference, {}).get("properties", {})
            if match := _TYPE.fullmatch(reference):
                for key in field.get(_KEYS, ()):
                    if default := item[key].get("default"):
                        yield _named(match), key, default


def _named(match: re.Match[str]) -> str:
    """The group and the kind of a type, and between them a version that is not v1."""
    group, version, kind = match.groups()
    return f"{group}.{kind}" if version == "v1" else f"{group}.{version}.{kind}"


def annotate(definitions: dict[str, Any], lists: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the rules into definitions, whose names begin with the group where it is needed."""
    for name, fields in lists.items():
        group, *versions, kind = name.split(".")
        named = f"{(versions or ['v1'])[0].upper()}{kind}"
        definition = definitions.get(f"{group.capitalize()}{named}") or definitions.get(named) or {"properties": {}}
        for field, rule in fields.items():
            if field == _WHOLE:
                definition.update(rule)
            elif field in definition["properties"]:
                definition["properties"][field] = {**definition["properties"][field], **rule}
