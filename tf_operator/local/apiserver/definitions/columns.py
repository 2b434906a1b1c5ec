"""What a definition says by JSONPath: printer columns, and the fields that selectors compare."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver.ages import age
from tf_operator.local.apiserver.definitions import json_path
from tf_operator.local.apiserver.kinds import Column
from tf_operator.meta import Body, parse_time


def selector(path: str) -> Callable[[Body], str]:
    find = json_path.compiled(path)

    def read(body: Body) -> str:
        values = find(body)
        return _text(values[0]) if values else ""

    return read


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def column(entry: Mapping[str, Any]) -> Column:
    find, kind_of_cell = json_path.compiled(entry["jsonPath"]), entry["type"]

    def cell(body: Body, now: datetime) -> object:
        values = find(body)
        return CELLS[kind_of_cell](values[0], now) if values else None

    return Column(
        entry["name"],
        kind_of_cell,
        cell,
        format=entry.get("format", ""),
        description=entry.get("description", _description(entry["jsonPath"])),
        priority=entry.get("priority", 0),
    )


def _description(path: str) -> str:
    return f"Custom resource definition column (in JSONPath format): {path}"


def _number(value: object, _: datetime) -> object:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(value: object, _: datetime) -> object:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


CELLS: Final[Mapping[str, Callable[[Any, datetime], object]]] = {
    "string": lambda value, _: _text(value),
    "integer": _integer,
    "number": _number,
    "boolean": lambda value, _: value if isinstance(value, bool) else None,
    "date": lambda value, now: age(parse_time(value), now) if isinstance(value, str) else None,
}
