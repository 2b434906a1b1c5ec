"""What the caches know of Kueue for one job: its Workload, and the classes and flavors that it names.

The informers exist only with ``--kueue=external``, and no job without a queue asks them for more than its Workload.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from tf_operator.controller.caches import OWNER, owner_of, owner_value
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.cache.factory import Need, SharedInformerFactory
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.transport.requests import Scope
from tf_operator.meta import ObjectKey
from tf_operator.planning.kueue import state, workload
from tf_operator.planning.kueue.state import KueueState, Priority, Workload
from tf_operator.projections import workloads
from tf_operator.projections.workloads import CachedFlavor, CachedPriority, CachedWorkload

_INSTALLED: Final = "is Kueue installed?"


@dataclass(frozen=True, slots=True)
class KueueCaches:
    """The informers for Workloads that the operator makes."""

    version: str
    workloads: Informer[CachedWorkload]
    flavors: Informer[CachedFlavor]
    own_classes: Informer[CachedPriority]
    pod_classes: Informer[CachedPriority]

    def of(self, job: TrainingJob) -> KueueState | None:
        """What a plan has to know; ``None`` for a job that has no queue, and no Workload."""
        if not job.profile.suspend_path:
            return None
        current = self._workload(job)
        if current is None and not workload.queue_of(job):
            return None
        if unreadable := self._unreadable(job.key.namespace):
            return KueueState(self.version, current, unreadable=unreadable)
        priority, problem = self._priority(job)
        flavors = {item.metadata.name: item.flavor for item in self.flavors.store} if current else {}
        return KueueState(self.version, current, priority, flavors, problem)

    def _workload(self, job: TrainingJob) -> Workload | None:
        """The one that the operator would make, or else one that Kueue has made under another name."""
        ours, name = owner_value(job.key.namespace, job.uid), workload.name_of(job)
        candidates = sorted(self.workloads.store.by_index(OWNER, ours), key=lambda item: item.metadata.name)
        named = next((item for item in candidates if item.metadata.name == name), None)
        cached = named or next(iter(candidates), None)
        return cached.as_planned() if cached else None

    def _unreadable(self, namespace: str) -> str:
        places: tuple[tuple[Informer[Any], str], ...] = (
            (self.workloads, namespace),
            (self.flavors, ""),
            (self.own_classes, ""),
            (self.pod_classes, ""),
        )
        for informer, place in places:
            if informer.is_absent or not informer.has_synced or informer.is_stale(place):
                return f"{informer.resource} cannot be read; {_INSTALLED}"
        return ""

    def _priority(self, job: TrainingJob) -> tuple[Priority | None, str]:
        """The class that the job names with its value, or the cluster's default; or why there is none."""
        named = job.labels.get(state.PRIORITY, "")
        name = named or workload.priority_class(job)
        classes = self.own_classes if named else self.pod_classes
        if not name:
            default = min((item for item in classes.store if item.global_default), key=_value, default=None)
            return (Priority(default.metadata.name, default.value, is_of_pods=True) if default else Priority()), ""
        priority_class = classes.store.get(ObjectKey("", name))
        if priority_class is None:
            return None, f"There is no {classes.resource.kind} {name}."
        return Priority(name, priority_class.value, is_of_pods=not named), ""


def _value(item: CachedPriority) -> int:
    return item.value


def make_kueue_caches(
    informers: SharedInformerFactory, scopes: Iterable[Scope], *, version: str, served: tuple[ServedAPI, ...]
) -> KueueCaches:
    """Ask for the informers; Kueue may be installed later."""
    optional = Need.OPTIONAL
    return KueueCaches(
        version,
        informers.get(
            state.workloads(version),
            decode=workloads.workload_reader(served),
            scopes=scopes,
            indexes={OWNER: owner_of},
            need=optional,
        ),
        informers.get(state.flavors(version), decode=workloads.read_flavor, need=optional),
        informers.get(state.priority_classes(version), decode=workloads.read_priority, need=optional),
        informers.get(state.POD_PRIORITIES, decode=workloads.read_priority, need=optional),
    )
