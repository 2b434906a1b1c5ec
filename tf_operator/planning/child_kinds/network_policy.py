"""The NetworkPolicy of an isolated job: only pods of the job may connect to its pods.

No pod is made before it is there. It stays until the deletion of the job, because pods may run for as long, and it
adds nothing to what other policies let in.
"""

from typing import Any, Final

from tf_operator.job import naming
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.child_kinds.kind import ChildKind


def _spec(job: TrainingJob) -> dict[str, Any] | None:
    if not job.is_isolated:
        return None
    own = {"matchLabels": naming.job_labels(job)}
    return {"podSelector": own, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": own}]}]}


KIND: Final = ChildKind(
    GroupVersionResource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    spec=_spec,
    is_for_active=False,
    is_needed=True,
    flag="network-policies",
    off="this operator makes none: it runs with --network-policies=none",
)
