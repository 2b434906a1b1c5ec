"""What has to be so of a job in a queue of Kueue, as sentences of docs/how-to/kueue.md. It imports nothing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Json = Mapping[str, Any]
ENDS = ("Succeeded", "Failed")


class Wish(NamedTuple):
    """What a job asks for."""

    workers: int
    processors: int
    is_suspended: bool
    queue: str


class Place(NamedTuple):
    """A pod of the job."""

    ordinal: int
    pool: str
    """Of the nodes on which it may run; empty for all."""
    processors: int
    is_running: bool
    has_ended: bool
    is_leaving: bool


class Facts(NamedTuple):
    """What has happened so far."""

    failures: int = 0
    losses: int = 0


def state(status: Json) -> str:
    """The present condition of the job."""
    conditions = status.get("conditions", ())
    return next((str(entry["type"]) for entry in reversed(conditions) if entry["status"] == "True"), "")


def has(workload: Json | None, kind: str) -> bool:
    conditions = (workload or {}).get("status", {}).get("conditions", ())
    return any(entry["type"] == kind and entry["status"] == "True" for entry in conditions)


def is_admitted(workload: Json | None) -> bool:
    return has(workload, "Admitted") and not has(workload, "Evicted") and not has(workload, "Finished")


def assigned(workload: Json) -> tuple[str, int]:
    """The flavor, and for how many workers there is quota."""
    (entry,) = workload["status"]["admission"]["podSetAssignments"]
    return entry["flavors"]["cpu"], entry["count"]


def asks_for(workload: Json) -> tuple[int, int]:
    """For how many workers a Workload asks, and for how many processors for each."""
    (entry,) = workload["spec"]["podSets"]
    (container,) = entry["template"]["spec"]["containers"]
    return int(entry["count"]), int(container["resources"]["requests"]["cpu"])


def fits(wish: Wish, workload: Json) -> bool:
    """Whether a Workload asks for what the job needs: "it never runs with more than was admitted"."""
    return asks_for(workload) == (wish.workers, wish.processors)


# --- What the operator does, having seen the job and its Workload --------------------------------------------------


def on_create_pod(wish: Wish, workload: Json | None, pod: Place) -> Iterator[str]:
    if workload is None:
        if wish.queue:
            yield "a pod is created before there is a Workload"
        return
    if not is_admitted(workload):
        yield "a pod is created of a job that is not admitted"
        return
    flavor, count = assigned(workload)
    if not fits(wish, workload):
        yield "a pod is created that asks for something else than was admitted"
    if pod.pool != flavor:
        yield "a pod may run on nodes for which it has no quota"
    if pod.ordinal >= count:
        yield "more pods are created than were admitted"


def on_create_workload(wish: Wish, workload: Json | None, created: Json, pods: Sequence[Place]) -> Iterator[str]:
    if workload is not None:
        yield "a job has two Workloads at a time"
    if any(not pod.has_ended for pod in pods):
        yield "a job that runs gets a Workload"
    if not wish.queue:
        yield "a job without a queue gets a Workload"
    elif created["spec"]["queueName"] != wish.queue:
        yield "a job waits in another queue than it names"
    if not fits(wish, created):
        yield "a Workload asks for something else than its job needs"


def on_delete_workload(wish: Wish, workload: Json, pods: Sequence[Place]) -> Iterator[str]:
    if fits(wish, workload):
        yield "a Workload is deleted that asks for what its job needs"
    if pods:
        yield "quota is given back while pods are there"


def on_change_workload(old: Json, new: Json, job: Json, pods: Sequence[Place]) -> Iterator[str]:
    """A Workload is changed, having seen the status of its job and its pods."""
    if has(old, "Finished"):
        yield "an end is told twice"
        return
    if has(old, "QuotaReserved"):
        yield from _on_quota(old, new, pods)
    if any(has(new, kind) and not has(old, kind) for kind in ("Admitted", "QuotaReserved", "Evicted")):
        yield "the operator says what only Kueue may say"
    if has(new, "Finished"):
        yield from _on_end(new, job)
    if has(new, "PodsReady") and not has(old, "PodsReady") and state(job) != "Running":
        yield "pods are called ready that do not run"
    if _reclaimable(new) < _reclaimable(old):
        yield "pods that have given their quota back take it again"


def _on_quota(old: Json, new: Json, pods: Sequence[Place]) -> Iterator[str]:
    if old["spec"]["queueName"] != new["spec"]["queueName"]:
        yield "a job changes its queue although it has quota"
    if old["spec"]["podSets"] != new["spec"]["podSets"]:
        yield "a Workload with quota asks for something else"
    if has(new, "QuotaReserved"):
        return
    if pods:
        yield "quota is given back while pods are there"
    if not has(old, "Evicted"):
        yield "quota is given back that nobody has taken"


def _done(job: Json, pods: Sequence[Place]) -> int:
    """How many workers have succeeded and have no pod: these do not run again."""
    succeeded: int = sum(entry.get("succeeded", 0) for entry in job.get("replicaStatuses", {}).values())
    return max(succeeded - sum(pod.has_ended for pod in pods), 0)


def _on_end(new: Json, job: Json) -> Iterator[str]:
    reason = next(entry["reason"] for entry in new["status"]["conditions"] if entry["type"] == "Finished")
    if state(job) not in ENDS:
        yield "a Workload is finished although its job has not ended"
    elif reason != state(job):
        yield "a Workload says another end than its job"


def _reclaimable(workload: Json) -> int:
    return sum(entry["count"] for entry in workload.get("status", {}).get("reclaimablePods", ()))


def on_resume(workload: Json | None) -> Iterator[str]:
    if not is_admitted(workload):
        yield "a job is resumed that is not admitted"


def on_status(old: Json, new: Json, facts: Facts) -> Iterator[str]:
    """The status of the job is stored."""
    if state(old) in ENDS and state(new) != state(old):
        yield "an end is not final"
    if state(new) == "Failed" and state(old) != "Failed":
        yield "an eviction fails the job"
    restarts = sum(entry.get("restarts", 0) for entry in new.get("replicaStatuses", {}).values())
    if restarts > facts.failures:
        yield "an eviction counts as a restart"
    if new.get("disruptions", 0) > facts.losses:
        yield "an eviction counts as a disruption"


# --- What is left --------------------------------------------------------------------------------------------------


def on_rest(wish: Wish, status: Json, workload: Json | None, pods: Sequence[Place]) -> Iterator[str]:
    """Neither the operator nor the cluster has anything to do, and Kueue can be read."""
    if state(status) in ENDS:
        if workload is not None and not has(workload, "Finished"):
            yield "the end of a job is not told"
    elif workload is None:
        if wish.queue:
            yield "a job with a queue has no Workload"
    elif is_admitted(workload):
        yield from _on_admitted(wish, status, workload, pods)
    else:
        yield from _on_waiting(wish, status, workload, pods)


def _on_admitted(wish: Wish, status: Json, workload: Json, pods: Sequence[Place]) -> Iterator[str]:
    flavor, count = assigned(workload)
    if not fits(wish, workload):
        yield "a job keeps quota for something else than it needs"
    workers, there = min(wish.workers, count), {pod.ordinal for pod in pods}
    if not there <= set(range(workers)) or len(there) + _done(status, pods) < workers:
        yield "an admitted job has other pods than were admitted"
    if any(pod.pool != flavor for pod in pods):
        yield "pods stay where the job has no quota"
    if wish.is_suspended:
        yield "an admitted job stays suspended"


def _on_waiting(wish: Wish, status: Json, workload: Json, pods: Sequence[Place]) -> Iterator[str]:
    if pods:
        yield "a job that is not admitted has pods"
    if has(workload, "Evicted") and has(workload, "QuotaReserved"):
        yield "an evicted job keeps its quota"
    if state(status) not in {"Queued", "Suspended"}:
        yield "a job that is not admitted is neither queued nor suspended"
    if has(workload, "QuotaReserved"):
        return
    if not fits(wish, workload):
        yield "a Workload that waits asks for something else than its job needs"
    if wish.queue and workload["spec"]["queueName"] != wish.queue:
        yield "a job waits in another queue than it names"


def still_waiting(status: Json, workload: Json | None) -> list[str]:
    """What must not stay so for ever."""
    is_active = workload is None or workload["spec"].get("active", True)
    return ["a job never ends that Kueue lets run"] if state(status) not in ENDS and is_active else []
