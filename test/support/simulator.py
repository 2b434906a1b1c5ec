"""One job, simulated without a cluster: plans are carried out at once, and a test plays the kubelet (``pod_events``).

What the controller does with a plan (record, act, confirm) is done here in the plainest way: no network, no caches, a
clock that stands still until it is moved. So whole lives of jobs are values, and a crash of the operator after any of
its writes is one number. The stored job is JSON and goes through the dialect in both directions.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from support.builders import TFJobBuilder, merge
from support.resources import Json
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import ServedAPI
from tf_operator.job import naming
from tf_operator.job.profile import JOB_UID_LABEL, NameStyle
from tf_operator.job.record import JobRecord, ReplicaType
from tf_operator.job.report import ContainerLine
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import labels_of
from tf_operator.planning.actions import Action, Create, Delete, DeleteCollection, Patch, Plan
from tf_operator.planning.children import PODS, SERVICES
from tf_operator.planning.default_server import CONFIG_MAPS
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import (
    DEFAULT_SETTINGS,
    MainContainer,
    Pod,
    PodGroup,
    RejectedWrite,
    Service,
    Settings,
    Snapshot,
)

MORNING = datetime(2026, 3, 1, 8, tzinfo=UTC)
ENDED = frozenset({"Succeeded", "Failed"})
_MOST_PASSES = 40


class Crashed(Exception):
    """The operator was killed right after a write."""


class Restless(AssertionError):
    """The operator goes on writing although nothing happens."""


@dataclass
class Simulator:
    """A job, its children, and the operator that looks after them."""

    body: Json
    settings: Settings = DEFAULT_SETTINGS
    api: ServedAPI = v1.API
    now: datetime = MORNING
    pods: dict[str, Pod] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    config_maps: set[str] = field(default_factory=set)
    group: PodGroup | None = None
    departed: list[Pod] = field(default_factory=list)
    rejected: RejectedWrite | None = None
    crash_after: int | None = None
    """The write after which the operator is killed, once."""
    is_polite: bool = False
    """Whether programs save their work and end with 0 when they get SIGTERM, instead of being killed."""

    writes: int = 0
    is_deleted: bool = False
    births: Counter[str] = field(default_factory=Counter)
    """By name: how many objects had it."""
    made: list[Pod] = field(default_factory=list)
    clusters: dict[str, object] = field(default_factory=dict)
    """By the UID of a pod: the part of its TF_CONFIG on which all have to agree; nothing without TF_CONFIG."""
    records: list[JobRecord] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    _read: tuple[Json, TrainingJob] | None = None

    @property
    def job(self) -> TrainingJob:
        if self._read is None or self._read[0] is not self.body:  # a body is replaced, never changed
            self._read = self.body, self.api.read_object(self.body)
        return self._read[1]

    @property
    def record(self) -> JobRecord:
        return self.job.record

    @property
    def status(self) -> Json:
        found: Json = self.body.get("status", {})
        return found

    def condition(self, kind: str) -> Json | None:
        return next((entry for entry in self.status.get("conditions", []) if entry["type"] == kind), None)

    def observe(self) -> Snapshot:
        pods = (*self.pods.values(), *self.departed)
        return Snapshot(
            self.job,
            self.now,
            pods=tuple(map(_with_containers, pods)) if self.api.shows_containers else pods,
            services=tuple(self.services.values()),
            pod_group=self.group,
            rejected=self.rejected,
            settings=self.settings,
        )

    def look(self) -> Plan:
        """What would be done now; nothing is."""
        return make_plan(self.observe())

    def work(self) -> Plan:
        """One pass: record, act, confirm."""
        plan = self.look()
        self.plans.append(plan)
        if plan.status_first:
            self._store(plan)
        for action in plan.actions:
            self._carry_out(action)
        if plan.deletes_job:
            self._write(lambda: setattr(self, "is_deleted", True))
        if not plan.status_first:
            self._store(plan)
        return plan

    def settle(self) -> None:
        """Reconcile until there is nothing left to do now, and every terminating pod is gone."""
        for _ in range(_MOST_PASSES):
            writes, crashes = self.writes, self.crash_after
            try:
                self.work()
            except Crashed:
                self.departed, self.rejected, self.crash_after = [], None, None
            if self.is_deleted:
                return
            if (writes, crashes) == (self.writes, self.crash_after) and not self._reap():
                return
        raise Restless(f"{_MOST_PASSES} passes and no end: {self.plans[-1]}")

    def sleep(self, seconds: float) -> None:
        """Let time pass; the operator wakes when it has asked to be woken."""
        until = self.now + timedelta(seconds=seconds)
        self.settle()
        while not self.is_deleted:
            wait = self.look().requeue_after
            if wait is None or self.now + wait > until:
                break
            self.now += wait
            self.settle()
        self.now = until

    def _store(self, plan: Plan) -> None:
        patch = self.api.status_patch(plan.report)
        self.departed = []
        if patch:
            text = json.dumps(merge(self.body, {"status": patch}))  # what is no JSON would fail here
            self.body = json.loads(text)
            self.records.append(self.record)
            self._written()

    def _carry_out(self, action: Action) -> None:
        match action:
            case Create():
                for child in action.in_order():
                    self._create(child)
            case Patch():
                self._patch(action)
            case Delete() if action.resource == PODS:
                self._delete_pod(action.name, action.uid)
            case Delete() if action.resource == SERVICES:
                self._delete_services({action.uid})
            case Delete():
                self._write(lambda: setattr(self, "group", None))
            case DeleteCollection():
                self._delete_services({found.uid for found in action.objects})

    def _create(self, child: Create) -> None:
        body = child.body()
        if child.resource == PODS:
            assert child.name not in self.pods, f"pod {child.name} exists"
            self._write(lambda: self._add_pod(child.name, body))
        elif child.resource == CONFIG_MAPS:
            if child.name not in self.config_maps:  # otherwise the API server refuses it, and nothing changes
                self._write(lambda: self.config_maps.add(child.name))
        elif child.resource == SERVICES:
            assert child.name not in self.services, f"Service {child.name} exists"
            service = Service(child.name, self._uid(child.name), job_uid_label=labels_of(body)[JOB_UID_LABEL])
            self._write(lambda: self.services.update({child.name: service}))
        else:
            assert self.group is None, "the PodGroup exists"
            self._write(lambda: setattr(self, "group", PodGroup(child.name, self._uid(child.name), spec=body["spec"])))

    def _add_pod(self, name: str, body: Json) -> None:
        place = naming.replica_of(self.job.key.name, name, self.job.profile.names)
        assert place is not None
        others = [pod.name for pod in self.pods.values() if (pod.type, pod.index) == place and pod.phase not in ENDED]
        assert not others, f"the replica of {name} has a live pod: {others}"
        has_own_name = self.job.profile.names is NameStyle.GENERATED
        assert not (has_own_name and self._last_uid(name) in self._given_up()), f"pod {name} was given up before"
        pod = Pod(name, self._uid(name), *place, created_at=self.now)
        self.pods[name] = pod
        self.made.append(pod)
        env = body["spec"]["containers"][0].get("env", [])
        config = next((entry["value"] for entry in env if entry["name"] == "TF_CONFIG"), None)
        if config is not None:
            self.clusters[pod.uid] = json.loads(config)["cluster"]

    def _delete_pod(self, name: str, uid: str) -> None:
        pod = self.pods[name]
        assert pod.uid == uid, "the precondition on the UID would have failed"
        assert not pod.is_terminating, "it is deleted twice"
        has_processes = pod.phase == "Running"
        self._write(lambda: self.pods.update({name: replace(pod, is_terminating=True)}))
        if not has_processes:
            self.remove(name)

    def _patch(self, action: Patch) -> None:
        if action.resource != PODS:
            assert self.group is not None
            changed = replace(self.group, spec=merge(self.group.spec or {}, action.body["spec"]))
            self._write(lambda: setattr(self, "group", changed))
            return
        pod = self.pods[action.name]
        assert pod.uid == action.uid, "the precondition on the UID would have failed"
        assert not pod.is_stopped, "it is stopped twice"
        self._write(lambda: self.pods.update({pod.name: replace(pod, is_stopped=True)}))

    def _delete_services(self, uids: set[str]) -> None:
        self.services = {name: service for name, service in self.services.items() if service.uid not in uids}
        self._written()

    def _write(self, change: Callable[[], object]) -> None:
        change()
        self._written()

    def _written(self) -> None:
        self.writes += 1
        if self.writes == self.crash_after:
            raise Crashed

    def _uid(self, name: str) -> str:
        """It does not depend on the order of other creates."""
        self.births[name] += 1
        return self._last_uid(name)

    def _last_uid(self, name: str) -> str:
        return f"{name}/{self.births[name]}"

    def _given_up(self) -> set[str]:
        """The UIDs of pods whose replacement was recorded."""
        return {entry.uid for record in self.records for entry in record.restart_records if entry.replaced}

    def remove(self, name: str) -> None:
        """A pod is no longer there; who watched has seen it go."""
        self.departed.append(replace(self.pods.pop(name), is_gone=True))

    def edit(self, patch: Json) -> None:
        self.body = merge(self.body, patch)

    def _reap(self) -> bool:
        """The kubelet ends what was stopped, and pods that terminate are gone; whether there was any."""
        stopped = [pod for pod in self.pods.values() if pod.is_stopped and pod.phase not in ENDED]
        for pod in stopped:
            main = pod.main and MainContainer(143, "Error", "", pod.main.started_at, self.now)
            self.pods[pod.name] = replace(pod, phase="Failed", reason="DeadlineExceeded", main=main)
        leaving = [name for name, pod in self.pods.items() if pod.is_terminating]
        for name in leaving:
            if self.is_polite and self.pods[name].phase == "Running":
                main = MainContainer(0, "Completed", started_at=self.now, finished_at=self.now)
                self.pods[name] = replace(self.pods[name], phase="Succeeded", main=main)
            else:
                self.remove(name)
        return bool(leaving or stopped)

    @property
    def conditions(self) -> str:
        """The conditions in their order; those that are False with a bang."""
        found = self.status.get("conditions", [])
        return " ".join(f"{'' if entry['status'] == 'True' else '!'}{entry['type']}" for entry in found)

    @property
    def shown_pods(self) -> str:
        """The pods by their short names, with their phases; ``worker-0#2`` is the second pod of worker 0."""
        born = Counter((pod.type, pod.index) for pod in self.made)
        shown = sorted(self.pods.values(), key=lambda pod: (list(ReplicaType).index(pod.type), pod.index))
        return " ".join(f"{pod.type.label}-{pod.index}#{born[pod.type, pod.index]}:{pod.phase}" for pod in shown)

    @property
    def summary(self) -> Json:
        return {
            "status": _without_times(self.status),
            "restarts": self.record.restarts,
            "disruptions": self.record.disruptions,
            "first failure": self.record.first_failure,
            "pods": self.shown_pods,
            "services": sorted(self.services),
            "made": sorted(pod.name for pod in self.made),
            "deleted": self.is_deleted,
        }


