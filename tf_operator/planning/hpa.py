"""The HorizontalPodAutoscaler of an elastic job with metrics: of the job's name, as long as the job is active.

It follows edits of the policy; what others change in it stays. Training neither waits for it nor fails with it.
Why there is none is said in the job's condition.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

from tf_operator.job import naming
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import GroupVersionResource
from tf_operator.planning import rejections
from tf_operator.planning.actions import Action, Create, Delete, Patch, Stage
from tf_operator.planning.snapshot import HPAState, Snapshot
from tf_operator.planning.tensorboards import DIGEST, digest
from tf_operator.text import LONGEST_MESSAGE, one_line

RESOURCE: Final = GroupVersionResource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
WHAT: Final = "its HorizontalPodAutoscaler"
_SCALED: Final = "Worker"
"""Under this key the scale subresource finds the number of workers."""


def actions(snapshot: Snapshot, *, is_active: bool) -> Iterator[Action]:
    """Make the object, bring its spec up to date, or delete it; it has no place beside a job that does not run."""
    job, observed = snapshot.job, snapshot.hpa
    if observed is None or observed.unserved or (observed.current and observed.current.is_terminating):
        return
    current, spec = observed.current, _spec(job) if is_active else None
    if spec is None:
        if current and not rejections.is_waiting(observed.rejected, snapshot.now):
            subject = f"the deletion of {WHAT}"
            yield Delete(RESOURCE, current.name, current.uid, subject, stage=Stage.EXTRAS, is_optional=True)
    elif _is_waiting(snapshot, observed):
        return
    elif current is None:
        yield Create(RESOURCE, job.key.name, WHAT, partial(_body, job, spec), Stage.EXTRAS, is_optional=True)
    elif current.digest != digest(spec):
        change = {"metadata": _note(spec), "spec": spec}
        yield Patch(
            RESOURCE, current.name, current.uid, f"the change of {WHAT}", change, Stage.EXTRAS, is_optional=True
        )


def note(snapshot: Snapshot) -> str:
    """Why a job with metrics has none, or an old one: a sentence that begins with a space; empty for no reason."""
    job, observed = snapshot.job, snapshot.hpa
    if not _metrics(job) or observed is None:
        return ""
    if not _is_scalable(job):
        return f" There is no HorizontalPodAutoscaler: {job.profile.replicas_field} has no key {_SCALED}."
    cause = observed.unserved or (
        one_line(observed.rejected.message, most=LONGEST_MESSAGE)
        if observed.rejected and _is_behind(job, observed)
        else ""
    )
    state = "The HorizontalPodAutoscaler is outdated" if observed.current else "There is no HorizontalPodAutoscaler"
    return f" {state}: {cause}" if cause else ""


def retry_at(snapshot: Snapshot, *, is_active: bool) -> datetime | None:
    """When to reconcile again, if nothing happens until then."""
    observed = snapshot.hpa
    if observed is None or observed.rejected is None:
        return None
    if is_active and _spec(snapshot.job):
        is_due = _is_behind(snapshot.job, observed) and not rejections.is_final(observed.rejected)
    else:
        is_due = observed.current is not None
    return rejections.retry_at(observed.rejected) if is_due else None


def _is_behind(job: TrainingJob, observed: HPAState) -> bool:
    spec = _spec(job)
    return (observed.current.digest if observed.current else None) != (digest(spec) if spec else None)


def _is_waiting(snapshot: Snapshot, observed: HPAState) -> bool:
    """Whether it is too early to try again; what is invalid is tried again when the job has been edited."""
    rejected = observed.rejected
    if rejected is None or snapshot.job.generation != snapshot.job.record.observed_generation:
        return False
    return rejections.is_final(rejected) or rejections.is_waiting(rejected, snapshot.now)


def _metrics(job: TrainingJob) -> list[Any]:
    return list(job.elastic.metrics) if job.elastic else []


def _is_scalable(job: TrainingJob) -> bool:
    workers = job.spec_of(ReplicaType.WORKER)
    return workers is not None and workers.path.rpartition(".")[2] == _SCALED


def _spec(job: TrainingJob) -> dict[str, Any] | None:
    """What it shall do; ``None`` for a job that has none."""
    metrics, allowed = _metrics(job), job.elastic.range_of(ReplicaType.WORKER) if job.elastic else None
    if not metrics or allowed is None or not _is_scalable(job):
        return None
    target = {"apiVersion": job.profile.api_version, "kind": job.profile.kind, "name": job.key.name}
    return {
        "scaleTargetRef": target,
        "minReplicas": allowed.least,
        "maxReplicas": allowed.most,
        "metrics": metrics,
    }


def _note(spec: dict[str, Any]) -> dict[str, Any]:
    """Not compared with its spec: the API server adds fields, and writes quantities in its own form."""
    return {"annotations": {DIGEST: digest(spec)}}


def _body(job: TrainingJob, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": naming.metadata(job, job.key.name, naming.job_labels(job)) | _note(spec), "spec": spec}
