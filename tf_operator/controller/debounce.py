"""For how long changes of a job are collected before it is reconciled: changes come in swarms, and one look is enough.

Somebody who changes a job twenty times a second must not load the event loop that serves everybody. So the wait grows
with what a reconcile of this job costs: observing and planning, which the loop does without a pause. It costs no job
more than a twentieth of the loop, whatever its size and whoever changes it.
"""

from typing import Final

SHORTEST: Final = 0.1
LONGEST: Final = 10.0
"""Seconds. A job has to be very large for it: 10,000 replicas are observed and planned in a fraction of a second."""
WAIT_PER_COST: Final = 20.0


class Debounce:
    """What reconciles have cost lately, by the UID of the job."""

    def __init__(self) -> None:
        self._costs: dict[str, tuple[float, float]] = {}

    def note(self, uid: str, seconds: float) -> None:
        """A reconcile of the job has kept the loop busy for so long."""
        _, last = self._costs.get(uid, (0.0, 0.0))
        self._costs[uid] = last, seconds

    def wait(self, uid: str) -> float:
        """Seconds for which to collect changes of the job."""
        # The lower of the last two: the machine may have been busy with something else in one of them.
        cost = min(self._costs.get(uid, (0.0, 0.0)))
        return min(max(SHORTEST, cost * WAIT_PER_COST), LONGEST)

    def forget(self, uid: str) -> None:
        self._costs.pop(uid, None)

    def __len__(self) -> int:
        return len(self._costs)
