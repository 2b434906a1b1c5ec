"""The GPUs of this machine, through the driver's own libraries."""

import subprocess
import sys

import yaml

from support.settle import eventually
from tf_operator.local.node.gpus import devices

PRINT_DEVICES = """
import ctypes, uuid
cuda = ctypes.CDLL("libcuda.so.1")
def check(code):
    assert code == 0, code
count = ctypes.c_int()
if (code := cuda.cuInit(0)) != 100:  # CUDA_ERROR_NO_DEVICE
    check(code)
    check(cuda.cuDeviceGetCount(ctypes.byref(count)))
names = []
for index in range(count.value):
    device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    check(cuda.cuDeviceGet(ctypes.byref(device), index))
    check(cuda.cuDeviceGetUuid(raw, device))
    names.append(f"GPU-{uuid.UUID(bytes=bytes(raw))}")
print("sees", ",".join(names), flush=True)
"""
USE_ONE = """
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(512 << 20)))
print("holds", flush=True)
import pathlib, time
while not pathlib.Path(END).exists():
    time.sleep(0.05)
"""
WHOLE = [device for device in devices.find() if device.resource == devices.GPU]
MEBIBYTE = 1 << 20


def job(script, gpus):
    limits = {"limits": {devices.GPU: gpus}} if gpus else {}
    container = {"name": "tensorflow", "image": "none", "command": [sys.executable, "-c", script], "resources": limits}
    worker = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"}}
    return yaml.dump({**body, "spec": {"tfReplicaSpecs": {"Worker": worker}}})


def nvidia_smi(field):
    command = ["nvidia-smi", f"--query-gpu=uuid,{field}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {uuid: float(value) for uuid, value in (line.split(", ") for line in lines)}


async def test_a_program_sees_exactly_the_gpus_that_it_was_given(machine):
    code, output, errors = await machine.run("run", "-", manifest=job(PRINT_DEVICES, len(WHOLE)))
    assert code == 0, errors
    assert output == f"sees {','.join(device.uuid for device in WHOLE)}\n"


async def test_a_program_without_a_limit_sees_none(machine):
    code, output, errors = await machine.run("run", "-", manifest=job(PRINT_DEVICES, 0))
    assert code == 0, errors
    assert output.strip() == "sees"


async def test_a_second_program_waits_and_then_runs_and_figures_are_those_of_nvidia_smi(machine, tmp_path):
    idle = devices.loads()
    script = PRINT_DEVICES + USE_ONE.replace("END", repr(str(tmp_path / "end")))
    first = await machine.start("run", "-", manifest=job(script, len(WHOLE)))
    assert first.stdout is not None
    assert b"sees" in await first.stdout.readline()
    assert b"holds" in await first.stdout.readline()
    second = await machine.start("run", "-", manifest=job(PRINT_DEVICES, 1))
    assert second.stderr is not None
    sentence = f"worker-0: waits: Unschedulable: 0/1 nodes are available: 1 Insufficient {devices.GPU}.\n"
    while (line := (await second.stderr.readline()).decode()) != sentence:
        assert line, "it has not waited"

    def compare():
        listed, own = nvidia_smi("memory.used"), devices.loads()
        assert all(abs(listed[device.uuid] - own[device.uuid].memory / MEBIBYTE) <= 1 for device in WHOLE)
        return own[WHOLE[-1].uuid].memory - idle[WHOLE[-1].uuid].memory >= 512 * MEBIBYTE

    await eventually(compare)
    (tmp_path / "end").touch()
    output, _ = await second.communicate()
    assert output.decode() == f"sees {WHOLE[0].uuid}\n"
    await first.communicate()
    assert first.returncode == 0
