"""GPUs are given to one pod at a time, whoever is killed and when."""

import os
import random
from collections import Counter
from itertools import count

import pytest

from support.fake_clock import FakeClock
from tf_operator.local.node.gpus.devices import Device, Load
from tf_operator.local.node.gpus.journal import GpuJournal
from tf_operator.local.node.gpus.keeper import GpuKeeper
from tf_operator.local.node.pod import pod_of

GPUS = tuple(Device(f"GPU-{index}", str(index), "NVIDIA L4") for index in range(4))
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
JOBS = 200
MOMENTS = ("before the journal", "after the journal", "before the binding", "after the binding")


class Killed(BaseException):
    """The process of a node is no more."""


class FailingJournal(GpuJournal):
    kills = ""
    """Where its node is killed next."""

    def write(self, holdings):
        if self.kills == "before the journal":
            raise Killed
        super().write(holdings)
        if self.kills == "after the journal":
            raise Killed


class Node:
    """Pods and processes of one node, as they are whether it lives or not."""

    def __init__(self, folder, name, *, shares=False):
        self.pods, self.processes, self.refused = {}, {}, {}
        """By UID: pods as stored, the GPUs that the processes of each use, why it waits."""
        self._folder, self._name, self._shares = folder, name, shares
        self.numbers = count(1)
        self.kills = ""
        """Where it is killed next."""
        self.machine = [self]
        self.start()

    def start(self):
        self.journal = FailingJournal(self._folder, self._folder / self._name, self._has_any)
        self.keeper = GpuKeeper(GPUS, self.journal, FakeClock(), shares=self._shares)
        self.keeper.open()
        for pod in self.pods.values():
            if pod.spec.node_name and pod.uid in self.active():
                self._take(pod)
        self.keeper.forget(pod.uid for pod in self.waiting())

    def die(self):
        """As the kernel ends a process: locks are free, files stay. Its programs are killed, but not at once."""
        os.close(self.journal._running)
        self.journal._running = -1

    def add(self, number, *, priority=0, created=""):
        uid = f"{self._name}-{next(self.numbers)}"
        self._store(uid, number, priority, created or f"{next(self.numbers):05}")
        return uid

    def give(self):
        self.refused.clear()
        self.keeper.give(self)

    def begin(self, uid):
        """A bound pod starts its program."""
        self.processes[uid] = {device.uuid for device in self.keeper.of(self.pods[uid])}

    def end(self, uid, *, exits=True):
        """The main process of a pod ends; what it has started may still run."""
        pod = self.pods[uid]
        self.pods[uid] = pod_of({**self._body(pod), "status": {"phase": "Succeeded"}})
        if exits:
            self.processes.pop(uid, None)

    def runs(self, uid):
        return self.pods[uid].spec.node_name and uid in self.active()

    # --- As the keeper calls it ---

    def waiting(self):
        return [pod for pod in self.pods.values() if not pod.spec.node_name and pod.uid in self.active()]

    def refusal(self, pod):
        return ""

    def active(self):
        return {uid for uid, pod in self.pods.items() if pod.status.get("phase") not in ("Succeeded", "Failed")}

    def on_assigned(self, pod):
        if self.kills == "before the binding":
            raise Killed
        body = self._body(pod)
        self.pods[pod.uid] = pod_of({**body, "spec": {**body["spec"], "nodeName": "local"}})
        if self.kills == "after the binding":
            raise Killed
        self._take(self.pods[pod.uid])

    def on_refused(self, pod, reason):
        self.refused[pod.uid] = reason

    def _take(self, pod):
        if self.keeper.adopt(pod):
            self.pods[pod.uid] = pod_of({**self._body(pod), "status": {"phase": "Failed"}})

    def _has_any(self, uid, sessions):
        return any(uid in node.processes for node in self.machine)

    def _store(self, uid, number, priority, created):
        limits = {"limits": {"nvidia.com/gpu": number}}
        metadata = {"name": uid, "namespace": "default", "uid": uid, "creationTimestamp": created}
        spec = {"containers": [{"name": "main", "resources": limits}], "priority": priority}
        self.pods[uid] = pod_of({"metadata": metadata, "spec": spec})

    def _body(self, pod):
        metadata = {"name": pod.uid, "namespace": "default", "uid": pod.uid}
        metadata["creationTimestamp"] = pod.metadata.creation_timestamp
        limits = {"limits": pod.containers[0].spec.resources.limits}
        spec = {"containers": [{"name": "main", "resources": limits}], "priority": pod.spec.priority}
        return {"metadata": metadata, "spec": spec | {"nodeName": pod.spec.node_name}, "status": pod.status}


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path / "gpus", "node")


