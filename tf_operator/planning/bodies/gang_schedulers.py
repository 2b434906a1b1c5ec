"""The gang schedulers that are known, each a value: another one is another value here, and rights for its PodGroups.

A gang scheduler places all pods of a job or none. It knows them by its own kind of PodGroup, and by marks on the pods.
Some hold back pods themselves; others want them made only when the group has been admitted.

Neighbours: ``gang`` makes and changes the group, ``children`` marks the pods.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from msgspec import structs

from tf_operator import quantity
from tf_operator.job import constants
from tf_operator.job.record import ReplicaType
from tf_operator.job.templates import containers_of, init_containers_of, pod_of
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import Body, GroupVersionResource, mapping_of, text_of
from tf_operator.planning.snapshot import PodGroup, Settings

Spec = Mapping[str, Any]
Marks = Callable[[TrainingJob, ReplicaType], dict[str, str]]


def _no_marks(_job: TrainingJob, _kind: ReplicaType) -> dict[str, str]:
    return {}


def _no_fields(_job: TrainingJob, _pod: Body) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class GangScheduler:
    """One gang scheduler, as far as an operator has to know it."""

    name: str
    """The value of the operator's flag."""
    resource: GroupVersionResource
    """Its PodGroups."""
    spec: Callable[[TrainingJob, int, Spec], dict[str, Any]]
    """The spec of a group: of which job, with how many members, and what the group says now."""
    fields: tuple[str, ...]
    """The fields of the spec that follow edits of the job: others are immutable, or may be set by others."""
    uses: frozenset[str]
    """The fields of a job's ``schedulingPolicy`` that it has a place for."""
    scheduler: str = ""
    """The ``schedulerName`` of pods where it is another one than the name."""
    labels: Marks = _no_marks
    annotations: Marks = _no_marks
    """What the pods of one type carry."""
    membership: Callable[[TrainingJob, Body], dict[str, Any]] = _no_fields
    """The fields that make a pod with this spec a member, where marks do not."""
    waits_in: frozenset[str] = frozenset()
    """The phases of a group in which no pod may be made yet; none where the scheduler holds back pods itself."""
    least_members: int = 1
    """Schedulers refuse a group of nobody. A gang of one and one of none hold back the same: nothing."""

    def keeps_waiting(self, group: PodGroup | None) -> bool:
        return bool(self.waits_in) and (group is None or group.is_terminating or group.phase in self.waits_in)

    def pod_fields(self, job: TrainingJob, pod: Body) -> dict[str, Any]:
        """What the spec of a pod gets. A scheduler that its template names is kept."""
        return {"schedulerName": pod.get("schedulerName") or self.pods_scheduler} | self.membership(job, pod)

    @property
    def pods_scheduler(self) -> str:
        return self.scheduler or self.name

    def spec_of(self, job: TrainingJob, group: PodGroup | None) -> dict[str, Any]:
        min_available = job.run_policy.scheduling.min_available
        members = max(job.pod_count if min_available is None else min_available, self.least_members)
        return self.spec(job, members, (group.spec or {}) if group else {})


def _volcano_spec(job: TrainingJob, members: int, current: Spec) -> dict[str, Any]:
    """A queue that is on the group already wins: queues may be assigned by others."""
    policy = job.run_policy.scheduling
    spec = _members(job, members) | {
        "queue": current.get("queue") or policy.queue or constants.VOLCANO_DEFAULT_QUEUE,
    }
    return spec | ({"priorityClassName": policy.priority_class} if policy.priority_class else {})


def _volcano_marks(job: TrainingJob, kind: ReplicaType) -> dict[str, str]:
    return {constants.VOLCANO_GROUP_ANNOTATION: job.key.name, constants.VOLCANO_TASK_ANNOTATION: kind.label}


def _plugins_spec(job: TrainingJob, members: int, _spec: Spec) -> dict[str, Any]:
    seconds = job.run_policy.scheduling.timeout_seconds
    return _members(job, members) | ({} if seconds is None else {"scheduleTimeoutSeconds": seconds})


