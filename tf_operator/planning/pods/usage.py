"""For how long the pods of a job ran, what that used, and how much time its restarts cost.

All of it is worked out in the step in which the record notes that a run is over: with the pod that is replaced, given
up or completed, with the restart in place, or with the end of the job. That step is stored anyway, in one write with
what makes the run over, so each run counts once, through every crash, and nothing is written for it.

A run of which nobody saw the end counts for as long as somebody knew that it went on.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import structs

from tf_operator.job import templates
from tf_operator.job.record import (
    ENDS,
    IDLE,
    MOST_RESOURCES,
    JobPhase,
    JobRecord,
    LossCause,
    ReplicaRecord,
    ReplicaType,
    RestartRecord,
)
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning.actions import Count, Transition
from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_view import JobView
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import RestartInPlace, is_from_before
from tf_operator.planning.snapshot import MainContainer, Pod

CPU: Final = "cpuSeconds"
MEMORY: Final = "memoryGiBSeconds"
_LONGEST_NAME: Final = 40
_GIBIBYTE: Final = 2**30
_MOST: Final = 2**53
"""JSON numbers are exact up to there, and the status has no place beyond: a template may be edited to any amount."""
_OOM: Final = "OOMKilled"
_SECOND: Final = timedelta(seconds=1)
_CLOCKS_APART: Final = timedelta(hours=1)
"""By as much those of the operator and of the API server may differ."""
_ENDING: Final = ENDS | IDLE | {JobPhase.RESTARTING}
"""Phases with which runs end, or an interruption begins or ends."""
Place = tuple[ReplicaType, int]


class Run(NamedTuple):
    """A run of a deciding container that is over."""

    place: Place
    start: datetime
    end: datetime
    longest: timedelta
    """A node that starts with a wrong clock may set it during the run."""
    is_interrupted: bool
    """Whether the replica starts again after it."""

    @property
    def seconds(self) -> int:
        return max(round(min(self.end - self.start, self.longest) / _SECOND), 0)


def recorded(view: JobView, record: JobRecord) -> JobRecord:
    """The record with the runs that end with it, and what was lost with them."""
    before = view.snapshot.job.record
    if _has_same_runs(view, before, record):
        return record
    runs = (*_ended(view, before, record), *_ended_in_place(view, before))
    seconds = Counter[ReplicaType]()
    for run in runs:
        seconds[run.place[0]] += run.seconds
    replicas = record.replicas
    if any(seconds.values()):
        replicas = {
            kind: structs.replace(replica, run_seconds=replica.run_seconds + seconds[kind])
            if seconds[kind]
            else replica
            for kind, replica in replicas.items()
        }
    record = _with_interruption(view, before, record)
    return record.changed(
        replicas=replicas,
        lost_seconds=record.lost_seconds + _work_lost(view, runs) + _time_lost(view, before, record),
        usage=_used(view.snapshot.job, replicas) if record.is_finished else record.usage,
    )


def counts(view: JobView, after: JobRecord) -> Iterator[Count]:
    """What this step adds to what was used, and lost."""
    job, before = view.snapshot.job, view.snapshot.job.record
    more = {kind: replica.run_seconds - before.of(kind).run_seconds for kind, replica in after.replicas.items()}
    for resource, amount in _requested(job, more).items() if any(more.values()) else ():
        yield Count(Transition.USED, reason=resource, seconds=amount)
    if seconds := after.lost_seconds - before.lost_seconds:
        yield Count(Transition.LOST, reason=_cause(view, before, after), seconds=seconds)


def _has_same_runs(view: JobView, before: JobRecord, record: JobRecord) -> bool:
    return (
        (record.phase is before.phase or _ENDING.isdisjoint({record.phase, before.phase}))
        and record.restart_records == before.restart_records
        and not view.surplus
        and all(replica.completed == before.of(kind).completed for kind, replica in record.replicas.items())
    )


# --- The runs that are over ----------------------------------------------------------------------------------------


def _ended(view: JobView, before: JobRecord, after: JobRecord) -> Iterator[Run]:
    """With their pod, or with the job."""
    earlier = _replaced(before.restart_records)
    uids = _replaced(after.restart_records) - earlier
    stops = after.phase in ENDS | IDLE
    for replica in view.replicas:
        pod = replica.loss.pod if replica.loss and replica.loss.pod else replica.last_pod
        if pod is None or replica.was_completed or pod.uid in earlier or is_from_before(pod, before):
            continue
        is_completed = replica.index in after.of(replica.spec.type).completed
        if stops or is_completed or pod.uid in uids:
            place = (replica.spec.type, replica.index)
            yield from _run(pod, place, view, is_interrupted=not (stops or is_completed))
    for pod in view.surplus:
        is_noted = pod.index in before.of(pod.type).started and pod.index not in after.of(pod.type).started
        if is_noted and pod.uid not in earlier:
            yield from _run(pod, (pod.type, pod.index), view, is_interrupted=False)


def _ended_in_place(view: JobView, before: JobRecord) -> Iterator[Run]:
    """Of several restarts since the last step the kubelet keeps the last one."""
    times = {entry.uid: entry.time for entry in before.restart_records}
    for entry in (*view.restarts_in_place, *view.consequences):
        end = entry.pod.last_termination
        if end and end.started_at and end.finished_at and _is_new(end.finished_at, times.get(entry.pod.uid)):
            place = (entry.replica.spec.type, entry.replica.index)
            longest = _longest(entry.pod, view)
            yield Run(place, end.started_at, end.finished_at, longest, is_interrupted=True)


def _is_new(end: datetime, counted_until: datetime | None) -> bool:
    """A sidecar that is restarted leaves the last end of the program as it was."""
    return counted_until is None or end > counted_until


def _replaced(restart_records: tuple[RestartRecord, ...]) -> frozenset[str]:
    return frozenset(entry.uid for entry in restart_records if entry.replaced and entry.uid)


def _run(pod: Pod, place: Place, view: JobView, *, is_interrupted: bool) -> Iterator[Run]:
    start = pod.main.started_at if pod.main else _runs_since(pod, place, view.snapshot.job.record)
    end = pod.main.finished_at if pod.main else None
    if start is None:
        return
    if end is None:
        ends = (view.snapshot.now, pod.disrupted_at, pod.deletion_deadline if pod.is_gone else None)
        end = min(moment for moment in ends if moment)
        # The clock of a node may be wrong, and only an end of its own is wrong by as much.
        start = max(start, pod.created_at or start)
    yield Run(place, start, end, _longest(pod, view), is_interrupted)


def _longest(pod: Pod, view: JobView) -> timedelta:
    """No run is longer than its pod is old."""
    now = view.snapshot.now
    return max(now - (pod.created_at or now), timedelta()) + _CLOCKS_APART


def _runs_since(pod: Pod, place: Place, record: JobRecord) -> datetime | None:
    """Since when a pod ran at the latest whose kubelet has forgotten its containers, as of one that it evicts."""
    since, (kind, index) = record.all_running_time, place
    if since is None or pod.created_at is None or pod.created_at > since or index not in record.of(kind).started:
        return None
    return max([since, *(entry.time for entry in record.restart_records if entry.uid == pod.uid and entry.time)])


# --- What was used -------------------------------------------------------------------------------------------------


def _used(job: TrainingJob, replicas: Mapping[ReplicaType, ReplicaRecord]) -> dict[str, int]:
    seconds = {kind: replica.run_seconds for kind, replica in replicas.items()}
    amounts = {name: round(amount) for name, amount in _requested(job, seconds).items()}
    return {name: amount for name, amount in amounts.items() if amount}


def _requested(job: TrainingJob, seconds: Mapping[ReplicaType, int]) -> dict[str, float]:
    """The requests of the templates in force, for so many seconds of each type."""
    amounts = Counter[str]()
    for spec in job.replicas:
        for name, thousandths in shapes.requests_of(templates.pod_of(spec)) if seconds.get(spec.type) else ():
            if resource := _NAMES.get(name, name if "/" in name and len(name) <= _LONGEST_NAME else ""):
                amounts[resource] += thousandths * seconds[spec.type]
    units = {MEMORY: shapes.ONE * _GIBIBYTE}
    names = sorted(amounts, key=lambda name: (name not in _NAMES.values(), name))[:MOST_RESOURCES]
    return {name: min(amounts[name] / units.get(name, shapes.ONE), _MOST) for name in names}


_NAMES: Final = {"cpu": CPU, "memory": MEMORY}


# --- What was lost -------------------------------------------------------------------------------------------------


def _with_interruption(view: JobView, before: JobRecord, record: JobRecord) -> JobRecord:
    """The record that says since when the job restarts, and why, as long as it does."""
    if record.restarting is None:
        return record
    since, cause = (before.restarting.since, before.restarting.cause) if before.restarting else (None, None)
    if before.phase is not JobPhase.RESTARTING:
        since, cause = _interrupted_at(view), _interruption(view)
    return record.changed(restarting=structs.replace(record.restarting, since=since, cause=cause))


def _interrupted_at(view: JobView) -> datetime:
    ends = [(loss.ended_at, loss.pod) for loss in view.losses]
    ends += [(entry.ended_at, entry.pod) for entry in view.restarts_in_place]
    moments = (max(end, (pod and pod.created_at) or end) for end, pod in ends if end)
    return min(moments, default=view.snapshot.now)


def _work_lost(view: JobView, runs: tuple[Run, ...]) -> int:
    """What the program that reports did after its last checkpoint: from there it goes on."""
    snapshot = view.snapshot
    progress = snapshot.reported.latest if snapshot.reported else snapshot.job.record.progress
    checkpoint_time = progress.checkpoint.time if progress and progress.checkpoint else None
    interruptions = [run for run in runs if run.is_interrupted and run.place == snapshot.job.main_replica]
    return (
        sum(run._replace(start=max(checkpoint_time, run.start)).seconds for run in interruptions)
        if checkpoint_time
        else 0
    )


def _time_lost(view: JobView, before: JobRecord, after: JobRecord) -> int:
    """The time without all replicas: of a whole interruption when it is over, or of restarts in place."""
    since = before.restarting.since if before.restarting else None
    if before.phase is JobPhase.RESTARTING and after.phase is not JobPhase.RESTARTING:
        end = view.snapshot.now if after.phase in ENDS | IDLE else _all_running_since(view)
        return max(round((end - since) / _SECOND), 0) if since else 0
    if after.phase is JobPhase.RESTARTING:
        return 0
    times = {entry.uid: entry.time for entry in before.restart_records}
    return max((_pause(entry, times.get(entry.pod.uid), view) for entry in view.restarts_in_place), default=0)


def _pause(entry: RestartInPlace, counted_until: datetime | None, view: JobView) -> int:
    end, start = entry.ended_at, entry.pod.main.started_at if entry.pod.main else None
    if start is None or end is None or not _is_new(end, counted_until):
        return 0
    return max(round(min(start - end, _longest(entry.pod, view)) / _SECOND), 0)


def _all_running_since(view: JobView) -> datetime:
    starts = (replica.pod.main.started_at for replica in view.replicas if replica.pod and replica.pod.main)
    return min(max((start for start in starts if start), default=view.snapshot.now), view.snapshot.now)


def _cause(view: JobView, before: JobRecord, after: JobRecord) -> LossCause:
    restarting = before.restarting or after.restarting
    return (restarting and restarting.cause) or _interruption(view)


def _interruption(view: JobView) -> LossCause:
    """What begins with this step."""
    failures = [loss for loss in view.losses if loss.outcome is not PodState.DISRUPTED]
    ends = [loss.pod.main for loss in failures if loss.pod]
    ends += [entry.pod.last_termination for entry in view.restarts_in_place]
    if any(loss.hang for loss in failures):
        return LossCause.HUNG
    if any(_is_oom(end) for end in ends):
        return LossCause.OUT_OF_MEMORY
    if ends or failures:
        return LossCause.FAILED
    return LossCause.DISRUPTED if view.losses else LossCause.RESIZED


def _is_oom(end: MainContainer | None) -> bool:
    return end is not None and end.reason == _OOM
