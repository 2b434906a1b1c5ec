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


def is_final(rejected: RejectedWrite) -> bool:
    """Whether the same would be refused again, whenever it is tried. What is there already does its work as it is."""
    return rejected.code in FINAL_CODES and rejected.cause is not Cause.UNCHANGED


def retry_at(rejected: RejectedWrite) -> datetime:
    """When to try again what was refused; the wait doubles with each attempt."""
    match rejected.cause:
        case Cause.NAMESPACE_ENDS | Cause.UNAVAILABLE:
            return rejected.at + LONGEST
        case Cause.NOT_SERVED:
            return rejected.at + UNSERVED
        case _:
            return rejected.at + min(timedelta(seconds=2 ** min(rejected.attempts - 1, 10)), LONGEST)


def is_waiting(rejected: RejectedWrite | None, now: datetime) -> bool:
    return rejected is not None and retry_at(rejected) > now and not is_ahead(rejected.at, now)


def tells_more(rejected: RejectedWrite, reported: RejectedWrite) -> bool:
    """Of two of one attempt: what is final, or else the first by kind and name, so that each time it is the same."""
    if is_final(rejected) is not is_final(reported):
        return is_final(rejected)
    return (rejected.resource, rejected.name) < (reported.resource, reported.name)