def _plugins_marks(job: TrainingJob, _kind: ReplicaType) -> dict[str, str]:
    return {constants.POD_GROUP_LABEL: job.key.name}


def _t9k_spec(job: TrainingJob, members: int, _spec: Spec) -> dict[str, Any]:
    policy = job.run_policy.scheduling
    return {"minMember": members, "queue": policy.queue or constants.T9K_DEFAULT_QUEUE, "priority": policy.priority}


def _t9k_marks(job: TrainingJob, kind: ReplicaType) -> dict[str, str]:
    queue = job.run_policy.scheduling.queue or constants.T9K_DEFAULT_QUEUE
    marks = {"group-name": job.key.name, "queue": queue, "role": kind.label}
    return {f"{constants.T9K_LABELS}/{name}": value for name, value in marks.items()}


def _native_spec(job: TrainingJob, members: int, _spec: Spec) -> dict[str, Any]:
    """The group has a priority of its own, which has to be that of all its pods."""
    name = job.run_policy.scheduling.priority_class or _priority_class_of_templates(job)
    return _native_alpha_spec(job, members, _spec) | ({"priorityClassName": name} if name else {})


def _native_alpha_spec(_job: TrainingJob, members: int, _spec: Spec) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": members}}}


def _native_membership(job: TrainingJob, pod: Body) -> dict[str, Any]:
    name = job.run_policy.scheduling.priority_class
    fields: dict[str, Any] = {"schedulingGroup": {"podGroupName": job.key.name}}
    return fields | ({"priorityClassName": name} if name and not pod.get("priorityClassName") else {})


def _priority_class_of_templates(job: TrainingJob) -> str:
    """The one that all templates name; empty where they differ, and then kube-scheduler says so of the pods."""
    names = {_named_class(spec) for spec in job.replicas if spec.count}
    return names.pop() if len(names) == 1 else ""


def _named_class(spec: ReplicaSpec) -> str:
    return text_of(pod_of(spec), "priorityClassName")


VOLCANO: Final = GangScheduler(
    name="volcano",
    resource=GroupVersionResource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
    spec=_volcano_spec,
    fields=("minMember", "minResources", "queue", "priorityClassName"),
    uses=frozenset({"minAvailable", "minResources", "queue", "priorityClass"}),
    annotations=_volcano_marks,
    waits_in=frozenset({"", "Pending"}),
)
SCHEDULER_PLUGINS: Final = GangScheduler(
    name="",  # whatever the cluster calls it
    resource=GroupVersionResource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    spec=_plugins_spec,
    fields=("minMember", "minResources", "scheduleTimeoutSeconds"),
    uses=frozenset({"minAvailable", "minResources", "scheduleTimeoutSeconds"}),
    labels=_plugins_marks,
)
_DEFAULT_SCHEDULER: Final = "default-scheduler"
NATIVE: Final = GangScheduler(
    name="native",
    resource=GroupVersionResource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"),
    spec=_native_spec,
    fields=("schedulingPolicy",),
    uses=frozenset({"minAvailable", "priorityClass"}),
    scheduler=_DEFAULT_SCHEDULER,
    membership=_native_membership,
)
"""That of kube-scheduler itself, from Kubernetes 1.37."""
NATIVE_ALPHA: Final = replace(
    NATIVE,
    name="native-v1alpha2",
    resource=structs.replace(NATIVE.resource, version="v1alpha2"),
    spec=_native_alpha_spec,
    fields=(),  # all of them are immutable
    uses=frozenset({"minAvailable"}),
)
"""The same in Kubernetes 1.36, where a group has neither another size later nor, by default, a priority."""
KNOWN: Final = (VOLCANO, SCHEDULER_PLUGINS, NATIVE, NATIVE_ALPHA)
"""What an operator may be asked for. It has rights for the native PodGroups only where it was installed for them."""
BY_PREFERENCE: Final = (NATIVE.name, NATIVE_ALPHA.name, "scheduler-plugins-scheduler", VOLCANO.name)
"""Which one is meant where none is named: the first that is installed. The coscheduling plugin is in the scheduler that
its own chart installs."""
T9K: Final = GangScheduler(
    name=constants.T9K_SCHEDULER,
    resource=GroupVersionResource("scheduler.tensorstack.dev", "v1beta1", "podgroups", "PodGroup"),
    spec=_t9k_spec,
    fields=("minMember", "queue", "priority"),
    uses=frozenset({"minAvailable", "queue"}),
    labels=_t9k_marks,
)
"""Only for jobs of an API that may ask for it, which brings the rights."""


