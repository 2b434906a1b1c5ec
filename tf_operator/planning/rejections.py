"""What follows from a create that the apiserver refused: whether ever to try it again, and when.

What is wrong with the object itself will be wrong the next time, too: the job fails with the server's words. Everything
else may pass, such as a quota, and is tried again, later each time. ``controller.rejections`` keeps what was refused,
and asks here what counts as one attempt.
"""

from datetime import datetime, timedelta
from typing import Final

from tf_operator.planning.snapshot import Cause, RejectedWrite, is_ahead

FINAL_CODES: Final = frozenset({400, 413, 422})
"""The object is invalid, is too large, or breaks a rule of its kind."""
LONGEST: Final = timedelta(seconds=60)
UNSERVED: Final = timedelta(seconds=5)


def is_final(rejection: RejectedWrite) -> bool:
    """Whether the same would be refused again, whenever it is tried. What is there already does its work as it is."""
    return rejection.code in FINAL_CODES and rejection.cause is not Cause.UNCHANGED


def retry_at(rejection: RejectedWrite) -> datetime:
    """When to try again what was refused; the wait doubles with each attempt."""
    match rejection.cause:
        case Cause.NAMESPACE_ENDS | Cause.UNAVAILABLE:
            return rejection.at + LONGEST
        case Cause.NOT_SERVED:
            return rejection.at + UNSERVED
        case _:
            return rejection.at + min(timedelta(seconds=2 ** min(rejection.attempts - 1, 10)), LONGEST)


def is_waiting(rejection: RejectedWrite | None, now: datetime) -> bool:
    return rejection is not None and retry_at(rejection) > now and not is_ahead(rejection.at, now)


def tells_more(rejection: RejectedWrite, previous: RejectedWrite) -> bool:
    """Of two of one attempt: what is final, or else the first by kind and name, so that each time it is the same."""
    if is_final(rejection) is not is_final(previous):
        return is_final(rejection)
    return (rejection.resource, rejection.name) < (previous.resource, previous.name)
