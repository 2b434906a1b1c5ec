"""What the last Warning about a pod says. Its Events are read once, when its start is reported to take long."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import parse_time

EVENTS: Final = Resource("", "v1", "events", "Event")
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    event_time: str | None = None
    last_timestamp: str | None = None
    series: _Series | None = None

    @property
    def time(self) -> datetime:
        last = self.series.last_observed_time if self.series else None
        return next(filter(None, map(parse_time, (last, self.last_timestamp, self.event_time))), _LONG_AGO)


_READ: Final = msgspec.json.Decoder(_Event)


def last_warning(events: Iterable[msgspec.Raw]) -> str:
    """Reason and message of the newest; empty for none. One that cannot be read is left out."""
    decoded: list[_Event] = []
    for raw in events:
        try:
            decoded.append(_READ.decode(raw))
        except (msgspec.DecodeError, RecursionError):
            continue
    last = max((event for event in decoded if event.type == "Warning"), key=lambda event: event.time, default=None)
    return ": ".join(filter(None, (last.reason, last.message))) if last else ""