def test_pods_wait_for_gpus_and_get_them_by_priority_and_age(node):
    first = node.add(3)
    node.give()
    old, young, urgent = node.add(2, created="1"), node.add(1, created="2"), node.add(2, priority=7, created="3")
    small = node.add(1, created="4")
    node.give()
    assert [uid for uid in (first, young, small) if node.runs(uid)] == [first, young]
    assert node.refused == {old: FULL, urgent: FULL, small: FULL}
    node.end(first)
    node.give()
    assert node.runs(urgent)
    assert node.refused == {old: FULL}
    assert node.runs(small)


def test_gpus_are_free_when_the_last_process_is_gone_not_when_the_pod_has_ended(node):
    first = node.add(4)
    node.give()
    node.begin(first)
    node.end(first, exits=False)
    second = node.add(1)
    node.give()
    assert node.refused == {second: FULL}
    del node.processes[first]
    node.give()
    assert node.runs(second)


def test_what_a_container_uses_of_its_gpus_is_said_together_and_of_each(node):
    first, second = node.add(1), node.add(2)
    node.give()
    loads = {device.uuid: Load(0.2 * number, number << 20, 24 << 30) for number, device in enumerate(GPUS)}
    usage = node.keeper.usage(node.pods[second], "main", loads)

    both = {"nvidia.com/gpu": "600m", "nvidia.com/gpu-memory": "3072Ki"}
    totals = {f"nvidia.com/gpu-memory-total.{number}": "25165824Ki" for number in (1, 2)}
    one = {"nvidia.com/gpu.1": "200m", "nvidia.com/gpu-memory.1": "1024Ki"}
    other = {"nvidia.com/gpu.2": "400m", "nvidia.com/gpu-memory.2": "2048Ki"}
    assert usage == both | totals | one | other
    assert node.keeper.usage(node.pods[first], "main", {}) == {}


def test_an_instance_of_a_gpu_has_memory_and_no_time(node):
    node.keeper.usable = (Device("MIG-1", "0:1", "NVIDIA A100 MIG 1g.10gb"),)
    uid = node.add(1)
    node.give()
    usage = node.keeper.usage(node.pods[uid], "main", {"MIG-1": Load(None, 2048, 4096)})
    assert usage == {
        "nvidia.com/gpu-memory": "2Ki",
        "nvidia.com/gpu-memory.0-1": "2Ki",
        "nvidia.com/gpu-memory-total.0-1": "4Ki",
    }


def test_a_node_that_comes_back_gives_its_pods_what_they_had(node):
    first, second = node.add(1), node.add(2)
    node.give()
    node.end(first)
    node.give()
    had = node.keeper.of(node.pods[second])
    node.die()
    node.start()
    third = node.add(2)
    node.give()
    assert node.keeper.of(node.pods[second]) == had == GPUS[1:3]
    assert node.keeper.of(node.pods[third]) == (GPUS[0], GPUS[3])


def test_two_commands_do_not_give_the_same_gpu(node, tmp_path):
    other = Node(tmp_path / "gpus", "other")
    first, second = node.add(3), other.add(2)
    node.give()
    other.give()
    assert other.refused == {second: FULL}
    node.end(first)
    node.give()
    other.give()
    assert other.runs(second)


@pytest.mark.parametrize("has_processes", [True, False])
def test_what_a_dead_command_had_is_free_once_its_processes_are_gone(node, tmp_path, has_processes):
    other = Node(tmp_path / "gpus", "other")
    node.machine = other.machine = [node, other]
    first = other.add(4)
    other.give()
    other.begin(first)
    other.die()
    if not has_processes:
        other.processes.clear()
    second = node.add(1)
    node.give()
    assert bool(node.runs(second)) is not has_processes


def test_a_node_that_comes_back_leaves_alone_what_another_has_taken_meanwhile(node, tmp_path):
    """Its file is still there, because a process of another pod is left."""
    other = Node(tmp_path / "gpus", "other")
    node.machine = other.machine = [node, other]
    ended, idle = node.add(1), node.add(3)
    node.give()
    node.begin(ended)
    node.end(ended, exits=False)
    node.die()
    taken = other.add(3)
    other.give()
    assert other.runs(taken)
    node.start()
    assert not node.runs(idle)
    assert node.keeper.of(node.pods[ended]) == GPUS[:1]


def test_a_command_that_has_ended_leaves_only_the_lock_of_all(node, tmp_path):
    uid = node.add(2)
    node.give()
    node.end(uid)
    node.keeper.close()
    assert [file.name for file in (tmp_path / "gpus").iterdir()] == ["lock"]


