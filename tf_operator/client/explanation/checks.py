"""Why a job is in its state, what it waits for, and what to do next: a pure function, in words.

An ordered list of checks (``_CHECKS``): the first that applies explains the job. Only what the API server says is read
(conditions, pods, events), so a job of any operator can be explained. Neighbours: ``ends`` has what exit codes and
causes of failures mean, ``waits`` what keeps pods from running.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tf_operator.client import display, progress
from tf_operator.client.explanation import ends, goodput, waits
from tf_operator.client.explanation.situation import Explanation, Situation
from tf_operator.client.plan import sentences
from tf_operator.client.upload import uploaded_job
from tf_operator.job.record import JobPhase, ReplicaType
from tf_operator.meta import labels_of, list_of, metadata_of

_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_PATIENCE: Final = 10
"""Seconds within which an operator that is at work has written a status."""

_STACK: Final = "print the stack of its program, as the manual shows (troubleshooting, a job hangs)"


def explain(situation: Situation) -> Explanation:
    """Explain a job."""
    job = situation.job
    explanation = next(result for check in _CHECKS if (result := check(situation)))
    name = f"{job.kind} {job.namespace}/{job.name}"
    lost = filter(None, (goodput.sentence(job, situation.now),))
    reasons = (*explanation.reasons, *lost, *ends.avoided_nodes(situation), *ends.growths(situation))
    return replace(
        explanation,
        job=name,
        reasons=reasons,
        log=situation.log,
        notes=situation.notes,
        files=uploaded_job.digest(job.body),
    )


def _deleted(situation: Situation) -> Explanation | None:
    if not situation.job.spec.is_being_deleted:
        return None
    holding = tuple(map(str, list_of(metadata_of(situation.job.body).get("finalizers"))))
    return Explanation(
        "is being deleted",
        waits=tuple(
            "its pods and Services, which are deleted first"
            if name == "foregroundDeletion"
            else f"the finalizer {name}"
            for name in holding
        )
        + waits.terminating(situation),
        steps=("nothing: it is deleted by itself, unless the controller of a finalizer no longer exists",),
    )


def _foreign(situation: Situation) -> Explanation | None:
    if situation.job.spec.is_ours:
        return None
    manager = situation.job.spec.run_policy.managed_by
    return Explanation(
        f"is {_word(situation)}, and managed by {manager}",
        reasons=("spec.runPolicy.managedBy names another controller: the operator leaves the job alone",),
        steps=(f"ask {manager}: with MultiKueue the job runs in another cluster",),
    )


def _failed(situation: Situation) -> Explanation | None:
    if situation.job.phase is not JobPhase.FAILED:
        return None
    return Explanation(f"has failed{_after(situation)}", reasons=ends.reasons(situation), steps=ends.steps(situation))


def _succeeded(situation: Situation) -> Explanation | None:
    job = situation.job
    if job.phase is not JobPhase.SUCCEEDED:
        return None
    ttl = job.spec.run_policy.ttl_seconds
    logs = f"tfjob logs {job.name}; " if situation.pods else ""
    return Explanation(
        f"has succeeded{_after(situation)}",
        reasons=(job.message,) if job.message else (),
        waits=(f"its deletion, {ttl} s after its end (ttlSecondsAfterFinished)",) if ttl is not None else (),
        steps=(f"{logs}tfjob delete {job.name}",),
    )


def _suspended(situation: Situation) -> Explanation | None:
    job, words = situation.job, situation.job.spec.profile.words
    if not job.spec.run_policy.is_suspended:
        return None
    if queue := labels_of(job.body).get(_QUEUE_LABEL):
        return Explanation(
            "is suspended",
            reasons=(f"Kueue has not admitted it to the queue {queue} yet, or has taken its place away",),
            waits=("a place in the queue", *waits.terminating(situation)),
            steps=(_describe_workload(situation),),
        )
    return Explanation(
        f"is {words.suspended}",
        reasons=(f"{words.suspend} is true: it has no pods, and its deadlines do not count",),
        waits=waits.terminating(situation),
        steps=(words.resume.format(job=job.name),),
    )


def _resumed(situation: Situation) -> Explanation | None:
    leaving = waits.terminating(situation)
    if situation.job.phase is not JobPhase.SUSPENDED or not leaving:
        return None
    return Explanation("has been resumed", waits=leaving, steps=("wait: it starts by itself",))


def _queued(situation: Situation) -> Explanation | None:
    if situation.job.phase is not JobPhase.QUEUED:
        return None
    wait = "wait: it starts by itself; its deadlines do not count yet"
    if situation.job.spec.record.queue.unfit:
        wait = "add nodes, or submit it again with --replace and smaller requests or fewer replicas"
    return Explanation(
        "is queued",
        reasons=(situation.job.message,) if situation.job.message else (),
        waits=(*situation.room, *waits.terminating(situation)),
        steps=(_describe_workload(situation), wait) if _QUEUE_LABEL in labels_of(situation.job.body) else (wait,),
    )


def _unknown(situation: Situation) -> Explanation | None:
    job = situation.job
    if job.phase is not JobPhase.NEW:
        return None
    if (situation.age or 0) < _PATIENCE:
        return Explanation("is new", waits=("the operator, which has not seen it yet",), steps=("wait a moment",))
    return Explanation(
        f"is ignored: no operator has written a status for {display.age(job.created, situation.now)}",
        reasons=("no operator runs, or it does not watch this namespace, or lacks permissions in it",),
        steps=("tfjob doctor",),
    )


def _waiting(situation: Situation) -> Explanation | None:
    wait = waits.find(situation)
    if wait is None:
        return None
    return Explanation(
        f"is {_word(situation)}: {_counts(situation)}",
        reasons=ends.restarts(situation),
        waits=wait.conditions,
        steps=wait.steps,
    )


def _active(situation: Situation) -> Explanation | None:
    job, restarts = situation.job, ends.restarts(situation)
    if job.phase is JobPhase.RESTARTING or restarts:
        return Explanation(
            f"is {_word(situation)}: {_counts(situation)}",
            reasons=restarts or (job.message,),
            steps=ends.restart_steps(situation),
        )
    if job.phase is JobPhase.RUNNING:
        deciding = sentences.success(job.spec)
        hung = (f"tfjob logs {job.name} --tail 5", _STACK)
        chief, is_hung = waits.chief(situation), job.spec.record.progress_clock.is_hung
        return Explanation(
            f"{_running(situation)}{', and hangs' if is_hung else ''}: {_counts(situation)}",
            reasons=tuple(progress.sentences(job, situation.now)),
            waits=(
                *waits.missing(situation),
                *chief.conditions,
                f"its end: it succeeds {deciding}",
                *_deadline(situation),
            ),
            steps=(*(hung if is_hung else (f"tfjob logs {job.name} -f",)), *chief.steps),
        )
    return None


def _starting(situation: Situation) -> Explanation:
    kind, index = situation.job.spec.main_replica
    main = f"{kind.label}-{index}"
    if not situation.job.spec.pod_count:
        return Explanation(
            f"is {_word(situation)}",
            reasons=("it has no replicas",),
            steps=(f"tfjob scale {situation.job.name} --replicas 2",),
        )
    is_main_there = any(pod.replica == main and pod.phase == "Running" for pod in situation.pods)
    event = (
        "the operator, to report that it is Running" if is_main_there else f"{main}: once it runs, the job is Running"
    )
    if kind is ReplicaType.WORKER and not is_main_there:
        event = "a worker: once one runs, the job is Running"
    return Explanation(f"is {_word(situation)}: {_counts(situation)}", waits=(event,), steps=("wait a moment",))


_CHECKS: Final[tuple[Callable[[Situation], Explanation | None], ...]] = (
    _deleted,
    _failed,
    _succeeded,
    _foreign,
    _suspended,
    _resumed,
    _queued,
    _unknown,
    _waiting,
    _active,
    _starting,
)


def _describe_workload(situation: Situation) -> str:
    """Where Kueue says what the job waits for. Kubernetes has Workloads, too: those of Kueue need their full name."""
    uid = metadata_of(situation.job.body).get("uid")
    label = f"kueue.x-k8s.io/job-uid={uid}"
    return f"kubectl -n {situation.job.namespace} describe workloads.kueue.x-k8s.io -l {label}: what is missing"


def _word(situation: Situation) -> str:
    return {JobPhase.NEW: "new", JobPhase.CREATED: "starting"}.get(situation.job.phase, situation.job.phase.lower())


def _counts(situation: Situation) -> str:
    """How many replicas run, by what their pods say; or by the status, where nobody may read pods."""
    running = sum(pod.is_running for pod in situation.pods)
    ended = sum(pod.phase == "Succeeded" for pod in situation.pods)
    if not situation.are_pods_known:
        running = sum(counts.active for counts in situation.job.replicas.values())
        ended = sum(counts.succeeded for counts in situation.job.replicas.values())
    ending = f", {ended} {'has' if ended == 1 else 'have'} succeeded" if ended else ""
    return f"{running} of {situation.job.spec.pod_count} replicas run{ending}"


def _running(situation: Situation) -> str:
    started = situation.job.started
    return f"has been running for {display.lasted(started, situation.now)}" if started else "is running"


def _after(situation: Situation) -> str:
    took = display.lasted(situation.job.started, situation.job.finished)
    return f" after {took}" if took else ""


def _deadline(situation: Situation) -> tuple[str, ...]:
    seconds, started = situation.job.spec.run_policy.deadline_seconds, situation.job.started
    if seconds is None or started is None:
        return ()
    left = seconds - (situation.now - started).total_seconds()
    return (f"or its deadline, in {max(0, int(left))} s (activeDeadlineSeconds)",)
