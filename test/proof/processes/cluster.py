"""What goes on in the cluster without operators: kubelets run pods, people change jobs. Their network has no faults."""

import random
from collections.abc import Callable
from functools import partial

import msgspec

from proof.processes import jobs
from proof.processes.jobs import KINDS, Kind
from support.fake_clock import FakeClock, FakeTimer
from support.pods import pod_status
from support.pods.pod_status import Exit, killed_by
from support.resources import Json
from tf_operator.controller.resources import PODS
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import Commit, path_of
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import ObjectKey, key_of, rfc3339

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)
NAMESPACE = "team"
_IN_PLACE = frozenset({"OnFailure", "Always"})
_OVER = frozenset({"Succeeded", "Failed"})


class Cluster:
    """The server, its store, and time."""

    def __init__(self, server: ApiServer, clock: FakeClock, chance: random.Random) -> None:
        self.server = server
        self.clock = clock
        self.chance = chance
        self._timers: list[FakeTimer] = []

    def send(self, request: Request) -> int:
        """The code of the answer; what a person or kubelet finds changed meanwhile is no matter."""
        answer = self.server.handle(request)
        assert isinstance(answer, Response)
        assert answer.code < 300 or answer.code in {404, 409}, answer.body
        return answer.code

    def of(self, resource: Resource) -> list[Json]:
        collection = self.server.store.collection(str(resource))
        return [dict(collection.objects[path].body) for path in collection.paths()]

    def find(self, resource: Resource, key: ObjectKey) -> Json | None:
        stored = self.server.store.collection(str(resource)).objects.get(path_of(key))
        return dict(stored.body) if stored else None

    def later(self, longest: float, act: Callable[[], object]) -> None:
        """Some time within so many seconds."""
        moment = self.clock.monotonic() + self.chance.uniform(0.05, longest)
        self._timers.append(self.clock.call_at(moment, act))

    def end(self) -> None:
        """Nothing happens any more by itself."""
        for timer in self._timers:
            timer.cancel()


