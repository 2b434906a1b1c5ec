"""From what was observed of a job to what is to be done: the table of contents of the operator.

``make_plan`` is pure. Given the same observation it gives the same plan, and once a plan has been carried out, the
plan that follows is empty: so it does not matter how often, or by whom, it is asked.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import structs

from tf_operator.job import naming, validation
from tf_operator.job.record import JobRecord, ReplicaType
from tf_operator.planning import (
    cleanup,
    events_and_counts,
    in_place,
    invalid_edits,
    job_view,
    pending,
    rejections,
    report,
    restarts,
    verdict,
    whole_job,
)
from tf_operator.planning.actions import Action, Count, Create, Delete, Plan, Transition
from tf_operator.planning.bodies import default_server, gang
from tf_operator.planning.bodies.children import PODS, SERVICES, ChildBuilder
from tf_operator.planning.child_kinds import life
from tf_operator.planning.job_queue import admission
from tf_operator.planning.job_view import JobView
from tf_operator.planning.kueue import protocol
from tf_operator.planning.pods import absences, attempts, avoided_nodes, pod_needs, reported_progress
from tf_operator.planning.replicas import Replica
from tf_operator.planning.snapshot import Cause, RejectedWrite, Snapshot
from tf_operator.planning.verdict import Phase, Verdict


def make_plan(snapshot: Snapshot) -> Plan:
    """What is to be done for this job now."""
    valid_snapshot = invalid_edits.ignored(snapshot)
    request = valid_snapshot.changed(job=valid_snapshot.job.with_memory())
    snapshot = protocol.queued(request).decided()
    job = snapshot.job
    if job.is_being_deleted or not job.is_ours:
        return Plan()
    if job.record.is_finished:
        return _after_end(snapshot)
    digest = pod_needs.digest(request.job) if snapshot.settings.has_job_queue else ""
    snapshot = snapshot.changed(hold=snapshot.hold or admission.hold(snapshot), pods_digest=digest)
    snapshot = snapshot.changed(rejected=_refusal(snapshot))
    view = _in_queue(job_view.view(snapshot))
    if names := absences.unconfirmed(view):
        return Plan(looks_for=names)
    decision = verdict.decide(view)
    if decision.is_malformed and decision.phase is Phase.ACTIVE:
        return Plan(report=report.left_alone(view), events=tuple(events_and_counts.left_alone(view)))
    if decision.phase is Phase.ACTIVE and (pods := pending.unexplained(view)):
        return Plan(asks_about=pods)
    job_report = report.next_report(view, decision)
    after = job_report.record
    return Plan(
        report=job_report,
        status_first=not report.is_progress(view, valid_snapshot.job.record, after),
        actions=(*_actions(view, decision, after), *_extras(view, decision, request)),
        resumes_job=protocol.resumes(request),
        events=tuple(events_and_counts.events(view, job_report)),
        counts=tuple(events_and_counts.counts(view, job_report)),
        requeue_after=_soonest(snapshot.now, _moments(view, decision, after)),
    )


def _refusal(snapshot: Snapshot) -> RejectedWrite | None:
    """What was refused for good, or what the job needs and cannot have, or what may be tried again."""
    last = snapshot.rejected
    return last if last and rejections.is_final(last) else life.refusal(snapshot) or last


def _in_queue(view: JobView) -> JobView:
    """The same view, where the job is held that needs pods which ask for something else than was admitted."""
    snapshot = view.snapshot
    needs_pods = bool(snapshot.without_room) or any(replica.needs_pod for replica in view.replicas)
    hold = snapshot.hold or admission.requeued(snapshot, needs_pods=needs_pods)
    return view if hold is snapshot.hold else structs.replace(view, snapshot=snapshot.changed(hold=hold))


def _after_end(snapshot: Snapshot) -> Plan:
    """A job that has ended is cleaned up, and deleted when its time has come. What became of it is settled."""
    expiry = cleanup.expires_at(snapshot.job)
    if expiry is not None and expiry <= snapshot.now:
        return Plan(deletes_job=True, counts=(Count(Transition.DELETED),))
    return Plan(
        report=report.after_end(snapshot),
        actions=(
            *cleanup.after_end(snapshot),
            *protocol.after_end(snapshot),
            *life.actions(snapshot, is_active=False, has_ended=True),
        ),
        requeue_after=_soonest(snapshot.now, _moments_after_end(snapshot)),
    )


def _actions(view: JobView, decision: Verdict, after: JobRecord) -> tuple[Action, ...]:
    if decision.phase in verdict.IDLE:
        is_queued = decision.phase is Phase.QUEUED
        return tuple(
            cleanup.while_idle(view.snapshot, "queued" if is_queued else view.snapshot.job.profile.words.suspended)
        )
    if decision.phase is not Phase.ACTIVE:
        return tuple(cleanup.after_end(view.snapshot))
    rejection, is_waiting = view.snapshot.rejected, rejections.is_waiting(view.snapshot.rejected, view.snapshot.now)
    if is_waiting and rejection and rejection.cause is not Cause.UNCHANGED:
        return tuple(_removals(view, after))
    # A group, or a pod, that stays as it was holds up nothing else.
    restarts = in_place.actions(view.snapshot, view.replicas, after)
    changes = () if is_waiting else (*gang.actions(view.snapshot), *restarts)
    return (*_removals(view, after), *changes, *_creations(view, after))


def _extras(view: JobView, decision: Verdict, request: Snapshot) -> Iterator[Action]:
    """What the job has beside its replicas, also while it is suspended. It is queued as it was ``request``."""
    has_ended = decision.phase in {Phase.SUCCEEDED, Phase.FAILED}
    if decision.is_malformed:
        return
    yield from () if has_ended else protocol.actions(request)
    yield from life.actions(view.snapshot, is_active=decision.phase is Phase.ACTIVE, has_ended=has_ended)


def _removals(view: JobView, after: JobRecord) -> Iterator[Action]:
    """Pods that are given up, and what is beyond the wanted number of replicas."""
    restart_records = {(record.type, record.index): record for record in after.restart_records}
    for replica in view.replicas:
        record, pod = restart_records.get((replica.spec.type, replica.index)), replica.pod
        if pod and record and record.replaced and record.uid == pod.uid and not pod.is_terminating:
            reason = f"replica {replica.spec.type.label}-{replica.index} is restarted"
            yield Delete(PODS, pod.name, pod.uid, reason)
    job, places = view.snapshot.job, {(replica.spec.type, replica.index) for replica in view.replicas}
    for pod in view.surplus:
        if not pod.is_terminating:
            is_second, kind = (pod.type, pod.index) in places, job.profile.words.type(pod.type)
            reason = "its replica has another pod" if is_second else f"there are fewer {kind} replicas now"
            yield Delete(PODS, pod.name, pod.uid, reason)
    for service in view.snapshot.services:
        place = naming.replica_of(job.key.name, service.name, job.profile.names)
        is_of_replica = place in places and not job.has_one_service
        is_of_job = service.name == job.key.name and job.has_one_service
        is_ours = place is not None or service.name == job.key.name
        if is_ours and not (is_of_replica or is_of_job or service.is_terminating):
            yield Delete(SERVICES, service.name, service.uid)


def _creations(view: JobView, after: JobRecord) -> Iterator[Create]:
    """The Services that are missing, and a pod for each replica that is vacant and whose time has come."""
    if view.is_held or admission.is_outgrown(view.snapshot):
        return
    job = view.snapshot.job
    made_for = structs.replace(job, record=job.record.changed(attempt=after.attempt))
    builder = ChildBuilder(made_for, view.snapshot.settings, avoided_nodes.names(job, after.avoided_nodes))
    services = {service.name for service in view.snapshot.services}
    unfit = _types_without_a_template(view)
    has_program = False
    waits = whole_job.starts_again(job) and _waits_as_one(view)
    if view.replicas:
        yield from life.creations(view.snapshot)
    if job.has_one_service and view.replicas and job.key.name not in services:
        yield builder.create_job_service()
    for replica in view.replicas:
        kind, index = replica.spec.type, replica.index
        has_service = job.has_one_service or replica.service in services
        service = None if has_service else builder.create_service(kind, index, replica.service)
        if replica.needs_pod and not waits and _is_due(replica, view.snapshot) and kind not in unfit:
            if replica.spec.is_default_server and not has_program:
                has_program = True
                yield default_server.config_map(builder.job, builder.settings)
            yield builder.create_pod(kind, index, replica.name, needs=service)
        elif service:
            yield service


def _types_without_a_template(view: JobView) -> frozenset[ReplicaType]:
    """The types of which no pod can be made before an edit of their template is corrected."""
    job = view.snapshot.job
    specs = job.replicas if view.snapshot.ignored else ()
    return frozenset(spec.type for spec in specs if any(validation.template_problems(spec, job.profile)))


def _moments(view: JobView, decision: Verdict, after: JobRecord) -> Iterator[datetime | None]:
    """When to reconcile again, if nothing happens until then."""
    if decision.phase is Phase.ACTIVE:
        yield from _wake_ups(view, after)
    if decision.phase is Phase.ACTIVE or decision.phase in verdict.IDLE:
        yield from life.moments(view.snapshot, is_active=decision.phase is Phase.ACTIVE)
        yield protocol.retry_at(view.snapshot)


def _moments_after_end(snapshot: Snapshot) -> Iterator[datetime | None]:
    yield cleanup.expires_at(snapshot.job)
    yield from life.moments(snapshot, is_active=False, has_ended=True)


def _wake_ups(view: JobView, after: JobRecord) -> Iterator[datetime | None]:
    """Every moment at which the plan would be another, although nothing happened."""
    job, now = view.snapshot.job, view.snapshot.now
    yield verdict.deadline(job, after)
    yield verdict.startup_deadline(job, after)
    yield rejections.retry_at(view.snapshot.rejected) if view.snapshot.rejected else None
    yield from pending.wake_ups(view) if after.pending is None else ()
    yield from avoided_nodes.wake_ups(view.replicas, after.avoided_nodes)
    yield reported_progress.due(view.snapshot, after)
    yield view.hang.look_at
    yield now + absences.LOOKED_FOR_EVERY if absences.is_to_look_again(view) else None
    restart_records = {(record.type, record.index): record for record in after.restart_records}
    for replica in view.replicas:
        restart = restart_records.get((replica.spec.type, replica.index))
        if job.run_policy.restarts_in_place and replica.pod and not replica.is_completed:
            yield attempts.next_moment(after, replica.pod, restart)
        if replica.loss or replica.needs_pod:
            yield restarts.backoff_ends_at(restart, view.snapshot.settings, now=now)


def _soonest(now: datetime, moments: Iterator[datetime | None]) -> timedelta | None:
    """How long until the first of these moments that is yet to come."""
    return min((moment - now for moment in moments if moment is not None and moment > now), default=None)


def _waits_as_one(view: JobView) -> bool:
    """Whether a pod of the run before is still there, or the pause before the next pod of any replica is not over."""
    vacant = (replica for replica in view.replicas if replica.needs_pod)
    has_old_pods = bool(view.surplus) or whole_job.has_old_pods(view.replicas)
    return has_old_pods or not all(_is_due(replica, view.snapshot) for replica in vacant)


def _is_due(replica: Replica, snapshot: Snapshot) -> bool:
    moment = restarts.backoff_ends_at(replica.record, snapshot.settings, now=snapshot.now)
    return moment is None or moment <= snapshot.now
