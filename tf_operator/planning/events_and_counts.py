"""What a transition from one record to the next reports: events for users, counts for metrics.

Both are derived from the two records, never from memory. They are reported when the new record has been stored, so
each transition is reported once, through conflicts, relists and restarts of the operator.
"""

import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from msgspec import structs

from tf_operator import quantity
from tf_operator.job.progress import Progress, WrongStart
from tf_operator.job.record import JobPhase, JobRecord, NodeRecord, PendingKind, ReplicaType
from tf_operator.job.report import EventKind, JobReport
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning import in_place, memory_growth, pending, restarts, spec_problems
from tf_operator.planning.actions import Count, Event, Transition
from tf_operator.planning.bodies import children, gang, gang_schedulers
from tf_operator.planning.job_view import JobView
from tf_operator.planning.pods import attempts, avoided_nodes, failure_evidence, grace_period, usage
from tf_operator.planning.pods.attempts import NextStep
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica
from tf_operator.planning.snapshot import Settings, Snapshot

_MOST_NAMES = 5
_OF_PHASES = {
    JobPhase.SUCCEEDED: EventKind.SUCCEEDED,
    JobPhase.FAILED: EventKind.FAILED,
    JobPhase.SUSPENDED: EventKind.SUSPENDED,
    JobPhase.QUEUED: EventKind.QUEUED,
}
"""The phases whose begin is an event."""
_CAUSES = {PodState.FAILED: "failed", PodState.ENDED: "completed", PodState.DISRUPTED: "disrupted"}
"""Why a new pod is made, as metrics have it."""


def events(view: JobView, report: JobReport) -> Iterator[Event]:
    """For users."""
    job, previous, after = view.snapshot.job, view.snapshot.job.record, report.record
    if _is_new(previous):
        yield from _remarks(job, view.snapshot.settings)
        yield from _unused_choices(job, view.snapshot.settings)
        yield from _unused_oom_policies(view.snapshot)
        if scheduler := gang.unavailable(view.snapshot):
            yield Event(
                EventKind.SCHEDULER_UNAVAILABLE, pending.unavailable(scheduler, view.snapshot.settings), is_warning=True
            )
    else:
        yield from left_alone(view)
    if not after.is_finished:
        yield from _resizes(view, after)
        yield from _restarts(view, after)
        yield from _nodes(view, after)
        yield from _growths(view, after)
        yield from _pending(view, after)
        yield from _hang(view)
        yield from _short_grace(view, report)
    if start := _wrong_start(view, report):
        path = f" in {start.checkpoint.path}" if start.checkpoint.path else ""
        message = (
            f"resumed from step {start.step}, although there is a checkpoint of step {start.checkpoint.step}{path}"
        )
        yield Event(EventKind.RESUMED_BEHIND_CHECKPOINT, message, is_warning=True)
    if (kind := _OF_PHASES.get(after.phase)) and after.phase is not previous.phase:
        yield Event(kind, report.message, is_warning=kind is EventKind.FAILED, cause=after.failure)
    if after.resumed_time and after.resumed_time != previous.resumed_time:
        yield Event(EventKind.RESUMED, f"{job.profile.kind} {job.key.name} is resumed.")
    if after.dequeued_time and after.dequeued_time != previous.dequeued_time:
        yield Event(EventKind.ADMITTED, f"{job.profile.kind} {job.key.name} is admitted.")


def left_alone(view: JobView) -> Iterator[Event]:
    """What is said of an edit that is ignored: once for each generation of the spec."""
    job, remark = view.snapshot.job, spec_problems.remark(view)
    if remark and job.generation != job.record.observed_generation:
        yield Event(EventKind.EDIT_IGNORED, remark, is_warning=True)


