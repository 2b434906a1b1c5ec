"""Whether a job has ended, and why: an ordered list of checks, of which the first that applies decides.

This page is the specification of how jobs end; ``_CHECKS`` at its end is its table of contents. Success comes before
failure: when the chief has succeeded, and another replica failed, seen in the same reconcile, the chief decides. Each
check is a question to a ``JobView`` and yields a ``Verdict`` or nothing.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import Enum, auto

import msgspec

from tf_operator.job.ending import EndReason, JobEnding
from tf_operator.job.progress import HangAction
from tf_operator.job.record import FailureCause, FirstFailure, JobPhase, JobRecord, ReplicaType
from tf_operator.job.training_job import SuccessPolicy, TrainingJob
from tf_operator.planning import rejections, restarts, spec_problems
from tf_operator.planning.job_view import JobView
from tf_operator.planning.pods import failure_evidence, pod_state
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss
from tf_operator.planning.snapshot import Hold


class Phase(Enum):
    """Where a job stands."""

    ACTIVE = auto()
    SUSPENDED = auto()
    QUEUED = auto()
    SUCCEEDED = auto()
    FAILED = auto()


IDLE = frozenset({Phase.SUSPENDED, Phase.QUEUED})
"""Where a job has no pods, and may have some later."""


class Verdict(msgspec.Struct, frozen=True):
    """Where the job stands and why."""

    phase: Phase
    ending: JobEnding | None = None
    """How it ended, or why it has no pods."""
    cause: FailureCause | None = None
    evidence: FirstFailure | None = None
    """What is kept when no pod failed, but containers were restarted too often."""
    is_malformed: bool = False
    """The job cannot be run at all, so there is nothing to be counted; one that runs is left as it is."""
    hold: str = ""
    """Why it is queued, as one word."""


def decide(view: JobView) -> Verdict:
    """The verdict on a job that has not ended yet."""
    return next((decision for check in _CHECKS if (decision := check(view))), Verdict(Phase.ACTIVE))


def deadline(job: TrainingJob, record: JobRecord) -> datetime | None:
    """When the job's time is over."""
    return _after_start(record, job.run_policy.deadline_seconds)


def startup_deadline(job: TrainingJob, record: JobRecord) -> datetime | None:
    """By when all replicas have to have been running; ``None`` when they have, or there are none."""
    if record.all_running_time is not None or not job.pod_count:
        return None
    return _after_start(record, job.run_policy.startup_deadline_seconds)


def all_up(view: JobView) -> bool:
    """Whether every replica runs, or has done its work, or is given up for good."""
    return bool(view.replicas) and not any(replica.is_waited_for for replica in view.replicas)


# --- The checks, in the order in which they decide -----------------------------------------------------------------


def _is_malformed(view: JobView) -> Verdict | None:
    problems = spec_problems.fatal(view)
    if not problems:
        return None
    if view.snapshot.is_under_way:
        is_to_go_idle = view.snapshot.job.run_policy.is_suspended or view.snapshot.hold
        return None if is_to_go_idle else Verdict(Phase.ACTIVE, is_malformed=True)
    ending = JobEnding(EndReason.INVALID_SPEC, spec_problems.text(problems))
    return Verdict(Phase.FAILED, ending, FailureCause.INVALID_SPEC, is_malformed=True)


def _is_suspended(view: JobView) -> Verdict | None:
    """A job stays suspended until its old pods are gone: new ones would connect to them, and fail when those end.

    As long as its record says that it is suspended no pod is made, so those that are left are old. A failure of them
    that ends the job is not forgotten with its pod: the end must not depend on which was observed first.
    """
    job, detail = view.snapshot.job, ""
    if not job.run_policy.is_suspended:
        if job.record.phase is not JobPhase.SUSPENDED or not _has_pods(view):
            return None
        detail = " It has been resumed, and starts when its old pods are gone."
    return _had_failed(view) or Verdict(Phase.SUSPENDED, JobEnding(EndReason.SUSPENDED, detail))


