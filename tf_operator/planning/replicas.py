"""One replica that is wanted, against its observed pods: what has become of it.

A replica has at most one pod, which may have failed, or be terminating; it may have had pods that are gone; and it may
have completed, which is remembered in the record and not in a pod. ``ReplicaLoss`` is a pod that ended without success
and is not recorded yet. ``job_view`` has all replicas of a job.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Self

import msgspec
from msgspec import structs

from tf_operator.job import naming
from tf_operator.job.profile import FailureScope, RestartBy
from tf_operator.job.record import JobRecord, ReplicaType, RestartRecord
from tf_operator.job.training_job import ReplicaSpec, RestartPolicy, TrainingJob
from tf_operator.planning.pods import pod_state
from tf_operator.planning.pods.pod_state import PodState, Policy
from tf_operator.planning.snapshot import Pod

_IS_LOST = frozenset({PodState.FAILED, PodState.PERMANENT_FAILURE, PodState.ENDED, PodState.DISRUPTED})
_COUNTED = frozenset({PodState.FAILED, PodState.ENDED})
"""A new pod after one of these is a restart."""


class ReplicaLoss(msgspec.Struct, frozen=True):
    """A replica that is without a working pod, and why. ``pod`` is ``None`` when it vanished unseen."""

    type: ReplicaType
    index: int
    name: str
    """Of its pod."""
    outcome: PodState
    pod: Pod | None = None
    is_tolerated: bool = False
    """Whether the job goes on without this replica, when it is lost for good."""
    is_past_limit: bool = False
    """Whether it would be restarted, if the backoff limit were not reached."""
    is_outgrown: bool = False
    """Whether it was killed because it used more memory than its pod had, and the next one has more."""
    was_restarted: bool = False
    """Whether its kubelet has started it again: that is no restart in place of its own."""
    hang: str = ""
    """For messages: that its program makes no progress; empty where its pod has ended."""
    keeps_pod: bool = False
    """Whether its pod does not end either, and is told to start again."""
    at_maximum: str = ""
    """For messages: that it was killed with the most memory that it may have."""

    @property
    def counts(self) -> bool:
        """Whether the new pod has its place in the backoff limit."""
        return self.outcome in _COUNTED and not self.is_outgrown

    @property
    def is_permanent(self) -> bool:
        """Whether the restart policy makes no successor."""
        return self.outcome is PodState.PERMANENT_FAILURE

    @property
    def has_failed(self) -> bool:
        """Whether its program failed, also if its pod was deleted after that."""
        if self.outcome is PodState.DISRUPTED:
            return self.pod is not None and pod_state.has_failed(self.pod)
        return self.outcome is not PodState.ENDED

    @property
    def ended_at(self) -> datetime | None:
        """When its deciding container ended, as far as there is a pod that says so."""
        return self.pod.main.finished_at if self.pod and self.pod.main else None

    @property
    def title(self) -> str:
        return _title(self.type, self.index, self.name)


class Replica(msgspec.Struct, frozen=True):
    spec: ReplicaSpec
    index: int
    name: str
    """Of its pod, also of the next one."""
    service: str
    """The name of its Service."""
    pod: Pod | None
    outcome: PodState | None
    """Of the pod; ``None`` when there is none."""
    is_completed: bool
    was_completed: bool
    """That it is completed is in the status already."""
    was_failed: bool
    """That it has failed for good, and the job goes on, is in the status already."""
    record: RestartRecord | None
    loss: ReplicaLoss | None
    departed: tuple[Pod, ...] = ()
    is_given_up: bool = False
    """Its pod is given up, because the job has another size now or starts again; that is not recorded yet."""

    @property
    def title(self) -> str:
        return _title(self.spec.type, self.index, self.name)

    def past_limit(self) -> Self:
        """The same replica, where it is not restarted because the backoff limit is reached: it stays as it ended."""
        if self.loss is None or self.loss.outcome is PodState.ENDED:
            return structs.replace(self, outcome=PodState.SUCCEEDED, is_completed=True, loss=None)
        loss = structs.replace(self.loss, outcome=PodState.PERMANENT_FAILURE, is_past_limit=True)
        return structs.replace(self, loss=loss)

    def resized(self) -> Self:
        """The same replica in a job whose pods are made again for another size. What has ended stays as it ended."""
        if self.pod is None or self.pod.is_terminating or self.is_completed or self.loss or self.was_failed:
            return self
        return structs.replace(self, outcome=PodState.TERMINATING, is_given_up=True)

    def restarted(self) -> Self:
        """The same replica in a job that starts again because of another one: how its pod ends does not matter."""
        if self.is_completed or not (self.last_pod or self.loss):
            return self
        return structs.replace(self, outcome=PodState.TERMINATING if self.pod else None, loss=None, is_given_up=True)

    def kept(self) -> Self:
        """The same replica, lost because its program hangs, which is started again in its pod."""
        return structs.replace(
            self, outcome=PodState.RUNNING, loss=self.loss and structs.replace(self.loss, keeps_pod=True)
        )

    @property
    def last_pod(self) -> Pod | None:
        """Its pod, or else the last one that is gone and not recorded yet."""
        return self.pod or (self.departed[-1] if self.departed else None)

    @property
    def is_running(self) -> bool:
        return self.outcome is PodState.RUNNING

    @property
    def is_being_replaced(self) -> bool:
        """Whether a pod was given up here and the next one does not run yet."""
        if self.is_completed or self.is_running or self.is_tolerated or (self.loss and self.loss.is_permanent):
            return False
        return self.record is not None and self.record.replaced

    @property
    def is_tolerated(self) -> bool:
        """Whether it is lost for good and the job goes on without it."""
        return self.was_failed or (self.loss is not None and self.loss.is_permanent and self.loss.is_tolerated)

    @property
    def is_waited_for(self) -> bool:
        """Whether the job is not complete before a pod runs here."""
        return not (self.is_running or self.is_completed or self.is_tolerated)

    @property
    def needs_pod(self) -> bool:
        return self.pod is None and not (self.is_completed or self.loss or self.was_failed)

    @property
    def _is_in_back_off(self) -> bool:
        return self.outcome is PodState.RUNNING and self.pod is not None and bool(self.pod.pending_reason)

    @property
    def waits_since(self) -> datetime | None:
        """Since when its pod, or the next start of its program, waits for the same reason; ``None`` when none does."""
        if self.pod is None or (self.outcome is not PodState.PENDING and not self._is_in_back_off):
            return None
        return self.pod.waits_since or self.pod.created_at


class RestartInPlace(NamedTuple):
    """A pod whose containers the kubelet has restarted since they were last counted. It has only what counts."""

    replica: Replica
    pod: Pod
    times: int
    outgrown: int = 0
    """How many of them are not in the backoff limit, because there was more memory."""

    @property
    def ended_at(self) -> datetime | None:
        """When its program ended last, before it was restarted."""
        return self.pod.last_termination.finished_at if self.pod.last_termination else None


class ReplicaRules(msgspec.Struct, frozen=True):
    """What holds for all replicas of one type, worked out once."""

    spec: ReplicaSpec
    policy: Policy
    main_policy: Policy
    """Of the deciding replica."""
    main_index: int
    """Of the deciding replica; -1 if it is of another type."""
    job: TrainingJob
    stem: str
    """What the names of its Services begin with."""
    completed: frozenset[int]
    """What is remembered; nothing if the kubelet starts what has completed again."""
    started: frozenset[int]
    failed: frozenset[int]
    is_dynamic: bool
    """Whether those that are lost for good are made again when their pod goes, and the job goes on without them."""
    is_elastic: bool
    """Whether there may be fewer of them while the job runs."""

    @classmethod
    def of(cls, job: TrainingJob, spec: ReplicaSpec, *, main_replica: tuple[ReplicaType, int]) -> Self:
        profile, record = job.profile, job.record.of(spec.type)
        is_final = spec.restart_policy is not RestartPolicy.ALWAYS or profile.restart_by is not RestartBy.POLICY
        kind, index = main_replica
        main = Policy(spec.restart_policy, profile)
        return cls(
            spec=spec,
            policy=structs.replace(main, ends_job=False) if profile.failure_scope is FailureScope.DECIDING else main,
            main_policy=main,
            main_index=index if kind is spec.type else -1,
            job=job,
            stem=naming.stem(job, spec.type),
            completed=record.completed.members if is_final else frozenset(),
            started=record.started.members,
            failed=record.failed.members,
            is_dynamic=_is_dynamic(job, spec.type),
            is_elastic=job.elastic is not None and job.elastic.range_of(spec.type) is not None,
        )


def judge(rules: ReplicaRules, index: int, pods: Sequence[Pod], record: RestartRecord | None) -> Replica:
    """Judge one replica by its pods, of which at most one is not gone, and by what is remembered of it."""
    spec, policy = rules.spec, rules.main_policy if index == rules.main_index else rules.policy
    # No two pods have the same name at the same time; and a pod is made only when its predecessor is recorded.
    pod = next((pod for pod in pods if not pod.is_gone), None)
    states = [(candidate, _outcome(candidate, rules, policy, record)) for candidate in ([pod] if pod else pods)]
    # Remembered, or seen now. Under Always only while its pod is there.
    was_completed = index in rules.completed
    is_completed = was_completed or any(state is PodState.SUCCEEDED for _, state in states)
    was_failed = index in rules.failed and not is_completed
    service = f"{rules.stem}{index}"
    name = pod.name if pod else naming.pod_name(rules.job, service, record)
    return Replica(
        spec=spec,
        index=index,
        name=name,
        service=service,
        pod=pod,
        outcome=states[0][1] if pod else None,
        is_completed=is_completed,
        was_completed=was_completed,
        was_failed=was_failed,
        record=record,
        loss=None if is_completed else _loss(rules, policy, index, name=name, states=states, record=record),
        departed=() if pod else tuple(pods),
    )


def _title(kind: ReplicaType, index: int, name: str) -> str:
    return f"{kind.label}-{index} (pod {name})"


def _outcome(pod: Pod, rules: ReplicaRules, policy: Policy, record: RestartRecord | None) -> PodState:
    """What has become of a pod. One that the operator has stopped has not done its work, although it exits with 0.

    One that is replaced may run: after an OOM kill its kubelet has started it again, or its program hangs.

    Of a dynamic worker nobody knows who stopped it: the operator does when fewer are wanted. The same is so of elastic
    replicas but the first, which are never fewer.
    """
    is_replaced = record is not None and record.replaced and record.uid == pod.uid
    if record and (record.gives_up(pod.uid) or (is_replaced and pod.phase == "Running")):
        return PodState.DISRUPTED if pod.is_gone else PodState.TERMINATING
    state = pod_state.state_of(pod, policy)
    if state is not PodState.SUCCEEDED or not pod.is_terminating:
        return PodState.ENDED if state is PodState.SUCCEEDED and policy.runs_again else state
    if not (is_replaced or _may_be_taken_away(pod, rules)):
        return state
    return PodState.DISRUPTED if pod.is_gone else PodState.TERMINATING


def _may_be_taken_away(pod: Pod, rules: ReplicaRules) -> bool:
    """Whether the operator may have deleted the pod itself: there were too many, or the job was idle."""
    may_be_surplus = rules.is_dynamic or (rules.is_elastic and pod.index > 0)
    return may_be_surplus or is_from_before(pod, rules.job.record)


def is_from_before(pod: Pod, record: JobRecord) -> bool:
    """Whether a pod is from before the job was suspended or queued, or last went on after that."""
    if record.is_idle:
        return True
    continued_time, made_at = record.continued_time, pod.created_at
    return bool(continued_time and made_at and made_at < continued_time)


def _is_dynamic(job: TrainingJob, kind: ReplicaType) -> bool:
    return job.has_dynamic_workers and kind is ReplicaType.WORKER


def _loss(
    rules: ReplicaRules,
    policy: Policy,
    index: int,
    *,
    name: str,
    states: Sequence[tuple[Pod, PodState]],
    record: RestartRecord | None,
) -> ReplicaLoss | None:
    """The pod of this replica that ended badly and is not recorded yet; or that the replica has none any more."""
    had_started, was_failed = index in rules.started, index in rules.failed
    is_tolerated = rules.is_dynamic or not policy.ends_job
    for pod, state in states:
        is_known = record is not None and record.replaced and record.uid == pod.uid
        has_done_its_work = pod.phase == "Succeeded" and not pod_state.was_stopped(pod)
        is_missed = had_started or not (has_done_its_work or _may_be_taken_away(pod, rules))
        if is_known or state not in _IS_LOST or (pod.is_gone and state is PodState.DISRUPTED and not is_missed):
            continue
        loss = ReplicaLoss(
            rules.spec.type,
            index,
            name,
            PodState.PERMANENT_FAILURE if was_failed else state,
            _as_ended(pod, policy),
            is_tolerated=is_tolerated,
        )
        return _assess(loss, rules, had_run=had_started or pod_state.has_run(pod))
    if not all(pod.is_gone for pod, _ in states) or was_failed or not had_started:
        return None
    vanished = ReplicaLoss(rules.spec.type, index, name, PodState.DISRUPTED, is_tolerated=is_tolerated)
    return _assess(vanished, rules, had_run=True)


def _as_ended(pod: Pod, policy: Policy) -> Pod:
    """The pod as it was when its container ended for good, if the kubelet has started it again since."""
    end = pod_state.end_before_restart(pod, policy) if policy.judges_restarts else None
    return pod.changed(main=end) if end else pod


def _assess(loss: ReplicaLoss, rules: ReplicaRules, *, had_run: bool) -> ReplicaLoss:
    """Under ``Never``, a disruption of what had run is as final as a failure; what never ran is made again.

    A dynamic worker that was disrupted is made again under every policy; also one that failed for good, when somebody
    deletes its pod. training-operator 1.9 does the same.
    """
    if rules.is_dynamic:
        is_deleted = loss.is_permanent and loss.pod is not None and loss.pod.is_gone
        return structs.replace(loss, outcome=PodState.DISRUPTED) if is_deleted else loss
    by = rules.policy.profile.restart_by
    is_never = rules.spec.restart_policy is RestartPolicy.NEVER and by is not RestartBy.TEMPLATE
    is_final = loss.outcome is PodState.DISRUPTED and is_never and had_run
    return structs.replace(loss, outcome=PodState.PERMANENT_FAILURE) if is_final else loss
