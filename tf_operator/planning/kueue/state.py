"""What is observed of Kueue for one job: its Workload, and the classes and flavors that it names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tf_operator.meta import Body, GroupVersionResource, mapping_of, objects_of

GROUP: Final = "kueue.x-k8s.io"
QUEUE: Final = f"{GROUP}/queue-name"
PRIORITY: Final = f"{GROUP}/priority-class"
LONGEST_RUN: Final = f"{GROUP}/max-exec-time-seconds"
DIGEST: Final = "tf-operator.kubeflow.org/pod-sets"
"""On a Workload: of the pod sets that the operator gave it."""
FINALIZER: Final = f"{GROUP}/resource-in-use"
"""Of Workloads that Kueue has made itself; who makes them takes it away."""
VERSIONS: Final = ("v1beta2", "v1beta1")
"""The versions of Workloads that are understood, the newest first."""


def workloads(version: str) -> GroupVersionResource:
    return GroupVersionResource(GROUP, version, "workloads", "Workload")


def flavors(version: str) -> GroupVersionResource:
    return GroupVersionResource(GROUP, version, "resourceflavors", "ResourceFlavor", is_namespaced=False)


def priority_classes(version: str) -> GroupVersionResource:
    """Kueue's own priority classes, which say nothing to the scheduler of pods."""
    return GroupVersionResource(GROUP, version, "workloadpriorityclasses", "WorkloadPriorityClass", is_namespaced=False)


POD_PRIORITIES: Final = GroupVersionResource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False
)


@dataclass(frozen=True, slots=True)
class Flavor:
    """What pods get that are admitted to a kind of nodes."""

    node_labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Body, ...] = ()


@dataclass(frozen=True, slots=True)
class Priority:
    """Which class a Workload names, and its value."""

    name: str = ""
    value: int = 0
    is_of_pods: bool = False
    """A PriorityClass, and not one of Kueue's."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The Workload that a job controls."""

    name: str
    uid: str
    version: str = field(default="", compare=False)
    """Its resource version: what is written to its status holds for this very state of it."""
    digest: str = ""
    finalizers: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Without the templates of its pod sets."""
    status: Mapping[str, Any] = field(default_factory=dict)
    is_terminating: bool = False

    def condition(self, kind: str) -> Body:
        """The condition of this type; empty if it has none."""
        return next((entry for entry in self.conditions if entry.get("type") == kind), {})

    def has(self, kind: str) -> bool:
        return self.condition(kind).get("status") == "True"

    @property
    def conditions(self) -> tuple[Body, ...]:
        return tuple(objects_of(self.status.get("conditions")))

    @property
    def is_reserved(self) -> bool:
        """Whether quota is kept for it, so that its pod sets cannot change."""
        return self.has("QuotaReserved")

    @property
    def is_admitted(self) -> bool:
        """Whether its pods may run."""
        return self.has("Admitted") and not self.has("Evicted") and not self.has("Finished") and not self.is_terminating

    @property
    def assignments(self) -> Mapping[str, Body]:
        pod_sets = objects_of(mapping_of(self.status.get("admission")).get("podSetAssignments"))
        return {str(entry.get("name")): entry for entry in pod_sets}


@dataclass(frozen=True, slots=True)
class KueueState:
    """What is known of Kueue for a job that has a queue, or a Workload."""

    version: str = VERSIONS[0]
    """In which Workloads are read and written."""
    workload: Workload | None = None
    priority: Priority | None = Priority()
    """``None`` where the class that the job names is not there."""
    flavors: Mapping[str, Flavor] = field(default_factory=dict)
    problem: str = ""
    """Why it cannot be queued now."""
    unreadable: str = ""
    """Why its Workload cannot be read; nothing is made or changed then."""


def texts(part: object) -> dict[str, str]:
    entries = part.items() if isinstance(part, Mapping) else ()
    return {name: value for name, value in entries if isinstance(name, str) and isinstance(value, str)}