def _is_queued(view: JobView) -> Verdict | None:
    """A job that may have no pods now. It stays queued until those that it had before are gone, as above."""
    job, hold = view.snapshot.job, view.snapshot.hold
    if hold is None and job.record.phase is JobPhase.QUEUED and _has_pods(view):
        hold = Hold("Admitted", "It has been admitted, and starts when its old pods are gone.")
    if hold is None:
        return None
    return _had_failed(view) or Verdict(Phase.QUEUED, JobEnding(EndReason.QUEUED, hold.message), hold=hold.reason)


def _has_pods(view: JobView) -> bool:
    """Whether a pod is still to be deleted, or to end. Of one that is gone nobody hears any more."""
    pods = (pod for pod in view.snapshot.pods if not pod.is_gone)
    return any(not pod.is_terminating or pod.phase not in {"Failed", "Succeeded"} for pod in pods)


def _had_failed(view: JobView) -> Verdict | None:
    """Whether a failure that nobody has recorded had ended the job before it was suspended, or queued.

    A disruption ends no job that is suspended: its pods are deleted anyway. A success is remembered until the resume.
    """
    failures = [loss for loss in view.losses if not _is_lost(loss)]
    if not (failures or view.restarts_in_place) or _has_succeeded(view):
        return None
    return _failed_for_good(view, failures) or _has_no_worker_left(view) or _is_past_backoff_limit(view)


def _has_succeeded(view: JobView) -> Verdict | None:
    """A chief or master decides alone; then worker 0, or all workers; without any of them, everybody, or nobody."""
    job = view.snapshot.job
    if not view.replicas and not job.has_dynamic_workers:
        return Verdict(Phase.SUCCEEDED, JobEnding(EndReason.NO_REPLICAS))
    deciding = view.deciding
    is_done = bool(deciding) and all(replica.is_completed for replica in deciding)
    if not job.leader and job.success_policy is SuccessPolicy.DEFAULT and deciding:
        is_worker = deciding[0].spec.type is ReplicaType.WORKER
        is_done = is_done or (is_worker and deciding[0].is_completed)
    return Verdict(Phase.SUCCEEDED, JobEnding(EndReason.SUCCEEDED)) if is_done else None


def _is_refused_for_good(view: JobView) -> Verdict | None:
    rejection = view.snapshot.rejected
    if rejection is None or not rejections.is_final(rejection):
        return None
    ending = JobEnding(EndReason.CHILD_REJECTED, f"{rejection.subject} was rejected: {rejection.message}")
    return Verdict(Phase.FAILED, ending, FailureCause.INVALID_SPEC)


def _has_failed_for_good(view: JobView) -> Verdict | None:
    """A failure that its restart policy does not try again."""
    return _failed_for_good(view, view.losses)


def _failed_for_good(view: JobView, losses: Iterable[ReplicaLoss]) -> Verdict | None:
    final = [loss for loss in losses if loss.is_permanent and not loss.is_tolerated]
    first = failure_evidence.first(final, view)
    if first is None:
        return None
    if first.is_past_limit:
        return _past_limit(view, f": {failure_evidence.describe(first)}")
    evidence = f"{failure_evidence.describe(first)}{failure_evidence.policy_hint(first, view)}"
    count = sum(loss.type is first.type for loss in final)
    return Verdict(
        Phase.FAILED,
        JobEnding(EndReason.REPLICAS_FAILED, evidence, count, first.type),
        FailureCause.REPLICA_LOST if _is_lost(first) else FailureCause.PERMANENT_FAILURE,
    )


def _has_no_worker_left(view: JobView) -> Verdict | None:
    """Failed workers are tolerated with dynamic workers; but somebody has to be left to succeed."""
    if not view.snapshot.job.has_dynamic_workers:
        return None
    workers = view.of(ReplicaType.WORKER)
    first = failure_evidence.first((replica.loss for replica in workers if replica.loss), view)
    job, is_any_left = view.snapshot.job, not all(replica.is_tolerated or replica.is_completed for replica in workers)
    if first is None or is_any_left or job.leader:
        return None
    ending = JobEnding(EndReason.NO_WORKER_LEFT, failure_evidence.describe(first))
    return Verdict(Phase.FAILED, ending, FailureCause.PERMANENT_FAILURE)


