"""A life of one job: the operator's controller on an embedded API server, in virtual time; a test plays the kubelet.

Nothing runs beside the test: ``settle`` reconciles until nothing is left to do, and time passes only by ``sleep``. So
whole lives of jobs are values, and a crash of the operator after any of its writes is one number: the next operator
has nothing but what is stored. What people and kubelets do is in ``pod_events``.
"""

import asyncio
import atexit
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import structs

from support.embedded.controller_harness import Harness
from support.embedded.embedded_api import EmbeddedApi
from support.fake_clock import FakeClock
from support.jobs.builders import TFJobBuilder, merge
from support.pods import pod_status
from support.resources import Json
from tf_operator.controller import resources
from tf_operator.controller.result import Result
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import ServedAPI
from tf_operator.job import naming
from tf_operator.job.profile import NameStyle
from tf_operator.job.record import JobRecord, ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.storage.store import Commit, Stored
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import ObjectKey, key_of, rfc3339
from tf_operator.planning.actions import Plan
from tf_operator.planning.child_kinds import network_policy
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, Pod, PodGroup, Settings, Snapshot

MORNING = datetime(2026, 3, 1, 8, tzinfo=UTC)
ENDED = frozenset({"Succeeded", "Failed"})
NAMESPACE = "team"
_MOST_PASSES = 40
_WRITES = frozenset({"create", "patch", "delete", "deletecollection"})


class Crashed(Exception):
    """The operator was killed right after a write."""


class Restless(AssertionError):
    """The operator goes on writing although nothing happens."""


