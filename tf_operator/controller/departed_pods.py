"""The last states of pods that were deleted, until the status of their job records them.

Lost with a restart: what ran is in the status, so a pod that is gone counts as lost then. A process that does not lead
keeps successes only, of jobs that go on: its predecessor may not live to record them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
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

    def __init__(self, phase_of: Callable[[str], str | None], job_of: Callable[[str], TrainingJob | None]) -> None:
        """By the UID of a job, ``phase_of``: where it stands, ``None`` if there is none; ``job_of``: itself, slowly."""
        self._phase_of = phase_of
        self._job_of = job_of
        self._leads = False
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
        if pod.phase in _ENDED and self._phase_of(uid) is not None:
            self._states.setdefault(uid, _LastStates()).ended[pod.type, pod.index] = pod

    def note_deleted(self, uid: str, pod: Pod) -> None:
        """A pod of the job was deleted, and this is how it was last seen. One for each replica; success stays."""
        place, ended = (pod.type, pod.index), None
        if states := self._states.get(uid):
            ended = states.ended.pop(place, None)
        last = ended if ended and ended.uid == pod.uid else pod
        phase = self._phase_of(uid)
        if not self._is_needed(last, phase, self._counts(uid, phase) if last.phase == _SUCCEEDED else None):
            return
        departed = self._states.setdefault(uid, _LastStates()).departed
        if place not in departed or departed[place].phase != _SUCCEEDED:
            departed[place] = last.changed(is_gone=True)

    def note_changed(self, uid: str) -> None:
        """The job has changed. What is known of a replica that is scaled away says nothing of the next one."""
        if states := self._states.get(uid):
            phase = self._phase_of(uid)
            has_success = any(pod.phase == _SUCCEEDED for pod in states.departed.values())
            counts = self._counts(uid, phase) if has_success else None
            states.departed = {
                place: pod for place, pod in states.departed.items() if self._is_needed(pod, phase, counts)
            }

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
        self._leads = True
        for states in self._states.values():
            states.ended.clear()
            states.departed = {place: pod for place, pod in states.departed.items() if pod.phase == _SUCCEEDED}

    def end_term(self) -> None:
        """This process stands by from now on."""
        self._leads = False
        for uid in self._states:
            self.note_changed(uid)

    def forget(self, uid: str) -> None:
        self._states.pop(uid, None)

    def _counts(self, uid: str, phase: str | None) -> Mapping[ReplicaType, int] | None:
        """How many replicas of each type a job that goes on wants."""
        job = None if phase is None or phase in _ENDED else self._job_of(uid)
        return {spec.type: spec.count for spec in job.in_force().replicas} if job else None

    def _is_needed(self, last: Pod, phase: str | None, counts: Mapping[ReplicaType, int] | None) -> bool:
        if last.phase != _SUCCEEDED or phase is None or phase in _ENDED:
            return self._leads and phase is not None
        return counts is None or last.index < counts.get(last.type, 0)

    def __len__(self) -> int:
        return len(self._states)