def counts(view: JobView, report: JobReport) -> Iterator[Count]:
    """For metrics."""
    previous, after = view.snapshot.job.record, report.record
    if _wrong_start(view, report):
        yield Count(Transition.RESUMED_BEHIND_CHECKPOINT)
    if _is_new(previous):
        yield Count(Transition.CREATED)
    # 1.9 writes no generation, and nobody knows since when what it ran has been running.
    is_taken_over = previous.phase is JobPhase.RUNNING and not previous.observed_generation
    if previous.all_running_time is None and after.all_running_time is not None and not is_taken_over:
        yield Count(Transition.RUNNING, seconds=_seconds(after, after.all_running_time))
    yield from _restart_counts(view, after)
    yield from usage.counts(view, after)
    if newly_avoided := _avoided(after).keys() - _avoided(previous):
        yield Count(Transition.NODE_AVOIDED, by=len(newly_avoided))
    if after.phase is JobPhase.SUCCEEDED:
        yield Count(Transition.SUCCEEDED, seconds=_seconds(after, after.completion_time))
    elif after.phase is JobPhase.FAILED:
        yield Count(Transition.FAILED, cause=after.failure, seconds=_seconds(after, after.completion_time))


def _is_new(record: JobRecord) -> bool:
    """Whether the job is seen for the first time."""
    return record.phase is JobPhase.NEW


def _restart_counts(view: JobView, after: JobRecord) -> Iterator[Count]:
    """Restarts by type and cause. The failure that ends the job is none."""
    if after.phase is JobPhase.FAILED and not after.start_time:
        return  # it never ran
    for entry in view.restarts_in_place:
        yield Count(Transition.RESTARTED, kind=entry.replica.spec.type, reason="in-place", by=entry.times)
    for loss in restarts.replaced(view, after.phase):
        yield Count(Transition.RESTARTED, kind=loss.type, reason=_CAUSES[loss.outcome])
    if restarts.begins_attempt(view, after.phase):
        others = Counter(replica.spec.type for replica in (*_given_up(view), *_in_place(view)))
        yield from (Count(Transition.RESTARTED, kind=kind, reason="job", by=pods) for kind, pods in others.items())
    yield from (Count(Transition.MEMORY_GROWN, kind=kind) for kind, _ in _memory_growths(view, after))


def _resizes(view: JobView, after: JobRecord) -> Iterator[Event]:
    if not view.resizes or after.is_idle:
        return
    type_of = view.snapshot.job.profile.words.type
    sizes = (f"{type_of(change.type)} from {change.old_count} to {change.new_count}" for change in view.resizes)
    replaces_pods = any(change.replaces_pods for change in view.resizes)
    effect = "all pods are replaced"
    if in_place.is_wanted(view.snapshot):
        exception = "; pods that cannot are replaced" if any(replica.is_given_up for replica in view.replicas) else ""
        effect = f"pods start again in place{exception}"
    note = f"; {effect}, because they train in another cluster" if replaces_pods else ""
    job = view.snapshot.job
    yield Event(EventKind.RESIZED, f"{job.profile.kind} {job.key.name}: {', '.join(sizes)}{note}")


def _restarts(view: JobView, after: JobRecord) -> Iterator[Event]:
    limit = view.snapshot.job.run_policy.backoff_limit
    used = f" ({after.counted_restarts} of {limit} restarts used)" if limit is not None else ""
    if late := _stuck(view):
        seconds = attempts.GIVEN_UP_AFTER.total_seconds()
        cause = f"has not within {seconds:.0f} s"
        if any(replica.pod and replica.pod.is_deaf for replica in late):
            cause = "only its sidecar has, as on a node before Kubernetes 1.36"
        names = _list([replica.title for replica in late])
        message = f"{names}: asked to restart in place, but {cause}; replacing"
        yield Event(EventKind.RESTARTING, message, is_warning=True)
    if restarts.begins_attempt(view, after.phase):
        yield _restart_of_all(view, after, used)
    else:
        yield from _restarts_of_some(view, after, used)


