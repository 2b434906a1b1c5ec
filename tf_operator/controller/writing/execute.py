"""Carries out plans, in the order of ``steps``: record, act, confirm.

What is recorded is guarded by the version of the job that was decided on. Progress is not stored for every pod: what
happens within half a second, or longer where a status is large, is one write. Events and counts follow a status that
has been stored, so each is reported once.

Once the end of a job is stored, jobs that wait go first. What is left is its clean-up; where two hundred jobs end
together, nobody's result waits for the clean-up of the others.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, assert_never

from msgspec import structs

from tf_operator.controller import debounce, log_context
from tf_operator.controller.job_notes import JobNotes
from tf_operator.controller.rejections import ChildWrite, is_answer, kind_of
from tf_operator.controller.reporter import PlanReporter
from tf_operator.controller.result import DONE, NOW, Result, Turn
from tf_operator.controller.writing import shares, steps
from tf_operator.controller.writing.shares import Share, Shares, Stop
from tf_operator.controller.writing.steps import Act, DeleteJob, ResumeJob, Step, StoreStatus
from tf_operator.controller.writing.writes import Writer
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.report import EventKind
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.cache.consistency import OwnerKey
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import Body
from tf_operator.planning.actions import Action, Create, Delete, DeleteCollection, Event, Patch, Plan, Stage
from tf_operator.planning.snapshot import Snapshot

UNFINISHED_WAITS: Final = 5.0
"""Seconds for which progress is collected of a job whose plan is carried out in shares: a share costs no write."""

_log = Logger(__name__)

_AT_FIRST: Final[Mapping[Stage, int]] = {
    Stage.DELETES: shares.MOST_AT_ONCE,
    Stage.DEPENDENCIES: shares.MOST_AT_ONCE,
    Stage.PODS: 1,
    Stage.EXTRAS: shares.MOST_AT_ONCE,
}
"""How many actions of a stage are begun at once, before the first is done."""

Write = Callable[[], Awaitable[bool | None]]
"""``False`` when what was to be done is still to be done."""


class _CreateRejected(Exception):
    """The server does not accept a child. It is noted, and the next plan reports it."""


@dataclass(frozen=True, slots=True)
class Executor:
    """Carries out the plans of all jobs."""

    writer: Writer
    shares: Shares
    notes: JobNotes
    api: ServedAPI
    jobs: Resource
    reporter: PlanReporter

    async def carry_out(self, snapshot: Snapshot, plan: Plan) -> Result:
        """Carry out a plan, or as much of it as is the job's share; what is to follow."""
        job = snapshot.job
        if plan.report:
            self.reporter.take_up(job)
        self._report_late(job)
        match taken := steps.steps(plan):
            case (DeleteJob(),):
                return await self._delete_job(job, plan)
            case (ResumeJob(),):
                await self._resume_job(job)
                return NOW
        return await self._take(snapshot, plan, taken)

    async def _take(self, snapshot: Snapshot, plan: Plan, taken: Sequence[Step]) -> Result:
        job, is_done, stop, confirmed = snapshot.job, True, None, DONE
        next_plan = Result.of(plan.requeue_after)
        for number, step in enumerate(taken, 1):
            if isinstance(step, Act):
                or_else = partial(self._confirm_all, snapshot, plan, steps.after_failure(taken[number:]))
                is_done, stop = await self._act_or(or_else, job, step, self.shares.begin(job, next_plan.after))
                if stop is Stop.CHANGED:
                    return NOW
            elif isinstance(step, StoreStatus) and step.is_progress:
                waits = 0.0 if step.has_waited else self.api.progress_waits(job)
                wait = max(waits, UNFINISHED_WAITS) if stop else waits
                confirmed = confirmed.or_earlier(await self._confirm(snapshot, plan, collected_for=wait))
            elif isinstance(step, StoreStatus):
                confirmed = confirmed.or_earlier(await self._store_status(snapshot, plan))
                if plan.cleans_up and self.shares.line.has_waiting:
                    return Result(0.0, Turn.GIVES_WAY)
        if stop:
            return Result(0.0, Turn.GIVES_WAY)
        return next_plan.or_earlier(confirmed).or_earlier(DONE if is_done else NOW)

    def _report_late(self, job: TrainingJob) -> None:
        """Report the step of which it was unknown whether its status was stored, if it was."""
        unreported = self.notes.status_batches.take_unreported(job.uid)
        if unreported and unreported.report and self.api.is_stored(unreported.report, job):
            self.reporter.report(job, unreported)

    async def _delete_job(self, job: TrainingJob, plan: Plan) -> Result:
        """Delete the job itself, and report it: there is no status any more that could say so."""
        await self.writer.delete(_owner(job), self.jobs, name=job.key.name, uid=job.uid)
        self.reporter.report(job, plan)
        return DONE

    async def _resume_job(self, job: TrainingJob) -> None:
        """Change the spec of the job itself, as it was read. What else is to be done, the next plan says."""
        *parents, field = job.profile.suspend_path
        spec: dict[str, Any] = {field: False}
        for parent in reversed(parents):
            spec = {parent: spec}
        body = {"metadata": {"resourceVersion": job.resource_version}, "spec": spec}
        await self.writer.patch(_owner(job), self.jobs, job.key.name, body=body)

    async def _store_status(self, snapshot: Snapshot, plan: Plan, patch: Body | None = None) -> Result:
        """Write the status, if it says anything new, and report the step. The ``patch`` may be known already.

        Where nothing is written, nobody wakes the job again. A plan that knows of no pod that is gone may be another:
        it is made as late as one of the largest job, which is not planned more often because of this.
        """
        job = snapshot.job
        patch = self.api.status_patch(plan.report) if patch is None else patch
        if patch and plan.report and plan.report.waiting_progress:
            plan = structs.replace(plan, report=plan.report.with_progress())
            patch = self.api.status_patch(plan.report)
        if patch:
            body = {"metadata": {"resourceVersion": job.resource_version}, "status": patch}
            try:
                await self.writer.patch(_owner(job), self.jobs, job.key.name, body=body, subresource="status")
            except errors.ApiError as error:
                if error.outcome_unknown:
                    self.notes.status_batches.note_unreported(job.uid, plan)
                raise
            self.reporter.report(job, plan)
        gone_pods = tuple(pod for pod in snapshot.pods if pod.is_gone)
        is_forgotten = self.notes.departed_pods.note_recorded(job.uid, gone_pods)
        self.notes.status_batches.note_written(job.uid)
        if plan.report:
            self.notes.progress_reports.note_stored(job.uid, plan.report.record.progress)
        return Result(debounce.LONGEST) if is_forgotten and plan.report and not patch else DONE

    async def _confirm(self, snapshot: Snapshot, plan: Plan, *, collected_for: float) -> Result:
        """Write progress, unless more of it is likely to follow at once: then it is to be written later."""
        job, report = snapshot.job, plan.report
        # A status takes as long as the rest of a plan. Of one that waits it is enough that it says something new.
        patch = None if report and report.record.phase is not job.record.phase else self.api.status_patch(report)
        if patch is None or patch:
            waits = self.notes.status_batches.time_left(job.uid, collected_for)
            if waits > 0:
                return Result(waits)
        return await self._store_status(snapshot, plan, patch)

    async def _confirm_all(self, snapshot: Snapshot, plan: Plan, left: Sequence[StoreStatus]) -> None:
        """What is stored although the actions failed."""
        for _ in left:
            await self._confirm(snapshot, plan, collected_for=UNFINISHED_WAITS)

    async def _act_or(
        self, or_else: Callable[[], Awaitable[object]], job: TrainingJob, act: Act, share: Share
    ) -> tuple[bool, Stop | None]:
        """Act; when the server fails, store the progress all the same."""
        try:
            return await self._act(job, act, share)
        except errors.ApiError:
            await or_else()
            raise

    async def _act(self, job: TrainingJob, act: Act, share: Share) -> tuple[bool, Stop | None]:
        """Stage by stage. Whether that was all, and why it stopped."""
        stop, is_done = None, True
        try:
            for stage, actions in act.stages:
                writes = [self._write(job, action) for action in actions]
                done = await shares.carry_out(writes, share, at_first=_AT_FIRST[stage])
                is_done, stop = is_done and False not in done.outcomes, done.stop
                if stop:
                    return is_done, stop
            self._clear_rejections(job, [action for _, actions in act.stages for action in actions], is_done=is_done)
        except _CreateRejected:
            pass
        finally:
            if stop is not Stop.SHARE_OVER:
                self._report_created(job)
        return is_done, stop

    def _clear_rejections(self, job: TrainingJob, actions: Sequence[Action], *, is_done: bool) -> None:
        if not any(isinstance(action, Create) and action.stage is not Stage.EXTRAS for action in actions):
            self.notes.rejections.clear_if_over(job.uid)
        elif is_done:
            self.notes.rejections.clear(job.uid)

    def _report_created(self, job: TrainingJob) -> None:
        """One event for all pods that were created, however many shares it took."""
        if names := self.notes.status_batches.take_created(job.uid):
            self.reporter.event(job, Event(EventKind.CHILDREN_CREATED, _created_message(names)))

    def _write(self, job: TrainingJob, action: Action) -> Write:
        owner, resource = _owner(job), action.resource
        match action:
            case Create():
                return partial(self._create, owner, action)
            case Patch():
                return partial(self._patch, owner, resource, action)
            case Delete():
                return partial(self._delete, owner, action)
            case DeleteCollection():
                request = requests.delete_all(resource, Scope(owner.key.namespace, label_selector=action.selector))
                uids = [child.uid for child in action.objects]
                return partial(self.writer.delete_all, owner, resource, request=request, uids=uids)
        assert_never(action)

    async def _create(self, owner: OwnerKey, action: Create) -> None:
        with log_context.replica(action.replica):
            for child in action.in_order():
                await self._create_child(owner, child.resource, child)

    async def _create_child(self, owner: OwnerKey, resource: Resource, child: Create) -> None:
        try:
            await self.writer.create(owner, resource, child.body(), is_watched=child.is_watched)
        except errors.Refused as refusal:
            if isinstance(refusal, errors.AlreadyExists):
                self.notes.rejections.note_taken(owner.uid, owner.key.namespace, child)
            if not is_answer(refusal):
                raise
            _log.info("a create was rejected", what=child.subject, cause=refusal.name, error=str(refusal))
            self.notes.rejections.note(owner.uid, child, refusal)
            if child.stage is Stage.EXTRAS:
                return
            raise _CreateRejected from refusal
        self._clear_extra(owner, child)
        if child.is_announced:
            self.notes.status_batches.note_created(owner.uid, child.name)

    async def _patch(self, owner: OwnerKey, resource: Resource, action: Patch) -> bool:
        """Whether the object is as it is wanted. One that stays as it was ends no job, and holds up no other step."""
        # An update of a main resource with another object's UID is refused; of a subresource, one of another version.
        only_at = {"resourceVersion": action.version} if action.version else {}
        content = action.content(self.shares.clock.now())
        body = {**content, "metadata": {**content.get("metadata", {}), "uid": action.uid, **only_at}}
        try:
            await self.writer.patch(owner, resource, action.name, body=body, subresource=action.subresource)
        except errors.Refused as refusal:
            if not is_answer(refusal, is_change=True):
                raise
            _log.info("a change was rejected", what=action.subject, cause=refusal.name, error=str(refusal))
            self.notes.rejections.note(owner.uid, action, refusal)
            return action.stage is Stage.EXTRAS
        self._clear_extra(owner, action)
        return True

    async def _delete(self, owner: OwnerKey, action: Delete) -> bool:
        """Whether it is deleted. An extra that stays is noted, and deleted later."""
        of = {"name": action.name, "uid": action.uid, "only_at": action.version}
        try:
            is_done = await self.writer.delete(owner, action.resource, **of)
        except errors.Refused as refusal:
            if action.stage is not Stage.EXTRAS or not is_answer(refusal):
                raise
            _log.info("a deletion was rejected", what=action.reason, cause=refusal.name, error=str(refusal))
            self.notes.rejections.note(owner.uid, action, refusal)
            return True
        self._clear_extra(owner, action)
        return is_done

    def _clear_extra(self, owner: OwnerKey, action: ChildWrite) -> None:
        """What the job continues without is accepted. What it needs is cleared when all of it is there."""
        if action.stage is Stage.EXTRAS:
            self.notes.rejections.clear(owner.uid, kind_of(action))


def _owner(job: TrainingJob) -> OwnerKey:
    return OwnerKey(job.key, job.uid)


def _created_message(names: Sequence[str], most: int = 8) -> str:
    """What was created, by name up to a bound."""
    listed = ", ".join(sorted(names)[:most])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"Created {len(names)} pod{'s' if len(names) > 1 else ''}: {listed}{more}"