class Simulator(EmbeddedApi):
    """A cluster with one job, and the operator that looks after it."""

    def __init__(self, body: Json, settings: Settings = DEFAULT_SETTINGS, api: ServedAPI = v1.API) -> None:
        super().__init__(FakeClock(MORNING), api)
        self.settings, self.api = settings, api
        self.crash_after: int | None = None
        """The write after which the operator is killed, once."""
        self.is_polite = False
        """Whether programs save their work and end with 0 when they get SIGTERM, instead of being killed."""
        self.writes = 0
        self.body: Json = {}
        """The job as it is stored, or was at last."""
        self.created_pods: list[Pod] = []
        self.clusters: dict[str, object] = {}
        """By the UID of a pod: the part of its TF_CONFIG on which all have to agree; nothing without TF_CONFIG."""
        self.records: list[JobRecord] = []
        self._is_killed = False
        self._births: Counter[str] = Counter()
        self._pods: dict[Stored, Pod] = {}
        self._job: tuple[Json, TrainingJob] | None = None
        self.operator = self._make_operator()
        self.server.store.listeners.append(self._on_commit)
        self.make_namespace(NAMESPACE)
        metadata = {
            name: value for name, value in body["metadata"].items() if name in {"name", "labels", "annotations"}
        }
        version = body["apiVersion"].rpartition("/")[2]
        created = self.send(
            requests.create(structs.replace(api.resource, version=version), NAMESPACE, body | {"metadata": metadata})
        )
        self.key = key_of(created)

    @property
    def job(self) -> TrainingJob:
        if self._job is None or self._job[0] is not self.body:
            self._job = self.body, self.api.read_object(self.body)
        return self._job[1]

    @property
    def record(self) -> JobRecord:
        return self.job.record

    @property
    def status(self) -> Json:
        content: Json = self.body.get("status", {})
        return content

    @property
    def is_deleted(self) -> bool:
        return self.find(self.api.resource, self.key) is None

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @now.setter
    def now(self, moment: datetime) -> None:
        self.clock.set_wall(moment)

    @property
    def pods(self) -> dict[str, Pod]:
        collection = self.server.store.collection(str(resources.PODS))
        read_pods = map(self._read_pod, map(collection.objects.__getitem__, collection.paths()))
        return {pod.name: pod for pod in read_pods}

    @property
    def services(self) -> list[str]:
        return [body["metadata"]["name"] for body in self.of(resources.SERVICES)]

    @property
    def group(self) -> PodGroup | None:
        return self.observe().pod_group

    def condition(self, kind: str) -> Json | None:
        return next((entry for entry in self.status.get("conditions", []) if entry["type"] == kind), None)

    def observe(self) -> Snapshot:
        self.operator.sync()
        stored = self.operator.jobs.get(self.key)
        assert stored
        return self.operator.reconciler.observer.from_caches(stored)

    def look(self) -> Plan:
        """What would be done now; nothing is."""
        return make_plan(self.observe())

    def work(self) -> Result:
        """One reconcile, with caches that have caught up."""
        self.operator.sync()
        result: Result = _run(self.operator.reconciler.reconcile(self.key))
        return result

    def settle(self) -> float | None:
        """Reconcile until there is nothing left to do now, and every terminating pod is gone; when there will be."""
        for _ in range(_MOST_PASSES):
            version, result = self.server.store.version, None
            try:
                result = self.work()
            except Crashed:
                self.restart()
            if self.is_deleted:
                return None
            if result and result.after != 0 and version == self.server.store.version and not self.reap():
                return result.after
        raise Restless(f"{_MOST_PASSES} reconciles and no end: {self.calls[-10:]}")

    def sleep(self, seconds: float) -> None:
        """Let time pass; the operator wakes when it has asked to be woken."""
        until = self.clock.monotonic() + seconds
        wait = self.settle()
        while not self.is_deleted and wait is not None and self.clock.monotonic() + wait <= until:
            self.wait(wait)
            wait = self.settle()
        self.wait(until - self.clock.monotonic())

    def wait(self, seconds: float) -> None:
        """Let time pass in which no operator works."""
        _run(self.clock.advance(seconds))

    def restart(self) -> None:
        """Another operator takes over: it knows what is stored."""
        self._is_killed, self.crash_after = False, None
        self.operator = self._make_operator()

    def edit(self, patch: Json) -> None:
        """Somebody edits the job."""
        self.send(requests.merge_patch(self.api.resource, self.key, patch))

    def tamper(self, patch: Json) -> None:
        """The job is stored like this, whatever its schema says."""
        self.put(self.api.resource, merge(self.body, patch))

    def set_pod(self, name: str, *changes: Any) -> None:  # noqa: ANN401
        """The kubelet writes what these functions of ``pod_status`` make of a pod, one after the other."""
        key = ObjectKey(NAMESPACE, name)
        body = self.find(resources.PODS, key)
        assert body
        for change in changes:
            body = body | {"status": change(body, rfc3339(self.now))}
        patch = pod_status.merge_patch(self.find(resources.PODS, key) or {}, body["status"])
        self.send(requests.merge_patch(resources.PODS, key, patch, subresource="status"))

    def bind(self, name: str) -> None:
        """From now on the pod has a node, and its deletion is graceful."""
        key = ObjectKey(NAMESPACE, name)
        body = self.find(resources.PODS, key)
        if body and "nodeName" not in body["spec"]:
            self.put(resources.PODS, body | {"spec": body["spec"] | {"nodeName": "node-1"}})

    def delete(self, name: str) -> None:
        """Somebody deletes a pod."""
        uid = self.pods[name].uid
        self.send(requests.delete(resources.PODS, ObjectKey(NAMESPACE, name), uid=uid))

    def vanish(self, name: str) -> None:
        """A pod is gone from one moment to the next."""
        self.remove(resources.PODS, ObjectKey(NAMESPACE, name))

    def next_uid(self) -> str:
        """It does not depend on the order of other creates: names are made of UIDs."""
        born = "-".join(self.calls[-1].split(" ")[1:]) if self.calls else "job"
        self._births[born] += 1
        return f"{born}-{self._births[born]}"

    async def on_request(self, request: Request) -> None:
        if self._is_killed:
            raise Crashed
        await super().on_request(request)
        verb, resource, name = (*self.calls[-1].split(" "), "")[:3]
        if (verb, resource) == ("create", "pods"):
            self._check_create(name)
        if (verb, resource) == ("delete", "pods"):
            assert not self.pods[name].is_terminating, "it is deleted twice"

    async def on_reply(self, request: Request, answer: Response | WatchStream) -> Response | WatchStream:
        arrived = await super().on_reply(request, answer)
        if request.verb in _WRITES and answer.code < 300:
            self.writes += 1
            if self.writes == self.crash_after:
                self._is_killed = True
                raise Crashed
        return arrived

    def _check_create(self, name: str) -> None:
        profile = self.job.profile
        place = naming.replica_of(self.key.name, name, profile.names)
        others = [pod.name for pod in self.pods.values() if (pod.type, pod.index) == place and pod.phase not in ENDED]
        assert not [other for other in others if other != name], f"the replica of {name} has a live pod: {others}"
        is_open = self.job.is_isolated and self.find(network_policy.KIND.resource, self.key) is None
        assert not is_open, f"{name} would be without its NetworkPolicy"
        # While it was idle the job had no pods, so their names are free again.
        run = takewhile(lambda record: not record.is_idle, reversed(self.records))
        given_up = {entry.uid for record in run for entry in record.restart_records if entry.replaced}
        names = {pod.name for pod in self.created_pods if pod.uid in given_up}
        assert not (profile.names is NameStyle.GENERATED and name in names), f"pod {name} was given up before"

    def _make_operator(self) -> Harness:
        return Harness(settings=self.settings, api=_eager(self.api), world=self)

    def _on_commit(self, change: Commit) -> None:
        if change.new is None:
            return
        if change.collection == str(self.api.resource):
            self.body = dict(change.new.body)
            self.records.append(self.record)
        elif change.collection == str(resources.PODS) and change.old is None:
            pod = self._read_pod(change.new)
            self.created_pods.append(pod)
            env = change.new.body["spec"]["containers"][0].get("env", [])
            config = next((entry["value"] for entry in env if entry["name"] == "TF_CONFIG"), None)
            if config is not None:
                self.clusters[pod.uid] = msgspec.json.decode(config)["cluster"]

    def _read_pod(self, stored: Stored) -> Pod:
        pod = self._pods.get(stored)
        if pod is None:
            read = self.operator.caches.readers.pod(stored.served("v1", None)[1]).pod
            assert read, "a pod of no replica"
            pod = self._pods[stored] = read
        return pod

    def reap(self) -> bool:
        """The kubelet ends what was stopped, and pods that terminate are gone; whether there was any."""
        pods = self.pods.values()
        stopped = [pod.name for pod in pods if pod.is_stopped and pod.phase not in ENDED]
        for name in stopped:
            self.set_pod(name, pod_status.stopped)
        leaving = [pod for pod in pods if pod.is_terminating]
        for pod in leaving:
            if self.is_polite and pod.phase == "Running":
                self.set_pod(pod.name, pod_status.finished)
            else:
                self.vanish(pod.name)
        return bool(leaving or stopped)

    @property
    def conditions(self) -> str:
        """The conditions in their order; those that are False with a bang."""
        entries = self.status.get("conditions", [])
        return " ".join(f"{'' if entry['status'] == 'True' else '!'}{entry['type']}" for entry in entries)

    @property
    def shown_pods(self) -> str:
        """The pods by their short names, with their phases; ``worker-0#2`` is the second pod of worker 0."""
        born = Counter((pod.type, pod.index) for pod in self.created_pods)
        pods = sorted(self.pods.values(), key=lambda pod: (list(ReplicaType).index(pod.type), pod.index))
        return " ".join(f"{pod.type.label}-{pod.index}#{born[pod.type, pod.index]}:{pod.phase}" for pod in pods)

    @property
    def summary(self) -> Json:
        return {
            "status": _without_times(self.status),
            "restarts": self.record.restarts,
            "disruptions": self.record.disruptions,
            "pods": self.shown_pods,
            "services": sorted(self.services),
            "made": sorted(pod.name for pod in self.created_pods),
            "deleted": self.is_deleted,
        }


def simulate(job: TFJobBuilder, settings: Settings = DEFAULT_SETTINGS) -> Simulator:
    return Simulator(job.body(), settings)


@cache
def _eager(api: ServedAPI) -> ServedAPI:
    """The API with every progress written at once: a life has no moments in which it is collected."""
    return replace(api, progress_waits=lambda _: 0.0)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def _run(work: Any) -> Any:  # noqa: ANN401
    return _loop().run_until_complete(work)


def _without_times(part: object) -> object:
    """Without moments, which a crash may delay, and without the record and UIDs, of which the rest is rendered."""
    if isinstance(part, dict):
        return {name: _without_times(value) for name, value in part.items() if not _is_moment(name)}
    return [_without_times(entry) for entry in part] if isinstance(part, list) else part


def _is_moment(name: str) -> bool:
    return name.lower().endswith("time") or name in {"operator", "restartRecords", "compactRestartRecords", "uid"}
