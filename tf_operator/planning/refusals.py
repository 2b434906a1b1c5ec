"""What follows from a create that the apiserver refused: whether ever to try it again, and when.

What is wrong with the object itself will be wrong the next time, too: the job fails with the server's words. Everything
else may pass, such as a quota, and is tried again, later each time. ``controller.memory`` keeps what was refused, and
asks here what counts as one attempt.
"""

from datetime import datetime, timedelta
from typing import Final

from tf_operator.planning import observed
from tf_operator.planning.observed import Obstacle, Refusal

_FINAL_CODES: Final = frozenset({400, 413, 422})
"""The object makes no sense, is too large, or breaks a rule of its kind."""
LONGEST: Final = timedelta(seconds=60)
UNSERVED: Final = timedelta(seconds=5)


def is_final(refusal: Refusal) -> bool:
    """Whether the same would be refused again, whenever it is tried. What is there already does its work as it is."""
    return refusal.code in _FINAL_CODES and refusal.obstacle is not Obstacle.UNCHANGED


def retry_at(refusal: Refusal) -> datetime:
    """When to try again what was refused; the wait doubles with each attempt."""
    match refusal.obstacle:
        case Obstacle.NAMESPACE_ENDS:
            return refusal.at + LONGEST
        case Obstacle.NOT_SERVED:
            return refusal.at + UNSERVED
        case _:
            return refusal.at + min(timedelta(seconds=2 ** min(refusal.attempts - 1, 10)), LONGEST)


def is_waiting(refusal: Refusal | None, now: datetime) -> bool:
    """Whether it is too early to create anything."""
    return refusal is not None and retry_at(refusal) > now and not observed.is_ahead(refusal.at, now)


def tells_more(refusal: Refusal, known: Refusal) -> bool:
    """Of two of one attempt: what is final, or else the first by name, so that the same is told each time."""
    if is_final(refusal) is not is_final(known):
        return is_final(refusal)
    return refusal.what < known.what
