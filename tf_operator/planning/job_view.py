"""All that follows from a snapshot of a job before anything is decided: worked out once, and then only read.

``view`` assigns the observed pods to the replicas that are wanted. Verdict, record, events and actions read it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from tf_operator.job.constants import MOST_REPLICAS
from tf_operator.job.profile import FailureScope
from tf_operator.job.record import ReplicaType, RestartRecord
from tf_operator.job.training_job import FieldError, TrainingJob
from tf_operator.job.validation import validate
from tf_operator.planning import in_place, memory_growth, resizing, whole_job
from tf_operator.planning.bodies import gang
from tf_operator.planning.child_kinds import life
from tf_operator.planning.pods import hangs, pod_state, stuck_pods
from tf_operator.planning.pods.hangs import Hang
from tf_operator.planning.pods.stuck_pods import StuckPod
from tf_operator.planning.replicas import Replica, ReplicaLoss, ReplicaRules, RestartInPlace, judge
from tf_operator.planning.resizing import SizeChange
from tf_operator.planning.snapshot import Pod, Snapshot


class JobView(msgspec.Struct, frozen=True):
    """All replicas of a job, in order, with what has happened to them."""

    snapshot: Snapshot
    by_type: Mapping[ReplicaType, tuple[Replica, ...]]
    replicas: tuple[Replica, ...]
    surplus: tuple[Pod, ...]
    """The pods that are beyond what is wanted."""
    losses: tuple[ReplicaLoss, ...]
    """What was lost, and is not recorded yet."""
    restarts_in_place: tuple[RestartInPlace, ...]
    """The restarts by the kubelet that are not recorded yet, and count."""
    consequences: tuple[RestartInPlace, ...]
    """Those that do not, because another replica has caused them."""
    deciding: tuple[Replica, ...]
    """The replicas that decide: the one that the job names, or the API; the chief or master; else workers; else all."""
    stuck: tuple[StuckPod, ...]
    """The pods on which the job waits."""
    problems: tuple[FieldError, ...]
    """What is wrong with the spec, but for what is ignored."""
    resizes: tuple[SizeChange, ...]
    """The changes of its size that are not recorded yet."""
    hang: Hang
    is_held: bool
    """Whether no pod may be made before the gang scheduler has admitted the PodGroup, or what else is needed exists."""

    def of(self, kind: ReplicaType) -> tuple[Replica, ...]:
        return self.by_type.get(kind, ())


def view(snapshot: Snapshot) -> JobView:
    """Assign what was observed to the replicas."""
    job = snapshot.job
    pods: dict[tuple[ReplicaType, int], list[Pod]] = {}
    for pod in snapshot.pods:
        pods.setdefault((pod.type, pod.index), []).append(pod)
    records = {(entry.type, entry.index): entry for entry in job.record.restart_records}
    by_type: dict[ReplicaType, tuple[Replica, ...]] = {}
    main_replica = job.main_replica
    for spec in job.replicas:
        rules = ReplicaRules.of(job, spec, main_replica=main_replica)
        by_type[spec.type] = (*by_type.get(spec.type, ()), *_replicas(rules, pods, records))
    by_type = {kind: memory_growth.judged(snapshot, group) for kind, group in by_type.items()}
    if job.profile.failure_scope is FailureScope.DECIDING and job.run_policy.backoff_limit is not None:
        by_type = _within_limit(by_type, job.run_policy.backoff_limit - job.record.counted_restarts, snapshot)
    resizes = tuple(resizing.resizes(job))
    replaces_pods = any(change.replaces_pods for change in resizes)
    if in_place.is_wanted(snapshot):
        by_type = {
            kind: tuple(in_place.resized(snapshot, group, is_new=replaces_pods)) for kind, group in by_type.items()
        }
    elif replaces_pods:
        by_type = {kind: tuple(replica.resized() for replica in group) for kind, group in by_type.items()}
    hang = _hang(snapshot, by_type)
    by_type = hangs.lost(by_type, hang, job)
    restarts = tuple(_restarts_in_place(chain.from_iterable(by_type.values()), snapshot))
    by_type, counted = whole_job.restarted(snapshot, by_type, restarts)
    replicas = tuple(replica for group in by_type.values() for replica in group)
    return JobView(
        snapshot=snapshot,
        by_type=by_type,
        replicas=replicas,
        surplus=tuple(pod for left in pods.values() for pod in left if not pod.is_gone),
        losses=tuple(replica.loss for replica in replicas if replica.loss),
        restarts_in_place=counted,
        consequences=()
        if counted is restarts
        else tuple(entry for entry in restarts if all(entry.pod is not other.pod for other in counted)),
        deciding=_deciding(job, by_type, replicas),
        stuck=tuple(stuck_pods.stuck_pods(replicas, snapshot.settings)),
        problems=tuple(error for error in validate(job) if error not in snapshot.ignored),
        resizes=resizes,
        hang=hang,
        is_held=gang.keeps_waiting(snapshot) or bool(life.awaited(snapshot)),
    )


def _replicas(
    rules: ReplicaRules,
    pods: dict[tuple[ReplicaType, int], list[Pod]],
    records: dict[tuple[ReplicaType, int], RestartRecord],
) -> Iterator[Replica]:
    """The replicas of one type; their pods are taken away from ``pods``."""
    spec = rules.spec
    for index in range(min(spec.count, MOST_REPLICAS)):  # an invalid count must not cost memory
        place = (spec.type, index)
        candidates = pods.pop(place, [])
        if len(candidates) > 1 and (others := _all_but_one(candidates)):
            pods[place] = others
            candidates = [pod for pod in candidates if pod not in others]
        yield judge(rules, index, candidates, records.get(place))


def _all_but_one(pods: list[Pod]) -> list[Pod]:
    """What is too many of one replica: it had two operators for a moment, and generated names do not collide."""
    there = sorted((pod for pod in pods if not pod.is_gone), key=lambda pod: (pod.is_terminating, pod.name))
    return there[1:]


def _hang(snapshot: Snapshot, by_type: Mapping[ReplicaType, tuple[Replica, ...]]) -> Hang:
    hearing = snapshot.hearing
    if hearing is None or not hangs.has_deadline(snapshot):
        return hangs.NO_HANG
    replicas = tuple(replica for group in by_type.values() for replica in group)
    places = {(entry.replica.spec.type, entry.replica.index) for entry in _restarts_in_place(replicas, snapshot)}
    return hangs.judge(snapshot, hearing, replicas, places)


def _deciding(
    job: TrainingJob, by_type: Mapping[ReplicaType, tuple[Replica, ...]], replicas: tuple[Replica, ...]
) -> tuple[Replica, ...]:
    kind, index = job.main_replica
    if job.deciding or job.profile.failure_scope is FailureScope.DECIDING:
        return by_type.get(kind, ())[index : index + 1]
    return by_type.get(kind) or replicas


def _within_limit(
    by_type: Mapping[ReplicaType, tuple[Replica, ...]], rest: int, snapshot: Snapshot
) -> dict[ReplicaType, tuple[Replica, ...]]:
    """The replicas where only so many are restarted, those that ended first; the others stay as they have ended."""
    losses = [(replica, replica.loss) for group in by_type.values() for replica in group if replica.loss]
    restarts = [(replica, loss) for replica, loss in losses if loss.counts]
    restarts.sort(key=lambda entry: entry[1].ended_at or snapshot.now)
    past = {id(replica) for replica, _ in restarts[max(rest, 0) :]}
    return {
        kind: tuple(replica.past_limit() if id(replica) in past else replica for replica in group)
        for kind, group in by_type.items()
    }


def _restarts_in_place(replicas: Iterable[Replica], snapshot: Snapshot) -> Iterator[RestartInPlace]:
    """Once a replica is recorded as completed, a sidecar that goes on failing costs the job nothing.

    What was restarted before counts, also if it was not observed until the end of its pod.
    """
    for replica in replicas:
        for pod in (*replica.departed, *([replica.pod] if replica.pod else [])) if not replica.was_completed else ():
            by = snapshot.job.profile.restart_by
            restarts = pod_state.restarts_in_place(pod, replica.spec.restart_policy, by)
            earlier = replica.record.in_place if replica.record and replica.record.uid == pod.uid else 0
            is_lost = replica.loss is not None and replica.loss.was_restarted
            if (times := restarts - earlier - is_lost) > 0:
                outgrown = 0 if is_lost else memory_growth.outgrown_restarts(snapshot, replica, pod)
                yield RestartInPlace(replica, pod.changed(restarts=restarts), times, outgrown)


def ran_for_long(pod: Pod | None, snapshot: Snapshot) -> bool:
    """Whether the pod ran long enough that its end begins a new series of attempts."""
    main = pod.main if pod else None
    if main is None or main.started_at is None:
        return False
    return (main.finished_at or snapshot.now) - main.started_at >= snapshot.settings.backoff_reset_after
