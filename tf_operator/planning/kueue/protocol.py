"""What a job with a queue does next: wait, run, give its quota back, say how it ended.

An owner of a Workload makes it before the first pod, and makes no pod before it is admitted. When it is evicted, its
quota is not free before its owner has said that no pod is left. When it has to change although quota is kept for it,
it is deleted, and another one made.

Who may edit jobs may not get more than was admitted: a job whose pods would need something else than its Workload says
stops, and a label that is taken away changes nothing for as long as there is a Workload.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from tf_operator.job.record import JobPhase
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body, rfc3339, text_of
from tf_operator.planning import rejections, resizing
from tf_operator.planning.actions import Action, Create, Delete, Patch
from tf_operator.planning.kueue import admission, state, workload
from tf_operator.planning.kueue.state import Queueing, Workload, objects
from tf_operator.planning.snapshot import Cause, Hold, RejectedWrite, Snapshot

WHAT: Final = "its Workload"
_REASON: Final = "Queued"
_MOST_TEXT: Final = 300
_LONGEST_MESSAGE: Final = 32 * 1024
_MISTAKES: Final = frozenset({"Inadmissible", "Misconfigured", "NoMatchingFlavor", "ExceedsMaxQuota", "Suspended"})
"""Why a Workload gets no quota, where it is not that others have it."""
_REQUEUED: Final = frozenset({"Preempted", "NodeFailures"})
"""Who is evicted for these reasons gets into the queue again at once; else Kueue decides when."""


def queued(snapshot: Snapshot) -> Snapshot:
    """The same, where the job is held, or is as it was admitted."""
    queueing = snapshot.kueue
    if queueing is None:
        return snapshot
    if unknown := _is_unknown(queueing):
        if not _has_pods(snapshot):
            return _held(snapshot, unknown)
        # What runs was admitted, as far as anybody knows: it goes on, and nothing is added to it.
        rejected = RejectedWrite(WHAT, unknown, snapshot.now, cause=Cause.NOT_SERVED)
        return replace(snapshot, job=_as_it_runs(snapshot.job), rejected=snapshot.rejected or rejected)
    if why := _waits_for(snapshot.job, queueing):
        return _held(snapshot, why)
    found = queueing.workload
    return replace(snapshot, job=admission.admitted(snapshot.job, queueing, found)) if found else snapshot


def resumes(snapshot: Snapshot) -> bool:
    """Whether the job is to be resumed: as with Kueue's own code, whether it is suspended is for its queue to say."""
    queueing, job = snapshot.kueue, snapshot.job
    if queueing is None or not job.run_policy.is_suspended or job.record.is_finished:
        return False
    return not (_is_unknown(queueing) or _waits_for(job, queueing))


def actions(snapshot: Snapshot) -> Iterator[Action]:
    """Make the Workload, bring it up to date, give its quota back."""
    queueing, job = snapshot.kueue, snapshot.job
    if queueing is None or queueing.unreadable:
        return
    found = queueing.workload
    if found is None:
        is_waiting = rejections.is_waiting(snapshot.rejected, snapshot.now)
        if queueing.priority and workload.queue_of(job) and not is_waiting and not _has_pods(snapshot):
            resource = state.workloads(queueing.version)
            yield Create(
                resource, workload.name_of(job), WHAT, partial(workload.body, job, queueing, snapshot.settings)
            )
    elif not found.is_terminating and not _was_refused(snapshot) and not found.has("Finished"):
        yield from _changes(snapshot, queueing, found)


def after_end(snapshot: Snapshot) -> Iterator[Action]:
    """Say how the job ended, which frees its quota."""
    queueing, record = snapshot.kueue, snapshot.job.record
    found = queueing.workload if queueing and not queueing.unreadable else None
    if queueing is None or found is None or found.is_terminating or found.has("Finished"):
        return
    if _was_refused(snapshot):
        return
    has_succeeded = record.phase is JobPhase.SUCCEEDED
    reason, message = ("Succeeded", "The job has succeeded") if has_succeeded else ("Failed", "The job has failed")
    status = {"conditions": _with(found, {"Finished": ("True", reason, message)}, snapshot.now)}
    yield _status_patch(queueing, found, status)


