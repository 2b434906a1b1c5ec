"""A TfJob as a TFJob of ``kubeflow.org/v1alpha1``, which has the same fields in one spelling."""

from collections.abc import Mapping
from typing import Any, Final

from tf_operator.dialects import metadata
from tf_operator.dialects.served import Translation
from tf_operator.job.training_job import CleanPodPolicy, TrainingJob
from tf_operator.meta import Body, metadata_of

_SPELLINGS: Final = {
    "runtimeid": "RuntimeId",
    "replica_specs": "replicaSpecs",
    "tf_port": "tfPort",
    "tf_replica_type": "tfReplicaType",
    "cleanup_pod_policy": "cleanupPodPolicy",
    "termination_policy": "terminationPolicy",
    "replica_name": "replicaName",
    "replica_index": "replicaIndex",
    "log_dir": "logDir",
    "service_type": "serviceType",
    "volume_mounts": "volumeMounts",
}
_OPEN: Final = frozenset({"template", "volumes", "volumeMounts"})
"""What users write in these is theirs, and stays as it is."""


def translate(job: TrainingJob, body: Body) -> Translation:
    """The TFJob; it keeps the rules by which the TfJob runs, but for pods that still run at its end."""
    head = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "TFJob"}
    parts = {"metadata": metadata.portable(metadata_of(body)), "spec": _respell(body["spec"])}
    stops = job.run_policy.clean_pods is CleanPodPolicy.STOP
    change = "spec.cleanupPodPolicy: is absent: pods that still run after the end are deleted, not stopped"
    return Translation({**head, **parts}, (change,) if stops else ())


def _respell(part: Any) -> Any:  # noqa: ANN401 (any piece of JSON)
    if isinstance(part, list):
        return [_respell(entry) for entry in part]
    if not isinstance(part, Mapping):
        return part
    fields = {_SPELLINGS.get(name, name): value for name, value in part.items()}
    return {name: value if name in _OPEN else _respell(value) for name, value in fields.items()}
