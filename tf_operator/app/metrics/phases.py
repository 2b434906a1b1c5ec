"""Which jobs are in which phase, kept up to date as they change, so that a scrape does not look at any job.

``JobPhases`` is a handler of the informer of jobs: it reads the phase of a job once for each change, and reports what
the job leaves and what it enters. Neighbour: ``jobs``, which has the series.
"""

import heapq
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from tf_operator.projections.jobs import StoredJob

PHASES: Final = ("New", "Created", "Running", "Restarting", "Suspended", "Queued", "Succeeded", "Failed")
WAITING_PHASES: Final = ("New", "Created", "Restarting")
"""Those in which a job does not run although it should."""
OTHER: Final = "Other"
"""Stands for every condition that is not ours: who may write a status must not be able to make series."""
_STALE: Final = 16


class PhaseEntry(NamedTuple):
    """One job, as it is counted."""

    uid: str
    namespace: str
    phase: str
    waits_since: datetime | None
    is_hung: bool = False


class JobPhases:
    """Reports each change of a job's phase."""

    def __init__(self, enter: Callable[[PhaseEntry], object], leave: Callable[[PhaseEntry], object]) -> None:
        self._enter = enter
        self._leave = leave
        self._entries: dict[str, PhaseEntry] = {}

    def on_add(self, item: StoredJob) -> None:
        """Count it; one that no reconcile has written to is ``New``."""
        summary, phase = item.summary, item.summary.phase
        label = (phase if phase in PHASES else OTHER) if phase else "New"
        now = PhaseEntry(item.metadata.uid, item.metadata.namespace, label, summary.waits_since, summary.is_hung)
        old = self._entries.get(now.uid)
        if old == now:
            return
        if old:
            self._leave(old)
        self._entries[now.uid] = now
        self._enter(now)

    def on_update(self, old: StoredJob, new: StoredJob) -> None:  # noqa: ARG002 (the protocol of handlers)
        self.on_add(new)

    def on_delete(self, last: StoredJob, *, final_state_known: bool) -> None:  # noqa: ARG002 (the protocol of handlers)
        if entry := self._entries.pop(last.metadata.uid, None):
            self._leave(entry)


class EarliestTime:
    """The earliest of some times that come and go; ``value`` may be read by any thread."""

    def __init__(self) -> None:
        self.value: datetime | None = None
        self._times: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def add(self, name: str, time: datetime) -> None:
        self._times[name] = time
        heapq.heappush(self._heap, (time, name))
        self._settle()

    def remove(self, name: str) -> None:
        if self._times.pop(name, None):
            self._settle()

    def _settle(self) -> None:
        if len(self._heap) > 2 * len(self._times) + _STALE:  # most of it is stale
            self._heap = [(time, name) for name, time in self._times.items()]
            heapq.heapify(self._heap)
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        self.value = self._heap[0][0] if self._heap else None
