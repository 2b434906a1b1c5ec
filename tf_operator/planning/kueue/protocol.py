"""What a job with a queue does next: wait, run, give its quota back, say how it ended.

An owner of a Workload makes it before the first pod, and makes no pod before it is admitted. When it is evicted, its
quota is not free before its owner has said that no pod is left. When it has to change although quota is kept for it,
it is deleted, and another one made.

Who may edit jobs may not get more than was admitted: a job whose pods would need something else than its Workload says
stops, and a label that is taken away changes nothing for as long as there is a Workload.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from msgspec import structs

from tf_operator.job.record import JobPhase
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body, objects_of, rfc3339, text_of
from tf_operator.planning import rejections, resizing
from tf_operator.planning.actions import Action, Create, Delete, Patch
from tf_operator.planning.kueue import admission, state, workload
from tf_operator.planning.kueue.state import KueueState, Workload
from tf_operator.planning.snapshot import Cause, Hold, RejectedWrite, Snapshot
from tf_operator.text import one_line

WHAT: Final = "its Workload"
_REASON: Final = "Queued"
_LONGEST_MESSAGE: Final = 32 * 1024
_MISTAKES: Final = frozenset({"Inadmissible", "Misconfigured", "NoMatchingFlavor", "ExceedsMaxQuota", "Suspended"})
"""Why a Workload gets no quota, where it is not that others have it."""
_REQUEUED: Final = frozenset({"Preempted", "NodeFailures"})
"""Who is evicted for these reasons gets into the queue again at once; else Kueue decides when."""


def queued(snapshot: Snapshot) -> Snapshot:
    """The same, where the job is held, or is as it was admitted."""
    kueue = snapshot.kueue
    if kueue is None:
        return snapshot
    if unknown := _is_unknown(kueue):
        if not _has_pods(snapshot):
            return _with_hold(snapshot, unknown)
        # What runs was admitted, as far as anybody knows: it goes on, and nothing is added to it.
        resource = str(state.workloads(kueue.version))
        rejection = RejectedWrite(WHAT, unknown, snapshot.now, cause=Cause.NOT_SERVED, resource=resource)
        return snapshot.changed(job=_as_it_runs(snapshot.job), rejected=snapshot.rejected or rejection)
    if reason := _waits_for(snapshot.job, kueue):
        return _with_hold(snapshot, reason)
    current = kueue.workload
    return snapshot.changed(job=admission.admit(snapshot.job, kueue, current)) if current else snapshot


def resumes(snapshot: Snapshot) -> bool:
    """Whether the job is to be resumed: as with Kueue's own code, whether it is suspended is for its queue to say."""
    kueue, job = snapshot.kueue, snapshot.job
    if kueue is None or not job.run_policy.is_suspended or job.record.is_finished:
        return False
    return not (_is_unknown(kueue) or _waits_for(job, kueue))


def actions(snapshot: Snapshot) -> Iterator[Action]:
    """Make the Workload, bring it up to date, give its quota back."""
    kueue, job = snapshot.kueue, snapshot.job
    if kueue is None or kueue.unreadable:
        return
    current = kueue.workload
    if current is None:
        is_waiting = rejections.is_waiting(snapshot.rejected, snapshot.now)
        if kueue.priority and workload.queue_of(job) and not is_waiting and not _has_pods(snapshot):
            resource = state.workloads(kueue.version)
            yield Create(resource, workload.name_of(job), WHAT, partial(workload.body, job, kueue, snapshot.settings))
    elif not current.is_terminating and not _was_refused(snapshot, kueue) and not current.has("Finished"):
        yield from _changes(snapshot, kueue, current)


def after_end(snapshot: Snapshot) -> Iterator[Action]:
    kueue, record = snapshot.kueue, snapshot.job.record
    current = kueue.workload if kueue and not kueue.unreadable else None
    if kueue is None or current is None or current.is_terminating or current.has("Finished"):
        return
    if _was_refused(snapshot, kueue):
        return
    has_succeeded = record.phase is JobPhase.SUCCEEDED
    reason, message = ("Succeeded", "The job has succeeded") if has_succeeded else ("Failed", "The job has failed")
    status = {"conditions": _merge_conditions(current, {"Finished": ("True", reason, message)}, snapshot.now)}
    yield _status_patch(kueue, current, status)


