"""The last write of each kind of child that the apiserver refused a job, and who waits for a name that is taken.

Lost with a restart, and then tried again at once. ``planning.rejections`` decides what follows, and when.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey
from tf_operator.planning import rejections
from tf_operator.planning.actions import Create, Delete, Patch, Stage
from tf_operator.planning.snapshot import Cause, RejectedWrite

ChildWrite = Create | Patch | Delete
NEEDED: Final = ""
"""In place of a kind: what the job needs, of whatever kind. It is tried and refused together."""


class Rejections:
    """Rejected writes by the UID of their job, and by the kind of child where the job continues without it.

    Of a job that is not cached nothing is kept.
    """

    def __init__(self, clock: Clock, exists: Callable[[str], bool]) -> None:
        """``exists``: whether there is a job of this UID."""
        self._clock = clock
        self._exists = exists
        self._rejected: dict[str, dict[str, RejectedWrite]] = {}
        self._places: dict[tuple[str, ObjectKey], tuple[str, str]] = {}
        """Names that were taken when a child was to be created, and for which job and kind each is waited for."""

    def get(self, uid: str, kind: str = NEEDED) -> RejectedWrite | None:
        """What the next plan of the job has to know of."""
        return self._rejected.get(uid, {}).get(kind)

    def of(self, uid: str) -> Mapping[str, RejectedWrite]:
        return dict(self._rejected.get(uid, {}))

    def note(self, uid: str, write: ChildWrite, error: errors.Refused) -> None:
        """A create was refused, or a change of what is there.

        Creates are made in batches. What is refused while the job waits already was tried together with the first, and
        is no further attempt; of a batch always the same one is reported, whatever the order of the answers.
        """
        if not self._exists(uid):
            return
        kind = kind_of(write)
        now, previous = self._clock.now(), self.get(uid, kind)
        is_same_attempt = rejections.is_waiting(previous, now)
        attempts = (previous.attempts if previous else 0) + (not is_same_attempt)
        subject, cause = write.reason if isinstance(write, Delete) else write.subject, _cause(write, error)
        resource = str(write.resource)
        rejected = RejectedWrite(subject, str(error), now, _code(error), attempts, cause, resource, write.name)
        if previous is None or not is_same_attempt or rejections.tells_more(rejected, previous):
            self._rejected.setdefault(uid, {})[kind] = rejected

    def clear(self, uid: str, kind: str = NEEDED) -> None:
        """Everything that was to be created has been."""
        if self._rejected.get(uid, {}).pop(kind, None) is None:
            return  # who waits for a name was rejected; the names of others may be many
        if not self._rejected[uid]:
            del self._rejected[uid]
        self._places = {place: waiting for place, waiting in self._places.items() if waiting != (uid, kind)}

    def forget(self, uid: str) -> None:
        for kind in self.of(uid):
            self.clear(uid, kind)

    def clear_if_over(self, uid: str) -> None:
        """The plan creates nothing. If that is not because it waits, what was refused is not wanted any more."""
        rejected = self.get(uid)
        if rejected and (rejections.is_final(rejected) or not rejections.is_waiting(rejected, self._clock.now())):
            self.clear(uid)

    def begin_term(self) -> None:
        """What was refused in an earlier term may have been accepted since, from another process."""
        self._rejected.clear()
        self._places.clear()

    def note_taken(self, uid: str, namespace: str, create: Create) -> None:
        """A create was refused because its name is taken."""
        if self._exists(uid):
            self._places[str(create.resource), ObjectKey(namespace, create.name)] = uid, kind_of(create)

    def note_freed(self, resource: str, key: ObjectKey) -> str:
        """An object is gone; the UID of the job that waited for its name, which need wait no longer."""
        uid, kind = self._places.pop((resource, key), ("", NEEDED))
        if rejected := self.get(uid, kind):
            self._rejected[uid][kind] = replace(rejected, at=self._clock.now() - rejections.LONGEST)
        return uid

    def __len__(self) -> int:
        return len(self._rejected.keys() | {uid for uid, _ in self._places.values()})


def kind_of(write: ChildWrite) -> str:
    return str(write.resource) if write.stage is Stage.EXTRAS else NEEDED


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


def _cause(write: ChildWrite, error: errors.Refused) -> Cause:
    """No job fails of what stays as it was; but what it continues without may be invalid."""
    if isinstance(write, Delete) or (isinstance(write, Patch) and write.stage is not Stage.EXTRAS):
        return Cause.UNCHANGED
    return Cause.NAMESPACE_ENDS if isinstance(error, errors.NamespaceTerminating) else Cause.REFUSED
