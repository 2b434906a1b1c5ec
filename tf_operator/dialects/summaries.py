"""What metrics want to know of every job that changes, where the status has the whole record in ``operator``.

Reads only the head of the record. Neighbour: ``record``, which reads and writes all of it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from tf_operator.dialects.served import JobSummary
from tf_operator.job.record import ENDS, JobPhase
from tf_operator.meta import Body, parse_time


class _Restart(msgspec.Struct, frozen=True, gc=False):
    time: str | None = None


class _Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    start_time: str | None = None
    restart_records: tuple[_Restart, ...] = ()


class _Status(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""
    state: str = ""
    operator: _Record | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)


def summarize(metadata: Mapping[str, Any], stored_status: bytes, end_in: Callable[[Body], JobPhase]) -> JobSummary:
    """Where a job stands; ``end_in`` reads ``phase`` and ``state`` of a status without a record."""
    try:
        status = _STATUS.decode(stored_status)
    except (msgspec.DecodeError, RecursionError):
        return JobSummary()
    record = status.operator or _Record(str(end_in({"phase": status.phase, "state": status.state})))
    return JobSummary(record.phase, _waits_since(record, metadata), is_finished=record.phase in ENDS)


def _waits_since(record: _Record, metadata: Mapping[str, Any]) -> datetime | None:
    match record.phase:
        case JobPhase.NEW:
            return parse_time(metadata.get("creationTimestamp"))
        case JobPhase.CREATED:
            return parse_time(record.start_time)
        case JobPhase.RESTARTING:  # it may have run for days before
            times = (parse_time(restart.time) for restart in record.restart_records)
            return max((time for time in times if time), default=None)
    return None
