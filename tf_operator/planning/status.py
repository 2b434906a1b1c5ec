"""The next status of a job: counts, times and conditions, from a view and the verdict on it.

``next_status`` says what is so, whatever was written before; who stores it compares. Counts of a job that has ended
are its last ones, with what still ran at a success counted as succeeded, as 1.9 does.
"""

from dataclasses import replace
from itertools import chain

from tf_operator.api.constants import Reason
from tf_operator.api.job import RestartPolicy
from tf_operator.api.ranges import NO_INDEXES, Indexes
from tf_operator.api.status import ConditionType, JobStatus, ReplicaStatus, ReplicaType
from tf_operator.planning import conditions, evidence, gang, ledger, names, replicas, waiting
from tf_operator.planning.outcome import Outcome
from tf_operator.planning.replicas import Slot, View
from tf_operator.planning.verdict import End, Verdict, all_up

_FAILED = "replica(s) failed."


def next_status(view: View, verdict: Verdict) -> JobStatus:
    """The status that tells of this view and this verdict."""
    status = _begun(view, verdict)
    if not verdict.is_malformed:
        status = ledger.settled(view, status, goes_on=verdict.end is End.GOES_ON)
        status = _counted(view, verdict, status)
    return _END[verdict.end](view, verdict, status)


def is_progress(view: View, new: JobStatus) -> bool:
    """Whether the step only tells of progress: nothing ended, nothing was restarted, no state was left.

    That a replica succeeded may wait to be written only as long as there is its pod, which says so; a suspension
    takes it away. That a replica is not wanted any more may not wait: one that is wanted again would count as lost.
    """
    old, wanted = view.seen.job.status, view.seen.job.replicas
    return (
        not new.is_finished
        and not any(status.has(ConditionType.SUSPENDED) for status in (old, new))
        and not any(slot.departed and slot.is_completed for slot in view.slots)
        and not any(old.of(spec.type).started != old.of(spec.type).started.below(spec.count) for spec in wanted)
        and old.restarts == new.restarts
        and old.disruptions == new.disruptions
        and old.accounts == new.accounts
    )


def _begun(view: View, verdict: Verdict) -> JobStatus:
    """A job that is seen for the first time is Created; one that may run has a start; a resumed one a new start."""
    job, now = view.seen.job, view.seen.now
    status = job.status.changed(observed_generation=job.generation)
    if status.condition(ConditionType.CREATED) is None:
        message = f"{job.profile.kind} {job.key.name} is created."
        status = _told(status, view, ConditionType.CREATED, reason=Reason.CREATED, message=message)
    if verdict.end is not End.SUSPENDED and status.has(ConditionType.SUSPENDED):
        message = f"{job.profile.kind} {job.key.name} is resumed."
        status = _told(status, view, ConditionType.SUSPENDED, is_true=False, reason=Reason.RESUMED, message=message)
        status = status.changed(start_time=None, all_running_time=None)
    if status.start_time is None and verdict.end is not End.SUSPENDED and not verdict.is_malformed:
        # A job that waits for its gang has not started: no clock runs.
        status = status.changed(start_time=None if gang.keeps_waiting(view.seen) else now)
    return status


def _counted(view: View, verdict: Verdict, status: JobStatus) -> JobStatus:
    """The status with the counts of all types."""
    wanted = {spec.type for spec in view.seen.job.replicas}
    # Restarts are never forgotten, also not of a type that is no longer wanted.
    kinds = [kind for kind in ReplicaType if kind in wanted or status.of(kind).restarts]
    counts = {kind: _count(view, verdict, kind, status.of(kind)) for kind in kinds}
    if verdict.end is End.SUCCEEDED:
        counts = {
            kind: replace(found, succeeded=found.succeeded + found.active, active=0) for kind, found in counts.items()
        }
    if verdict.end is End.SUSPENDED:
        # Its pods are taken away by us: none of them is lost, and what comes after begins anew.
        counts = {kind: replace(found, active=0, pending=0, started=NO_INDEXES) for kind, found in counts.items()}
        status = status.changed(accounts=tuple(replace(kept, attempts=0) for kept in status.accounts))
    done = sum(found.active + found.succeeded for found in counts.values())
    all_running = status.all_running_time or (view.seen.now if all_up(view) and verdict.end is End.GOES_ON else None)
    return status.changed(replicas=counts, ready=f"{done}/{view.seen.job.pod_count}", all_running_time=all_running)


def _count(view: View, verdict: Verdict, kind: ReplicaType, known: ReplicaStatus) -> ReplicaStatus:
    slots = view.of(kind)
    completed = Indexes.of(slot.index for slot in slots if slot.is_completed)
    remembers = any(slot.spec.restart_policy is not RestartPolicy.ALWAYS for slot in slots)
    # A program that has done its work and is started once more, by a node that came back, has still done it.
    up = Indexes.of(slot.index for slot in slots if slot.is_up and not slot.is_completed)
    failed_for_good = Indexes.of(slot.index for slot in slots if slot.loss and slot.loss.is_for_good)
    return replace(
        known,
        active=len(up),
        succeeded=len(completed),
        failed=sum(_has_failed(slot, verdict) for slot in slots),
        pending=sum(slot.outcome is Outcome.PENDING for slot in slots),
        completed=completed if remembers else NO_INDEXES,
        started=((known.started | up | failed_for_good) - completed).below(len(slots)),
        selector=names.selector_of(view.seen.job, kind),
    )