def _restarts_of_some(view: JobView, after: JobRecord, used: str) -> Iterator[Event]:
    if failures := _blame(view, PodState.FAILED):
        when = " when the job goes on" if after.phase is JobPhase.QUEUED else " after the resume"
        when = when if after.is_idle else _when(view, after, PodState.FAILED)
        yield Event(EventKind.RESTARTING, f"{_list(failures)}; restarting{when}{used}", is_warning=True)
    if after.is_idle:
        return
    if completions := _blame(view, PodState.ENDED):
        yield Event(EventKind.RESTARTING, f"{_list(completions)}; restarting{_when(view, after, PodState.ENDED)}{used}")
    if disruptions := _blame(view, PodState.DISRUPTED):
        when = _when(view, after, PodState.DISRUPTED)
        message = f"{_list(disruptions)}; replacing{when}; this does not count as a restart"
        yield Event(EventKind.REPLICA_DISRUPTED, message, is_warning=True)
    if losses := [
        failure_evidence.describe(replica.loss)
        for replica in view.replicas
        if replica.loss and _is_newly_tolerated(replica)
    ]:
        policy = " (enableDynamicWorker)" if view.snapshot.job.has_dynamic_workers else ""
        message = f"{_list(losses)}; the job continues without it{policy}"
        yield Event(EventKind.REPLICA_FAILED, message, is_warning=True)
    if in_place := view.restarts_in_place:
        who = [failure_evidence.describe_exit(entry.replica, entry.pod) for entry in in_place]
        ends = [entry.pod.last_termination for entry in in_place]
        is_warning = any(end is None or end.exit_code for end in ends)
        yield Event(EventKind.RESTARTED_IN_PLACE, f"{_list(who)}; restarted in place{used}", is_warning=is_warning)


def _nodes(view: JobView, after: JobRecord) -> Iterator[Event]:
    """Which nodes new pods avoid from now on, and which they need not avoid any more."""
    snapshot, job = view.snapshot, view.snapshot.job
    begins = (_is_new(job.record) or job.record.is_idle) and not after.is_idle
    if begins and (reason := avoided_nodes.without_effect(job, snapshot.settings)):
        path = f"{job.profile.words.run_policy}.avoidNodes"
        yield Event(EventKind.UNUSED_FIELDS, f"{path}: no effect: {reason}", is_warning=True)
    previous, current = _avoided(job.record), _avoided(after)
    for node, entry in current.items():
        if node not in previous:
            message = f"new pods avoid {node}: {avoided_nodes.describe(entry)}"
            yield Event(EventKind.NODE_AVOIDED, message, is_warning=True)
    waiting = [replica.title for replica in avoided_nodes.stranded(snapshot, view.replicas)]
    allowed_node = avoided_nodes.allowed_again(snapshot, view.replicas)
    for node, entry in previous.items():
        if node not in current:
            reason = ": its 24 h are over" if avoided_nodes.is_over(entry.time, snapshot.now) else ""
            reason = f": no other node has taken {_list(waiting)} for 5 min" if node == allowed_node else reason
            yield Event(EventKind.NODE_ALLOWED_AGAIN, f"new pods may be on {node} again{reason}")


def _avoided(record: JobRecord) -> dict[str, NodeRecord]:
    return {entry.node: entry for entry in record.avoided_nodes if entry.is_avoided}


def _memory_growths(view: JobView, after: JobRecord) -> Iterator[tuple[ReplicaType, Decimal]]:
    """The types whose next pods get more memory from now on; with what they had until then."""
    previous = view.snapshot.job.record
    for spec in view.snapshot.job.replicas:
        if spec.memory and after.of(spec.type).memory not in {"", previous.of(spec.type).memory}:
            yield spec.type, spec.memory.in_force


def _growths(view: JobView, after: JobRecord) -> Iterator[Event]:
    """Which type has more memory from now on, and what that means for its place in a queue."""
    snapshot = view.snapshot
    place = "; the job is queued again for it" if snapshot.kueue or snapshot.settings.has_job_queue else ""
    for kind, limit in _memory_growths(view, after):
        sizes = f"{quantity.memory(limit)} to {after.of(kind).memory}"
        name = snapshot.job.profile.words.type(kind)
        message = f"{name}: the memory limit of new pods grows from {sizes} after an OOM kill{place}"
        yield Event(EventKind.MEMORY_GROWN, message, is_warning=True)


