"""The compact form of restart records: what a status holds of a job in which very many replicas were restarted.

An object may have 1.5 MiB, and a record as an object of its own has up to 150 bytes. So above ``MOST_LISTED`` records
those of each type are one text, ``index:uid:inPlace:attempts:time:replaced``, separated by commas. Nothing is lost: the
UID is in base 64, the time in seconds, and numbers are hexadecimal; what is 0 at the end is left out.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote
from uuid import UUID

from tf_operator.job.record import ReplicaType, RestartRecord

MOST_LISTED: Final = 200
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RECORD: Final = re.compile(r"([0-9a-f]{1,5}):([\w~.%-]*)((?::[0-9a-f]{0,12}){0,4})", re.ASCII)
_OTHER_UID: Final = "~"


def write(restart_records: Iterable[RestartRecord]) -> dict[str, str]:
    by_type: dict[str, list[str]] = {}
    for record in restart_records:
        by_type.setdefault(str(record.type), []).append(_text(record))
    return {kind: ",".join(texts) for kind, texts in by_type.items()}


def read(kind: ReplicaType, text: object) -> Iterator[RestartRecord]:
    """The records in a text; what is none in it is passed over."""
    for part in text.split(",") if isinstance(text, str) else ():
        if match := _RECORD.fullmatch(part):
            numbers = [int(number or "0", 16) for number in match[3].split(":")[1:]]
            in_place, attempts, seconds, replaced = [*numbers, 0, 0, 0, 0][:4]
            yield RestartRecord(
                kind,
                int(match[1], 16),
                _read_uid(match[2]),
                in_place=in_place,
                replaced=replaced == 1,
                attempts=attempts,
                time=_moment(seconds),
            )


def _text(record: RestartRecord) -> str:
    seconds = max(int(record.time.timestamp()), 0) if record.time else 0
    numbers = (record.in_place, record.attempts, seconds, int(record.replaced))
    fields = (f"{number:x}" if number else "" for number in numbers)
    return f"{record.index:x}:{_write_uid(record.uid)}:{':'.join(fields)}".rstrip(":")


def _write_uid(uid: str) -> str:
    if _UUID.fullmatch(uid):
        return urlsafe_b64encode(UUID(uid).bytes).decode().rstrip("=")
    return f"{_OTHER_UID}{quote(uid, safe='')}"


def _read_uid(text: str) -> str:
    if text.startswith(_OTHER_UID):
        return unquote(text[1:])
    try:
        return str(UUID(bytes=urlsafe_b64decode(f"{text}==")))
    except ValueError:
        return ""


def _moment(seconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (OverflowError, ValueError, OSError):
        return None
