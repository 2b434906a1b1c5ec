"""One reconcile of one job: have the caches caught up? Observe, plan, carry out.

A reconcile is given a key and reads the current state; it does not matter what happened, or how often it is run. It
returns what is to follow. It may raise an ``ApiError``, and the controller then tries again later.
"""

from dataclasses import dataclass
from typing import Final

from tf_operator.controller import log_context
from tf_operator.controller.debounce import Debounce
from tf_operator.controller.job_notes import JobNotes
from tf_operator.controller.observe import Observer
from tf_operator.controller.result import DONE, NOW, Result, Turn
from tf_operator.controller.writing.execute import Executor
from tf_operator.machinery.cache.consistency import Freshness, OwnerKey, PendingWrites
from tf_operator.machinery.clock import Clock
from tf_operator.meta import ObjectKey
from tf_operator.planning.actions import Plan
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Snapshot

UNREADABLE_WAITS: Final = 10.0
"""Seconds after which a job whose namespace could not be read is reconciled again; it costs no request."""


@dataclass(frozen=True, slots=True)
class Reconciler:
    observer: Observer
    executor: Executor
    pending_writes: PendingWrites
    notes: JobNotes
    debounce: Debounce
    clock: Clock

    async def reconcile(self, key: ObjectKey) -> Result:
        try:
            return await self._reconcile(key)
        finally:
            # Also when this is cancelled, and nobody reconciles the key any more.
            stored = self.observer.stored(key)
            self.pending_writes.forget(key, except_uid=stored.metadata.uid if stored else "")

    async def _reconcile(self, key: ObjectKey) -> Result:
        stored = self.observer.stored(key)
        if stored is None:
            return DONE
        if self.observer.caches.is_stale(key.namespace):
            # The cache is from before this term, and lacks what the predecessor wrote. Most writes would meet a
            # version or a UID that has changed; not a create: a pod of a job that has ended meanwhile would be created.
            # So the whole namespace is left alone, for a moment or for ever; the others are not.
            return Result(UNREADABLE_WAITS)
        owner = OwnerKey(key, stored.metadata.uid)
        log_context.job_found(owner.uid)
        cache_state = self.pending_writes.cache_state(owner)
        if cache_state.freshness is Freshness.BEHIND:
            return Result(cache_state.seconds_left, Turn.UNCHANGED)
        if cache_state.freshness is Freshness.READ_LIVE:
            snapshot = await self.observer.live(owner, self.pending_writes)
            return await self._carry_out(*await self._complete(snapshot, make_plan(snapshot))) if snapshot else DONE
        began = self.clock.monotonic()
        snapshot = self.observer.from_caches(stored)
        plan = make_plan(snapshot)
        self.debounce.note(owner.uid, self.clock.monotonic() - began)
        return await self._carry_out(*await self._complete(snapshot, plan))

    async def _complete(self, snapshot: Snapshot, plan: Plan) -> tuple[Snapshot, Plan]:
        while plan.looks_for or plan.asks_about:
            snapshot = await self.observer.looked_for(snapshot, plan.looks_for)
            snapshot = await self.observer.asked_about(snapshot, plan.asks_about)
            plan = make_plan(snapshot)
        return snapshot, plan

    async def _carry_out(self, snapshot: Snapshot, plan: Plan) -> Result:
        log_context.job_read(snapshot.job.runtime_id)
        uid = snapshot.job.uid
        rejected = self.notes.rejections.of(uid)
        result = await self.executor.carry_out(snapshot, plan)
        if self.notes.rejections.of(uid) != rejected:
            return NOW  # something was refused, or is accepted again: the next plan reports it
        return result
