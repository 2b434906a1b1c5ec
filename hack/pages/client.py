"""The reference of the Python client, from its signatures and docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Final

from tf_operator.client import ClusterNotNamed, Job, JobEvent, JobPod, LogLine, NotPossible, TFJobs, WaitTimeout

TEXT: Final = (
    "`from tf_operator.client import TFJobs`. `AsyncTFJobs` has the same methods as coroutines and asynchronous\n"
    "iterators. [From Python and notebooks](../how-to/python.md) shows how to use them."
)
_VALUES: Final = (Job, JobPod, JobEvent, LogLine)
_ERRORS: Final = (NotPossible, ClusterNotNamed, WaitTimeout)


def page() -> str:
    """Everything below the title."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield f"## TFJobs\n\n{_plain(TFJobs)}\n\n| method | |\n|---|---|\n"
    for name, found in _members(TFJobs):
        if isinstance(found, FunctionType):
            yield f"| `{name}({_parameters(found)})` | {_plain(found)} |\n"
    for kind in _VALUES:
        yield f"\n## {kind.__name__}\n\n{_plain(kind)}\n\n| attribute | type | |\n|---|---|---|\n"
        yield from (f"| `{field.name}` | `{_type(field.type)}` | |\n" for field in dataclasses.fields(kind))
        for name, found in _members(kind):
            if isinstance(found, property) and found.fget:
                yield f"| `{name}` | `{_type(inspect.signature(found.fget).return_annotation)}` | {_plain(found)} |\n"
    yield "\n## Errors\n\n| error | raised when |\n|---|---|\n"
    yield from (f"| `{error.__name__}` | {_plain(error)} |\n" for error in _ERRORS)


def _members(kind: type) -> Iterator[tuple[str, object]]:
    return ((name, found) for name, found in vars(kind).items() if not name.startswith("_"))


def _type(annotation: object) -> str:
    shown = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+", "", shown).replace("|", "\\|")


def _parameters(function: FunctionType) -> str:
    shown = [
        str(parameter.replace(annotation=inspect.Parameter.empty))
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    ]
    return ", ".join(shown)


def _plain(found: object) -> str:
    return " ".join((inspect.getdoc(found) or "").split()).replace("``", "`").replace("|", "\\|")
