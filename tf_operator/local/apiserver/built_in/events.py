"""Events: one object with two faces, that of the core group and that of events.k8s.io."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes
from tf_operator.meta import Body

CORE: Final = "v1"
NEWER: Final = "events.k8s.io/v1"
_NEWER_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES: Final = {newer: core for core, newer in _NEWER_NAMES.items()}
_EMPTY: Final[Mapping[str, object]] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""What a core event shows even if it is empty."""
_LEFT_OUT: Final = ("reportingController", "reportingInstance")
_LONGEST_NOTE: Final = 1024


def convert(body: Body, api_version: str) -> Json:
    if body["apiVersion"] == api_version:
        return dict(body)
    to_newer = api_version == NEWER
    words = _NEWER_NAMES if to_newer else _CORE_NAMES
    event = {words.get(name, name): value for name, value in body.items()}
    if not to_newer:
        return event | _missing(event) | {"apiVersion": api_version}
    fields = {name: value for name, value in event.items() if value != "" or name not in _LEFT_OUT}
    return fields | {"apiVersion": api_version}


def _missing(event: Body) -> Json:
    return {name: value for name, value in _EMPTY.items() if name not in event}


def prepare(body: Json, _: Body | None, __: datetime) -> None:
    body.setdefault("involvedObject", {})
    body |= _missing(body)


def prepare_newer(body: Json, _: Body | None, __: datetime) -> None:
    """Fill an event of events.k8s.io."""
    body.setdefault("regarding", {})
    body.setdefault("eventTime", None)


def check(body: Body, _: Body | None) -> Iterator[FieldCause]:
    yield from _check_namespace(body, "involvedObject")


def check_newer(body: Body, old: Body | None) -> Iterator[FieldCause]:
    """What is wrong with an event of events.k8s.io."""
    yield from _check_namespace(body, "regarding")
    if old is not None or body.get("deprecatedCount"):
        return
    if not body.get("eventTime"):
        yield causes.required("eventTime")
        return
    for name in ("reportingController", "reportingInstance", "action", "reason"):
        if not body.get(name):
            yield causes.required(name)
    if len(body.get("note", "")) > _LONGEST_NOTE:
        yield causes.invalid("message", "", f"can have at most {_LONGEST_NOTE} characters")
    if body.get("type") not in ("Normal", "Warning"):
        yield causes.invalid("type", body.get("type", ""), "has invalid value: ")


def _check_namespace(body: Body, name: str) -> Iterator[FieldCause]:
    namespace, object_namespace = body["metadata"].get("namespace", ""), (body[name] or {}).get("namespace", "")
    is_right = namespace == (object_namespace or "default") if not object_namespace else namespace == object_namespace
    if not is_right:
        yield causes.invalid("involvedObject.namespace", object_namespace, "does not match event.namespace")
