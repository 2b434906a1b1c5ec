"""Names and limits that all served APIs share, and that manifests, queueing systems and schedulers rely on."""

from typing import Final

GROUP: Final = "kubeflow.org"

# Who looks after a job. Everything else is somebody else's, and is left alone.
OWN_MANAGER: Final = "kubeflow.org/training-operator"

TF_CONFIG: Final = "TF_CONFIG"
JSON_LOGS_ANNOTATION: Final = "tf-operator.kubeflow.org/json-logs"
GANG_SCHEDULER_ANNOTATION: Final = "tf-operator.kubeflow.org/gang-scheduler"
NO_GANG_SCHEDULER: Final = "none"
"""On a job: ``true`` makes its replicas write their logs as JSON."""

AVOIDED_NODES_ANNOTATION: Final = "tf-operator.kubeflow.org/avoided-nodes"
"""On a pod: the nodes on which it must not be because the job has failed there."""

MEMORY_ANNOTATION: Final = "tf-operator.kubeflow.org/memory-limit"
"""On a pod whose type's memory may grow: the limit of its deciding container, as it was made."""

NETWORK_ANNOTATION: Final = "tf-operator.kubeflow.org/network"
"""On a pod that runs without a cluster: that of an isolated job."""

MOST_REPLICAS: Final = 10_000
MOST_FAILURES_OF_NODE: Final = 10
"""A job may let pass at most so many before it avoids the node."""
LEAST_PROGRESS_DEADLINE: Final = 60
"""Seconds."""
LONGEST_NAME: Final = 63

# Gang scheduling.
VOLCANO_GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
VOLCANO_TASK_ANNOTATION: Final = "volcano.sh/task-spec"
VOLCANO_DEFAULT_QUEUE: Final = "default"
POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
T9K_SCHEDULER: Final = "t9k-scheduler"
T9K_LABELS: Final = "scheduler.tensorstack.dev"
T9K_DEFAULT_QUEUE: Final = "default"
