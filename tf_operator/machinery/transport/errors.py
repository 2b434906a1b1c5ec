"""Everything that a call to the apiserver can end in, drawn as a tree.

    ApiError
    |-- NoReply                no complete reply came
    |   |-- Unreachable        the request was never sent: refused, unknown host, TLS
    |   `-- ReplyLost          it was sent: it may have been carried out
    |-- Garbled                a reply that no apiserver gives: HTML, half a JSON, a line without end
    |   `-- Unreadable         a true one, nested deeper than any decoder goes
    |-- Redirected             3xx; never followed, because the token would go along
    `-- Refused                the apiserver (or what stands before it) said no
        |-- Unauthorized 401   |-- Forbidden 403 -- NamespaceTerminating
        |-- NotFound 404       |-- Conflict 409 --- AlreadyExists
        |-- Expired 410        |-- TooLarge 413     |-- Invalid 422     |-- Throttled 429
        |-- NotAdmitted 400, 413, 422, 500
        `-- ServerFailed 5xx -- Unavailable 503, ServerTimeout 504 -- ResourceVersionTooLarge

An error says what is so; what to do about it is decided by its handler. Two facts that many need are
kept here, so that they are worked out once: ``outcome_unknown`` (a write may have happened) and
``retry_after`` (the server named a time).

The text of an error ends in logs, events and conditions, and its words come from a server or from a tenant's
object: it is one line, bounded, printable, and shows no credentials. All of what an apiserver said is in
``Refused.status``.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from tf_operator.text import one_line

LONGEST_RETRY_AFTER = 60.0
"""However long a server asks us to wait, a broken one must not put us to sleep for a day."""

_MOST_TEXT = 300
_MOST_MESSAGE = 1000


class ApiError(Exception):
    """Base of the tree. ``outcome_unknown``: if it was a write, it may have been carried out."""

    outcome_unknown = False
    retry_after: float | None = None

    @property
    def name(self) -> str:
        """The name for labels of metrics and fields of logs: of bounded variety."""
        return type(self).__name__


class NoReply(ApiError):
    """No complete reply came."""


class Unreachable(NoReply):
    """The request was never sent."""


class ReplyLost(NoReply):
    """The request was sent, and the connection ended, or fell silent, before the reply was complete."""

    outcome_unknown = True


class Garbled(ApiError):
    """Something answered, but not in the way an apiserver does."""

    outcome_unknown = True


class Unreadable(Garbled):
    """The reply is JSON, and nested deeper than any decoder goes. Asking again will not help."""


class Redirected(ApiError):
    """The server points elsewhere. Following would hand our token to another server."""


class StatusCause(msgspec.Struct, frozen=True):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """``details`` of a Status, as far as anybody here acts on it."""

    name: str | None = None
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: int | None = None
    kind: str | None = None
    """The resource, as in ``tfjobs``."""


class Status(msgspec.Struct, frozen=True):
    """A ``metav1.Status``: what an apiserver says when it refuses."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: Details | None = None

    def has_cause(self, reason: str) -> bool:
        causes = self.details.causes if self.details else None
        return any(cause.reason == reason for cause in causes or ())


class Refused(ApiError):
    """An HTTP error status: with the code, and the Status if the body was one."""

    def __init__(self, code: int, status: Status, *, retry_after: float | None = None) -> None:
        super().__init__(one_line(status.message or status.reason or f"HTTP {code}", most=_MOST_MESSAGE))
        self.code = code
        self.status = status
        self.reason = status.reason or ""
        seconds = status.details.retry_after_seconds if status.details else None
        self.retry_after = retry_after if retry_after is not None else capped(seconds)


class Unauthorized(Refused):
    """401: the credentials are not, or no longer, valid."""


class Forbidden(Refused):
    """403: rights, quota or an admission plugin."""


class NamespaceTerminating(Forbidden):
    """403: nothing can be created in a namespace that is going away."""


class NotFound(Refused):
    """404. Without a reason it is no object that is missing, but the resource: its CRD is gone."""

    def is_about(self, name: str) -> bool:
        """Whether the apiserver says that there is no object of this name; proxies answer 404 for reasons of theirs."""
        details = self.status.details
        return self.reason == "NotFound" and details is not None and details.name == name