def _unused_oom_policies(snapshot: Snapshot) -> Iterator[Event]:
    for spec in snapshot.job.replicas:
        if spec.oom_policy and (cause := memory_growth.without_effect(spec, snapshot)):
            yield Event(EventKind.UNUSED_FIELDS, f"{spec.path}.oomPolicy: no effect: {cause}", is_warning=True)


def _restart_of_all(view: JobView, after: JobRecord, used: str) -> Event:
    """Who was lost first, and that the others start again with it."""
    others, stay = len(_given_up(view)), len(_in_place(view))
    begins, budget = f"attempt {after.attempt} begins", used
    in_place = f" with new pods for {others} other replica(s)" if others else " in place"
    if view.snapshot.job.run_policy.restarts_in_place and (entries := view.restarts_in_place):
        (entry,) = entries
        first = failure_evidence.describe_exit(entry.replica, entry.pod)
        begins += in_place
    else:
        (loss,) = restarts.replaced(view, after.phase)
        first = failure_evidence.describe(loss)
        pods = f"new pods for it and {others} other replica(s)" if others else "a new pod for it"
        begins += in_place if loss.keeps_pod else f"{_when(view, after, loss.outcome)} with {pods}"
        budget = "; this does not count as a restart" if loss.outcome is PodState.DISRUPTED else used
    others_in_place = f"; {stay} other replica(s) restart in place" if stay else ""
    return Event(EventKind.JOB_RESTARTED, f"{first}; {begins}{others_in_place}{budget}", is_warning=True)


def _given_up(view: JobView) -> list[Replica]:
    return [replica for replica in view.replicas if replica.is_given_up]


def _stuck(view: JobView) -> list[Replica]:
    """The replicas whose pods are given up, because they have not begun the attempt."""
    record, now = view.snapshot.job.record, view.snapshot.now
    return [
        replica
        for replica in _given_up(view)
        if replica.pod and attempts.next_step(record, replica.pod, replica.record, now=now) is NextStep.GIVE_UP
    ]


def _in_place(view: JobView) -> list[Replica]:
    """The replicas of a job that starts again whose pods stay, but for the one that came first."""
    if not view.snapshot.job.run_policy.restarts_in_place:
        return []
    first = {entry.pod.uid for entry in view.restarts_in_place}
    return [
        replica
        for replica in view.replicas
        if replica.pod
        and replica.pod.uid not in first
        and not (replica.is_completed or replica.is_given_up or replica.loss)
    ]


def _is_newly_tolerated(replica: Replica) -> bool:
    """Whether the job goes on without this replica, and its failed pod is not in the status yet."""
    return (
        replica.is_tolerated
        and replica.pod is not None
        and (replica.record is None or replica.record.uid != replica.pod.uid)
    )


def _when(view: JobView, after: JobRecord, kind: PodState) -> str:
    """When the last of the successors may be made, if that is not at once."""
    places = {(loss.type, loss.index) for loss in view.losses if loss.outcome is kind}
    restart_records = (record for record in after.restart_records if (record.type, record.index) in places)
    moments = (
        restarts.backoff_ends_at(record, view.snapshot.settings, now=view.snapshot.now) for record in restart_records
    )
    last = max((moment for moment in moments if moment), default=view.snapshot.now)
    seconds = math.ceil((last - view.snapshot.now).total_seconds())
    return f" in {seconds} s" if seconds > 0 else ""


def _blame(view: JobView, kind: PodState) -> list[str]:
    return [failure_evidence.describe(loss) for loss in view.losses if loss.outcome is kind]


def _pending(view: JobView, after: JobRecord) -> Iterator[Event]:
    """Why the job makes no progress; once, and again only when the reason is another."""
    current, previous = after.pending, view.snapshot.job.record.pending
    if current and (previous is None or structs.replace(previous, start_time=current.start_time) != current):
        kind = EventKind.CREATE_FAILED if current.kind is PendingKind.REJECTED else EventKind.REPLICA_PENDING
        yield Event(kind, pending.sentence(current, view), is_warning=True)


