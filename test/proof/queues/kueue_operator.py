"""The operator of one job in a queue of Kueue: its caches, its plan and the order of its writes, all real."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from proof.queues.kueue_oracle import Wish
from support.embedded.controller_harness import FakeInformer
from support.jobs import builders
from support.jobs.builders import merge
from support.jobs.templates import Template
from support.pods import pod_status
from support.pods.pod_status import Exit, Waiting
from support.resources import Json
from tf_operator.controller.caches import OWNER, owner_of
from tf_operator.controller.kueue import KueueCaches
from tf_operator.controller.writing.steps import Act, ResumeJob, StoreStatus, steps
from tf_operator.dialects.kubeflow import v1
from tf_operator.job import naming
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.cache.store import Store
from tf_operator.meta import rfc3339
from tf_operator.planning.actions import Action, Create, Delete, DeleteCollection, Patch
from tf_operator.planning.bodies.children import PODS
from tf_operator.planning.kueue import state as kueue_names
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Pod, Service, Settings, Snapshot
from tf_operator.projections import workloads
from tf_operator.projections.pods import pod_reader

NOW: Final = datetime(2026, 3, 1, 8, tzinfo=UTC)
_BEFORE: Final = rfc3339(NOW - timedelta(hours=12))
_NEVER: Final = timedelta(days=400)
SETTINGS: Final = Settings(restart_delay=timedelta(0), report_pending_after=_NEVER, report_starting_after=_NEVER)
NAME, NAMESPACE, UID = "job", "ns", "u"
FLAVORS: Final = ("spot", "fixed")
NONE: Final = -1
STORE, RESUME, MAKE_POD, DELETE_POD, MAKE_WORKLOAD, CHANGE_WORKLOAD, DELETE_WORKLOAD = (
    "stores the status", "resumes the job", "creates pod", "deletes pod", "creates the Workload",
    "changes the Workload", "deletes the Workload",
)  # fmt: skip
_VERSION: Final = kueue_names.VERSIONS[0]
WORKLOADS: Final = kueue_names.workloads(_VERSION)
_READ_POD: Final = pod_reader((v1.API,))


class Spec(NamedTuple):
    """What people change of the job. In states it is a plain tuple."""

    is_suspended: bool = False
    workers: int = 2
    processors: int = 1
    queue: str = "team"
    least: int = 0
    """With how few workers it starts; 0 for no less than all."""
    generation: int = 1

    def wish(self) -> Wish:
        return Wish(self.workers, self.processors, self.is_suspended, self.queue)


class PodState(NamedTuple):
    """One worker. In states it is a plain tuple."""

    ordinal: int
    birth: int
    pool: str
    processors: int
    how: str = "Pending"
    is_leaving: bool = False


class Seen(NamedTuple):
    """What the caches show."""

    spec: tuple[Any, ...]
    status: int
    workload: int
    """Its number, or that there is none."""
    birth: int
    """Of the Workload."""
    pods: tuple[Any, ...]
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Writes:
    """A plan, as the writes that it comes to."""

    steps: tuple[tuple[Any, ...], ...]


class KueueOperator:
    """Keeps every status, Workload and plan that it has met."""

    def __init__(self, start: Spec) -> None:
        self.least = start.least
        self.statuses: list[Json] = []
        self.workloads: list[Json] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._plans: dict[Seen, Writes] = {}
        self._pods: dict[PodState, Pod] = {}
        self.status_number({})

    def status_number(self, status: Json) -> int:
        return self._number("status", status, self.statuses)

    def workload_number(self, workload: Json) -> int:
        """One number for equal Workloads, without what the world keeps of them apart."""
        metadata = {name: workload["metadata"][name] for name in ("annotations", "name", "ownerReferences")}
        return self._number("workload", workload | {"metadata": metadata}, self.workloads)

    def _number(self, kind: str, value: Json, values: list[Json]) -> int:
        settled = _settled(value)
        key = (kind, json.dumps(settled, sort_keys=True))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(values)
            values.append(settled)
        return number

    def plan(self, view: Seen) -> Writes:
        """What the operator does, having seen this."""
        writes = self._plans.get(view)
        if writes is None:
            writes = self._plans[view] = self._plan(view)
        return writes

    def _plan(self, view: Seen) -> Writes:
        job = self._job(Spec._make(view.spec), view.status)
        pods = [PodState._make(pod) for pod in view.pods]
        names = {naming.service_name(job, ReplicaType.WORKER, pod.ordinal) for pod in pods}
        snapshot = Snapshot(
            job,
            NOW,
            pods=tuple(self._pod(pod) for pod in pods),
            services=tuple(Service(name, name) for name in sorted(names)),
            kueue=self._caches(view).of(job),
            settings=SETTINGS,
        )
        plan = make_plan(snapshot)
        while plan.looks_for:
            snapshot = snapshot.changed(looked_for=snapshot.looked_for.union(plan.looks_for))
            plan = make_plan(snapshot)
        flat: list[tuple[Any, ...]] = []
        patch = v1.API.status_patch(plan.report)
        for step in steps(plan):
            match step:
                case ResumeJob():
                    flat.append((RESUME,))
                case StoreStatus() if patch:
                    after = self.status_number(merge(self.statuses[view.status], patch))
                    flat.append((STORE, after))
                case Act():
                    flat += [write for _, group in step.stages for action in group for write in _writes(action, job)]
        return Writes(tuple(flat))

    def _caches(self, view: Seen) -> KueueCaches:
        informers = [
            FakeInformer(resource, Store({OWNER: owner_of} if resource == WORKLOADS else None))
            for resource in (
                WORKLOADS,
                kueue_names.flavors(_VERSION),
                kueue_names.priority_classes(_VERSION),
                kueue_names.POD_PRIORITIES,
            )
        ]
        informers[0].is_absent = not view.is_readable
        if view.workload != NONE:
            workload = self.workloads[view.workload]
            metadata = {"namespace": NAMESPACE, "uid": f"w{view.birth}", "resourceVersion": str(view.workload)}
            raw = msgspec.json.encode(workload | {"metadata": workload["metadata"] | metadata})
            informers[0].store.put(workloads.workload_reader((v1.API,))(raw))
        for flavor in FLAVORS:
            raw = msgspec.json.encode({"metadata": {"name": flavor}, "spec": {"nodeLabels": {"pool": flavor}}})
            informers[1].store.put(workloads.read_flavor(raw))
        caches: Any = informers
        return KueueCaches(_VERSION, *caches)

    def _job(self, spec: Spec, status: int) -> TrainingJob:
        template = Template().resources(requests={"cpu": str(spec.processors)})
        job = builders.tfjob(NAME).in_namespace(NAMESPACE).workers(spec.workers, template=template, restart="ExitCode")
        job = job.dynamic_workers().elastic(spec.least, 4) if spec.least else job
        job = job.labels({kueue_names.QUEUE: spec.queue}) if spec.queue else job
        body = job.suspended(spec.is_suspended).body()
        body["metadata"] |= {"uid": UID, "resourceVersion": "1", "generation": spec.generation}
        return v1.API.read_object(body | {"status": self.statuses[status]})

    def free_birth(self, status: int, ordinal: int, taken: set[int]) -> int:
        """The lowest number for a new pod that no other has, and that the status does not know."""
        text, birth = json.dumps(self.statuses[status]), 1
        while birth in taken or f'"{_uid(ordinal, birth)}"' in text:
            birth += 1
        return birth

    def _pod(self, pod: PodState) -> Pod:
        value = self._pods.get(pod)
        if value is None:
            read = _READ_POD(msgspec.json.encode(_body(pod))).pod
            assert read, "a pod of no replica"
            value = self._pods[pod] = read
        return value


def _writes(action: Action, job: TrainingJob) -> list[tuple[Any, ...]]:
    """The requests that an action is, but for those about Services: they are proved elsewhere."""
    match action:
        case Create() if action.resource == WORKLOADS:
            return [(MAKE_WORKLOAD, json.dumps(action.body(), sort_keys=True))]
        case Create():
            pods = [child for child in action.in_order() if child.resource == PODS]
            return [(MAKE_POD, *_asked_for(child.body())) for child in pods]
        case Patch() if action.resource == WORKLOADS:
            change = json.dumps(dict(action.content()), sort_keys=True)
            return [(CHANGE_WORKLOAD, action.uid, change, action.version)]
        case Delete() if action.resource in {WORKLOADS, PODS}:
            return [(DELETE_WORKLOAD if action.resource == WORKLOADS else DELETE_POD, action.uid)]
        case DeleteCollection() if action.resource == PODS:
            return [(DELETE_POD, entry.uid) for entry in action.objects]
    assert isinstance(action, Delete | DeleteCollection), f"this world has no {action}"
    return []


def _asked_for(body: Json) -> tuple[int, str, int]:
    """Of a pod that is created: its index, the nodes on which it may run, and what it asks for."""
    (container,) = body["spec"]["containers"]
    ordinal = int(body["metadata"]["name"].rpartition("-")[2])
    pool = body["spec"].get("nodeSelector", {}).get("pool", "")
    return ordinal, pool, int(container["resources"]["requests"]["cpu"])


def _uid(ordinal: int, birth: int) -> str:
    return f"{NAME}-worker-{ordinal}#{birth}"


def pod_uid(pod: PodState) -> str:
    return _uid(pod.ordinal, pod.birth)


def _body(pod: PodState) -> Json:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": NAME, "uid": UID, "controller": True}
    template = Template().resources(requests={"cpu": str(pod.processors)}).body()
    metadata: Json = {
        "name": f"{NAME}-worker-{pod.ordinal}",
        "namespace": NAMESPACE,
        "uid": pod_uid(pod),
        "creationTimestamp": rfc3339(NOW - timedelta(minutes=1)),
        "labels": v1.API.profile.labels.selector,
        "ownerReferences": [owner],
    }
    if pod.is_leaving:
        metadata["deletionTimestamp"] = rfc3339(NOW + timedelta(days=1))
    body: Json = {"metadata": metadata, "spec": {**template["spec"], "restartPolicy": "Never", "nodeName": "n"}}
    moments = [rfc3339(NOW - timedelta(seconds=seconds)) for seconds in (50, 40, 30)]
    body["status"] = pod_status.pending(body, moments[0], waiting=Waiting("ContainerCreating", ""))
    if pod.how != "Pending":
        body["status"] = pod_status.running(body, moments[1])
    if pod.how.startswith("exit"):
        body["status"] = pod_status.finished(body, moments[2], how=Exit(int(pod.how.split(" ")[1])))
    return body


def _settled(value: Any, name: str = "") -> Any:  # noqa: ANN401
    """The same with all moments long ago: nothing is decided by them here."""
    if isinstance(value, Mapping):
        return {key: _settled(entry, key) for key, entry in value.items()}
    if isinstance(value, list):
        return [_settled(entry) for entry in value]
    return _BEFORE if isinstance(value, str) and name.lower().endswith("time") else value
