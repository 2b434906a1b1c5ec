"""Whether a pod has begun the current attempt of a job that starts again in place, and what it is told if it has not.

A pod whose program failed restarts it by itself; that this began an attempt, or was one more end of the run before, is
in its restart record, by the time of the attempt. All others are told by an annotation, and their sidecar has the
kubelet restart all their containers. The request says how often it had done so before: one more, and it was heard.

A kubelet may miss a change of annotations. Any other change has it look again; if that does not help either, the pod is
given up. So is one of which only the sidecar has started again: its kubelet does not know the rule.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final, Self

from tf_operator.job.record import JobRecord, RestartRecord
from tf_operator.meta import parse_time, rfc3339
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.snapshot import Pod, is_ahead

REPEATED_AFTER: Final = timedelta(seconds=5)
"""Of 4,578 changes on a kubelet of 1.36, 98.4 % were seen within 2.1 s, the others after 58 to 85 s; a second change
within 0.5 s."""
GIVEN_UP_AFTER: Final = timedelta(seconds=30)
_REQUEST: Final = re.compile(r"(\S{20}) ([0-9]{1,9})( again)?", re.ASCII)


class NextStep(Enum):
    """What is done about a pod."""

    NOTHING = auto()
    REQUEST = auto()
    """It is told to start again."""
    REPEAT = auto()
    """It is changed a second time, so that its kubelet looks again."""
    GIVE_UP = auto()
    """A new pod takes its place."""


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """What a pod was told last."""

    time: datetime
    restarts: int
    """How often its containers had been restarted together until then."""
    is_repeated: bool = False

    @classmethod
    def parse(cls, text: str) -> Self | None:
        match = _REQUEST.fullmatch(text)
        time = parse_time(match[1]) if match else None
        return cls(time, int(match[2]), is_repeated=bool(match[3])) if match and time else None

    def __str__(self) -> str:
        return f"{rfc3339(self.time)} {self.restarts}{' again' if self.is_repeated else ''}"

    def repeated(self) -> Self:
        return replace(self, is_repeated=True)


def has_begun(record: JobRecord, pod: Pod, restart: RestartRecord | None) -> bool:
    """Whether its program was started for the current attempt. ``record`` is of the job, ``restart`` of the replica."""
    if record.attempt == 1:
        return True
    if restart and restart.uid == pod.uid and (restart.replaced or restart.time == record.attempt_time):
        return not restart.replaced
    if not pod.cluster_size:
        return True  # it cannot be told, so it was made for this attempt: for another one it is given up
    request = RestartRequest.parse(pod.restart_request)
    return is_told(record, pod) and (request is None or _has_heard(pod, request))


def _has_heard(pod: Pod, request: RestartRequest) -> bool:
    """Whether all its containers were started again because of this; what its sidecar did later does not matter."""
    restarts = pod.restarts_together - request.restarts
    return restarts > 1 or (restarts == 1 and not pod.is_deaf)


def is_told(record: JobRecord, pod: Pod) -> bool:
    """Whether it knows of the current attempt; one that was made for it does."""
    return resize_sidecar.entries(pod.cluster_size).get(resize_sidecar.ATTEMPT) == str(record.attempt)


def next_step(record: JobRecord, pod: Pod, restart: RestartRecord | None, *, now: datetime) -> NextStep:
    is_leaving = restart is not None and restart.uid == pod.uid and restart.replaced
    if is_leaving or has_begun(record, pod, restart):
        return NextStep.NOTHING
    request = RestartRequest.parse(pod.restart_request) if is_told(record, pod) else None
    if request is None or is_ahead(request.time, now):
        return NextStep.REQUEST
    # A sidecar that is started again alone with the new attempt never exits because of it.
    if now >= request.time + GIVEN_UP_AFTER or pod.restarts_together > request.restarts:
        return NextStep.GIVE_UP
    is_late = now >= request.time + REPEATED_AFTER and not request.is_repeated
    return NextStep.REPEAT if is_late else NextStep.NOTHING


def next_moment(record: JobRecord, pod: Pod, restart: RestartRecord | None) -> datetime | None:
    """When the next step is another one, if nothing happens until then."""
    request = RestartRequest.parse(pod.restart_request)
    if request is None or not is_told(record, pod) or has_begun(record, pod, restart):
        return None
    try:
        return request.time + (GIVEN_UP_AFTER if request.is_repeated else REPEATED_AFTER)
    except OverflowError:
        return None  # past the end of the calendar: somebody else has written it


def annotations(step: NextStep, pod: Pod, now: datetime) -> Mapping[str, str | None]:
    """The request that goes with a step. A pod that starts just now needs none: it begins with what it is told."""
    request = RestartRequest.parse(pod.restart_request)
    if step is NextStep.REPEAT and request:
        return {resize_sidecar.REQUEST_ANNOTATION: str(request.repeated())}
    if pod.phase == "Pending" or pod.is_restarting:
        return {resize_sidecar.REQUEST_ANNOTATION: None} if pod.restart_request else {}
    return {resize_sidecar.REQUEST_ANNOTATION: str(RestartRequest(now, pod.restarts_together))}
