"""Which GPUs there are, and which of them may be used."""

import subprocess
import sys
from dataclasses import replace

import pytest

from support.partners import nvml
from tf_operator.local.node.gpus import devices
from tf_operator.local.node.gpus.devices import Device, GpuError

FOUR = tuple(Device(nvml.uuid_of(index), str(index), "NVIDIA L4") for index in range(4))
INSTANCES = (
    Device("MIG-a", "0:0", "NVIDIA A100 MIG 1g.5gb", "nvidia.com/mig-1g.5gb"),
    Device("MIG-b", "0:1", "NVIDIA A100 MIG 1g.5gb", "nvidia.com/mig-1g.5gb"),
    Device("GPU-c", "1", "NVIDIA A100"),
)
PRINT = """
from tf_operator.local.node.gpus import devices
devices.ANSWERED_WITHIN = 60.0
try:
    print([(device.index, device.uuid, device.name, device.resource) for device in devices.find()])
    print([(load.used, load.memory, load.total_memory) for load in devices.loads().values()])
except devices.GpuError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return nvml.install(tmp_path_factory.mktemp("nvml"))


def output(program, **variables):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=variables
    ).stdout


def test_the_driver_names_gpus_and_what_they_do(driver):
    lines = output(PRINT, **driver.variables).splitlines()
    assert lines[0] == str([(gpu.index, gpu.uuid, gpu.name, gpu.resource) for gpu in FOUR])
    assert lines[1] == str([((71 - index) / 100, nvml.USED_MEMORY, nvml.MEMORY) for index in range(4)])


def test_an_old_driver_counts_its_own_memory_too(driver):
    lines = output(PRINT, NVML_OLD="1", **replace(driver, count=1).variables).splitlines()
    assert lines[1] == str([(0.71, nvml.USED_MEMORY + nvml.RESERVED_MEMORY, nvml.MEMORY)])


def test_a_partitioned_gpu_counts_as_its_instances(driver):
    partitioned = replace(driver, count=2, instances=("1g.5gb", "", "2g.10gb+me"))
    lines = output(PRINT, **partitioned.variables).splitlines()
    first, second, whole = eval(lines[0])
    assert first[0] == "0:0"
    assert first[2:] == ("NVIDIA A100 MIG 1g.5gb", "nvidia.com/mig-1g.5gb")
    assert second[0] == "0:2"
    assert second[3] == "nvidia.com/mig-2g.10gb.me"
    assert whole == ("1", nvml.uuid_of(1), "NVIDIA L4", "nvidia.com/gpu")
    assert lines[1].startswith("[(None, ")


def test_without_a_driver_there_are_none_and_the_binding_is_not_imported():
    assert output(f"{PRINT}\nimport sys\nprint('pynvml' in sys.modules)") == "[]\n[]\nFalse\n"


def test_a_driver_that_does_not_answer_keeps_nobody_waiting(driver):
    text = output(PRINT.replace("60.0", "0.1"), **replace(driver, is_silent=True).variables)
    assert text == "NVIDIA's driver has not answered within 0.1 s\n"


def test_without_the_binding_the_package_is_named(driver):
    text = output(f"import sys\nsys.modules['pynvml'] = None\n{PRINT}", **driver.variables)
    assert text == "GPUs are found by the package nvidia-ml-py: pip install 'tf-operator[local]'\n"


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        (None, "0123"),
        ("", ""),
        ("2,0", "20"),
        (" 1 , 3", "13"),
        ("1,1", "1"),
        ("1,-1,2", "1"),
        ("1,7,2", "1"),
        ("GPU-00000002", "2"),
        ("GPU-0000000", ""),
        ("gpu", ""),
        ("²", ""),
    ],
)
def test_the_shells_variable_leaves_what_cuda_would(text, indexes):
    assert "".join(device.index for device in devices.visible(FOUR, text)) == indexes


def test_a_number_names_all_instances_of_a_gpu():
    assert devices.visible(INSTANCES, "0") == INSTANCES[:2]
    assert devices.visible(INSTANCES, "MIG-b,1") == INSTANCES[1:]


@pytest.mark.parametrize(
    ("choice", "indexes"),
    [("", "0123"), ("none", ""), ("0", ""), ("2", "01"), ("4", "0123"), ("GPU-00000003,GPU-00000001", "31")],
)
def test_gpus_are_selected_by_number_or_uuid(choice, indexes):
    assert "".join(device.index for device in devices.selected(FOUR, choice)) == indexes


@pytest.mark.parametrize(
    ("choice", "machine", "problem"),
    [
        ("5", FOUR, "there are 4 GPUs (NVIDIA L4)"),
        ("2", FOUR[:1], "there is 1 GPU (NVIDIA L4)"),
        ("1", (), "there is not a GPU that can be used here"),
        ("GPU-0000000", FOUR, "GPU-0000000 is not a GPU that can be used here"),
        ("GPU-00000001,", FOUR, "an empty entry is not a GPU"),
        ("all", FOUR, "must be a number, none, or UUIDs as nvidia-smi -L lists them"),
        ("-1", FOUR, "-1 is not a GPU"),
    ],
)
def test_a_selection_that_is_not_there_is_an_error(choice, machine, problem):
    with pytest.raises(GpuError) as raised:
        devices.selected(machine, choice)
    assert problem in str(raised.value)
    assert str(raised.value).startswith(f"--gpus {choice}: ")
