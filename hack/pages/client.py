"""The reference of the Python client, from its signatures and docstrings."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from types import FunctionType
from typing import Final

from tf_operator.client import (
    ClusterNotNamed,
    ConfigurationError,
    Explanation,
    InvalidManifest,
    Job,
    JobEvent,
    JobPlan,
    JobPod,
    LogLine,
    NotPossible,
    PlannedReplica,
    ReplicaUsage,
    RunResult,
    TFJobs,
    WaitTimeout,
)

TEXT: Final = (
    "`from tf_operator.client import TFJobs`. `AsyncTFJobs` has the same methods as coroutines and asynchronous\n"
    "iterators. [From Python and notebooks](../how-to/python.md) shows how to use them."
)
_VALUES: Final = (Job, JobPod, JobEvent, LogLine, Explanation, ReplicaUsage, JobPlan, PlannedReplica, RunResult)
_ERRORS: Final = (NotPossible, InvalidManifest, ClusterNotNamed, ConfigurationError, WaitTimeout)


def page() -> str:
    """Everything below the title."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield f"## TFJobs\n\n{_plain(TFJobs)}\n\n"
    for name, member in _members(TFJobs):
        if isinstance(member, FunctionType):
            yield f"- `{name}({_parameters(member)})`: {_plain(member)}\n"
    for kind in _VALUES:
        yield f"\n## {kind.__name__}\n\n{_plain(kind)}\n\n"
        texts = _texts_below_fields(kind)
        fields = dataclasses.fields(kind)
        for field in fields:
            if field.name in texts:
                yield f"- `{field.name}: {_type(field.type)}`: {texts[field.name]}\n"
        for name, member in _members(kind):
            if isinstance(member, property) and member.fget:
                annotation = inspect.signature(member.fget).return_annotation
                yield f"- `{name}: {_type(annotation)}`: {_plain(member)}\n"
        plain = [f"{field.name}: {_type(field.type)}" for field in fields if field.name not in texts]
        yield f"\nAlso {', '.join(f'`{it}`' for it in plain)}.\n" if plain else ""
    yield "\n## Errors\n\n"
    yield from (f"- `{error.__name__}`: {_plain(error)}\n" for error in _ERRORS)


def _members(kind: type) -> Iterator[tuple[str, object]]:
    return ((name, member) for name, member in vars(kind).items() if not name.startswith("_"))


def _texts_below_fields(kind: type) -> dict[str, str]:
    nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind))))
    body = next(node.body for node in nodes if isinstance(node, ast.ClassDef))
    return {
        ast.unparse(field.target): _one_line(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def _type(annotation: object) -> str:
    name = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+", "", name)


def _parameters(function: FunctionType) -> str:
    texts = [
        str(parameter.replace(annotation=inspect.Parameter.empty))
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    ]
    return ", ".join(texts)


def _plain(member: object) -> str:
    return _one_line(inspect.getdoc(member) or "")


def _one_line(text: object) -> str:
    return " ".join(str(text).split()).replace("``", "`")
