"""The Node of this machine: what it says it has."""

from pathlib import Path

from tf_operator.local.node.gpus.devices import Device
from tf_operator.local.node.gpus.gpu_settings import GpuSettings
from tf_operator.local.node.machine import Capacity, Interpreter
from tf_operator.local.node.node_parts import NodeSettings
from tf_operator.local.node.registration import node_status

CAPACITY = Capacity(8, 16 << 30)
OWN = {"cpu": "8", "memory": "16777216Ki", "pods": "10000"}
GPUS = (
    Device("a", "0", "NVIDIA L4"),
    Device("b", "1", "NVIDIA L4"),
    Device("c", "2:0", "NVIDIA A100 MIG 1g.5gb", "nvidia.com/mig-1g.5gb"),
)


def amounts(usable, stored=None):
    gpus = None if usable is None else GpuSettings(usable, Path("gpus"))
    settings = NodeSettings(Path("node"), Interpreter("python", {}), CAPACITY, gpus=gpus)
    status = node_status(settings, "now", {"status": {"capacity": stored or {}}})
    assert status["capacity"] == status["allocatable"]
    return status["capacity"]


def test_gpus_and_their_instances_are_what_a_node_can_allocate():
    assert amounts(GPUS) == OWN | {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "1"}


def test_a_node_without_gpus_names_none():
    assert amounts(None) == amounts(()) == OWN


def test_gpus_that_an_earlier_run_had_are_taken_out():
    assert amounts(GPUS[:1], OWN | {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.5gb": "7"}) == OWN | {
        "nvidia.com/gpu": "1",
        "nvidia.com/mig-1g.5gb": None,
    }
