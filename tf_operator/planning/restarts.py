"""The restart records: every failure counts once, and is written down before its pod is deleted.

``recorded`` takes the losses and the restarts in place of one view into a job's record. The record is stored first,
with the UIDs, and guarded by the version of the job; then the pods are deleted. A crash in between changes nothing:
the next reconcile finds the UID written down, and only deletes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from msgspec import structs

from tf_operator import quantity
from tf_operator.job.profile import RestartBy
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import (
    ENDS,
    IDLE,
    REPLICA_TYPES,
    JobPhase,
    JobRecord,
    ReplicaRecord,
    ReplicaType,
    RestartRecord,
)
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning import job_view, memory_growth, whole_job
from tf_operator.planning.job_view import JobView
from tf_operator.planning.pods import attempts, avoided_nodes
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss
from tf_operator.planning.snapshot import Pod, Settings, Snapshot, is_ahead

MOST_RECORDS: Final = 1000
"""Of replicas that were restarted; more only while the pods that they are about are there."""


@dataclass(frozen=True, slots=True)
class Totals:
    """How often the job was restarted, as the backoff limit counts: up to now, and with what this view shows."""

    recorded: int
    in_place: int
    """New restarts by the kubelet."""
    failures: int
    """Pods that ended and would be replaced."""


def totals(view: JobView) -> Totals:
    """Count restarts, without deciding anything."""
    return Totals(
        recorded=view.snapshot.job.record.counted_restarts,
        in_place=sum(restart.times - restart.outgrown for restart in view.restarts_in_place),
        failures=sum(loss.counts for loss in view.losses),
    )


def replaced(view: JobView, phase: JobPhase) -> tuple[ReplicaLoss, ...]:
    """The losses after which a replica starts again, if the job is in this phase from now on.

    The failure that ends a job is no restart. A suspended or queued job loses all pods, so a disruption then is none
    either; a failure is, also if it is first seen then: it is recorded before its pod is deleted.
    """
    if phase in ENDS:
        return ()
    is_idle = phase in IDLE
    return tuple(
        loss for loss in view.losses if not loss.is_permanent and (loss.outcome is PodState.FAILED or not is_idle)
    )


def possible(job: TrainingJob) -> Iterator[tuple[ReplicaType, str]]:
    """The types and causes of all restarts that a job may report as it is, and few more."""
    causes = ["failed", "disrupted", "in-place"]
    if job.profile.restart_by is RestartBy.NEW_POD:
        causes.append("completed")
    if whole_job.starts_again(job):
        causes.append("job")
    return ((spec.type, cause) for spec in job.replicas for cause in causes)


def recorded(view: JobView, record: JobRecord, phase: JobPhase) -> JobRecord:
    """The record with every restart of this view in it, of a job that is in this phase from now on."""
    tracker = RestartTracker(view, record)
    if begins_attempt(view, phase):
        tracker.begin_attempt()
    tracker.count_in_place(view)
    for loss in replaced(view, phase):
        tracker.replace_pod(loss)
    tracker.grow(memory_growth.growths(view.snapshot.job, _pods_with_too_little_memory(view, phase)))
    for replica in _given_up(view, phase):
        tracker.give_up(replica, replica.last_pod)
    for replica in view.replicas if phase not in ENDS | IDLE else ():
        if replica.loss and replica.loss.pod and replica.is_tolerated:
            tracker.note(replica, uid=replica.loss.pod.uid, in_place=replica.loss.pod.restarts)
    for replica in avoided_nodes.stranded(view.snapshot, view.replicas) if phase not in ENDS | IDLE else ():
        tracker.give_up(replica, replica.pod)
    nodes = avoided_nodes.next_records(view.snapshot, view.replicas, replaced(view, phase), phase)
    return tracker.result().changed(avoided_nodes=nodes)


def _given_up(view: JobView, phase: JobPhase) -> Iterator[Replica]:
    """The replicas whose pods are given up. A job that is idle from now on loses all pods, and no success of them.

    Of a whole job some may have failed because of the first: that must not end it while it is idle.
    """
    is_whole, is_idle = whole_job.starts_again(view.snapshot.job), phase in IDLE
    for replica in view.replicas if phase not in ENDS else ():
        if replica.is_given_up and (not is_idle or (is_whole and whole_job.has_failed(replica))):
            yield replica


def _pods_with_too_little_memory(view: JobView, phase: JobPhase) -> Iterator[Pod]:
    """The pods that were killed with less memory than there is, of a job that goes on."""
    yield from (entry.pod for entry in view.restarts_in_place if entry.outgrown and phase not in ENDS)
    yield from (loss.pod for loss in replaced(view, phase) if loss.pod and loss.is_outgrown)


def begins_attempt(view: JobView, phase: JobPhase) -> bool:
    """Whether all replicas start again, if the job is in this phase from now on."""
    job = view.snapshot.job
    if phase in ENDS | IDLE or not whole_job.starts_again(job):
        return False
    return bool(replaced(view, phase) or (job.run_policy.restarts_in_place and view.restarts_in_place))


def backoff_ends_at(record: RestartRecord | None, settings: Settings, *, now: datetime) -> datetime | None:
    """When the next pod of a replica may be created; ``None`` for at once."""
    if record is None or not record.replaced or record.time is None or not record.attempts:
        return None
    if is_ahead(record.time, now):
        return None
    delay: timedelta = settings.restart_delay * 2.0 ** min(record.attempts - 1, 30)
    try:
        return record.time + min(delay, settings.longest_restart_delay)
    except OverflowError:
        return None  # past the end of the calendar: an invalid time


class RestartTracker:
    """The counts and the restart records of a job while they are brought up to date."""

    def __init__(self, view: JobView, record: JobRecord) -> None:
        self._snapshot: Snapshot = view.snapshot
        self._record = record
        self._replicas: dict[ReplicaType, ReplicaRecord] = dict(record.replicas)
        self._records = {(entry.type, entry.index): entry for entry in record.restart_records}
        self._disruptions = record.disruptions

    def count(self, kind: ReplicaType, more: int, *, outgrown: int = 0) -> None:
        replica = self._replicas.get(kind, ReplicaRecord())
        restarts, oom_restarts = replica.restarts + more, replica.oom_restarts + outgrown
        self._replicas[kind] = structs.replace(replica, restarts=restarts, oom_restarts=oom_restarts)

    def grow(self, limits: Mapping[ReplicaType, Decimal]) -> None:
        """Give the next pods of these types more memory."""
        for kind, limit in limits.items():
            self._replicas[kind] = structs.replace(self._replicas[kind], memory=quantity.memory(limit))

    def note(self, replica: Replica, *, uid: str, in_place: int) -> None:
        """Remember how many restarts in place of this pod are counted."""
        key = (replica.spec.type, replica.index)
        record = self._records.get(key) or RestartRecord(*key, uid)
        self._records[key] = structs.replace(
            record, uid=uid, in_place=in_place, replaced=record.replaced and record.uid == uid
        )

    def count_in_place(self, view: JobView) -> None:
        for entry in view.restarts_in_place:
            self.count(entry.replica.spec.type, entry.times, outgrown=entry.outgrown)
        entries = (*view.restarts_in_place, *view.consequences)
        is_in_place = self._snapshot.job.run_policy.restarts_in_place
        is_in_place = is_in_place and not any(replica.loss or replica.is_given_up for replica in view.replicas)
        themselves = whole_job.started_again(entries) if is_in_place else frozenset()
        for replica, pod, *_ in entries:
            self.note(replica, uid=pod.uid, in_place=pod.restarts)
            key, end = (replica.spec.type, replica.index), pod.last_termination
            if pod.uid in themselves and not attempts.is_told(self._record, pod):
                self._records[key] = structs.replace(self._records[key], time=self._record.attempt_time)
            elif not (self._snapshot.job.run_policy.restarts_in_place or self._records[key].replaced):
                self._records[key] = structs.replace(self._records[key], time=end.finished_at if end else None)

    def replace_pod(self, loss: ReplicaLoss) -> None:
        key = (loss.type, loss.index)
        is_whole = whole_job.starts_again(self._snapshot.job)
        together = {place: entry for place, entry in self._records.items() if is_whole or place == key}
        has_run_long = job_view.ran_for_long(loss.pod, self._snapshot)
        attempts = 0 if has_run_long else max((entry.attempts for entry in together.values()), default=0)
        self._records |= {place: structs.replace(entry, attempts=0) for place, entry in together.items()}
        uid, in_place = (loss.pod.uid, loss.pod.restarts) if loss.pod else ("", 0)
        record = RestartRecord(*key, uid, in_place)
        if loss.outcome is PodState.DISRUPTED:
            self._disruptions += 1
        else:
            self.count(loss.type, 1, outgrown=loss.is_outgrown)
        if not loss.keeps_pod:
            record = structs.replace(record, replaced=True, attempts=attempts + 1, time=_whole(self._snapshot.now))
            self._forget_start(loss.type, loss.index)
        self._records[key] = record

    def give_up(self, replica: Replica, pod: Pod | None) -> None:
        """Let a pod be replaced at once that nothing is wrong with. Failures in a row before it are remembered."""
        key = (replica.spec.type, replica.index)
        record = self._records.get(key)
        attempts = record.attempts if record else 0
        uid, in_place = (pod.uid, pod.restarts) if pod else ("", 0)
        self._records[key] = RestartRecord(*key, uid, in_place, replaced=True, attempts=attempts)
        self._forget_start(*key)

    def begin_attempt(self) -> None:
        """Count a restart of the whole job. No two attempts have the same time."""
        now, last = _whole(self._snapshot.now), self._record.attempt_time
        now = max(now, last + timedelta(seconds=1)) if last else now
        self._record = self._record.changed(attempt=self._record.attempt + 1, attempt_time=now)

    def _forget_start(self, kind: ReplicaType, index: int) -> None:
        replica = self._replicas.get(kind, ReplicaRecord())
        self._replicas[kind] = structs.replace(replica, started=replica.started - Indexes.of([index]))

    def result(self) -> JobRecord:
        return self._record.changed(
            replicas=_in_order(self._replicas),
            disruptions=self._disruptions,
            restart_records=_limit([self._records[key] for key in sorted(self._records, key=_place)], self._snapshot),
        )


def _limit(restart_records: list[RestartRecord], snapshot: Snapshot) -> tuple[RestartRecord, ...]:
    """The records without the oldest of those whose pod is gone: of these only the pause before the next pod is lost.

    What was counted is in the sums. The record of a pod that is still there stays, so that it counts once.
    """
    present = {pod.uid for pod in snapshot.pods}
    past_records = [record for record in restart_records if record.uid not in present]
    past_records.sort(key=lambda record: record.time.timestamp() if record.time else 0)
    places = {(entry.type, entry.index) for entry in past_records[: max(len(restart_records) - MOST_RECORDS, 0)]}
    return tuple(record for record in restart_records if (record.type, record.index) not in places)


def _whole(moment: datetime) -> datetime:
    """The next whole second: a status holds no fractions, and no delay is to be shorter than it was said to be."""
    return moment + timedelta(microseconds=-moment.microsecond % 1_000_000)


def _in_order(counts: Mapping[ReplicaType, ReplicaRecord]) -> dict[ReplicaType, ReplicaRecord]:
    return {kind: counts[kind] for kind in REPLICA_TYPES if kind in counts}


def _place(key: tuple[ReplicaType, int]) -> tuple[int, int]:
    return REPLICA_TYPES.index(key[0]), key[1]
