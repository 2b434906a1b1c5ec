"""What is collected for a job, so that one write of its status, and one event, says it all.

Lost with a restart: progress is then written at once, and pods that were just created have no event.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tf_operator.machinery.clock import Clock
from tf_operator.planning.actions import Plan


@dataclass(slots=True)
class _Batch:
    created: list[str] = field(default_factory=list)
    unreported: Plan | None = None
    since: float | None = None
    """When there was progress that is not written yet, on the monotonic clock."""


class StatusBatches:
    """Batches by the UID of their job; of a job that is not cached nothing is kept."""

    def __init__(self, clock: Clock, exists: Callable[[str], bool]) -> None:
        """``exists``: whether there is a job of this UID."""
        self._clock = clock
        self._exists = exists
        self._batches: dict[str, _Batch] = {}

    def begin_term(self) -> None:
        """What was created in an earlier term has been reported since, or never will be."""
        for batch in self._batches.values():
            batch.created, batch.since = [], None

    def note_unreported(self, uid: str, plan: Plan) -> None:
        """It is unknown whether the status of this plan was stored, and so nothing was reported."""
        self._of(uid).unreported = plan

    def take_unreported(self, uid: str) -> Plan | None:
        """The plan that is to be reported, if its status was stored."""
        batch = self._batches.get(uid)
        if batch is None:
            return None
        plan, batch.unreported = batch.unreported, None
        return plan

    def note_created(self, uid: str, name: str) -> None:
        """A pod of the job was created, and no event says so yet."""
        self._of(uid).created.append(name)

    def take_created(self, uid: str) -> list[str]:
        """The names of the pods that no event has named yet; the next one names others."""
        batch = self._batches.get(uid)
        if batch is None:
            return []
        created, batch.created = batch.created, []
        return created

    def note_progress(self, uid: str) -> float:
        """There is progress; since when there is some that is not written yet, on the monotonic clock."""
        batch, now = self._of(uid), self._clock.monotonic()
        batch.since = now if batch.since is None else batch.since
        return batch.since

    def time_left(self, uid: str, seconds: float) -> float:
        """For how much longer to collect progress, which is collected for so many seconds from the first."""
        return self.note_progress(uid) + seconds - self._clock.monotonic()

    def note_written(self, uid: str) -> None:
        if batch := self._batches.get(uid):
            batch.since = None

    def forget(self, uid: str) -> None:
        self._batches.pop(uid, None)

    def __len__(self) -> int:
        return len(self._batches)

    def _of(self, uid: str) -> _Batch:
        return self._batches.setdefault(uid, _Batch()) if self._exists(uid) else _Batch()
