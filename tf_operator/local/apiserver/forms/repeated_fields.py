"""Fields that stand twice in a body: the last one counts, and ``fieldValidation`` names them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from tf_operator.local.apiserver.messages import PROTOBUF


def problems(body: bytes, media: str) -> list[str]:
    """A sentence for each, in the words of the real server; none for what is not JSON or YAML."""
    if media == PROTOBUF or _is_as_written(body):
        return []
    names_by_id: dict[int, list[str]] = {}
    mappings = []  # an object that was replaced must not give its identity to another

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            names = [name for name, _ in pairs]
            names_by_id[id(mapping)] = list(dict.fromkeys(name for name in names if names.count(name) > 1))
            mappings.append(mapping)
        return mapping

    with suppress(ValueError, RecursionError):
        whole = json.loads(body, object_pairs_hook=read)
        return [f'duplicate field "{path}"' for path in _paths(whole, "", names_by_id)] if names_by_id else []
    return _in_yaml(body)


def _is_as_written(body: bytes) -> bool:
    """Whether it is compact JSON, as most programs send it, in which no field stands twice: that is seen at once."""
    with suppress(ValueError, RecursionError):
        return msgspec.json.encode(msgspec.json.decode(body)) == body
    return False


def _paths(value: object, path: str, names_by_id: Mapping[int, list[str]]) -> Iterator[str]:
    if isinstance(value, dict):
        above = f"{path}." if path else ""
        yield from (f"{above}{name}" for name in names_by_id.get(id(value), ()))
        for name, item in value.items():
            yield from _paths(item, f"{above}{name}", names_by_id)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _paths(item, f"{path}[{number}]", names_by_id)


def _in_yaml(body: bytes) -> list[str]:
    import yaml  # noqa: PLC0415 (few clients send it)

    from tf_operator.local.apiserver.forms import go_yaml  # noqa: PLC0415 (as above)

    with suppress(yaml.YAMLError, UnicodeDecodeError, RecursionError):
        lines = [f'  line {line}: key "{name}" already set in map' for name, line in go_yaml.repeated(body)]
        return ["\n".join(["yaml: unmarshal errors:", *lines])] if lines else []
    return []