def retry_at(snapshot: Snapshot) -> datetime | None:
    """When to look again, if nothing happens until then: classes and flavors wake up no job."""
    queueing = snapshot.kueue
    is_missing = queueing and (_is_unknown(queueing) or (queueing.workload is None and not queueing.priority))
    return snapshot.now + rejections.UNSERVED if is_missing else None


# --- Whether its pods may run --------------------------------------------------------------------------------------


def _was_refused(snapshot: Snapshot) -> bool:
    """Whether a write to the Workload was refused a moment ago. What else was refused keeps no quota from anybody."""
    rejected = snapshot.rejected
    return rejected is not None and rejected.subject.endswith(WHAT) and rejections.is_waiting(rejected, snapshot.now)


def _held(snapshot: Snapshot, why: str) -> Snapshot:
    return replace(snapshot, hold=snapshot.hold or Hold(_REASON, why))


def _as_it_runs(job: TrainingJob) -> TrainingJob:
    """The job with as many replicas as its pods were made for: it may have been admitted with fewer than it wants."""
    counts = {kind: job.record.of(kind).size for kind in resizing.sizes(job)}
    return replace(
        job, replicas=tuple(replace(spec, count=counts.get(spec.type) or spec.count) for spec in job.replicas)
    )


def _is_unknown(queueing: Queueing) -> str:
    """Why nobody can say whether pods may be made, or where; empty if that is known."""
    found = queueing.workload
    flavor = admission.missing(queueing, found) if found and found.is_admitted else ""
    return queueing.unreadable or (f"It was admitted to ResourceFlavor {flavor}, which is not there." if flavor else "")


def _waits_for(job: TrainingJob, queueing: Queueing) -> str:
    """Why the job may have no pods now; empty if it may."""
    found = queueing.workload
    if found is None:
        return queueing.problem or f"It waits in queue {workload.queue_of(job)}."
    if _is_outdated(job, found):
        return "What its pods need has changed since it was queued: it is queued again."
    return "" if found.is_admitted else _not_admitted(found)


def _not_admitted(found: Workload) -> str:
    queue = text_of(found.spec, "queueName")
    for kind, words in (
        ("Finished", f"Its Workload {found.name} was declared finished"),
        ("Evicted", f"It was evicted from queue {queue}"),
    ):
        if found.has(kind):
            return _sentence(words, found.condition(kind))
    if found.spec.get("active") is False:
        return f"Its Workload {found.name} is not active."
    if found.is_reserved:
        return f"Queue {queue} has quota for it, and its admission checks are not done."
    reserved = found.condition("QuotaReserved")
    if reserved.get("reason") in _MISTAKES:
        return _sentence(f"It waits in queue {queue}", reserved)
    # What quota it lacks changes with each job that begins or ends, and would be a write for each that waits.
    return f"It waits in queue {queue}; its Workload {found.name} says for what."


def _sentence(words: str, condition: Body) -> str:
    said = " ".join(text_of(condition, "message").split())[:_MOST_TEXT].rstrip(".")
    return f"{words}: {said}." if said else f"{words}."


def _has_pods(snapshot: Snapshot) -> bool:
    return any(not pod.is_gone for pod in snapshot.pods)


def _is_outdated(job: TrainingJob, found: Workload) -> bool:
    """Whether the Workload is for other pods than the job would have.

    Of one that Kueue has made only the numbers are known: it has put into the job's templates what pods were to get.
    """
    if found.digest:
        return found.digest != workload.digest(job)
    pod_sets = objects(found.spec.get("podSets"))
    return {text_of(entry, "name"): entry.get("count") for entry in pod_sets} != workload.counts(job)


# --- What is written -----------------------------------------------------------------------------------------------


def _changes(snapshot: Snapshot, queueing: Queueing, found: Workload) -> Iterator[Action]:
    if _is_outdated(snapshot.job, found) and found.is_reserved:
        if not _has_pods(snapshot):
            why = "what the pods of its job need has changed"
            yield Delete(state.workloads(queueing.version), found.name, found.uid, why)
        return
    if change := _spec_change(snapshot, queueing, found):
        what = f"the change of {WHAT}"
        yield Patch(state.workloads(queueing.version), found.name, found.uid, what, change)
    elif status := _status_change(snapshot, found):
        yield _status_patch(queueing, found, status)