def _has_failed(slot: Slot, verdict: Verdict) -> bool:
    """Whether the replica counts as failed. One that is going to be replaced does not: its failure is a restart."""
    if slot.loss is None:
        return False
    has_ended = verdict.end in {End.SUCCEEDED, End.FAILED}
    return slot.loss.is_for_good or (has_ended and slot.loss.outcome is Outcome.FAILED)


def _told(
    status: JobStatus, view: View, kind: ConditionType, *, is_true: bool = True, reason: str, message: str
) -> JobStatus:
    found = conditions.with_condition(
        status.conditions, kind, is_true=is_true, reason=reason, message=message, now=view.seen.now
    )
    return status if found is status.conditions else status.changed(conditions=found)


# --- The conditions of each verdict --------------------------------------------------------------------------------


def _going_on(view: View, _: Verdict, status: JobStatus) -> JobStatus:
    job = view.seen.job
    note = waiting.note(view)
    current = _current(view, status)
    for kind, reason, message in (
        (ConditionType.CREATED, Reason.CREATED, f"{job.profile.kind} {job.key.name} is created."),
        (ConditionType.RUNNING, Reason.RUNNING, f"{job.profile.kind} {job.key} is running."),
        (ConditionType.RESTARTING, Reason.RESTARTING, _restarting_message(view, status)),
    ):
        if kind is current:
            status = _told(status, view, kind, reason=reason, message=message + note)
        elif kind is ConditionType.CREATED:
            status = _told(status, view, kind, reason=reason, message=message)  # without trouble that is over
    return _with_evidence(view, status)


def _with_evidence(view: View, status: JobStatus) -> JobStatus:
    """The first failure is written down also where it does not end the job: its pod, or its end, will be gone."""
    if status.first_failure:
        return status
    failures = (evidence.of_loss(loss, view) for loss in view.losses if loss.outcome is not Outcome.DISRUPTED)
    restarts = (
        evidence.of_restart(slot, pod, view)
        for slot, pod, _ in replicas.restarts_in_place(view.slots)
        if pod.last_end and pod.last_end.exit_code
    )
    return status.changed(first_failure=next(chain(failures, restarts), None))


def _current(view: View, status: JobStatus) -> ConditionType:
    """Restarting lasts until every replacement runs; then the job is what the deciding replica is."""
    begins = any(slot.loss and not slot.loss.is_for_good for slot in view.slots)
    goes_on = status.has(ConditionType.RESTARTING) and any(slot.is_being_replaced for slot in view.slots)
    if begins or goes_on:
        return ConditionType.RESTARTING
    if _is_running(view) or status.has(ConditionType.RUNNING):
        return ConditionType.RUNNING
    return ConditionType.RESTARTING if status.has(ConditionType.RESTARTING) else ConditionType.CREATED


def _restarting_message(view: View, status: JobStatus) -> str:
    """Who is being replaced, and whether by a mistake of theirs. What was said stays until there is more to say."""
    begun = [loss for loss in view.losses if not loss.is_for_good]
    told = status.condition(ConditionType.RESTARTING)
    before = f"{told.message.partition('.')[0]}." if told and told.is_true and told.message else ""
    if before and not begun:
        return before
    replaced = [slot for slot in view.slots if slot.is_being_replaced or (slot.loss and not slot.loss.is_for_good)]
    kinds = ", ".join(dict.fromkeys(str(slot.spec.type) for slot in replaced)) or "some"
    has_failed = before.endswith(_FAILED) or any(loss.outcome is Outcome.FAILED for loss in begun)
    what = _FAILED if has_failed else "replica(s) were disrupted."
    return f"job {view.seen.job.key.name} is restarting because {kinds} {what}"


def _is_running(view: View) -> bool:
    """Whether the replica that decides is running; without a chief the workers, without workers anybody."""
    job = view.seen.job
    deciding = view.of(job.leader.type if job.leader else ReplicaType.WORKER) or view.slots
    return any(slot.is_up for slot in deciding)


def _suspended(view: View, _: Verdict, status: JobStatus) -> JobStatus:
    job = view.seen.job
    message = f"{job.profile.kind} {job.key.name} is suspended."
    if status.has(ConditionType.RUNNING) or status.has(ConditionType.RESTARTING):
        running = ConditionType.RUNNING
        status = _told(status, view, running, is_true=False, reason=Reason.SUSPENDED, message=message)
    status = _told(status, view, ConditionType.SUSPENDED, reason=Reason.SUSPENDED, message=message)
    return _with_evidence(view, status)


def _succeeded(view: View, verdict: Verdict, status: JobStatus) -> JobStatus:
    job = view.seen.job
    message = f"{job.profile.kind} {job.key} successfully completed. {verdict.message}".rstrip()
    status = _told(status, view, ConditionType.SUCCEEDED, reason=Reason.SUCCEEDED, message=message)
    return _with_evidence(view, status.changed(completion_time=view.seen.now))


def _failed(view: View, verdict: Verdict, status: JobStatus) -> JobStatus:
    status = _told(status, view, ConditionType.FAILED, reason=verdict.reason, message=verdict.message)
    return status.changed(completion_time=view.seen.now, first_failure=status.first_failure or verdict.evidence)


_END = {End.GOES_ON: _going_on, End.SUSPENDED: _suspended, End.SUCCEEDED: _succeeded, End.FAILED: _failed}
