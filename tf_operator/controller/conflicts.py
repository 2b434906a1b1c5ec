"""Whether another controller reconciles our jobs, too: two of them destroy each other's work.

The one sign that our rights allow, and that is no guess: the status of a job changes, and ``managedFields`` says that a
known controller of such jobs changed it. Only a change *while this process watches* counts. What a controller wrote
last week stays in ``managedFields`` for ever, and a migration begins by switching that controller off; so versions of
one object are compared with each other, and no time with any clock.

A process that is starting ends (``watch``): the controller that came first continues alone. A process that has worked
for a while only reports the conflict, because its end would leave all jobs without a controller. If jobs of the other
controller are active, the start waits for a moment, and watches before anything is written (``wait_until_clear``). What
this cannot see: a controller that has nothing to do, one with a name that is not known here, and another tf-operator.
ADR 0012 describes the alternatives.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from tf_operator.controller.metrics_hooks import JobInstruments
from tf_operator.controller.reporter import Recorder
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.report import EventKind
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.events.event_object import reference_to
from tf_operator.machinery.log import Logger
from tf_operator.projections.jobs import FieldManager, StoredJob

# What managedFields calls them: the program's name. ``manager`` is training-operator from 1.3 on, whose image has it
# under that name; the others are its predecessors.
_KNOWN: Final = re.compile(r"manager|training-operator|tf-operator\.v\w+|tf-operator-v\w+")
WATCH_FOR: Final = 10.0
"""Seconds for which a start waits when jobs of another controller are active; 1.9 writes a status within one."""
STARTING_FOR: Final = 60.0
"""Seconds after the caches have synced in which a conflict ends this process."""
REPORT_EVERY: Final = 60.0
_POST_WITHIN: Final = 1.0
"""Seconds in which the event can be posted."""
_WHAT_TO_DO: Final = (
    "Two destroy each other's jobs: stop the other one, or give each of them namespaces of its own. If it is none that "
    "reconciles {kind}s, start with --override-existing-controller"
)

_log = Logger(__name__)


class ConflictingController(Exception):
    """Another controller reconciles our jobs; the message says which write showed it, and what to do."""


@dataclass(frozen=True, slots=True)
class ConflictingWrite:
    """A change of a job's status by another controller, while this process watched."""

    job: StoredJob
    manager: FieldManager
    api: ServedAPI

    def __str__(self) -> str:
        return (
            f"another controller reconciles {self.api.resource.kind}s: {self.manager.name!r} changed the status of "
            f"{self.job.metadata.namespace}/{self.job.metadata.name} at {self.manager.time}"
        )


class ConflictDetector:
    """Detects other controllers of any of the served APIs."""

    def __init__(self, clock: Clock, *, recorder: Recorder, is_overridden: bool = False) -> None:
        """``is_overridden``: conflicts are reported only, and stop nothing."""
        self._clock = clock
        self._recorder = recorder
        self._is_overridden = is_overridden
        self._observed: list[Informer[StoredJob]] = []
        self._watches = asyncio.Event()
        self._has_conflict = asyncio.Event()
        self._first: ConflictingWrite | None = None
        self._report_at = clock.monotonic()

    def observe(self, jobs: Informer[StoredJob], api: ServedAPI, instruments: JobInstruments) -> None:
        self._observed.append(jobs)
        jobs.add_handler(_StatusChanges(api, instruments, self._note))

    async def wait_until_clear(self) -> None:
        """Return when this process may write. Call it with synced caches; ``watch`` decides from then on."""
        self._watches.set()
        if not self._is_overridden and any(_is_of_another(job) for jobs in self._observed for job in jobs.store):
            _log.info("checking whether the controller that ran these jobs is still active", seconds=WATCH_FOR)
            await self._clock.sleep(WATCH_FOR)
        if self._has_conflict.is_set() and not self._is_overridden:
            await _until_cancelled()

    async def watch(self) -> NoReturn:
        """Raise ``ConflictingController`` if there is a conflict while this process starts; never return."""
        await self._watches.wait()
        with suppress(TimeoutError):
            async with self._clock.timeout(STARTING_FOR):
                await self._has_conflict.wait()
        if self._first and not self._is_overridden:
            await self._clock.sleep(_POST_WITHIN)
            what_to_do = _WHAT_TO_DO.format(kind=self._first.api.resource.kind)
            raise ConflictingController(f"{self._first}. {what_to_do}")
        await _until_cancelled()

    def _note(self, conflict: ConflictingWrite) -> None:
        self._first = self._first or conflict
        self._has_conflict.set()
        if self._clock.monotonic() >= self._report_at:
            self._report_at = self._clock.monotonic() + REPORT_EVERY
            self._report(conflict)

    def _report(self, conflict: ConflictingWrite) -> None:
        metadata = conflict.job.metadata
        _log.warning(str(conflict), job_namespace=metadata.namespace, job_name=metadata.name, job_uid=metadata.uid)
        self._recorder.event(
            reference_to(conflict.api.resource, metadata.key, metadata.uid),
            "Warning",
            reason=conflict.api.event_reason(EventKind.ANOTHER_CONTROLLER),
            message=f"{conflict.manager.name!r} changed the status of this job, too: two controllers destroy each "
            "other's jobs",
        )


@dataclass(frozen=True, slots=True)
class _StatusChanges:
    api: ServedAPI
    instruments: JobInstruments
    note: Callable[[ConflictingWrite], object]

    def on_add(self, item: StoredJob) -> None:
        """Nothing to compare it with."""

    def on_update(self, old: StoredJob, new: StoredJob) -> None:
        if old.status == new.status:
            return  # who may write a job, but not its status, may write any manager of its status
        previous = _others(old)
        for manager in _others(new) if new.summary.is_ours else ():
            if manager not in previous:
                self.instruments.changed_by_another(new.metadata.namespace)
                self.note(ConflictingWrite(new, manager, self.api))

    def on_delete(self, last: StoredJob, *, final_state_known: bool) -> None:
        """No sign: anybody may delete jobs."""


def _others(job: StoredJob) -> tuple[FieldManager, ...]:
    """Other controllers that have changed the status of the job, each with the time of its last change."""
    return tuple(manager for manager in job.status_managers() if _KNOWN.fullmatch(manager.name))


def _is_of_another(job: StoredJob) -> bool:
    """Whether an active job has a status that another controller has written."""
    return bool(_others(job)) and job.summary.is_ours and not job.summary.is_finished


async def _until_cancelled() -> NoReturn:
    while True:
        await asyncio.Event().wait()
