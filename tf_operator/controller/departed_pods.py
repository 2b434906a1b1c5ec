"""The last states of pods that were deleted, until the status of their job records them.

Lost with a restart: what ran is in the status, so a pod that is gone counts as lost then.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tf_operator.job.record import ReplicaType
from tf_operator.planning.snapshot import Pod

_SUCCEEDED: Final = "Succeeded"
_ENDED: Final = frozenset({_SUCCEEDED, "Failed"})


@dataclass(slots=True)
class _LastStates:
    departed: dict[tuple[ReplicaType, int], Pod] = field(default_factory=dict)
    ended: dict[tuple[ReplicaType, int], Pod] = field(default_factory=dict)
    """How pods were that had ended when somebody deleted them; until they are gone."""


class DepartedPods:
    """Deleted pods by the UID of their job, one for each replica; of a job that is not cached nothing is kept."""

    def __init__(self, exists: Callable[[str], bool]) -> None:
        """``exists``: whether there is a job of this UID."""
        self._exists = exists
        self._states: dict[str, _LastStates] = {}

    def of(self, uid: str) -> tuple[Pod, ...]:
        """The job's pods that were deleted, and are not recorded in its status."""
        states = self._states.get(uid)
        return tuple(states.departed.values()) if states else ()

    def note_created(self, uid: str, pod: Pod) -> None:
        """A pod is there. It is only created when its predecessor is recorded, or is to run again."""
        states = self._states.get(uid)
        if states and (departed := states.departed.get((pod.type, pod.index))) and departed.uid != pod.uid:
            del states.departed[pod.type, pod.index]

    def note_terminating(self, uid: str, pod: Pod) -> None:
        """Somebody deletes a pod, and this is how it was before; one that had ended did not end because of that."""
        if pod.phase in _ENDED and self._exists(uid):
            self._states.setdefault(uid, _LastStates()).ended[pod.type, pod.index] = pod

    def note_deleted(self, uid: str, pod: Pod) -> None:
        """A pod of the job was deleted, and this is how it was last seen. One for each replica; success stays."""
        if not self._exists(uid):
            return
        states, place = self._states.setdefault(uid, _LastStates()), (pod.type, pod.index)
        ended, departed = states.ended.pop(place, None), states.departed.get(place)
        if departed is None or departed.phase != _SUCCEEDED:
            last = ended if ended and ended.uid == pod.uid else pod
            states.departed[place] = last.changed(is_gone=True)

    def note_recorded(self, uid: str, pods: tuple[Pod, ...]) -> bool:
        """The status says what there is to be said of these; whether one of them is forgotten now."""
        departed = self._states[uid].departed if uid in self._states else {}
        is_forgotten = False
        for pod in pods:
            place = (pod.type, pod.index)
            if place in departed and departed[place].says_the_same(pod):
                del departed[place]
                is_forgotten = True
        return is_forgotten

    def begin_term(self) -> None:
        """This process leads from now on. What failed before has been counted by its predecessor, or shows as lost."""
        for states in self._states.values():
            states.ended.clear()
            states.departed = {place: pod for place, pod in states.departed.items() if pod.phase == _SUCCEEDED}

    def forget(self, uid: str) -> None:
        self._states.pop(uid, None)

    def __len__(self) -> int:
        return len(self._states)
