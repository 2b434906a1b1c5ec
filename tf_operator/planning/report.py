"""The next record and report of a job: what is remembered from now on, and what its status says.

``next_report`` says what is so, whatever was written before; who stores it compares. Counts of a job that has ended
are its last ones, with what still ran at a success counted as succeeded, as 1.9 does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from msgspec import structs

from tf_operator.job import naming, restart_rules
from tf_operator.job.profile import AfterEnd, FailureScope, RestartBy
from tf_operator.job.ranges import NO_INDEXES, Indexes
from tf_operator.job.record import FirstFailure, JobPhase, JobRecord, ReplicaRecord, ReplicaType, Restarting
from tf_operator.job.report import JobReport, ReplicaCounts, ReplicaLine
from tf_operator.job.training_job import RestartPolicy
from tf_operator.planning import cleanup, in_place, job_view, pending, resizing, restarts, whole_job
from tf_operator.planning.child_kinds import life
from tf_operator.planning.job_queue import admission
from tf_operator.planning.job_view import JobView
from tf_operator.planning.pods import failure_evidence, hangs, pod_state, reported_progress, usage
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica
from tf_operator.planning.snapshot import Pod, Snapshot
from tf_operator.planning.verdict import IDLE, Phase, Verdict, all_up


def next_report(view: JobView, verdict: Verdict) -> JobReport:
    """The report on this view and this verdict."""
    job, record = view.snapshot.job, _at_start(view, verdict)
    if not verdict.is_malformed:
        record = restarts.recorded(view, record, _PHASES.get(verdict.phase, record.phase))
        record = _with_replicas(view, verdict, record)
    is_active = verdict.phase is Phase.ACTIVE
    record = _going_on(view, record) if is_active else _idle_record(view, verdict, record)
    record = reported_progress.recorded(view.snapshot, admission.recorded(view.snapshot, usage.recorded(view, record)))
    message = verdict.ending.sentence(job) if verdict.ending else ""
    return JobReport(
        job=job,
        record=record,
        now=view.snapshot.now,
        counts=None if verdict.is_malformed else {kind: _counts(view, verdict, kind) for kind in record.replicas},
        selectors={kind: naming.selector_of(job, kind) for kind in record.replicas},
        message=message,
        hold=verdict.hold,
        note=pending.note(view, record.pending) + hangs.note(view.hang) + life.note(view.snapshot)
        if is_active
        else f" {message}"
        if verdict.hold
        else "",
        extras=life.lines(view.snapshot, is_active=is_active),
        waiting_progress=reported_progress.waiting(view.snapshot, record),
        lines=partial(_lines, view, record, is_active=is_active or verdict.phase is Phase.QUEUED),
    )


def after_end(snapshot: Snapshot) -> JobReport | None:
    """What is still reported of a job that had ended before: its clean-up, as far as its API wants to know.

    And when it ended, if that was noted by a clock that was ahead: its time to live counts from there.
    """
    job, scope = snapshot.job, snapshot.job.profile.after_end
    record = _cleaned_up(snapshot, job.record.changed(completion_time=snapshot.noted(job.record.completion_time)))
    if scope is AfterEnd.REPLICAS:
        lines = partial(_lines, job_view.view(snapshot), record, is_active=False)
        return JobReport(job, record, snapshot.now, extras=life.lines(snapshot, is_active=False), lines=lines)
    return JobReport(job, record, snapshot.now) if record != job.record else None


def left_alone(view: JobView) -> JobReport:
    """The report on a job that runs, and of which nobody knows how it is meant: all stays as it was noted."""
    snapshot = view.snapshot
    record = snapshot.job.record.changed(observed_generation=snapshot.job.generation)
    if record.phase is JobPhase.NEW:
        record = record.changed(phase=JobPhase.CREATED)
    return JobReport(
        snapshot.job,
        record,
        snapshot.now,
        selectors={kind: naming.selector_of(snapshot.job, kind) for kind in record.replicas},
        note=pending.note(view, record.pending),
        extras=life.lines(snapshot, is_active=True),
        lines=partial(_lines, view, record, is_active=True),
    )


def is_progress(view: JobView, old: JobRecord, new: JobRecord) -> bool:
    """Whether the step is mere progress: nothing ended, nothing was restarted, no state was left.

    That a replica succeeded may wait to be written only as long as there is its pod, which says so; a suspension
    takes it away. That a replica is not wanted any more may not wait: one that is wanted again would count as lost, or
    as completed. Nor may the size for which the first pods are made: a resize right after that would go unseen. Nor may
    a resize that replaces pods: those that are made for it would be replaced again. Nor may the end of a decision of
    the queue, or of memory that has grown: the next edit might bring it back.
    """
    specs = view.snapshot.job.replicas
    return (
        not new.is_finished
        and not (old.is_idle or new.is_idle)
        and not any(replica.departed and replica.is_completed for replica in view.replicas)
        and not any(_has_surplus(old.of(spec.type), spec.count) for spec in specs)
        and old.restarts == new.restarts
        and old.disruptions == new.disruptions
        and old.restart_records == new.restart_records
        and old.avoided_nodes == new.avoided_nodes
        and old.queue == new.queue
        and old.elastic == new.elastic
        and not any(change.replaces_pods for change in view.resizes)
        and not any(_makes_other_pods(old.of(kind), replica) for kind, replica in new.replicas.items())
    )


def _makes_other_pods(old: ReplicaRecord, new: ReplicaRecord) -> bool:
    return (old.size is None and new.size is not None) or old.memory != new.memory


def _has_surplus(replica: ReplicaRecord, count: int) -> bool:
    return replica.started.below(count) != replica.started or replica.completed.below(count) != replica.completed


# --- The record ----------------------------------------------------------------------------------------------------


def _at_start(view: JobView, verdict: Verdict) -> JobRecord:
    """A job that is seen for the first time is Created; one that may run has a start; one that was idle a new start."""
    job, now = view.snapshot.job, view.snapshot.now
    record = job.record.changed(observed_generation=job.generation)
    if record.phase is JobPhase.NEW:
        record = record.changed(phase=JobPhase.CREATED)
    if record.phase is JobPhase.SUSPENDED and _is_resumed(view, verdict):
        record = _at_its_start(record).changed(resumed_time=now)
    elif record.phase is JobPhase.QUEUED and _is_admitted(view, verdict):
        record = _at_its_start(record).changed(dequeued_time=now)
    if not record.is_idle:
        record = record.changed(start_time=view.snapshot.noted(record.start_time))
    if record.start_time is None and verdict.phase not in IDLE and not verdict.is_malformed:
        # A job that waits for its gang has not started: no clock runs.
        record = record.changed(start_time=None if view.is_held else now)
    return record


def _is_resumed(view: JobView, verdict: Verdict) -> bool:
    """A suspended job may also fail: its spec has become invalid, or a pod of before had failed."""
    is_suspended = verdict.phase is Phase.SUSPENDED or view.snapshot.job.run_policy.is_suspended
    return not (is_suspended or verdict.is_malformed)


def _is_admitted(view: JobView, verdict: Verdict) -> bool:
    """A queued job may also fail, or be suspended, and waits no longer then; but it was not admitted."""
    return not (verdict.phase in IDLE or view.snapshot.hold or verdict.is_malformed)


def _at_its_start(record: JobRecord) -> JobRecord:
    return record.changed(
        phase=JobPhase.CREATED, start_time=None, all_created_time=None, first_run_time=None, all_running_time=None
    )


def _with_replicas(view: JobView, verdict: Verdict, record: JobRecord) -> JobRecord:
    """The record with what each replica has reached."""
    types = {spec.type for spec in view.snapshot.job.replicas}
    # Restarts and usage are never forgotten, also not of a type that is no longer wanted.
    kinds = [kind for kind in ReplicaType if kind in types or record.of(kind).restarts or record.of(kind).run_seconds]
    replicas = {kind: _progress_of(view, kind, record.of(kind)) for kind in kinds}
    if verdict.phase in IDLE:
        # Its pods are deleted by us: none of them is lost, and what comes after begins again.
        replicas = {kind: _reset(view, kind, replica) for kind, replica in replicas.items()}
        restart_records = tuple(structs.replace(entry, attempts=0) for entry in record.restart_records)
        return record.changed(replicas=replicas, restart_records=restart_records)
    now, is_active = view.snapshot.now, verdict.phase is Phase.ACTIVE
    has_run = any(replica.is_running or replica.is_completed for replica in view.deciding)
    return record.changed(
        replicas=replicas,
        all_created_time=record.all_created_time or (now if is_active and _all_created(view) else None),
        first_run_time=record.first_run_time or (now if has_run else None),
        all_running_time=record.all_running_time or (now if is_active and all_up(view) else None),
    )


def _all_created(view: JobView) -> bool:
    return bool(view.replicas) and not any(
        replica.loss or (replica.pod is None and replica.needs_pod) for replica in view.replicas
    )


def _reset(view: JobView, kind: ReplicaType, replica_record: ReplicaRecord) -> ReplicaRecord:
    """What counts after a suspension or in a queue: what has completed is not run again, unless it always is."""
    is_final = not any(replica.spec.restart_policy is RestartPolicy.ALWAYS for replica in view.of(kind))
    completed = replica_record.completed if is_final else NO_INDEXES
    return structs.replace(replica_record, started=NO_INDEXES, failed=NO_INDEXES, completed=completed, size=None)


def _progress_of(view: JobView, kind: ReplicaType, recorded: ReplicaRecord) -> ReplicaRecord:
    replicas = view.of(kind)
    completed = Indexes.of(replica.index for replica in replicas if replica.is_completed)
    profile = view.snapshot.job.profile
    goes_on = profile.failure_scope is FailureScope.DECIDING
    policies = {replica.spec.restart_policy for replica in replicas}
    remembers = profile.restart_by is not RestartBy.POLICY or policies != {RestartPolicy.ALWAYS}
    failed_for_good = Indexes.of(replica.index for replica in replicas if replica.loss and replica.loss.is_permanent)
    up = Indexes.of(replica.index for replica in replicas if _is_up(replica))
    return structs.replace(
        recorded,
        completed=completed if remembers else NO_INDEXES,
        started=((recorded.started | up | failed_for_good) - completed).below(len(replicas)),
        failed=((recorded.failed | failed_for_good) - completed).below(len(replicas)) if goes_on else NO_INDEXES,
        size=_size(view, kind, recorded),
    )


def _size(view: JobView, kind: ReplicaType, replica_record: ReplicaRecord) -> int | None:
    """For how many replicas the pods are made; of a type that may not be resized, as long as an edit had tried it."""
    job = view.snapshot.job
    return resizing.sizes(job).get(kind) if resizing.may_change(job, kind) else replica_record.size


def _going_on(view: JobView, record: JobRecord) -> JobRecord:
    phase, attempt = _current(view, record), view.snapshot.job.record.attempt
    begins_again = record.attempt != attempt or any(change.replaces_pods for change in view.resizes)
    return record.changed(
        phase=phase,
        restarting=_restarting(view, record) if phase is JobPhase.RESTARTING else None,
        first_failure=_first_failure(view, record),
        pending=pending.next_record(view),
        elastic=in_place.with_resize_time(view.snapshot, view.resizes, record.elastic),
        # In place, nothing else says that the program that reports is started again.
        progress_clock=hangs.at_start(view.hang) if begins_again else view.hang.clock,
    )


def _idle_record(view: JobView, verdict: Verdict, record: JobRecord) -> JobRecord:
    """The record of a job that has ended, or is idle."""
    phase, is_idle = _PHASES[verdict.phase], verdict.phase in IDLE
    evidence = verdict.evidence if phase is JobPhase.FAILED else None
    record = record if is_idle else _cleaned_up(view.snapshot, record)
    return record.changed(
        phase=phase,
        failure=verdict.cause,
        completion_time=record.completion_time if is_idle else view.snapshot.now,
        resumed_time=None if phase is JobPhase.SUSPENDED else record.resumed_time,
        dequeued_time=None if phase is JobPhase.QUEUED else record.dequeued_time,
        restarting=None,
        first_failure=_first_failure(view, record) or evidence,
        pending=None,
        progress_clock=hangs.while_idle(record, phase),
    )


def _cleaned_up(snapshot: Snapshot, record: JobRecord) -> JobRecord:
    if snapshot.job.profile.after_end is AfterEnd.NOTHING or record.clean_up_time or not cleanup.is_done(snapshot):
        return record
    return record.changed(clean_up_time=snapshot.now)


def _current(view: JobView, record: JobRecord) -> JobPhase:
    """Restarting lasts until every replacement runs; then the job is what the deciding replica is."""
    if record.continued_time != view.snapshot.job.record.continued_time:
        return record.phase  # it goes on only now: what was lost is from before
    previous = record.phase
    begins = any(_is_lost_for_now(replica) or replica.is_given_up for replica in view.replicas)
    job = view.snapshot.job
    begins = begins or record.attempt != job.record.attempt
    was_restarting = previous is JobPhase.RESTARTING
    goes_on = (_is_being_replaced(view, replica) or whole_job.is_awaited(job, replica) for replica in view.replicas)
    if begins or (was_restarting and any(goes_on)):
        return JobPhase.RESTARTING
    return JobPhase.RUNNING if any(replica.is_running for replica in view.deciding) else previous


def _is_being_replaced(view: JobView, replica: Replica) -> bool:
    """Since the job last went on, that is: what was replaced before, that has replaced."""
    continued_time = view.snapshot.job.record.continued_time
    replaced_time = replica.record.time if replica.record else None
    is_from_before = continued_time and replaced_time and replaced_time <= continued_time
    return replica.is_being_replaced and not is_from_before


def _restarting(view: JobView, record: JobRecord) -> Restarting:
    """What restarts, and why. It stays until more is restarted."""
    previous = record.restarting
    new_losses = [loss for loss in view.losses if not loss.is_permanent]
    themselves = view.restarts_in_place if view.snapshot.job.run_policy.restarts_in_place else ()
    gives_up = any(replica.is_given_up for replica in view.replicas)
    goes_on = view.snapshot.job.run_policy.restarts_in_place or not gives_up
    if previous and goes_on and not (new_losses or themselves):
        return previous
    is_whole = bool(new_losses or themselves) and whole_job.starts_again(view.snapshot.job)
    restarts = [entry.replica for entry in themselves] + [
        replica
        for replica in view.replicas
        if _is_lost_for_now(replica) or (not is_whole and (replica.is_given_up or _is_being_replaced(view, replica)))
    ]
    # 1.9 does not say which; then it is what does not run.
    restarting = restarts or [replica for replica in view.replicas if replica.is_waited_for]
    types = tuple(dict.fromkeys(replica.spec.type for replica in restarting))
    was_failure = previous.after_failure if previous else _has_restarted_before(view, types)
    is_failure = was_failure or bool(themselves) or any(loss.outcome is PodState.FAILED for loss in new_losses)
    return Restarting(types, is_failure, after_resize=gives_up and not (new_losses or previous or themselves))


def _has_restarted_before(view: JobView, types: tuple[ReplicaType, ...]) -> bool:
    """Of a status without the cause: the first version left counts; 1.9, which writes no generation, knows no other."""
    record = view.snapshot.job.record
    is_of_19 = not record.observed_generation
    return record.phase is JobPhase.RESTARTING and (is_of_19 or any(record.of(kind).restarts for kind in types))


def _is_lost_for_now(replica: Replica) -> bool:
    return replica.loss is not None and not replica.loss.is_permanent


def _first_failure(view: JobView, record: JobRecord) -> FirstFailure | None:
    """The first failure is written down also where it does not end the job: its pod, or its end, will be gone."""
    if record.first_failure:
        return record.first_failure
    of_losses = (failure_evidence.of_loss(loss, view) for loss in view.losses if loss.has_failed)
    of_restarts = (
        failure_evidence.of_restart(replica, pod, view)
        for replica, pod, *_ in view.restarts_in_place
        if pod.last_termination
        and pod.last_termination.exit_code
        # Whose exit that was, and with which code, its kubelet does not keep.
        and pod.last_termination.reason != restart_rules.RESTARTING_ALL
    )
    return min(chain(of_losses, of_restarts), key=lambda failure: failure.time or view.snapshot.now, default=None)


# --- The counts and the replicas -----------------------------------------------------------------------------------


def _counts(view: JobView, verdict: Verdict, kind: ReplicaType) -> ReplicaCounts:
    up = [replica for replica in view.of(kind) if _is_up(replica)]
    counts = ReplicaCounts(
        active=len(up),
        succeeded=sum([replica.is_completed for replica in view.of(kind)]),
        failed=sum([_has_failed(replica, verdict) for replica in view.of(kind)]),
        pending=sum([replica.outcome is PodState.PENDING for replica in view.of(kind)]),
        restarting=sum(map(_waits_for_restart, up)),
    )
    if verdict.phase is Phase.SUCCEEDED:
        return structs.replace(counts, succeeded=counts.succeeded + counts.active, active=0, restarting=0)
    return structs.replace(counts, active=0, pending=0, restarting=0) if verdict.phase in IDLE else counts


def _is_up(replica: Replica) -> bool:
    """A program that has done its work and is started again by a node that came back, has still done it."""
    return replica.is_running and not replica.is_completed


def _waits_for_restart(replica: Replica) -> bool:
    return replica.pod is not None and pod_state.waits_for_restart(replica.pod)


def _has_failed(replica: Replica, verdict: Verdict) -> bool:
    """Whether the replica counts as failed. One that is going to be replaced does not: its failure is a restart."""
    if replica.loss is None:
        return False
    has_ended = verdict.phase in {Phase.SUCCEEDED, Phase.FAILED}
    return replica.loss.is_permanent or (has_ended and replica.loss.outcome is PodState.FAILED)


def _lines(view: JobView, record: JobRecord, *, is_active: bool) -> Iterator[ReplicaLine]:
    is_after_failure = record.restarting is not None and record.restarting.after_failure
    for replica in view.replicas:
        loss, pod = replica.loss, replica.pod
        restarts_failed = is_after_failure and _is_being_replaced(view, replica)
        line = ReplicaLine(
            type=replica.spec.type,
            index=replica.index,
            pod=replica.name,
            is_completed=replica.is_completed,
            has_failed=replica.was_failed or restarts_failed or (loss is not None and loss.has_failed),
            is_to_run=is_active and pod is None and replica.is_waited_for,
            failure=failure_evidence.describe(loss) if loss and loss.has_failed else "",
        )
        yield _with_pod(line, pod) if pod else line


def _with_pod(line: ReplicaLine, pod: Pod) -> ReplicaLine:
    main = pod.main
    return replace(
        line,
        uid=pod.uid,
        phase=pod.phase,
        exit_code=main.exit_code if main else None,
        restarts=pod.restarts,
        reason=(main.reason if main else "") or pod.reason or pod.pending_reason,
        containers=pod.containers,
    )


_PHASES: Mapping[Phase, JobPhase] = {
    Phase.SUSPENDED: JobPhase.SUSPENDED,
    Phase.QUEUED: JobPhase.QUEUED,
    Phase.SUCCEEDED: JobPhase.SUCCEEDED,
    Phase.FAILED: JobPhase.FAILED,
}