def retry_at(snapshot: Snapshot) -> datetime | None:
    """When to look again, if nothing happens until then: classes and flavors wake up no job."""
    kueue = snapshot.kueue
    is_missing = kueue and (_is_unknown(kueue) or (kueue.workload is None and not kueue.priority))
    return snapshot.now + rejections.UNSERVED if is_missing else None


# --- Whether its pods may run --------------------------------------------------------------------------------------


def _was_refused(snapshot: Snapshot, kueue: KueueState) -> bool:
    """Whether a write to the Workload was refused a moment ago. What else was refused keeps no quota from anybody."""
    rejection, resource = snapshot.rejected, str(state.workloads(kueue.version))
    return rejection is not None and rejection.resource == resource and rejections.is_waiting(rejection, snapshot.now)


def _with_hold(snapshot: Snapshot, message: str) -> Snapshot:
    return snapshot.changed(hold=snapshot.hold or Hold(_REASON, message))


def _as_it_runs(job: TrainingJob) -> TrainingJob:
    """The job with as many replicas as its pods were made for: it may have been admitted with fewer than it wants."""
    counts = {kind: job.record.of(kind).size for kind in resizing.sizes(job)}
    return structs.replace(
        job, replicas=tuple(structs.replace(spec, count=counts.get(spec.type) or spec.count) for spec in job.replicas)
    )


def _is_unknown(kueue: KueueState) -> str:
    """Why nobody can say whether pods may be made, or where; empty if that is known."""
    current = kueue.workload
    flavor = admission.missing(kueue, current) if current and current.is_admitted else ""
    return kueue.unreadable or (f"It was admitted to ResourceFlavor {flavor}, which is not there." if flavor else "")


def _waits_for(job: TrainingJob, kueue: KueueState) -> str:
    """Why the job may have no pods now; empty if it may."""
    current = kueue.workload
    if current is None:
        return kueue.problem or f"It waits in queue {workload.queue_of(job)}."
    if _is_outdated(job, current):
        return "What its pods need has changed since it was queued: it is queued again."
    return "" if current.is_admitted else _not_admitted(current)


def _not_admitted(current: Workload) -> str:
    queue = text_of(current.spec, "queueName")
    for kind, words in (
        ("Finished", f"Its Workload {current.name} was declared finished"),
        ("Evicted", f"It was evicted from queue {queue}"),
    ):
        if current.has(kind):
            return _sentence(words, current.condition(kind))
    if current.spec.get("active") is False:
        return f"Its Workload {current.name} is not active."
    if current.is_reserved:
        return f"Queue {queue} has quota for it, and its admission checks are not done."
    quota = current.condition("QuotaReserved")
    if quota.get("reason") in _MISTAKES:
        return _sentence(f"It waits in queue {queue}", quota)
    # What quota it lacks changes with each job that begins or ends, and would be a write for each that waits.
    return f"It waits in queue {queue}; its Workload {current.name} says for what."


def _sentence(words: str, condition: Body) -> str:
    detail = one_line(text_of(condition, "message")).rstrip(".")
    return f"{words}: {detail}." if detail else f"{words}."


def _has_pods(snapshot: Snapshot) -> bool:
    return any(not pod.is_gone for pod in snapshot.pods)


def _is_outdated(job: TrainingJob, current: Workload) -> bool:
    """Whether the Workload is for other pods than the job would have.

    Of one that Kueue has made only the numbers are known: it has put into the job's templates what pods were to get.
    """
    if current.digest:
        return current.digest != workload.digest(job)
    pod_sets = objects_of(current.spec.get("podSets"))
    return {text_of(entry, "name"): entry.get("count") for entry in pod_sets} != workload.counts(job)


# --- What is written -----------------------------------------------------------------------------------------------


def _changes(snapshot: Snapshot, kueue: KueueState, current: Workload) -> Iterator[Action]:
    if _is_outdated(snapshot.job, current) and current.is_reserved:
        if not _has_pods(snapshot):
            reason = "what the pods of its job need has changed"
            yield Delete(state.workloads(kueue.version), current.name, current.uid, reason)
        return
    if change := _spec_change(snapshot, kueue, current):
        subject = f"the change of {WHAT}"
        yield Patch(state.workloads(kueue.version), current.name, current.uid, subject, change)
    elif status := _status_change(snapshot, current):
        yield _status_patch(kueue, current, status)


