"""Which GPUs a pod gets, and which of them each container."""

import pytest

from tf_operator.local.node.gpus import assignment
from tf_operator.local.node.gpus.devices import Device
from tf_operator.local.node.pod import pod_of

MIG = "nvidia.com/mig-1g.5gb"
GPUS = tuple(Device(f"GPU-{index}", str(index), "NVIDIA L4") for index in range(4))
MIXED = (*GPUS[:2], Device("MIG-0", "2:0", "NVIDIA A100 MIG 1g.5gb", MIG))


def container(name, number=None, resource="nvidia.com/gpu", **fields):
    limits = {} if number is None else {resource: number}
    return {"name": name, "resources": {"limits": {"cpu": 1, **limits}}, **fields}


def pod(*mains, inits=()):
    return pod_of({"metadata": {}, "spec": {"containers": list(mains), "initContainers": list(inits)}})


def sidecar(name, number):
    return container(name, number, restartPolicy="Always")


@pytest.mark.parametrize(
    ("of_pod", "needs"),
    [
        (pod(container("a")), 0),
        (pod(container("a", 0)), 0),
        (pod(container("a", "2")), 2),
        (pod(container("a", 1), container("b", 2)), 3),
        (pod(container("a", 1), inits=[container("i", 3)]), 3),
        (pod(container("a", 2), inits=[sidecar("s", 1)]), 3),
        (pod(container("a", 1), inits=[sidecar("s", 1), container("i", 3)]), 4),
        (pod(container("a", 1), inits=[container("i", 3), sidecar("s", 1)]), 3),
    ],
)
def test_a_pod_needs_what_kube_scheduler_counts(of_pod, needs):
    assert assignment.needs_of(of_pod) == ({"nvidia.com/gpu": needs} if needs else {})


def test_other_resources_are_no_gpus():
    assert assignment.needs_of(pod(container("a", 1, "amd.com/gpu"), container("b", 1, "nvidia.com/gpuother"))) == {}


def test_containers_beside_each_other_share_none_and_init_containers_come_before():
    of_pod = pod(container("a", 1), container("b", 1), inits=[container("i", 2), sidecar("s", 1), container("j", 2)])
    held = GPUS[:3]
    devices_by_container = {name: assignment.of_container(of_pod, name, held) for name in ("i", "s", "j", "a", "b")}
    assert {name: "".join(device.index for device in own) for name, own in devices_by_container.items()} == {
        "i": "01",
        "s": "0",
        "j": "12",
        "a": "1",
        "b": "2",
    }


def test_a_container_without_a_limit_sees_none():
    of_pod = pod(container("a", 1), container("b"))
    assert assignment.of_container(of_pod, "b", GPUS[:1]) == ()


def test_the_first_free_gpus_are_taken():
    assert assignment.pick({"nvidia.com/gpu": 2}, GPUS, {"GPU-0": 1}, shares=False) == GPUS[1:3]
    assert assignment.pick({"nvidia.com/gpu": 4}, GPUS, {"GPU-0": 1}, shares=False) == ()


def test_a_pod_gets_all_that_it_needs_or_nothing():
    needs = {"nvidia.com/gpu": 1, MIG: 1}
    assert assignment.pick(needs, MIXED, {}, shares=False) == (MIXED[0], MIXED[2])
    assert assignment.pick(needs, MIXED, {"MIG-0": 1}, shares=False) == ()


def test_shared_gpus_go_to_those_that_the_fewest_have():
    users = {"GPU-0": 2, "GPU-1": 1, "GPU-2": 1, "GPU-3": 2}
    assert assignment.pick({"nvidia.com/gpu": 1}, GPUS, users, shares=True) == GPUS[1:2]
    assert set(assignment.pick({"nvidia.com/gpu": 9}, GPUS, users, shares=True)) == set(GPUS)
    assert assignment.pick({MIG: 1}, GPUS, users, shares=True) == ()


def test_a_pod_that_waits_is_refused_in_the_words_of_kube_scheduler():
    sentence = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert assignment.refusal({"nvidia.com/gpu": 1}, GPUS, {gpu.uuid: 1 for gpu in GPUS}) == sentence
    both = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu, 1 Insufficient nvidia.com/mig-1g.5gb."
    assert assignment.refusal({MIG: 2, "nvidia.com/gpu": 3}, MIXED, {}) == both


def test_a_pod_that_was_bound_without_room_is_rejected_in_the_words_of_a_kubelet():
    reason, message = assignment.rejection({"nvidia.com/gpu": 2}, GPUS, {gpu.uuid: 1 for gpu in GPUS[:3]})
    assert reason == "OutOfnvidia.com/gpu"
    assert message == "Node didn't have enough resource: nvidia.com/gpu, requested: 2, used: 3, capacity: 4"


def test_pods_come_by_priority_and_then_by_age():
    def of(priority, created):
        return pod_of({"metadata": {"creationTimestamp": created}, "spec": {"priority": priority}})

    first, second, third = (
        of(5, "2026-01-02T00:00:00Z"),
        of(None, "2026-01-01T00:00:00Z"),
        of(0, "2026-01-03T00:00:00Z"),
    )
    assert sorted((third, second, first), key=assignment.rank) == [first, second, third]
