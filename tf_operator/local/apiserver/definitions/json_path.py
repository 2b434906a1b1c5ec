"""JSONPath as CRDs use it for columns and selectable fields: names, indexes, slices, ``*``, simple filters."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

Step = Callable[[Any], Iterator[Any]]

_STEP: Final = r"""\.\*|\[\*\]
    |\[\?\(\s*@(?P<filter>[^=!<>)]+?)\s*(?P<operator>==|!=)\s*(?P<wanted>"[^"]*"|'[^']*'|[^)]+?)\s*\)\]
    |\[(?P<start>-?\d*):(?P<stop>-?\d*)\]
    |\[(?P<index>-?\d+)\]
    |\[(?P<quote>['"])(?P<quoted>[^'"]+)(?P=quote)\]
    |\.(?P<name>(?:\\.|[^.\[\\])+)"""


class PathError(ValueError):
    """This is no path that is known here."""


@cache
def compiled(text: str) -> Callable[[Any], list[Any]]:
    """The path as a function from a body to all that it finds; raises ``PathError``."""
    pattern = re.compile(_STEP, re.VERBOSE)  # at the first path, and not at the import
    steps, position = list[Step](), 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            raise PathError(f"is not a path that the embedded API server knows: {text}")
        steps.append(_step(match))
        position = match.end()

    def find(body: Any) -> list[Any]:  # noqa: ANN401 - any JSON
        values = [body]
        for step in steps:
            values = [item for value in values for item in step(value)]
        return values

    return find


def _step(match: re.Match[str]) -> Step:
    if match["filter"]:
        return _filter(match["filter"], match["wanted"].strip("\"'"), is_equal=match["operator"] == "==")
    if match["start"] is not None:
        part = slice(int(match["start"] or 0), int(match["stop"]) if match["stop"] else None)
        return lambda value: iter(value[part] if isinstance(value, list) else ())
    if match["index"]:
        index = int(match["index"])
        return lambda value: iter(value[index:][:1] if isinstance(value, list) else ())
    name = match["quoted"] or re.sub(r"\\(.)", r"\1", match["name"] or "")
    if not name:
        return lambda value: iter(value.values() if isinstance(value, Mapping) else value)
    return lambda value: iter([value[name]] if isinstance(value, Mapping) and name in value else ())


def _filter(path: str, operand: str, *, is_equal: bool) -> Step:
    find = compiled(path)

    def keep(value: Any) -> Iterator[Any]:  # noqa: ANN401 - any JSON
        for item in value if isinstance(value, list) else ():
            values = find(item)
            if values and (_text(values[0]) == operand) is is_equal:
                yield item

    return keep


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
