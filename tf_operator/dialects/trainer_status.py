"""``trainerStatus``, as Kubeflow Trainer has it (KEP-2779): in the reports of programs, and in the status of a job.

Anybody's program writes a report, so everything in it has a bound, and one wrong field refuses all of it. Keys that are
unknown are left out. A stored status was written by an operator: what cannot be understood of it is passed over.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from tf_operator.dialects.fields import Fields, kind_of
from tf_operator.dialects.record import present, write_time
from tf_operator.job.progress import MOST_REMAINING, Metric, Progress
from tf_operator.job.training_job import FieldError
from tf_operator.meta import objects_of, parse_time, text_of

LONGEST_REPORT: Final = 16 * 1024
MOST_METRICS: Final = 32
LONGEST_TEXT: Final = 64
MOST_STEPS: Final = 2**53
"""JSON numbers are exact up to there."""
MOST_BYTES: Final = 2048
"""Of the metrics that are stored; those behind are left out."""
_FIELD: Final = "trainerStatus"


def read_report(body: bytes, now: datetime) -> Progress | FieldError:
    """What a program reports at this moment, or the first thing that is wrong with it."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return FieldError("the body", "must be JSON")
    if not isinstance(content, Mapping) or not isinstance(content.get(_FIELD), Mapping):
        return FieldError(_FIELD, "must be an object")
    fields = Fields(content).below(_FIELD)
    progress = Progress(
        percentage=_integer(fields, "progressPercentage", 100),
        remaining=_integer(fields, "estimatedRemainingSeconds", MOST_REMAINING),
        step=_integer(fields, "step", MOST_STEPS),
        metrics=tuple(_metrics(fields)),
        time=now.replace(microsecond=0),
    )
    updated = fields.body.get("lastUpdatedTime")
    if updated is not None and parse_time(updated) is None:
        fields.wrong("lastUpdatedTime", f"must be a time as in RFC 3339, is {kind_of(updated)}")
    return fields.problems[0] if fields.problems else progress


def _integer(fields: Fields, name: str, most: int) -> int | None:
    value = fields.integer(name)
    if value is not None and not 0 <= value <= most:
        fields.wrong(name, f"must be from 0 to {most}, is {value}")
    return value


def _metrics(fields: Fields) -> Iterator[Metric]:
    listed = fields.items("metrics")
    if len(listed) > MOST_METRICS:
        fields.wrong("metrics", f"must be at most {MOST_METRICS}, are {len(listed)}")
        return
    size = 0
    for entry in listed:
        metric = Metric(_text(entry, "name"), _text(entry, "value"))
        size += sum(len(text.encode(errors="replace")) for text in metric)
        if size <= MOST_BYTES:
            yield metric


def _text(entry: Fields, name: str) -> str:
    text = entry.text(name)
    if not (0 < len(text) <= LONGEST_TEXT and text.isprintable()):
        entry.wrong(name, f"must be 1 to {LONGEST_TEXT} printable characters")
    return text


def read(stored: object) -> Progress | None:
    """What is stored in a status; ``None`` if nothing is."""
    if not isinstance(stored, Mapping) or not stored:
        return None
    fields = Fields(stored)
    metrics = (Metric(text_of(entry, "name"), text_of(entry, "value")) for entry in objects_of(stored.get("metrics")))
    return Progress(
        percentage=fields.integer("progressPercentage"),
        remaining=fields.integer("estimatedRemainingSeconds"),
        step=fields.integer("step"),
        metrics=tuple(metrics),
        time=parse_time(stored.get("lastUpdatedTime")),
    )


def write(progress: Progress | None) -> dict[str, Any]:
    if progress is None:
        return {}
    fields = present(
        metrics=[{"name": metric.name, "value": metric.value} for metric in progress.metrics],
        lastUpdatedTime=write_time(progress.time),
    )
    numbers = {
        "progressPercentage": progress.percentage,
        "estimatedRemainingSeconds": progress.remaining,
        "step": progress.step,
    }
    return {name: number for name, number in numbers.items() if number is not None} | fields