def simulator(job: TFJobBuilder, settings: Settings = DEFAULT_SETTINGS) -> Simulator:
    return simulated(job.body(), v1.API, settings)


def simulated(job: Json, api: ServedAPI, settings: Settings = DEFAULT_SETTINGS) -> Simulator:
    """A job of any served API, in any version of it."""
    metadata = job["metadata"] | {"namespace": "team", "uid": "job-uid", "resourceVersion": "1", "generation": 1}
    return Simulator(api.conversion.convert(job | {"metadata": metadata}, api.resource.version), settings, api)


def _with_containers(pod: Pod) -> Pod:
    code = pod.main.exit_code if pod.main else None
    state = "Terminated" if code is not None else "Running" if pod.phase == "Running" else "Waiting"
    return replace(pod, containers=(ContainerLine("tensorflow", state, code),))


def _without_times(found: object) -> object:
    """Without moments, which a crash may delay, and without the record, of which the rest is rendered."""
    if isinstance(found, dict):
        return {name: _without_times(value) for name, value in found.items() if not _is_moment(name)}
    return [_without_times(entry) for entry in found] if isinstance(found, list) else found


def _is_moment(name: str) -> bool:
    return name.lower().endswith("time") or name in {"operator", "restartRecords", "compactRestartRecords"}
