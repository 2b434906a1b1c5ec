"""The control loop: workers take keys from the queue, and each reconcile ends in one of four ways.

``process`` is the whole of it. A reconcile that succeeds resets the backoff and may ask to be requeued later. One that
the apiserver fails is retried with backoff. One that may not write any more ends silently. One that panics is counted,
logged and retried like a failed one: other jobs are not affected.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tf_operator.controller import log_context
from tf_operator.controller.metrics_hooks import ReconcileInstruments, ReconcileResult
from tf_operator.controller.result import Result, Turn
from tf_operator.machinery.cache.store import Item
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.log import Logger
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey

_log = Logger(__name__)


class Reconciles(Protocol):
    """Does what is to be done for an object now: ``reconciler.Reconciler`` for jobs."""

    async def reconcile(self, key: ObjectKey) -> Result:
        """Read the current state, act, and say what is to follow."""


class Notes(Protocol):
    """What is kept between reconciles: ``job_notes.JobNotes`` for jobs."""

    def begin_term(self) -> None:
        """This process leads from now on."""

    def end_term(self) -> None:
        """This process stands by from now on, or ends."""


@dataclass(frozen=True, slots=True)
class Controller:
    queue: RateLimitedQueue[ObjectKey]
    jobs: Iterable[Item]
    """All that are reconciled when a term begins."""
    reconciler: Reconciles
    notes: Notes
    clock: Clock
    instruments: ReconcileInstruments
    workers: int

    async def run(self) -> None:
        """Reconcile every job, and then those that change; until cancelled, or drained."""
        self.notes.begin_term()
        self.queue.resume()
        for job in self.jobs:
            self.queue.add(job.metadata.key)
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self.workers):
                    tasks.create_task(self._work(), name=f"worker {number}")
        finally:
            self.queue.pause()
            self.notes.end_term()

    async def drain(self) -> None:
        """Start no further reconcile, and return when those that run are done."""
        await self.queue.shut_down_with_drain()

    async def _work(self) -> None:
        async for key in self.queue:
            with self.queue.done_after(key):
                if not self.queue.is_shutting_down:  # else the next leader reconciles it, as it does every job
                    await self.process(key)

    async def process(self, key: ObjectKey) -> None:
        """Reconcile one job, and decide what happens to its key; every log record names the job."""
        with log_context.reconcile_of(key):
            await self._process(key)

    async def _process(self, key: ObjectKey) -> None:
        began = self.clock.monotonic()
        self.instruments.began()
        result = ReconcileResult.ERROR
        try:
            result = self._after(key, await self.reconciler.reconcile(key))
        except NotLeading:
            self.queue.add_rate_limited(key)
        except errors.ApiError as error:
            _log.info("reconcile failed; retrying", cause=error.name, error=str(error))
            self.queue.add_rate_limited(key)
        except Exception:  # noqa: BLE001 (whatever it is, the other jobs must not suffer for it)
            self.instruments.panicked()
            _log.exception("reconcile panicked; retrying")
            self.queue.add_rate_limited(key)
        finally:
            self.instruments.ended(result, self.clock.monotonic() - began)

    def _after(self, key: ObjectKey, result: Result) -> ReconcileResult:
        """A reconcile that ended well: its next failure is its first; it may have more to do, and others go first."""
        self.queue.forget(key)
        if result.turn is Turn.GIVES_WAY:
            self.queue.lower_priority(key)
        elif result.turn is not Turn.UNCHANGED:
            self.queue.restore_priority(key)
        if result.after is None:
            return ReconcileResult.SUCCESS
        self.queue.add_after(key, result.after)
        return ReconcileResult.REQUEUE_AFTER if result.after > 0 else ReconcileResult.REQUEUE
