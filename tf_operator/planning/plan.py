"""From what was observed of a job to what is to be done: the table of contents of the operator.

``make_plan`` is pure. Given the same observation it gives the same plan, and once a plan has been carried out, the
plan that follows is empty: so it does not matter how often, or by whom, it is asked.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tf_operator.api.job import TrainingJob
from tf_operator.api.status import JobStatus
from tf_operator.planning import (
    announce,
    children,
    cleanup,
    gang,
    ledger,
    names,
    refusals,
    replicas,
    status,
    verdict,
    waiting,
)
from tf_operator.planning.actions import Action, Count, CreateReplica, DeleteJob, DeletePod, DeleteService, Plan, What
from tf_operator.planning.observed import Observed
from tf_operator.planning.replicas import Slot, View
from tf_operator.planning.verdict import End, Verdict


def make_plan(seen: Observed) -> Plan:
    """What is to be done for this job now."""
    job = seen.job
    if job.is_being_deleted or not job.is_ours:
        return Plan(job.status)
    if job.status.is_finished:
        return _after_end(seen)
    view = replicas.view(seen)
    found = verdict.decide(view)
    after = status.next_status(view, found)
    return Plan(
        status=after,
        record=not status.is_progress(view, after),
        actions=_actions(view, found, after),
        events=tuple(announce.events(view, after)),
        counts=tuple(announce.counts(view, after)),
        requeue_after=_soonest(seen.now, _wake_ups(view, after)) if found.end is End.GOES_ON else None,
    )


def _after_end(seen: Observed) -> Plan:
    """A job that has ended is cleaned up, and deleted when its time has come. Its status is never written again."""
    expiry = cleanup.expires_at(seen.job)
    if expiry is not None and expiry <= seen.now:
        return Plan(seen.job.status, actions=(DeleteJob(),), counts=(Count(What.DELETED),))
    return Plan(
        seen.job.status, actions=tuple(cleanup.after_end(seen)), requeue_after=_soonest(seen.now, iter([expiry]))
    )


def _actions(view: View, found: Verdict, after: JobStatus) -> tuple[Action, ...]:
    """What follows from the verdict."""
    if found.end is End.SUSPENDED:
        return tuple(cleanup.while_suspended(view.seen))
    if found.end is not End.GOES_ON:
        return tuple(cleanup.after_end(view.seen))
    if refusals.is_waiting(view.seen.refusal, view.seen.now):
        return tuple(_removals(view, after))
    return (*gang.actions(view.seen), *_removals(view, after), *_creations(view))


def _removals(view: View, after: JobStatus) -> Iterator[Action]:
    """Pods that are given up, and what is beyond the wanted number of replicas."""
    accounts = {(account.type, account.index): account for account in after.accounts}
    for slot in view.slots:
        account, pod = accounts.get((slot.spec.type, slot.index)), slot.pod
        if pod and account and account.is_over and account.uid == pod.uid and not pod.is_terminating:
            yield DeletePod(pod.name, pod.uid, f"replica {slot.spec.type.label}-{slot.index} is restarted")
    for pod in view.surplus:
        if not pod.is_terminating:
            yield DeletePod(pod.name, pod.uid, f"there are fewer {pod.type} replicas now")
    wanted = {(slot.spec.type, slot.index) for slot in view.slots}
    for service in view.seen.services:
        replica = names.replica_of(view.seen.job.key.name, service.name)
        if replica and replica not in wanted and not service.is_terminating:
            yield DeleteService(service.name, service.uid)


def _creations(view: View) -> Iterator[Action]:
    """A Service for each replica, and a pod for each that is vacant and whose time has come."""
    if gang.keeps_waiting(view.seen):
        return
    recipe = children.Recipe(view.seen.job, view.seen.settings)
    services = {service.name for service in view.seen.services}
    for slot in view.slots:
        has_service = _name(view.seen.job, slot) in services
        has_pod = not (slot.is_vacant and _is_due(slot, view.seen))
        if not has_service or not has_pod:
            yield CreateReplica(slot.spec.type, slot.index, recipe, has_service=has_service, has_pod=has_pod)


def _wake_ups(view: View, after: JobStatus) -> Iterator[datetime | None]:
    """Every moment at which the plan would be another, although nothing happened."""
    job, now = view.seen.job, view.seen.now
    yield verdict.deadline(job, after)
    yield verdict.startup_deadline(job, after)
    yield refusals.retry_at(view.seen.refusal) if view.seen.refusal else None
    yield from waiting.wake_ups(view)
    accounts = {(account.type, account.index): account for account in after.accounts}
    for slot in view.slots:
        if slot.loss or slot.is_vacant:
            yield ledger.creation_time(accounts.get((slot.spec.type, slot.index)), view.seen.settings, now=now)


def _soonest(now: datetime, moments: Iterator[datetime | None]) -> timedelta | None:
    """How long until the first of these moments that is yet to come."""
    return min((moment - now for moment in moments if moment is not None and moment > now), default=None)


def _is_due(slot: Slot, seen: Observed) -> bool:
    moment = ledger.creation_time(slot.account, seen.settings, now=seen.now)
    return moment is None or moment <= seen.now


def _name(job: TrainingJob, slot: Slot) -> str:
    return names.child_name(job.key.name, slot.spec.type, slot.index)