class Conflict(Refused):
    """409: the object has changed since it was read, or a precondition does not hold."""


class AlreadyExists(Conflict):
    """409: the name is taken."""


class Expired(Refused):
    """410: the resource version or the continue token is too old. Relist."""


class TooLarge(Refused):
    """413, or etcd's refusal of an object past its limit: trying again will not help."""


class Invalid(Refused):
    """422: the object breaks a rule of its schema. Trying again will not help."""


class Throttled(Refused):
    """429: the apiserver asks for patience; nothing was carried out."""


class NotAdmitted(Refused):
    """No more than a 403, whatever its code: an admission webhook or policy said no, or could not be asked."""


class ServerFailed(Refused):
    """5xx: the apiserver, or a proxy before it, failed; a write may have been carried out."""

    outcome_unknown = True


class Unavailable(ServerFailed):
    """503."""


class ServerTimeout(ServerFailed):
    """504: the apiserver stopped waiting; what it waited for may still happen."""


class ResourceVersionTooLarge(ServerTimeout):
    """504: this apiserver has not yet seen the resource version that another one gave us."""

    outcome_unknown = False


_BY_CODE: dict[int, type[Refused]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: TooLarge,
    422: Invalid,
    429: Throttled,
    503: Unavailable,
    504: ServerTimeout,
}

# The apiserver's own words, for which it has no reason and no cause. The code is the webhook's or the policy's, or 422,
# which is that of a policy that names none.
_ADMISSION_REFUSES = ("failed calling webhook", "denied the request", " denied request: ")
_CODES_OF_ADMISSION = frozenset({400, 413, 422, 500})
# Past 1.5 MiB etcd refuses, past 2 MiB its client does; the apiserver passes both on as a 500 without a reason.
_ETCD_REFUSES = ("etcdserver: request is too large", "trying to send message larger than max")


def refused(code: int, body: bytes, *, retry_after: float | None = None) -> Refused:
    """The error for an HTTP error status, whatever the body is: a Status, plain text, HTML, nothing."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        status = Status()
    if not (status.message or status.reason):
        status = msgspec.structs.replace(status, message=f"HTTP {code}: {excerpt(body)}")
    return from_status(status, code=code, retry_after=retry_after)


def from_status(status: Status, *, code: int | None = None, retry_after: float | None = None) -> Refused:
    """The error for a Status, which comes as a reply or as an ERROR line inside a watch."""
    code = code or status.code or 500
    return _kind(code, status)(code, status, retry_after=retry_after)


def _kind(code: int, status: Status) -> type[Refused]:
    kind = _BY_CODE.get(code, ServerFailed if code >= 500 else Refused)
    if kind is Conflict and status.reason == "AlreadyExists":
        return AlreadyExists
    if kind is Forbidden and status.has_cause("NamespaceTerminating"):
        return NamespaceTerminating
    if status.has_cause("ResourceVersionTooLarge"):
        return ResourceVersionTooLarge
    if code == 500 and any(text in (status.message or "") for text in _ETCD_REFUSES):
        return TooLarge
    if code in _CODES_OF_ADMISSION and any(text in (status.message or "") for text in _ADMISSION_REFUSES):
        return NotAdmitted
    return kind


def retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds from a ``Retry-After`` header: a number or a date; ``None`` for what is neither, or negative."""
    if header is None:
        return None
    header = header.strip()
    if header.isascii() and header.isdigit():
        # Not int(): a header of ten thousand digits must not cost more than one of ten.
        return capped(int(header[:10]))
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return None
    # HTTP's older forms of a date name no zone, or one that says "unknown": GMT is meant.
    return capped(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())


def capped(seconds: float | None) -> float | None:
    """A time that a server asked for, within reason; ``None`` when there is none, or it is in the past."""
    return min(float(seconds), LONGEST_RETRY_AFTER) if seconds is not None and seconds >= 0 else None


def excerpt(body: bytes) -> str:
    """The beginning of a body on one line, for a message."""
    return one_line(body[: 4 * _MOST_TEXT].decode(errors="replace")) or "(empty body)"
