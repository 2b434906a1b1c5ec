"""The HorizontalPodAutoscaler of an elastic job with metrics, as long as the job is active.

It follows edits of the policy; what others change in it stays.
"""

from typing import Any, Final

from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.child_kinds.kind import ChildKind

_SCALED: Final = "Worker"
"""Under this key the scale subresource finds the number of workers."""


def _spec(job: TrainingJob) -> dict[str, Any] | None:
    metrics = list(job.elastic.metrics) if job.elastic else []
    elastic_range = job.elastic.range_of(ReplicaType.WORKER) if job.elastic else None
    if not metrics or elastic_range is None or _problem(job):
        return None
    target = {"apiVersion": job.profile.api_version, "kind": job.profile.kind, "name": job.key.name}
    return {
        "scaleTargetRef": target,
        "minReplicas": elastic_range.least,
        "maxReplicas": elastic_range.most,
        "metrics": metrics,
    }


def _problem(job: TrainingJob) -> str:
    workers = job.spec_of(ReplicaType.WORKER)
    is_scalable = workers is not None and workers.path.rpartition(".")[2] == _SCALED
    wants_one = bool(job.elastic and job.elastic.metrics)
    return f"{job.profile.words.replicas} has no key {_SCALED}." if wants_one and not is_scalable else ""


KIND: Final = ChildKind(
    GroupVersionResource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    spec=_spec,
    problem=_problem,
    flag="horizontal-pod-autoscalers",
    flag_help="Create a HorizontalPodAutoscaler for each job whose elasticPolicy has metrics.",
    off="this operator creates none: it runs without --horizontal-pod-autoscalers",
)
