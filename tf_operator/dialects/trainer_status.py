"""``trainerStatus``, as Kubeflow Trainer has it (KEP-2779): in the reports of programs, and in the status of a job.

Reports may also have a step, a checkpoint, how long it took to save it, and the step from which the program has gone
on. In a status, what is known of checkpoints stands beside ``trainerStatus``.

Anybody's program writes a report, so everything in it has a bound, and one wrong field refuses all of it. Keys that are
unknown are left out. A stored status was written by an operator: what cannot be understood of it is passed over.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from tf_operator.dialects.fields import Fields, kind_of
from tf_operator.dialects.json_values import present, write_time
from tf_operator.job.progress import LONGEST_SAVE, MOST_REMAINING, Checkpoint, Metric, Progress
from tf_operator.job.training_job import FieldError
from tf_operator.meta import Body, objects_of, parse_time, text_of

LONGEST_REPORT: Final = 16 * 1024
MOST_METRICS: Final = 32
LONGEST_TEXT: Final = 64
LONGEST_PATH: Final = 256
MOST_STEPS: Final = 2**53
"""JSON numbers are exact up to there."""
MOST_BYTES: Final = 2048
"""Of the metrics that are stored; those behind are left out."""
_FIELD: Final = "trainerStatus"
FIELDS: Final = (_FIELD, "checkpoint", "longestSaveSeconds", "resumedFromStep", "reportedBy")
"""Of a status."""


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
        checkpoint=_checkpoint(fields),
        resumed_from=_integer(fields, "resumedFromStep", MOST_STEPS),
        longest_save=_integer(fields, "saveSeconds", LONGEST_SAVE),
    )
    _time(fields, "lastUpdatedTime")
    return fields.problems[0] if fields.problems else progress


def _checkpoint(fields: Fields) -> Checkpoint | None:
    if fields.body.get("checkpoint") is None:
        return None
    checkpoint = fields.below("checkpoint")
    path = checkpoint.text("path")
    if len(path) > LONGEST_PATH or not path.isprintable():
        checkpoint.wrong("path", f"must be up to {LONGEST_PATH} printable characters")
    if checkpoint.body.get("step") is None:
        checkpoint.wrong("step", "is required")
    return Checkpoint(_integer(checkpoint, "step", MOST_STEPS) or 0, _time(checkpoint, "time"), path)


def _time(fields: Fields, name: str) -> datetime | None:
    value = fields.body.get(name)
    moment = parse_time(value)
    if value is not None and moment is None:
        fields.wrong(name, f"must be a time as in RFC 3339, is {kind_of(value)}")
    return moment.replace(microsecond=0) if moment else None


def _integer(fields: Fields, name: str, most: int) -> int | None:
    value = fields.integer(name)
    if value is not None and not 0 <= value <= most:
        fields.wrong(name, f"must be from 0 to {most}, is {value}")
    return value


def _metrics(fields: Fields) -> Iterator[Metric]:
    entries = fields.items("metrics")
    if len(entries) > MOST_METRICS:
        fields.wrong("metrics", f"must be at most {MOST_METRICS}, are {len(entries)}")
        return
    size = 0
    for entry in entries:
        metric = Metric(_text(entry, "name"), _text(entry, "value"))
        size += sum(len(text.encode(errors="replace")) for text in metric)
        if size <= MOST_BYTES:
            yield metric


def _text(entry: Fields, name: str) -> str:
    text = entry.text(name)
    if not (0 < len(text) <= LONGEST_TEXT and text.isprintable()):
        entry.wrong(name, f"must be 1 to {LONGEST_TEXT} printable characters")
    return text


def read(status: Body) -> Progress | None:
    """What is stored in a status; ``None`` if nothing is."""
    body = status.get(_FIELD)
    if not isinstance(body, Mapping) or not body:
        return None
    fields, others = Fields(body), Fields(status)
    checkpoint_fields = others.below("checkpoint")
    step = checkpoint_fields.integer("step")
    metrics = (Metric(text_of(entry, "name"), text_of(entry, "value")) for entry in objects_of(body.get("metrics")))
    return Progress(
        percentage=fields.integer("progressPercentage"),
        remaining=fields.integer("estimatedRemainingSeconds"),
        step=fields.integer("step"),
        metrics=tuple(metrics),
        time=parse_time(body.get("lastUpdatedTime")),
        checkpoint=None
        if step is None
        else Checkpoint(step, parse_time(checkpoint_fields.body.get("time")), checkpoint_fields.text("path")),
        resumed_from=others.integer("resumedFromStep"),
        longest_save=others.integer("longestSaveSeconds"),
        run=others.text("reportedBy"),
    )


def write(progress: Progress | None) -> dict[str, Any]:
    """The fields of a status. Who has reported is of no interest before there is a checkpoint."""
    if progress is None:
        return {}
    checkpoint = progress.checkpoint
    fields: dict[str, Any] = {_FIELD: _trainer_status(progress)}
    if checkpoint:
        fields["checkpoint"] = {"step": checkpoint.step} | present(
            time=write_time(checkpoint.time), path=checkpoint.path
        )
        fields |= present(reportedBy=progress.run)
    return fields | _numbers(longestSaveSeconds=progress.longest_save, resumedFromStep=progress.resumed_from)


def _trainer_status(progress: Progress) -> dict[str, Any]:
    fields = present(
        metrics=[{"name": metric.name, "value": metric.value} for metric in progress.metrics],
        lastUpdatedTime=write_time(progress.time),
    )
    numbers = _numbers(
        progressPercentage=progress.percentage, estimatedRemainingSeconds=progress.remaining, step=progress.step
    )
    return numbers | fields


def _numbers(**numbers: int | None) -> dict[str, int]:
    """Those that are known: zero is one of them."""
    return {name: number for name, number in numbers.items() if number is not None}