def _spec_change(snapshot: Snapshot, kueue: KueueState, current: Workload) -> dict[str, Any]:
    """The merge patch to what is wanted. The queue, and all that was admitted, stay for as long as quota is kept."""
    job = snapshot.job
    place = workload.place(job, kueue)
    if current.is_reserved or not workload.queue_of(job):
        del place["queueName"]
    spec = {name: value for name, value in place.items() if current.spec.get(name) != value}
    digest = workload.digest(job)
    if digest == current.digest:
        return {"spec": spec} if spec else {}
    if _is_outdated(job, current):
        spec["podSets"] = workload.pod_sets(job, snapshot.settings)
    metadata: dict[str, Any] = {"annotations": {state.DIGEST: digest}}
    if state.FINALIZER in current.finalizers:  # nobody takes it away any more
        metadata["finalizers"] = [name for name in current.finalizers if name != state.FINALIZER]
    return {"metadata": metadata} | ({"spec": spec} if spec else {})


def _status_change(snapshot: Snapshot, current: Workload) -> dict[str, Any]:
    if current.has("Evicted"):
        return _given_back(snapshot, current) if current.is_reserved and not _has_pods(snapshot) else {}
    if not current.is_admitted:
        return {}
    status: dict[str, Any] = {}
    if reclaimable := _reclaimable(snapshot.job, current):
        status["reclaimablePods"] = reclaimable
    if ready := _pods_ready(snapshot.job, current):
        status["conditions"] = _merge_conditions(current, {"PodsReady": ready}, snapshot.now)
    return status


def _given_back(snapshot: Snapshot, current: Workload) -> dict[str, Any]:
    eviction = current.condition("Evicted")
    reason, message = text_of(eviction, "reason"), text_of(eviction, "message")
    changes = {
        "Requeued": ("True" if reason in _REQUEUED else "False", reason, message),
        "QuotaReserved": ("False", "Pending", message),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
    }
    if current.condition("PodsReady"):
        changes["PodsReady"] = ("False", "WaitForStart", "Not all pods are ready or succeeded")
    return {"admission": None, "conditions": _merge_conditions(current, changes, snapshot.now)}


def _pods_ready(job: TrainingJob, current: Workload) -> tuple[str, str, str] | None:
    """Whether all pods run, if that is news: of a job whose pods have not started nothing is said yet."""
    condition, is_ready = current.condition("PodsReady"), _all_run(job)
    if is_ready is (condition.get("status") == "True"):
        return None
    if not is_ready:
        return ("False", "WaitForRecovery", "At least one pod has failed, waiting for recovery")
    reason = "Recovered" if condition.get("reason") in {"WaitForRecovery", "Recovered"} else "Started"
    return ("True", reason, "All pods reached readiness and the workload is running")


def _all_run(job: TrainingJob) -> bool:
    """Since its present start, and with no replica being replaced."""
    return job.record.all_running_time is not None and job.record.phase is JobPhase.RUNNING


def _reclaimable(job: TrainingJob, current: Workload) -> list[dict[str, Any]]:
    """How many pods of each set have done their work, if these are more than is said; they never get fewer."""
    previous = {entry.get("name"): entry.get("count") for entry in objects_of(current.status.get("reclaimablePods"))}
    counts = {spec.type.label: len(job.record.of(spec.type).completed.below(spec.count)) for spec in job.replicas}
    if not any(count > (previous.get(name) or 0) for name, count in counts.items()):
        return []
    return [
        {"name": name, "count": most}
        for name, count in counts.items()
        if (most := max(count, previous.get(name) or 0)) or name in previous
    ]


def _merge_conditions(
    current: Workload, changes: Mapping[str, tuple[str, str, str]], now: datetime
) -> list[dict[str, Any]]:
    """All its conditions, some of them changed: a merge patch knows only whole lists."""
    return [
        *(dict(entry) for entry in current.conditions if entry.get("type") not in changes),
        *(_condition(current.condition(kind), kind, change, now) for kind, change in changes.items()),
    ]


def _condition(previous: Body, kind: str, change: tuple[str, str, str], now: datetime) -> dict[str, Any]:
    status, reason, message = change
    since = previous.get("lastTransitionTime") if previous.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason or "Unknown",
        "message": message[:_LONGEST_MESSAGE],
        "lastTransitionTime": since or rfc3339(now),
    }


def _status_patch(kueue: KueueState, current: Workload, status: Mapping[str, Any]) -> Patch:
    resource = state.workloads(kueue.version)
    subject = f"the status of {WHAT}"
    return Patch(
        resource, current.name, current.uid, subject, {"status": status}, version=current.version, subresource="status"
    )