def test_shared_gpus_are_given_to_several_pods_evenly(tmp_path):
    node = Node(tmp_path / "gpus", "node", shares=True)
    pods = [node.add(1) for _ in range(8)]
    node.give()
    assert Counter(device.index for uid in pods for device in node.keeper.of(node.pods[uid])) == dict.fromkeys(
        "0123", 2
    )
    variables = node.keeper.variables(node.pods[pods[0]], node.pods[pods[0]].containers[0])
    assert variables["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


@pytest.mark.parametrize(
    ("number", "own", "visible", "runtime"),
    [
        (0, None, "", "void"),
        (2, None, "GPU-0,GPU-1", "GPU-0,GPU-1"),
        (2, "1", "GPU-1", "GPU-1"),
        (2, "1,0", "GPU-1,GPU-0", "GPU-1,GPU-0"),
        (2, "3", "", "void"),
        (1, "GPU-3", "", "void"),
    ],
)
def test_a_container_sees_its_own_gpus_and_chooses_among_these(node, number, own, visible, runtime):
    env = [] if own is None else [{"name": "CUDA_VISIBLE_DEVICES", "value": own}]
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": number}}, "env": env}
    pod = pod_of({"metadata": {"uid": "u"}, "spec": {"containers": [container]}})
    if number:
        assert node.keeper.assign(pod) == ""
    assert node.keeper.variables(pod, pod.containers[0]) == {
        "CUDA_VISIBLE_DEVICES": visible,
        "NVIDIA_VISIBLE_DEVICES": runtime,
    }


def test_a_pod_that_was_bound_without_room_is_rejected_as_by_a_kubelet(node):
    node.add(4)
    node.give()
    pod = pod_of({"metadata": {"uid": "u"}, "spec": node._body(node.pods[node.add(1)])["spec"]})
    message = "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 4, capacity: 4"
    assert node.keeper.adopt(pod) == ("OutOfnvidia.com/gpu", message)


def test_a_full_disk_keeps_a_bound_pod_from_running(node, monkeypatch):
    pod = pod_of({"metadata": {"uid": "u"}, "spec": node._body(node.pods[node.add(1)])["spec"]})

    def write(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(node.journal, "write", write)
    assert node.keeper.adopt(pod)[0] == "UnexpectedAdmissionError"


def test_no_gpu_has_two_pods_and_none_is_lost_whoever_is_killed(tmp_path):
    """200 jobs of two commands on one machine, each of which is killed at any of its steps."""
    dice, kills = random.Random(7), Counter()
    nodes = [Node(tmp_path / "gpus", name) for name in ("one", "two")]
    for node in nodes:
        node.machine = nodes
    left = JOBS
    while left or any(node.active() or node.processes for node in nodes):
        node, other = dice.sample(nodes, 2)
        if left and dice.random() < 0.2:
            left -= 1
            for _ in range(dice.randint(1, 2)):
                node.add(dice.choice((1, 1, 2, 3)), priority=dice.choice((0, 0, 5)))
        node.kills = node.journal.kills = dice.choice((*[""] * 6, *MOMENTS))
        try:
            act(node, dice)
        except Killed:
            kills[node.kills] += 1
            node.die()
            other.kills = other.journal.kills = ""
            act(other, dice)
            check(nodes)
            if dice.random() < 0.5:
                node.processes.clear()  # all but what cannot be killed
            node.start()
        check(nodes)
        assert sum(kills.values()) < 2000, "some pods never get their GPUs"
    assert min(kills[moment] for moment in MOMENTS) > 5
    for node in nodes:
        node.kills = node.journal.kills = ""
        node.give()
    last = nodes[0].add(4)
    nodes[0].give()
    assert nodes[0].runs(last)


def act(node, dice):
    """One thing that happens to a node."""
    node.give()
    bound = [uid for uid in node.active() if node.runs(uid)]
    for uid in bound:
        if uid not in node.processes and dice.random() < 0.7:
            node.begin(uid)
        elif dice.random() < 0.3:
            node.end(uid, exits=dice.random() < 0.5)
    for uid in node.pods.keys() - node.active():
        if uid not in node.processes:
            del node.pods[uid]
        elif dice.random() < 0.5:
            del node.processes[uid]


def check(nodes):
    """No GPU is used by two pods, and each pod that runs has as many as it needs."""
    users = Counter(uuid for node in nodes for gpus in node.processes.values() for uuid in gpus)
    assert max(users.values(), default=0) <= 1, users
    for node in nodes:
        for uid, gpus in node.processes.items():
            assert len(gpus) == node.pods[uid].containers[0].spec.resources.limits["nvidia.com/gpu"]
