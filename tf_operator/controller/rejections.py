"""The last write of each job that the apiserver refused, and who waits for a name that is taken.

Lost with a restart, and then tried again at once. ``planning.rejections`` decides what follows, and when.
"""

from collections.abc import Callable
from dataclasses import replace

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey
from tf_operator.planning import rejections
from tf_operator.planning.snapshot import Cause, RejectedWrite


class Rejections:
    """Rejected writes by the UID of their job; of a job that is not cached nothing is kept."""

    def __init__(self, clock: Clock, exists: Callable[[str], bool]) -> None:
        """``exists``: whether there is a job of this UID."""
        self._clock = clock
        self._exists = exists
        self._rejected: dict[str, RejectedWrite] = {}
        self._taken: dict[tuple[str, ObjectKey], str] = {}
        """Names that were taken when a child was to be created, and the UID of the job that waits for each."""

    def get(self, uid: str) -> RejectedWrite | None:
        """What the next plan of the job has to know of."""
        return self._rejected.get(uid)

    def note(self, uid: str, subject: str, error: errors.Refused, *, is_change: bool = False) -> None:
        """A create was refused, or a change of what is there.

        Creates are made in batches. What is refused while the job waits already was tried together with the first, and
        is no further attempt; of a batch always the same one is reported, whatever the order of the answers.
        """
        if not self._exists(uid):
            return
        now, previous = self._clock.now(), self._rejected.get(uid)
        is_same_attempt = rejections.is_waiting(previous, now)
        attempts = (previous.attempts if previous else 0) + (not is_same_attempt)
        cause = Cause.UNCHANGED if is_change else _cause(error)
        rejected = RejectedWrite(subject, str(error), now, _code(error), attempts, cause)
        if previous is None or not is_same_attempt or rejections.tells_more(rejected, previous):
            self._rejected[uid] = rejected

    def clear(self, uid: str) -> None:
        """Everything that was to be created has been, or the job is gone."""
        if self._rejected.pop(uid, None) is None:
            return  # who waits for a name was rejected; the names of others may be many
        self._taken = {place: owner for place, owner in self._taken.items() if owner != uid}

    def clear_if_over(self, uid: str) -> None:
        """The plan creates nothing. If that is not because it waits, what was refused is not wanted any more."""
        rejected = self.get(uid)
        if rejected and (rejections.is_final(rejected) or not rejections.is_waiting(rejected, self._clock.now())):
            self.clear(uid)

    def begin_term(self) -> None:
        """What was refused in an earlier term may have been accepted since, from another process."""
        self._rejected.clear()
        self._taken.clear()

    def note_taken(self, uid: str, resource: str, key: ObjectKey) -> None:
        """A create was refused because its name is taken."""
        if self._exists(uid):
            self._taken[resource, key] = uid

    def note_freed(self, resource: str, key: ObjectKey) -> str:
        """An object is gone; the UID of the job that waited for its name, which need wait no longer."""
        uid = self._taken.pop((resource, key), "")
        if rejected := self._rejected.get(uid):
            self._rejected[uid] = replace(rejected, at=self._clock.now() - rejections.LONGEST)
        return uid

    def __len__(self) -> int:
        return len({*self._rejected, *self._taken.values()})


def is_answer(error: errors.Refused, *, is_change: bool = False) -> bool:
    """Whether the server has decided on the request, which the next plan reports; not a failure of its own.

    To a change it is no answer that the object is not there any more, or not as it was.
    """
    is_outdated = is_change and isinstance(error, errors.NotFound | errors.Conflict)
    return not is_outdated and not isinstance(error, errors.ServerFailed | errors.Throttled)


def is_final(error: errors.Refused) -> bool:
    """Whether the same would be refused again, whenever it is tried."""
    return _code(error) in rejections.FINAL_CODES


def _code(error: errors.Refused) -> int:
    """What its status code should be: the apiserver calls some refusals its own failure, or our mistake."""
    match error:
        case errors.TooLarge():
            return 413
        case errors.NotAdmitted():
            return 403
    return error.code


def _cause(error: errors.Refused) -> Cause:
    return Cause.NAMESPACE_ENDS if isinstance(error, errors.NamespaceTerminating) else Cause.REFUSED