def _spec_change(snapshot: Snapshot, queueing: Queueing, found: Workload) -> dict[str, Any]:
    """The merge patch to what is wanted. The queue, and all that was admitted, stay for as long as quota is kept."""
    job = snapshot.job
    place = workload.place(job, queueing)
    if found.is_reserved or not workload.queue_of(job):
        del place["queueName"]
    spec = {name: value for name, value in place.items() if found.spec.get(name) != value}
    digest = workload.digest(job)
    if digest == found.digest:
        return {"spec": spec} if spec else {}
    if _is_outdated(job, found):
        spec["podSets"] = workload.pod_sets(job, snapshot.settings)
    metadata: dict[str, Any] = {"annotations": {state.DIGEST: digest}}
    if state.FINALIZER in found.finalizers:  # nobody takes it away any more
        metadata["finalizers"] = [name for name in found.finalizers if name != state.FINALIZER]
    return {"metadata": metadata} | ({"spec": spec} if spec else {})


def _status_change(snapshot: Snapshot, found: Workload) -> dict[str, Any]:
    """What the owner of a Workload has to say of it now."""
    if found.has("Evicted"):
        return _given_back(snapshot, found) if found.is_reserved and not _has_pods(snapshot) else {}
    if not found.is_admitted:
        return {}
    status: dict[str, Any] = {}
    if reclaimable := _reclaimable(snapshot.job, found):
        status["reclaimablePods"] = reclaimable
    if ready := _pods_ready(snapshot.job, found):
        status["conditions"] = _with(found, {"PodsReady": ready}, snapshot.now)
    return status


def _given_back(snapshot: Snapshot, found: Workload) -> dict[str, Any]:
    evicted = found.condition("Evicted")
    reason, message = text_of(evicted, "reason"), text_of(evicted, "message")
    changes = {
        "Requeued": ("True" if reason in _REQUEUED else "False", reason, message),
        "QuotaReserved": ("False", "Pending", message),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
    }
    if found.condition("PodsReady"):
        changes["PodsReady"] = ("False", "WaitForStart", "Not all pods are ready or succeeded")
    return {"admission": None, "conditions": _with(found, changes, snapshot.now)}


def _pods_ready(job: TrainingJob, found: Workload) -> tuple[str, str, str] | None:
    """Whether all pods run, if that is news: of a job whose pods have not started nothing is said yet."""
    known, is_ready = found.condition("PodsReady"), _all_run(job)
    if is_ready is (known.get("status") == "True"):
        return None
    if not is_ready:
        return ("False", "WaitForRecovery", "At least one pod has failed, waiting for recovery")
    reason = "Recovered" if known.get("reason") in {"WaitForRecovery", "Recovered"} else "Started"
    return ("True", reason, "All pods reached readiness and the workload is running")


def _all_run(job: TrainingJob) -> bool:
    """Since its present start, and with no replica being replaced."""
    return job.record.all_running_time is not None and job.record.phase is JobPhase.RUNNING


def _reclaimable(job: TrainingJob, found: Workload) -> list[dict[str, Any]]:
    """How many pods of each set have done their work, if these are more than is said; they never get fewer."""
    known = {entry.get("name"): entry.get("count") for entry in objects(found.status.get("reclaimablePods"))}
    done = {spec.type.label: len(job.record.of(spec.type).completed.below(spec.count)) for spec in job.replicas}
    if not any(count > (known.get(name) or 0) for name, count in done.items()):
        return []
    return [
        {"name": name, "count": most}
        for name, count in done.items()
        if (most := max(count, known.get(name) or 0)) or name in known
    ]


def _with(found: Workload, changes: Mapping[str, tuple[str, str, str]], now: datetime) -> list[dict[str, Any]]:
    """All its conditions, some of them changed: a merge patch knows only whole lists."""
    return [
        *(dict(entry) for entry in found.conditions if entry.get("type") not in changes),
        *(_condition(found.condition(kind), kind, change, now) for kind, change in changes.items()),
    ]


def _condition(before: Body, kind: str, change: tuple[str, str, str], now: datetime) -> dict[str, Any]:
    status, reason, message = change
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason or "Unknown",
        "message": message[:_LONGEST_MESSAGE],
        "lastTransitionTime": since or rfc3339(now),
    }


def _status_patch(queueing: Queueing, found: Workload, status: Mapping[str, Any]) -> Patch:
    resource = state.workloads(queueing.version)
    what = f"the status of {WHAT}"
    return Patch(resource, found.name, found.uid, what, {"status": status}, version=found.version, subresource="status")
