"""``GET .../pods/<name>/log``: which container is meant and which part of its log, as the kubelet decides it. Pure."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.log_source import LogGone, LogSource
from tf_operator.meta import Body, ObjectKey, key_of, mapping_of, objects_of, parse_time, text_of

PATH: Final = re.compile(r"(?P<pod>/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/]+))/log")

_LISTS: Final = (
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)
_TRUE: Final = ("true", "1", "t", "T", "TRUE", "True", "")
_FALSE: Final = ("false", "0", "f", "F", "FALSE", "False")


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What of a log is asked for."""

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    tail_lines: int | None
    since_seconds: int | None
    limit_bytes: int | None

    def read(self, logs: LogSource, pod: ObjectKey) -> AsyncIterator[bytes]:
        """It, from where the logs are; ``ApiFailure`` if it is not there."""
        try:
            return logs.read(
                pod.namespace,
                pod.name,
                self.container,
                follow=self.follow,
                previous=self.previous,
                tail_lines=self.tail_lines,
                since_seconds=self.since_seconds,
                limit_bytes=self.limit_bytes,
                timestamps=self.timestamps,
            )
        except LogGone:
            run = "the previous run of " if self.previous else ""
            raise failures.gone(f"the log of {run}container {self.container} in pod {pod.name} was deleted") from None


def parse(query: Mapping[str, str], pod: Body, now: datetime) -> LogRequest | None:
    """What is asked of a pod's log; ``ApiFailure`` if it is wrong, or if there is no such log.

    ``None`` for a pod without a node, whose log is empty.
    """
    since, since_time = _number(query, "sinceSeconds"), query.get("sinceTime", "")
    if since is not None and since_time:
        problem = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        raise _invalid(pod, "", problem, reason="FieldValueForbidden")
    if since_time:
        moment = parse_time(since_time)
        if moment is None:
            raise failures.bad_request(f"sinceTime {since_time!r} is no time as in 2026-01-31T12:00:00Z")
        since = max(1, int((now - moment).total_seconds()))
    request = LogRequest(
        container=_container(pod, query.get("container", "")),
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_number(query, "tailLines"),
        since_seconds=since,
        limit_bytes=_number(query, "limitBytes"),
    )
    _check_least(pod, request)
    if not text_of(mapping_of(pod.get("spec")), "nodeName"):
        return None
    _check_started(pod, request)
    return request


def _container(pod: Body, named: str) -> str:
    pod_name = key_of(pod).name
    by_list = [_names(pod.get("spec"), name) for name, _ in _LISTS]
    if named:
        if not any(named in names for names in by_list):
            raise failures.bad_request(f"container {named} is not valid for pod {pod_name}")
        return named
    init, containers, _ = by_list
    if len(containers) == 1:
        return containers[0]
    choices = f", choose one of: [{' '.join(containers)}]"
    choices += f" or one of the init containers: [{' '.join(init)}]" * bool(init)
    raise failures.bad_request(f"a container name must be specified for pod {pod_name}{choices}")


def _check_started(pod: Body, request: LogRequest) -> None:
    where = f'container "{request.container}" in pod "{key_of(pod).name}"'
    status = next((entry for entry in _statuses(pod) if text_of(entry, "name") == request.container), None)
    if status is None:
        raise failures.bad_request(f"{where} is not available")
    state, last = mapping_of(status.get("state")), mapping_of(status.get("lastState"))
    has_run_before = bool(text_of(mapping_of(last.get("terminated")), "containerID"))
    if request.previous:
        if not has_run_before:
            raise failures.bad_request(f"previous terminated {where} not found")
        return
    if "running" in state or has_run_before or text_of(mapping_of(state.get("terminated")), "containerID"):
        return
    reason = text_of(mapping_of(state.get("waiting")), "reason")
    raise failures.bad_request(f"{where} is waiting to start{f': {reason}' if reason else ' - no logs yet'}")


def _statuses(pod: Body) -> Iterator[Body]:
    for _, name in _LISTS:
        yield from objects_of(mapping_of(pod.get("status")).get(name))


def _names(spec: object, field: str) -> list[str]:
    return [text_of(entry, "name") for entry in objects_of(mapping_of(spec).get(field))]


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false")
    if text not in (*_TRUE, *_FALSE):
        raise failures.bad_request(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return text in _TRUE


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"[+-]?\d{1,19}", text):
        raise failures.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _check_least(pod: Body, request: LogRequest) -> None:
    for field, number, least in (
        ("tailLines", request.tail_lines, 0),
        ("limitBytes", request.limit_bytes, 1),
        ("sinceSeconds", request.since_seconds, 1),
    ):
        if number is not None and number < least:
            rule = "greater than 0" if least else "greater than or equal to 0"
            raise _invalid(pod, field, f"Invalid value: {number}: must be {rule}")


def _invalid(pod: Body, field: str, message: str, *, reason: str = "FieldValueInvalid") -> ApiFailure:
    name, kind = key_of(pod).name, "PodLogOptions"
    causes = [{"reason": reason, "message": message, "field": field}]
    details = {"name": name, "kind": kind, "causes": causes}
    return ApiFailure(422, "Invalid", f'{kind} "{name}" is invalid: {field}: {message}', details=details)
