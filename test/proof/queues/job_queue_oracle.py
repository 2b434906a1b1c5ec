"""What has to be so in the job queue, as sentences of docs/how-to/job-queue.md. It knows nothing of planning."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

Json = Mapping[str, Any]
SHRINK_AFTER, GROW_AFTER, RESIZE_INTERVAL, RESERVE_AFTER = 120, 60, 300, 300
KEEPS_ROOM_FOR = 300
"""Seconds. "It reserves room for 5 minutes for pods that no scheduler places"."""


class Wish(NamedTuple):
    """What a job asks for."""

    name: str
    age: int
    """Its place among all jobs: the oldest has the lowest."""
    priority: int
    workers: int
    slots: int
    least: int
    most: int
    is_elastic: bool = False
    is_dynamic: bool = True
    is_suspended: bool = False
    node: int | None = None
    is_outgrown: bool = False
    """Whether its pods ask for something else than it was admitted with."""

    @property
    def rank(self) -> tuple[int, int]:
        """By priority, then by age."""
        return -self.priority, self.age


class Place(NamedTuple):
    """A pod of a job."""

    job: int
    ordinal: int
    node: int
    """-1 for none."""
    slots: int
    is_leaving: bool


class Cluster(NamedTuple):
    """All there is at a moment."""

    wishes: tuple[Wish | None, ...]
    """``None`` for a job that is not there."""
    statuses: tuple[Json, ...]
    pods: tuple[Place, ...]
    free: tuple[int, ...]
    """What each node has left; a node that does not count has nothing."""
    slots: tuple[int, ...]
    """What each node has, whether it is ready or not; a node that is gone has nothing."""
    unplaced_for: tuple[int, ...]
    """For how long pods of a job have been on no node, in seconds; -1 if all are on one."""
    reserves: bool
    now: datetime


def is_admitted(status: Json) -> bool:
    return "admittedTime" in status.get("queue", {})


def state(status: Json) -> Json:
    """The present condition."""
    return next((entry for entry in reversed(status.get("conditions", ())) if entry["status"] == "True"), {})


def is_queued(status: Json) -> bool:
    return state(status).get("type") == "Queued"


def waits(wish: Wish | None, status: Json) -> bool:
    """Whether a job waits for room."""
    return wish is not None and is_queued(status) and not is_admitted(status) and not wish.is_suspended


def has_waited(status: Json, now: datetime) -> float:
    """For how long, in seconds."""
    return _age(status.get("queue", {}).get("queuedTime"), now) or 0.0


def _age(text: str | None, now: datetime) -> float | None:
    return None if text is None else (now - datetime.fromisoformat(text)).total_seconds()


def fits(wish: Wish, workers: int, room: Sequence[int], others: Iterable[tuple[int, int | None]] = ()) -> bool:
    """Whether so many workers have room on the nodes, beside other pods."""
    return _packs([*others, *[(wish.slots, wish.node)] * workers], list(room))


def _packs(pods: list[tuple[int, int | None]], room: list[int]) -> bool:
    """Whether these pods fit, each with the slots that it needs and the only node on which it may be."""
    if not pods:
        return True
    largest = max(pods, key=lambda pod: (pod[1] is not None, pod[0]))
    rest = [*pods]
    rest.remove(largest)
    slots, only = largest
    tried = set[int]()
    for node, free in enumerate(room):
        if free >= slots and only in {None, node} and free not in tried:
            tried.add(free if only is None else -1)
            room[node] -= slots
            if _packs(rest, room):
                room[node] += slots
                return True
            room[node] += slots
    return False


def in_force(wish: Wish, status: Json) -> int:
    """How many workers a job is to have: what was decided, unless its user has changed the number since."""
    elastic, queue = status.get("elastic", {}), status.get("queue", {})
    is_decided = wish.is_elastic and elastic.get("specWorkers") == wish.workers and "workers" in elastic
    workers: int = elastic["workers"] if is_decided else wish.workers
    admitted: int = queue.get("admittedWorkers", workers)
    return min(workers, admitted)


def to_come(cluster: Cluster, statuses: Sequence[Json]) -> list[tuple[int, int | None]]:
    """The pods of admitted jobs that are on no node yet, as far as room is kept for them."""
    pods: list[tuple[int, int | None]] = []
    for job, (wish, status) in enumerate(zip(cluster.wishes, statuses, strict=True)):
        if wish is None or not is_admitted(status) or wish.is_suspended or wish.is_outgrown:
            continue
        if cluster.unplaced_for[job] >= KEEPS_ROOM_FOR:
            continue
        here = {pod.ordinal for pod in cluster.pods if pod.job == job and pod.node >= 0}
        workers = in_force(wish, status)
        pods += [(wish.slots, wish.node)] * max(workers - len(here & set(range(workers))), 0)
    return pods


def is_over(status: Json) -> bool:
    return "completionTime" in status


# --- What is decided -----------------------------------------------------------------------------------------------


def on_plan(cluster: Cluster, decisions: Sequence[tuple[int, Json]], *, is_fresh: bool) -> Iterator[str]:
    """What one plan decides: the jobs, and the statuses that they are to have. ``is_fresh``: it saw all there is."""
    earlier_pods, after = to_come(cluster, cluster.statuses), list(cluster.statuses)
    admits = set[int]()
    for job, status in decisions:
        wish, old = cluster.wishes[job], cluster.statuses[job]
        if wish is None:
            continue
        after[job] = status
        if is_admitted(status) and not is_admitted(old):
            admits.add(job)
            if wish.is_suspended and is_fresh:
                yield "a suspended job is admitted"
        elif is_admitted(old):
            yield from _on_resize(cluster, job, wish, old, status)
    if not is_fresh:
        return
    grown = any(
        _workers(cluster, job, status) > _workers(cluster, job, cluster.statuses[job]) for job, status in decisions
    )
    if (
        (admits or grown)
        and _packs(earlier_pods, list(cluster.free))
        and not _packs(to_come(cluster, after), list(cluster.free))
    ):
        yield "more is admitted than the nodes have room for"
    yield from _on_order(cluster, admits, earlier_pods)


def _workers(cluster: Cluster, job: int, status: Json) -> int:
    wish = cluster.wishes[job]
    return in_force(wish, status) if wish and is_admitted(status) else 0


def _on_resize(cluster: Cluster, job: int, wish: Wish, old: Json, new: Json) -> Iterator[str]:
    """A job that runs gets another number of workers."""
    number, previous = in_force(wish, new), in_force(wish, old)
    if number == previous:
        return
    is_wanted = number == wish.workers and new.get("elastic", {}).get("resizedTime") == old.get("elastic", {}).get(
        "resizedTime"
    )
    age = _age(old.get("elastic", {}).get("resizedTime"), cluster.now)
    if age is not None and age < RESIZE_INTERVAL and not is_wanted:
        yield "a job is resized twice in 5 minutes"
    if wish.is_elastic and not wish.least <= number <= wish.most:
        yield "a job is resized beyond its policy"
    if number < previous:
        waiting = [
            other
            for other, status in zip(cluster.wishes, cluster.statuses, strict=True)
            if other and waits(other, status) and has_waited(status, cluster.now) >= SHRINK_AFTER
        ]
        if not any(other.priority >= wish.priority for other in waiting):
            yield "a job gives up workers for nobody of its priority who has waited for 2 minutes"
    if number > previous and not is_wanted:
        starts = [_age(status.get("queue", {}).get("admittedTime"), cluster.now) for status in cluster.statuses]
        if wish.is_elastic and number > wish.workers and any(age is not None and age < GROW_AFTER for age in starts):
            yield "a job grows less than a minute after another was admitted"


def _on_order(cluster: Cluster, admits: set[int], earlier_pods: list[tuple[int, int | None]]) -> Iterator[str]:
    """A later job overtakes only one that does not fit."""
    if not _is_plain(cluster):
        return
    for job, wish in enumerate(cluster.wishes):
        if wish is None or job in admits or not waits(wish, cluster.statuses[job]):
            continue
        later = [other for other in admits if (cluster.wishes[other] or wish).rank > wish.rank]
        earlier = [
            (entry.slots, entry.node)
            for other in admits
            if (entry := cluster.wishes[other]) and entry.rank < wish.rank
            for _ in range(entry.workers)
        ]
        if later and fits(wish, wish.least, cluster.free, [*earlier_pods, *earlier]):
            yield "a later job overtakes one that fits"


def _is_plain(cluster: Cluster) -> bool:
    """Whether room is neither kept nor given up for anybody, so that nothing but rank decides."""
    for wish, status in zip(cluster.wishes, cluster.statuses, strict=True):
        if wish and waits(wish, status) and cluster.reserves and has_waited(status, cluster.now) >= RESERVE_AFTER:
            return False
    return not any(pod.is_leaving for pod in cluster.pods) and not any(
        wish and is_admitted(status) and pod.job == job and pod.ordinal >= in_force(wish, status)
        for job, (wish, status) in enumerate(zip(cluster.wishes, cluster.statuses, strict=True))
        for pod in cluster.pods
    )


# --- What is stored ------------------------------------------------------------------------------------------------


def on_decision(decided_on: Json, old: Json, new: Json) -> Iterator[str]:
    """A decision is stored in a status that may be another than it was made from."""
    if is_admitted(old) and (not is_admitted(decided_on) or not is_admitted(new)):
        yield "a decision that was stored is made again"
    if is_over(old):
        yield "a decision about a job that is over is stored"


def on_status(wish: Wish, old: Json, new: Json, *, may_lose_pods: bool) -> Iterator[str]:
    """A reconcile stores a status."""
    if is_admitted(old) and not is_admitted(new) and not wish.is_suspended and not wish.is_outgrown:
        yield "a job loses room that it was admitted to"
    if is_admitted(new) and not is_admitted(old):
        yield "a job is admitted without a decision"
    if wish.is_suspended and state(new).get("type") == "Suspended" and new.get("queue"):
        yield "a suspended job keeps its room"
    if state(new).get("type") == "Failed":
        yield "a job fails in the queue"
    replicas = new.get("replicaStatuses", {}).values()
    if any(entry.get("restarts") for entry in replicas) or (new.get("disruptions") and not may_lose_pods):
        yield "a resize, or a turn in the queue, counts as a failure or a disruption"


def on_create(wish: Wish, status: Json, ordinal: int) -> Iterator[str]:
    """A reconcile creates a worker, having seen this status."""
    if not is_admitted(status):
        yield "a job that waits has a pod"
    elif ordinal >= in_force(wish, status):
        yield "a pod is created for which the job has no room"


def on_delete(wish: Wish, status: Json, ordinal: int) -> Iterator[str]:
    """A reconcile deletes a worker that runs, having stored this status."""
    if state(status).get("type") in {"Queued", "Suspended"} or wish.is_suspended or not wish.is_dynamic:
        return
    if ordinal < in_force(wish, status):
        yield "a pod is deleted for which the job has room"


# --- What is left --------------------------------------------------------------------------------------------------


def on_rest(cluster: Cluster) -> Iterator[str]:
    """Nobody has anything to do at this moment."""
    for job, (wish, status) in enumerate(zip(cluster.wishes, cluster.statuses, strict=True)):
        if wish is None or is_over(status):
            continue
        pods = [pod for pod in cluster.pods if pod.job == job]
        yield from _on_resting_job(cluster, wish, status, pods)
    waiting = [
        (wish, job)
        for job, wish in enumerate(cluster.wishes)
        if wish and wish.workers and waits(wish, cluster.statuses[job])
    ]
    if not waiting or not _is_plain(cluster):
        return
    coming = to_come(cluster, cluster.statuses)
    if any(fits(wish, wish.least, cluster.free, coming) for wish, _ in waiting):
        yield "a job waits although it fits"


def _on_resting_job(cluster: Cluster, wish: Wish, status: Json, pods: list[Place]) -> Iterator[str]:
    if wish.is_suspended:
        if pods or status.get("queue"):
            yield "a suspended job has pods or room"
    elif not wish.workers:
        if is_queued(status):
            yield "a job without pods waits"
    elif is_admitted(status):
        yield from _on_running(wish, status, {pod.ordinal for pod in pods if not pod.is_leaving})
    else:
        yield from _on_waiting(cluster, wish, status, pods)


def _on_waiting(cluster: Cluster, wish: Wish, status: Json, pods: list[Place]) -> Iterator[str]:
    if not is_queued(status):
        yield "a job neither waits nor has room"
        return
    if pods:
        yield "a job that waits has pods"
    reason = "NoRoom" if fits(wish, wish.least, cluster.slots) else "CannotFit"
    if state(status).get("reason") != reason:
        yield f"a job waits for another reason than {reason}"
    if (reason == "CannotFit") != ("unfit" in status.get("queue", {})):
        yield "programs do not find whether a job cannot fit"


def _on_running(wish: Wish, status: Json, there: set[int]) -> Iterator[str]:
    workers, elastic = in_force(wish, status), status.get("elastic", {})
    if is_queued(status):
        yield "a job that was admitted does not start"
    if there != set(range(workers)):
        yield "a job has other workers than are in force"
    if workers < wish.workers and not wish.is_elastic and "wait" not in state(status).get("message", ""):
        yield "a job does not say that workers wait"
    if "workers" in elastic and elastic.get("specWorkers") != wish.workers:
        yield "a decision that was overruled is still in the status"


def still_waiting(cluster: Cluster, jobs: Iterable[int]) -> list[str]:
    """Who must not wait for ever: each job that fits on the nodes that are ready, if nothing else runs there."""
    sentences = []
    ready = [
        free + sum(pod.slots for pod in cluster.pods if pod.node == node) for node, free in enumerate(cluster.free)
    ]
    for job in jobs:
        wish, status = cluster.wishes[job], cluster.statuses[job]
        if wish is None or wish.is_suspended or not wish.workers or is_over(status) or is_admitted(status):
            continue
        if fits(wish, wish.least, ready):
            sentences.append(f"{wish.name} waits for ever")
    return sentences
