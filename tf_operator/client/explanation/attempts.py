"""What the status and the events say about the attempts of a job that starts again as a whole."""

from typing import Final

from tf_operator.client import display
from tf_operator.client.events import JobEvent
from tf_operator.client.explanation.situation import Situation
from tf_operator.dialects import event_reasons
from tf_operator.job.record import RestartRecord
from tf_operator.job.report import EventKind

_REASON: Final = event_reasons.SHARED[EventKind.JOB_RESTARTED]


def is_begin(event: JobEvent) -> bool:
    """Whether an event is about the begin of an attempt."""
    return event.reason == _REASON


def sentences(situation: Situation) -> tuple[str, ...]:
    """Which attempt this is, of how many; who was lost before it; what of that does not count. Nothing of the first."""
    record = situation.job.spec.record
    if record.attempt < 2:
        return ()
    replaced = [entry for entry in record.restart_records if entry.replaced and not _has_completed(situation, entry)]
    pods = f"{len(replaced)} pod{' was' if len(replaced) == 1 else 's were'} replaced"
    if situation.job.spec.run_policy.restarts_in_place:
        pods += ", and the others restarted in place"
    began = f"began {display.age(record.attempt_time, situation.now)} ago, because {_cause(situation)}"
    uncounted = ["how the other pods ended, because the job stopped them"]
    if record.disruptions:
        uncounted.insert(0, f"{record.disruptions} disruption{'' if record.disruptions == 1 else 's'}")
    return f"attempt {record.attempt}{_of(situation)} {began}; {pods}", f"not counted: {', and '.join(uncounted)}"


def _of(situation: Situation) -> str:
    """How many there may be, unless more is disrupted."""
    limit, job = situation.job.spec.run_policy.backoff_limit, situation.job
    return "" if limit is None else f" of {job.spec.record.attempt + max(limit - job.restarts, 0)}"


def _cause(situation: Situation) -> str:
    """Who was lost first, and how; events that say how are kept for an hour."""
    record = situation.job.spec.record
    begins = f"; attempt {record.attempt} begins"
    for event in reversed(situation.events):
        cause, is_current, _ = event.message.partition(begins)
        if is_begin(event) and is_current:
            return cause
    first = next((entry for entry in record.restart_records if entry.time == record.attempt_time), None)
    if first is None:
        return "a replica was lost"
    return f"{first.type.label}-{first.index} {'was lost' if first.replaced else 'failed'}"


def _has_completed(situation: Situation, entry: RestartRecord) -> bool:
    return entry.index in situation.job.spec.record.of(entry.type).completed
