"""Why a job is in its state, what it waits for, and what to do next: a pure function, in words.

An ordered list of checks (``_CHECKS``): the first that applies explains the job. Only what the API server says is read
(conditions, pods, events), so a job of any operator can be explained. Neighbours: ``explain_ends`` has what exit codes
and causes of failures mean, ``explain_waits`` what keeps pods from running.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tf_operator.cli import explain_ends, explain_waits, output, plan_sentences
from tf_operator.cli.situation import Explanation, Situation
from tf_operator.client import JobPhase
from tf_operator.job.record import ReplicaType
from tf_operator.meta import labels_of, metadata_of

_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_KEEP: Final = "to look around after the end: tfjob local up, and tfjob run again; then pods, logs and events stay"
_PATIENCE: Final = 10
"""Seconds within which an operator that is at work has written a status."""


def explain(situation: Situation) -> Explanation:
    """Explain a job."""
    return next(found for check in _CHECKS if (found := check(situation)))


def text(situation: Situation, *, is_kept: bool = True) -> Iterator[str]:
    """The explanation, line by line. Where nothing is kept, no step asks for what is gone."""
    found = explain(situation)
    if not is_kept:
        found = replace(found, steps=(*(step for step in found.steps if not step.startswith("tfjob ")), _KEEP))
    yield f"{situation.job.kind} {situation.job.namespace}/{situation.job.name} {output.printable(found.state)}.\n"
    sections = (("Why", found.reasons), ("Waits for", found.waits), ("Log", situation.log), ("Next", found.steps))
    for heading, lines in sections:
        for number, line in enumerate(lines):
            yield f"  {f'{heading}:' if number == 0 else '':<11}{output.printable(line)}\n"


def _deleted(seen: Situation) -> Explanation | None:
    if not seen.job.spec.is_being_deleted:
        return None
    finalizers = metadata_of(seen.job.body).get("finalizers")
    holding = tuple(map(str, finalizers)) if isinstance(finalizers, list) else ()
    return Explanation(
        "is being deleted",
        waits=tuple(
            "its pods and Services, which go first" if name == "foregroundDeletion" else f"the finalizer {name}"
            for name in holding
        )
        + explain_waits.terminating(seen),
        steps=("nothing: it goes by itself, unless the controller of a finalizer is not there any more",),
    )


def _foreign(seen: Situation) -> Explanation | None:
    if seen.job.spec.is_ours:
        return None
    manager = seen.job.spec.run_policy.managed_by
    return Explanation(
        f"is {_word(seen)}, and managed by {manager}",
        reasons=("spec.runPolicy.managedBy names another controller: the operator leaves the job alone",),
        steps=(f"ask {manager}: with MultiKueue the job runs in another cluster",),
    )


def _failed(seen: Situation) -> Explanation | None:
    if seen.job.phase is not JobPhase.FAILED:
        return None
    return Explanation(f"has failed{_after(seen)}", reasons=explain_ends.reasons(seen), steps=explain_ends.steps(seen))


def _succeeded(seen: Situation) -> Explanation | None:
    job = seen.job
    if job.phase is not JobPhase.SUCCEEDED:
        return None
    ttl = job.spec.run_policy.ttl_seconds
    logs = f"tfjob logs {job.name}; " if seen.pods else ""
    return Explanation(
        f"has succeeded{_after(seen)}",
        reasons=(job.message,) if job.message else (),
        waits=(f"its deletion, {ttl} s after its end (ttlSecondsAfterFinished)",) if ttl is not None else (),
        steps=(f"{logs}tfjob delete {job.name}",),
    )


def _suspended(seen: Situation) -> Explanation | None:
    job, is_wanted = seen.job, seen.job.spec.run_policy.is_suspended
    if not is_wanted:
        return None
    if queue := labels_of(job.body).get(_QUEUE_LABEL):
        return Explanation(
            "is suspended",
            reasons=(f"Kueue has not admitted it to the queue {queue} yet, or has taken its place away",),
            waits=("a place in the queue", *explain_waits.terminating(seen)),
            steps=(_describe_workload(seen),),
        )
    return Explanation(
        "is suspended",
        reasons=("spec.runPolicy.suspend is true: it has no pods, and its deadlines do not count",),
        waits=explain_waits.terminating(seen),
        steps=(f"tfjob resume {job.name}",),
    )


def _queued(seen: Situation) -> Explanation | None:
    if seen.job.phase is not JobPhase.QUEUED:
        return None
    wait = "wait: it starts by itself; its deadlines do not count yet"
    return Explanation(
        "is queued",
        reasons=(seen.job.message,) if seen.job.message else (),
        waits=explain_waits.terminating(seen),
        steps=(_describe_workload(seen), wait) if _QUEUE_LABEL in labels_of(seen.job.body) else (wait,),
    )


def _unknown(seen: Situation) -> Explanation | None:
    job = seen.job
    if job.phase is not JobPhase.NEW:
        return None
    if (seen.age or 0) < _PATIENCE:
        return Explanation("is new", waits=("the operator, which has not seen it yet",), steps=("wait a moment",))
    return Explanation(
        f"is ignored: no operator has written a status for {output.age(job.created, seen.now)}",
        reasons=("no operator runs, or it does not watch this namespace, or has no rights in it",),
        steps=("tfjob doctor",),
    )


def _waiting(seen: Situation) -> Explanation | None:
    """Something keeps pods from being made or from running."""
    found = explain_waits.find(seen)
    if found is None:
        return None
    return Explanation(
        f"is {_word(seen)}: {_counts(seen)}",
        reasons=explain_ends.restarts(seen),
        waits=found.what,
        steps=found.steps,
    )


def _active(seen: Situation) -> Explanation | None:
    job, restarts = seen.job, explain_ends.restarts(seen)
    if job.phase is JobPhase.RESTARTING or restarts:
        return Explanation(
            f"is {_word(seen)}: {_counts(seen)}",
            reasons=restarts or (job.message,),
            steps=explain_ends.restart_steps(seen),
        )
    if job.phase is JobPhase.RUNNING:
        deciding = plan_sentences.success(job.spec)
        chief = explain_waits.chief(seen)
        return Explanation(
            f"runs{_since(seen)}: {_counts(seen)}",
            waits=(*explain_waits.missing(seen), *chief.what, f"its end: it succeeds {deciding}", *_deadline(seen)),
            steps=(f"tfjob logs {job.name} -f", *chief.steps),
        )
    return None


def _starting(seen: Situation) -> Explanation:
    kind, index = seen.job.spec.main_replica
    main = f"{kind.label}-{index}"
    if not seen.job.spec.pod_count:
        return Explanation(
            f"is {_word(seen)}", reasons=("it has no replicas",), steps=(f"tfjob scale {seen.job.name} --replicas 2",)
        )
    is_main_there = any(pod.replica == main and pod.phase == "Running" for pod in seen.pods)
    waits = "the operator, to say that it runs" if is_main_there else f"{main}, with which it is Running"
    if kind is ReplicaType.WORKER and not is_main_there:
        waits = "a worker, with which it is Running"
    return Explanation(f"is {_word(seen)}: {_counts(seen)}", waits=(waits,), steps=("wait a moment",))


_CHECKS: Final[tuple[Callable[[Situation], Explanation | None], ...]] = (
    _deleted,
    _failed,
    _succeeded,
    _foreign,
    _suspended,
    _queued,
    _unknown,
    _waiting,
    _active,
    _starting,
)


def _describe_workload(seen: Situation) -> str:
    """Where Kueue says what the job waits for. Kubernetes has Workloads, too: those of Kueue need their full name."""
    uid = metadata_of(seen.job.body).get("uid")
    label = f"kueue.x-k8s.io/job-uid={uid}"
    return f"kubectl -n {seen.job.namespace} describe workloads.kueue.x-k8s.io -l {label}: what is missing"


def _word(seen: Situation) -> str:
    return {JobPhase.NEW: "new", JobPhase.CREATED: "starting"}.get(seen.job.phase, seen.job.phase.lower())


def _counts(seen: Situation) -> str:
    """How many replicas run, by what their pods say; or by the status, where nobody may read pods."""
    running = sum(pod.is_running for pod in seen.pods)
    ended = sum(pod.phase == "Succeeded" for pod in seen.pods)
    if not seen.are_pods_known:
        running = sum(counts.active for counts in seen.job.replicas.values())
        ended = sum(counts.succeeded for counts in seen.job.replicas.values())
    done = f", {ended} {'has' if ended == 1 else 'have'} succeeded" if ended else ""
    return f"{running} of {seen.job.spec.pod_count} replicas run{done}"


def _since(seen: Situation) -> str:
    return f" for {output.lasted(seen.job.started, seen.now)}" if seen.job.started else ""


def _after(seen: Situation) -> str:
    took = output.lasted(seen.job.started, seen.job.finished)
    return f" after {took}" if took else ""


def _deadline(seen: Situation) -> tuple[str, ...]:
    seconds, started = seen.job.spec.run_policy.deadline_seconds, seen.job.started
    if seconds is None or started is None:
        return ()
    left = seconds - (seen.now - started).total_seconds()
    return (f"or its deadline, in {max(0, int(left))} s (activeDeadlineSeconds)",)