def _hang(view: JobView) -> Iterator[Event]:
    """That the program makes no progress; once for each hang."""
    hang, policy = view.hang, view.snapshot.job.run_policy.progress
    if hang.action is None or view.snapshot.job.record.progress_clock.is_hung:
        return
    is_doubtful = hang.action is not policy.action
    doubt = "; reports may be lost, so nothing is done about it yet" if is_doubtful else ""
    yield Event(EventKind.NO_PROGRESS, f"{hang.text}{doubt}", is_warning=True)


def _wrong_start(view: JobView, report: JobReport) -> WrongStart | None:
    """Where a run of the program has begun, if that is behind the last checkpoint; once for each run.

    It is stored with whatever else is, and told then.
    """
    previous, latest = view.snapshot.job.record.progress, _latest(report)
    return latest.wrong_start if latest and not (previous and previous.run == latest.run) else None


def _short_grace(view: JobView, report: JobReport) -> Iterator[Event]:
    """That pods are killed before a checkpoint is saved; once, as the longest save is what is remembered."""
    job = view.snapshot.job
    problem = grace_period.too_short(job, _latest(report))
    if problem and not grace_period.too_short(job, job.record.progress):
        yield Event(EventKind.GRACE_TOO_SHORT, problem, is_warning=True)


def _latest(report: JobReport) -> Progress | None:
    """What the program has reported, stored or not."""
    return report.waiting_progress or report.record.progress


def _remarks(job: TrainingJob, settings: Settings) -> Iterator[Event]:
    """What is odd about the spec, said once."""
    words = job.profile.words
    if job.outdated_fields:
        message = f"{', '.join(job.outdated_fields)}: in effect, but belongs in {words.run_policy}"
        yield Event(EventKind.OUTDATED_FIELDS, message, is_warning=True)
    if job.tensorboard and (cause := settings.without_tensorboards.get(job.profile.api_version)):
        message = f"spec.tensorboard: accepted, but has no effect: {cause}"
        yield Event(EventKind.UNUSED_FIELDS, message, is_warning=True)
    if job.run_policy.progress.reports and settings.progress is None:
        message = f"{words.run_policy}.progressPolicy: accepted, but has no effect: this operator takes no reports"
        yield Event(EventKind.PROGRESS_NOT_SERVED, message, is_warning=True)
    if own := children.types_with_own_tf_config(job):
        message = f"The template of {words.list_types(own)} sets TF_CONFIG itself: it is left as it is"
        yield Event(EventKind.USER_TF_CONFIG, message, is_warning=True)
    if types := children.types_with_restart_policy(job):
        template = f"the pod template of {words.list_types(types)}"
        message = f"restartPolicy in {template} is overridden by that of the replica type"
        yield Event(EventKind.TEMPLATE_RESTART_POLICY, message, is_warning=True)
    if fields := gang.unused_fields(job, settings):
        message = (
            f"{words.scheduling}: {', '.join(fields)}: no effect, because {settings.gang_scheduler} does not support it"
        )
        yield Event(EventKind.UNUSED_FIELDS, message, is_warning=True)
    scheduler = gang_schedulers.pods_scheduler(job, settings)
    if scheduler and (others := children.types_with_other_scheduler(job, scheduler)):
        message = f"The template of {words.list_types(others)} asks for another scheduler than {scheduler}: it is kept"
        yield Event(EventKind.TEMPLATE_SCHEDULER, message, is_warning=True)


def _unused_choices(job: TrainingJob, settings: Settings) -> Iterator[Event]:
    if job.run_policy.restarts_in_place and not settings.restarts_in_place:
        path = f"{job.profile.words.run_policy}.restarts.method"
        message = f"{path}: no effect, because this operator does not restart pods in place"
        yield Event(EventKind.UNUSED_FIELDS, message, is_warning=True)


def _list(who: list[str]) -> str:
    more = f" and {len(who) - _MOST_NAMES} more" if len(who) > _MOST_NAMES else ""
    return "; ".join(who[:_MOST_NAMES]) + more


def _seconds(record: JobRecord, moment: datetime | None) -> float | None:
    """From the start of the job to this moment."""
    if record.start_time is None or moment is None:
        return None
    return max((moment - record.start_time).total_seconds(), 0.0)
