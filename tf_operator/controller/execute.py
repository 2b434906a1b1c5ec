"""Carries out plans: record, act, confirm.

Record: what the actions destroy the evidence of is stored first, guarded by the version of the job that was decided
on. Act: deletes, then creates. Confirm: progress is stored last, and not for every pod: what happens within half a
second is one write. Events and counts follow a status that has been stored, so each is reported once.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, assert_never

import structlog

from tf_operator.api import naming
from tf_operator.api.job import TrainingJob
from tf_operator.api.report import EventKind
from tf_operator.controller import log_context, resources, shares
from tf_operator.controller.job_notes import JobNotes
from tf_operator.controller.reporter import PlanReporter
from tf_operator.controller.shares import Share, Shares, Stop
from tf_operator.controller.writes import Writer
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.consistency import OwnerKey
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import ObjectKey
from tf_operator.planning.actions import (
    Action,
    CreatePodGroup,
    CreateReplica,
    DeleteJob,
    DeletePod,
    DeletePodGroup,
    DeleteService,
    DeleteServices,
    Event,
    PatchPodGroup,
    Plan,
)
from tf_operator.planning.snapshot import Snapshot

PROGRESS_WAITS: Final = 0.5
"""Seconds for which progress is collected before it is written."""
UNFINISHED_WAITS: Final = 5.0
"""The same for a job whose plan is carried out in shares: a share is to cost no write of the status."""

_log = structlog.get_logger(__name__)

Step = Callable[[], Awaitable[bool | None]]
"""``False`` when what was to be done is still to be done."""


@dataclass(frozen=True, slots=True)
class Result:
    """What is to follow a reconcile."""

    after: float | None = None
    """In how many seconds to reconcile again, if nothing happens until then."""
    has_more: bool | None = False
    """Whether it stopped for others, with more to do; ``None``: as it was before."""


@dataclass(frozen=True, slots=True)
class Executor:
    """Carries out the plans of all jobs."""

    writer: Writer
    shares: Shares
    notes: JobNotes
    api: ServedAPI
    jobs: Resource
    reporter: PlanReporter
    groups: Resource | None

    async def carry_out(self, seen: Snapshot, plan: Plan) -> Result:
        """Carry out a plan, or as much of it as is the job's share; what is to follow."""
        job = seen.job
        next_plan = plan.requeue_after.total_seconds() if plan.requeue_after is not None else None
        waits = None
        unreported = self.notes.status_batches.take_unreported(job.uid)
        if unreported and unreported.report and self.api.is_stored(unreported.report, job):
            self.reporter.report(job, unreported)
        if plan.status_first:
            await self._store_status(seen, plan)
        with_status = None if plan.status_first else partial(self._confirm, seen, plan, UNFINISHED_WAITS)
        is_done, stop = await self._act_or(with_status, job, plan.actions, self.shares.begin(job, next_plan))
        if stop is Stop.CHANGED:
            return Result(0.0)
        if not plan.status_first:
            waits = await self._confirm(seen, plan, UNFINISHED_WAITS if stop else PROGRESS_WAITS)
        if stop:
            return Result(0.0, has_more=True)
        if any(isinstance(action, DeleteJob) for action in plan.actions):
            self.reporter.report(job, plan)  # there is no status any more that could say so
        moments = (0.0 if not is_done else None, waits, next_plan)
        return Result(min((moment for moment in moments if moment is not None), default=None))

    async def _store_status(self, seen: Snapshot, plan: Plan) -> None:
        """Write the status, if it says anything new, and report the step."""
        job = seen.job
        if patch := self.api.status_patch(plan.report):
            body = {"metadata": {"resourceVersion": job.resource_version}, "status": patch}
            try:
                await self.writer.patch(_owner(job), self.jobs, job.key.name, body=body, subresource="status")
            except errors.ApiError as error:
                if error.outcome_unknown:
                    self.notes.status_batches.note_unreported(job.uid, plan)
                raise
            self.reporter.report(job, plan)
        self.notes.departed_pods.note_recorded(job.uid, tuple(pod for pod in seen.pods if pod.is_gone))
        self.notes.status_batches.note_written(job.uid)

    async def _confirm(self, seen: Snapshot, plan: Plan, collected_for: float) -> float | None:
        """Write progress, unless more of it is likely to follow at once; then, how long to wait for it."""
        job = seen.job
        if self.api.status_patch(plan.report):
            waits = self.notes.status_batches.time_left(job.uid, collected_for)
            if waits > 0:
                return waits
        await self._store_status(seen, plan)
        return None

    async def _act_or(
        self,
        or_else: Callable[[], Awaitable[object]] | None,
        job: TrainingJob,
        actions: Sequence[Action],
        share: Share,
    ) -> tuple[bool, Stop | None]:
        """Act; when the server fails, store the progress all the same: deadlines count from a start that is stored."""
        try:
            return await self._act(job, actions, share)
        except errors.ApiError:
            if or_else:
                await or_else()
            raise

    async def _act(self, job: TrainingJob, actions: Sequence[Action], share: Share) -> tuple[bool, Stop | None]:
        """Deletes first, then creates; a Service always before its pod. Whether that was all, and why it stopped."""
        creates = [action for action in actions if isinstance(action, CreateReplica)]
        steps = [self._step(job, action) for action in actions if not isinstance(action, CreateReplica)]
        done = await shares.carry_out(steps, share, at_first=shares.MOST_AT_ONCE)
        is_done = False not in done.outcomes
        if done.stop:
            return is_done, done.stop
        if not creates:
            self.notes.rejections.clear_if_over(job.uid)
            self._report_created(job)  # by a share before the plan changed
            return is_done, None
        return is_done, await self._create_replicas(job, creates, share, is_all=is_done)

    async def _create_replicas(
        self, job: TrainingJob, creates: Sequence[CreateReplica], share: Share, *, is_all: bool
    ) -> Stop | None:
        stop = None
        try:
            done = await shares.carry_out(
                [partial(self._create_one, job, action) for action in creates], share, at_first=1
            )
            stop = done.stop
            if is_all and not stop:
                self.notes.rejections.clear(job.uid)
        except errors.ApiError as error:
            if not _is_answer(error):
                raise
            # What was refused is noted now; the plan that follows reports it.
        finally:
            if stop is not Stop.SHARE_OVER:
                self._report_created(job)
        return stop

    def _report_created(self, job: TrainingJob) -> None:
        """One event for all pods that were created, however many shares it took."""
        if made := self.notes.status_batches.take_created(job.uid):
            self.reporter.event(job, Event(EventKind.CHILDREN_CREATED, _created(made)))

    async def _create_one(self, job: TrainingJob, action: CreateReplica) -> None:
        with log_context.replica(f"{action.type}-{action.index}"):
            await self._create_replica(job, action)

    async def _create_replica(self, job: TrainingJob, action: CreateReplica) -> None:
        owner = _owner(job)
        name = naming.child_name(job.key.name, action.type, action.index)
        if not action.has_service:
            service = action.builder.service(action.type, action.index)
            await self._create(owner, resources.SERVICES, service, what=f"Service {name}")
        if not action.has_pod:
            pod = action.builder.pod(action.type, action.index)
            await self._create(owner, resources.PODS, pod, what=f"pod {name}")
            self.notes.status_batches.note_created(job.uid, name)

    async def _create(self, owner: OwnerKey, resource: Resource, body: dict[str, Any], *, what: str) -> None:
        try:
            await self.writer.create(owner, resource, body)
        except errors.Refused as refusal:
            if _is_answer(refusal):
                _log.info("a create was rejected", what=what, cause=refusal.name, error=str(refusal))
                self.notes.rejections.note(owner.uid, what, refusal)
            if isinstance(refusal, errors.AlreadyExists):
                name = ObjectKey(owner.key.namespace, str(body["metadata"]["name"]))
                self.notes.rejections.note_taken(owner.uid, str(resource), name)
            raise

    def _step(self, job: TrainingJob, action: Action) -> Step:
        """The call that an action is."""
        owner = _owner(job)
        match action:
            case DeletePod():
                of = {"name": action.name, "uid": action.uid, "only_at": action.version}
                return partial(self.writer.delete, owner, resources.PODS, **of)
            case DeleteService() | DeletePodGroup():
                resource = resources.SERVICES if isinstance(action, DeleteService) else self._pod_groups()
                return partial(self.writer.delete, owner, resource, name=action.name, uid=action.uid)
            case DeleteServices():
                return partial(self._delete_services, owner, action)
            case CreatePodGroup():
                return partial(self._create, owner, self._pod_groups(), dict(action.body), what="PodGroup")
            case PatchPodGroup():
                return partial(self._change_group, owner, action)
            case DeleteJob():
                return partial(self.writer.delete, owner, self.jobs, name=job.key.name, uid=job.uid)
            case CreateReplica():
                raise TypeError("replicas are created in batches")
        assert_never(action)

    async def _change_group(self, owner: OwnerKey, action: PatchPodGroup) -> bool:
        """Whether the group is as it is wanted. One that stays as it was ends no job, and holds up no other step."""
        # An update of a main resource with another object's UID is refused.
        body = {"metadata": {"uid": action.uid}, "spec": dict(action.spec)}
        try:
            await self.writer.patch(owner, self._pod_groups(), action.name, body=body)
        except errors.Refused as refusal:
            if not _is_answer(refusal) or isinstance(refusal, errors.NotFound | errors.Conflict):
                raise
            what = "the change of its PodGroup"
            _log.info("a change was rejected", what=what, cause=refusal.name, error=str(refusal))
            self.notes.rejections.note(owner.uid, what, refusal, is_change=True)
            return False
        return True

    def _pod_groups(self) -> Resource:
        """Whose PodGroups they are."""
        if self.groups is None:
            raise TypeError("there is no gang scheduler, so there are no PodGroups")
        return self.groups

    async def _delete_services(self, owner: OwnerKey, action: DeleteServices) -> None:
        request = requests.delete_all(resources.SERVICES, Scope(owner.key.namespace, label_selector=action.selector))
        uids = [service.uid for service in action.services]
        await self.writer.delete_all(owner, resources.SERVICES, request=request, uids=uids)


def _is_answer(error: errors.ApiError) -> bool:
    """Whether the server has decided on the request, which the next plan reports; not a failure of its own."""
    return isinstance(error, errors.Refused) and not isinstance(error, errors.ServerFailed | errors.Throttled)


def _owner(job: TrainingJob) -> OwnerKey:
    return OwnerKey(job.key, job.uid)


def _created(made: Sequence[str], most: int = 8) -> str:
    """What was created, by name up to a bound."""
    listed = ", ".join(sorted(made)[:most])
    more = f" and {len(made) - most} more" if len(made) > most else ""
    return f"Created {len(made)} pod{'s' if len(made) > 1 else ''}: {listed}{more}"