class Kubelets:
    """Run every pod to its end. As long as they are calm, each one to a good one."""

    def __init__(self, cluster: Cluster) -> None:
        self.is_calm = False
        self._cluster = cluster
        cluster.server.store.listeners.append(self._on_commit)

    def _on_commit(self, change: Commit) -> None:
        if change.collection != str(PODS) or change.new is None:
            return
        body = dict(change.new.body)
        act = None
        if change.old is None:
            act = partial(self._bind, body)
        elif "deletionTimestamp" in body["metadata"] and "deletionTimestamp" not in change.old.body["metadata"]:
            act = partial(self._end, body)
        if act:
            self._cluster.later(3.0, act)

    def _bind(self, pod: Json) -> None:
        if self._current(pod):
            path = requests.path_of(PODS, key_of(pod), "binding")
            name = pod["metadata"]["name"]
            target = {"kind": "Node", "name": "node"}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            self._cluster.send(Request("create", "POST", path, body=msgspec.json.encode(body)))
            self._cluster.later(4.0, partial(self._start, pod))

    def _start(self, pod: Json) -> None:
        if not self.is_calm and self._cluster.chance.random() < 0.05:
            self._write(pod, partial(pod_status.rejected, reason="OutOfcpu", message="no room"))
        elif self._write(pod, pod_status.running):
            self._cluster.later(20.0, partial(self._go_on, pod))

    def _go_on(self, pod: Json) -> None:
        """Something happens to a pod that runs."""
        chance, policy = self._cluster.chance, pod["spec"]["restartPolicy"]
        is_server = "-ps-" in pod["metadata"]["name"]
        luck = 1.0 if self.is_calm else chance.random()
        code = chance.choice([1, 137, 143])
        if luck < 0.3:
            if policy in _IN_PLACE:
                self._write(pod, partial(pod_status.restarted, how=Exit(code)))
                self._cluster.later(20.0, partial(self._go_on, pod))
            else:
                self._write(pod, partial(pod_status.finished, how=Exit(code)))
        elif luck < 0.4 and self._is_whole(pod):
            self._write(pod, pod_status.evicted)
        elif luck < 0.5 and self._is_whole(pod):
            self._drain(pod)
        elif not is_server and policy != "Always":
            self._write(pod, pod_status.finished)
        elif not self.is_calm:
            self._cluster.later(20.0, partial(self._go_on, pod))

    def _is_whole(self, pod: Json) -> bool:
        current = self._current(pod)
        return current is not None and not has_restarted(current)

    def _drain(self, pod: Json) -> None:
        why = partial(pod_status.disrupted, reason="EvictionByEvictionAPI", message="Eviction API: evicting")
        if self._write(pod, why):
            self._cluster.send(requests.delete(PODS, key_of(pod), uid=pod["metadata"]["uid"]))

    def _end(self, pod: Json) -> None:
        """The program gets SIGTERM, and then the pod is gone; the status of its end may come before."""
        current = self._cluster.find(PODS, key_of(pod))
        if current is None or current["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        if current["status"].get("phase") == "Running" and self._cluster.chance.random() < 0.5:
            self._write(pod, partial(pod_status.finished, how=killed_by(15)), is_terminating=True)
        self._cluster.send(requests.delete(PODS, key_of(pod), uid=pod["metadata"]["uid"], grace_seconds=0))

    def _current(self, pod: Json, *, is_terminating: bool = False) -> Json | None:
        """The pod as it is now, unless it is over."""
        current = self._cluster.find(PODS, key_of(pod))
        if current is None or current["metadata"]["uid"] != pod["metadata"]["uid"]:
            return None
        is_over = current["status"].get("phase") in _OVER
        return None if is_over or ("deletionTimestamp" in current["metadata"]) != is_terminating else current

    def _write(self, pod: Json, status: Callable[[Json, str], Json], *, is_terminating: bool = False) -> bool:
        """Whether the pod is there and goes on, and has this status now."""
        current = self._current(pod, is_terminating=is_terminating)
        if current is None:
            return False
        patch = pod_status.merge_patch(current, status(current, rfc3339(self._cluster.clock.now())))
        return self._cluster.send(requests.merge_patch(PODS, key_of(pod), patch, subresource="status")) < 300


def has_restarted(pod: Json) -> bool:
    """Whether its containers have, in place. If it was taken away then, nobody could say whether that was counted."""
    return any(entry["restartCount"] for entry in pod["status"].get("containerStatuses", ()))


class People:
    """Whoever has jobs. As long as they are calm they suspend none."""

    def __init__(self, cluster: Cluster) -> None:
        self.is_calm = False
        self._cluster = cluster

    def begin(self, seconds: float) -> None:
        """Submit two or three jobs, and change them within so many seconds."""
        chance = self._cluster.chance
        for number in range(chance.randint(2, 3)):
            kind = chance.choice((KINDS[0], *KINDS))
            name = f"job-{number}"
            self._cluster.later(seconds / 3, partial(self._submit, kind, name))
            for _ in range(chance.randint(0, 3)):
                self._cluster.later(seconds, partial(self._change, kind, ObjectKey(NAMESPACE, name)))

    def calm_down(self) -> None:
        self.is_calm = True
        self._resume_all()

    def _resume_all(self) -> None:
        for kind in KINDS:
            if kind.suspend:
                for body in self._cluster.of(kind.resource):
                    self._edit(kind, key_of(body), kind.suspend(False))

    def delete_all(self) -> None:
        for kind in KINDS:
            for body in self._cluster.of(kind.resource):
                self._delete(kind, key_of(body))

    def _submit(self, kind: Kind, name: str) -> None:
        self._cluster.send(requests.create(kind.resource, NAMESPACE, kind.make(name, self._cluster.chance)))
        if self.is_calm:
            self._resume_all()

    def _change(self, kind: Kind, key: ObjectKey) -> None:
        chance = self._cluster.chance
        act = chance.choice([self._suspend_or_resume, self._scale, self._delete_and_submit, self._delete_pod])
        if body := self._cluster.find(kind.resource, key):
            act(kind, body)

    def _suspend_or_resume(self, kind: Kind, body: Json) -> None:
        if kind.suspend and not jobs.has_ended(body, kind):
            self._edit(kind, key_of(body), kind.suspend(self._cluster.chance.random() < 0.5))

    def _scale(self, kind: Kind, body: Json) -> None:
        if body["spec"].get("enableDynamicWorker"):
            self._edit(
                kind, key_of(body), {"tfReplicaSpecs": {"Worker": {"replicas": self._cluster.chance.randint(1, 3)}}}
            )

    def _delete_and_submit(self, kind: Kind, body: Json) -> None:
        """Delete the job, and perhaps submit another one under its name, at once or soon."""
        self._delete(kind, key_of(body))
        if self._cluster.chance.random() < 0.7:
            self._cluster.later(3.0, partial(self._submit, kind, body["metadata"]["name"]))

    def _delete_pod(self, kind: Kind, body: Json) -> None:
        uid = body["metadata"]["uid"]
        pods = [
            pod
            for pod in self._cluster.of(PODS)
            if pod["status"].get("phase") == "Running"
            and pod["metadata"]["ownerReferences"][0]["uid"] == uid
            and not has_restarted(pod)
        ]
        if pods:
            pod = self._cluster.chance.choice(pods)
            self._cluster.send(requests.delete(PODS, key_of(pod), uid=pod["metadata"]["uid"]))

    def _edit(self, kind: Kind, key: ObjectKey, spec: Json) -> None:
        self._cluster.send(requests.merge_patch(kind.resource, key, {"spec": spec}))

    def _delete(self, kind: Kind, key: ObjectKey) -> None:
        body = self._cluster.find(kind.resource, key)
        if body:
            self._cluster.send(requests.delete(kind.resource, key, uid=body["metadata"]["uid"]))