@lru_cache(maxsize=16)
def find(name: str) -> GangScheduler | None:
    """The gang scheduler that the setting means, in any case as in 1.9; ``None`` for none.

    A name that is not known is that of a scheduler with the coscheduling plugin, which clusters name as they like.
    """
    if name.lower() in {"", "none"}:
        return None
    match = next((scheduler for scheduler in (*KNOWN, T9K) if scheduler.name == name.lower()), None)
    return match or replace(SCHEDULER_PLUGINS, name=name)


def versions(name: str) -> tuple[str, ...]:
    """Under which names a scheduler may be installed that has several versions; nothing where there is one."""
    return (NATIVE.name, NATIVE_ALPHA.name) if name == NATIVE.name else ()


def is_meant(choice: str, name: str) -> bool:
    """Whether a job that asks for one scheduler, in lower case, has it in this one, or in a version of it."""
    return bool(name) and (choice == name.lower() or name in versions(choice))


def size_of(spec: Body) -> int | None:
    """How many pods a group with this spec needs at once."""
    if "minMember" in spec:
        return spec["minMember"]  # type: ignore[no-any-return]
    size: int | None = spec.get("schedulingPolicy", {}).get("gang", {}).get("minCount")
    return size


def of(_job: TrainingJob, settings: Settings) -> GangScheduler | None:
    """The gang scheduler of a job; ``None`` for none. ``Snapshot.decided`` has put there what the job asks for."""
    return find(settings.gang_scheduler)


def pods_scheduler(job: TrainingJob, settings: Settings) -> str:
    """The ``schedulerName`` that a job's gang scheduler wants on its pods; empty without one."""
    gang_scheduler = of(job, settings)
    return gang_scheduler.pods_scheduler if gang_scheduler else ""


def _members(job: TrainingJob, members: int) -> dict[str, Any]:
    """How many members have to be placed together, and what they need."""
    resources = job.run_policy.scheduling.min_resources or _least_resources(job, members)
    return {"minMember": members} | ({"minResources": dict(resources)} if resources else {})


def _least_resources(job: TrainingJob, members: int) -> dict[str, str]:
    """What the first ``members`` pods ask for, in the order in which they are made."""
    total: dict[str, Decimal] = {}
    rest = members
    for spec in job.replicas:
        count = min(spec.count, rest)
        rest -= count
        for name, amount in _requests(spec).items():
            total[name] = total.get(name, Decimal(0)) + amount * count
    return {name: quantity.text(amount) for name, amount in sorted(total.items()) if amount}


def _requests(spec: ReplicaSpec) -> dict[str, Decimal]:
    """What one pod asks for: the requests of its containers, or their limits where there are no requests.

    Sidecars are containers, too: init containers that run as long as the pod.
    """
    total: dict[str, Decimal] = {}
    sidecars = (entry for entry in init_containers_of(spec) if entry.get("restartPolicy") == "Always")
    for container in (*containers_of(spec), *sidecars):
        for name, amount in _requests_of(container).items():
            number = quantity.parse(amount)
            if number is not None:
                total[name] = total.get(name, Decimal(0)) + number
    return total


def _requests_of(container: Body) -> Mapping[str, Any]:
    resources = mapping_of(container.get("resources"))
    return mapping_of(resources.get("requests") or resources.get("limits"))