def _is_past_backoff_limit(view: JobView) -> Verdict | None:
    """One budget of restarts for the whole job: for new pods, and for restarts in place."""
    limit = view.snapshot.job.run_policy.backoff_limit
    if limit is None:
        return None
    count = restarts.totals(view)
    used = count.recorded + count.in_place
    # As batch Job counts restarts by the kubelet: reaching the limit is the end, unless it is 0. A restart of the whole
    # job counts as one by new pods.
    is_whole = view.snapshot.job.run_policy.restarts_in_place
    is_over = not is_whole and count.in_place > 0 and used >= max(limit, 1)
    if not is_over and used + count.failures <= limit:
        return None
    failure = failure_evidence.first(
        (loss for loss in view.losses if loss.outcome is PodState.FAILED and loss.counts), view
    )
    cause, evidence = (f": {failure_evidence.describe(failure)}", None) if failure else _restarted_most(view)
    return _past_limit(view, cause, evidence)


def _past_limit(view: JobView, cause: str, evidence: FirstFailure | None = None) -> Verdict:
    ending = JobEnding(EndReason.BACKOFF_LIMIT, cause, limit=view.snapshot.job.run_policy.backoff_limit)
    return Verdict(Phase.FAILED, ending, FailureCause.BACKOFF_LIMIT_EXCEEDED, evidence)


def _is_past_deadline(view: JobView) -> Verdict | None:
    moment = deadline(view.snapshot.job, view.snapshot.job.record)
    if moment is None or view.snapshot.now < moment:
        return None
    ending = JobEnding(EndReason.DEADLINE, limit=view.snapshot.job.run_policy.deadline_seconds)
    return Verdict(Phase.FAILED, ending, FailureCause.DEADLINE_EXCEEDED)


def _is_past_startup_deadline(view: JobView) -> Verdict | None:
    moment = startup_deadline(view.snapshot.job, view.snapshot.job.record)
    missing = [replica for replica in view.replicas if replica.is_waited_for]
    if moment is None or view.snapshot.now < moment or not missing:
        return None
    seconds = view.snapshot.job.run_policy.startup_deadline_seconds
    ending = JobEnding(EndReason.STARTUP_DEADLINE, _waits(missing[0]), count=len(missing), limit=seconds)
    return Verdict(Phase.FAILED, ending, FailureCause.STARTUP_DEADLINE_EXCEEDED)


def _hangs(view: JobView) -> Verdict | None:
    if view.hang.action is not HangAction.FAIL:
        return None
    ending = JobEnding(EndReason.PROGRESS_DEADLINE, view.hang.text)
    return Verdict(Phase.FAILED, ending, FailureCause.PROGRESS_DEADLINE_EXCEEDED, failure_evidence.of_hang(view))


_CHECKS: tuple[Callable[[JobView], Verdict | None], ...] = (
    _is_malformed,
    _is_suspended,
    _is_queued,
    _has_succeeded,
    _is_refused_for_good,
    _has_failed_for_good,
    _has_no_worker_left,
    _is_past_backoff_limit,
    _is_past_deadline,
    _is_past_startup_deadline,
    _hangs,
)


# --- What the checks share -----------------------------------------------------------------------------------------


def _after_start(record: JobRecord, seconds: int | None) -> datetime | None:
    """A moment of the job's clock, which stops while the job is suspended, or queued, and starts again after that."""
    if seconds is None or record.start_time is None or record.is_idle:
        return None
    try:
        return record.start_time + timedelta(seconds=seconds)
    except OverflowError:
        return None  # past the end of the calendar: never


def _is_lost(loss: ReplicaLoss) -> bool:
    """Whether its program did not fail: the pod was disrupted, or is gone and nobody knows why."""
    return loss.pod is None or failure_evidence.was_lost(loss.pod) or pod_state.is_disrupted(loss.pod)


def _restarted_most(view: JobView) -> tuple[str, FirstFailure | None]:
    """The cause and the evidence, when it is restarts in place that were too many."""
    worst = max(view.restarts_in_place, key=lambda entry: entry.pod.restarts, default=None)
    if worst is None:
        return "", None
    replica, pod, *_ = worst
    return f": {failure_evidence.describe_restarts(replica, pod)}", failure_evidence.of_restart(replica, pod, view)


def _waits(replica: Replica) -> str:
    cause = replica.pod.pending_reason if replica.pod and replica.pod.pending_reason else "it has no running pod"
    return f"{replica.title}: {cause}"
