"""The forms in which a client accepts answers, and answers in the form that it prefers.

The state machine makes JSON. What it answers from memory (errors, reviews, discovery) is translated here; stored
objects keep their protobuf beside their JSON (``views``).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import structs

from tf_operator.local.apiserver.forms import protobuf
from tf_operator.local.apiserver.messages import JSON, PROTOBUF, YAML, Response

_PARAMETER: Final = re.compile(r"\s*;\s*([^=;\s]+)=([^;\s]+)")
_ANY: Final = frozenset({"*/*", "application/*"})
_ALL: Final = frozenset({JSON, YAML, PROTOBUF})


@dataclass(frozen=True, slots=True)
class MediaType:
    """One entry of the header ``Accept``."""

    name: str
    parameters: Mapping[str, str]


@lru_cache(maxsize=64)  # each client has one or two
def accepted(header: str) -> tuple[MediaType, ...]:
    """What is accepted of what the server has, the best first; whoever accepts anything gets JSON."""
    return tuple(sorted(_accepted(header or JSON), key=lambda entry: -_quality(entry)))


def _accepted(header: str) -> Iterator[MediaType]:
    for part in header.split(","):
        name = part.partition(";")[0].strip()
        if name in _ALL or name in _ANY:
            yield MediaType(JSON if name in _ANY else name, dict(_PARAMETER.findall(part)))


def _quality(entry: MediaType) -> float:
    try:
        return float(entry.parameters.get("q", "1"))
    except ValueError:
        return 1.0


def translated(answer: Response, header: str) -> Response:
    """An answer in JSON in the form that the client prefers, if it has that form.

    An entry that asks for something else (``as=Table``) says nothing about errors.
    """
    best = next((entry.name for entry in accepted(header) if "as" not in entry.parameters), JSON)
    if answer.content_type != JSON or best == JSON:
        return answer
    if best == YAML:
        import yaml  # noqa: PLC0415 (few clients want it)

        text = yaml.safe_dump(msgspec.json.decode(answer.body), allow_unicode=True)
        return structs.replace(answer, body=text.encode(), content_type=YAML)
    if answer.content is not None and protobuf.has_message(answer.content):
        return structs.replace(answer, body=protobuf.enveloped(answer.content), content_type=PROTOBUF)
    return answer
