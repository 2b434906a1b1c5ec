"""The GPUs of this machine, as NVIDIA's driver names them, and those of them that pods may have.

NVML, the driver's library, answers through NVIDIA's own binding, which is imported only where the library is there. A
driver that does not answer must not keep a job from starting, so all questions are asked in a thread that is left
behind when it takes too long.

A GPU that is partitioned (MIG) counts as its instances: none of it can be used as a whole.
"""

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final, TypeVar

GPU: Final = "nvidia.com/gpu"
MIG: Final = "nvidia.com/mig-"
"""Begins the resource of an instance; its profile follows."""
GPU_MEMORY: Final = "nvidia.com/gpu-memory"
"""Of metrics, beside ``GPU``. The same of one device has its index at the end."""
GPU_MEMORY_TOTAL: Final = "nvidia.com/gpu-memory-total"
NONE: Final = "none"
VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
ANSWERED_WITHIN: Final = 2.0
_LIBRARY: Final = "libnvidia-ml.so.1"
_Answer = TypeVar("_Answer")
_PROFILE: Final = re.compile(r" MIG (\S+)$")


class GpuError(Exception):
    """The GPUs cannot be used as they should be; the message says why."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or an instance of one that is partitioned."""

    uuid: str
    index: str
    """Of the GPU, as nvidia-smi counts; ``0:1`` is the second instance of the first one."""
    name: str
    resource: str = GPU


@dataclass(frozen=True, slots=True)
class Load:
    """What a device does at the moment."""

    used: float | None
    """Parts of its time; ``None`` for an instance, of which the driver does not know."""
    memory: int
    """Bytes in use."""
    total_memory: int


def is_gpu(resource: str) -> bool:
    return resource == GPU or resource.startswith(MIG)


def find() -> tuple[Device, ...]:
    """All GPUs of this machine; none without a driver. ``GpuError`` if there is one, and it does not say."""
    return _answer(lambda nvml: tuple(device for device, _ in _devices(nvml)), ())


def loads() -> dict[str, Load]:
    """What each device does, by its UUID; otherwise as ``find``."""
    return _answer(lambda nvml: {device.uuid: _load(nvml, handle) for device, handle in _devices(nvml)}, {})


def visible(devices: Sequence[Device], text: str | None) -> tuple[Device, ...]:
    """What a value of CUDA_VISIBLE_DEVICES leaves: as CUDA reads it, up to the first entry that names no device.

    A number is the index of a GPU in the order of nvidia-smi.
    """
    if text is None:
        return tuple(devices)
    chosen_devices: dict[str, Device] = {}
    for entry in text.split(","):
        matches = _matches(devices, entry.strip())
        if not matches:
            break
        chosen_devices |= {device.uuid: device for device in matches}
    return tuple(chosen_devices.values())


def selected(devices: Sequence[Device], choice: str) -> tuple[Device, ...]:
    """What ``--gpus`` selects: a number of them, UUIDs, or none; empty is all. ``GpuError`` if they are not there."""
    if choice == NONE:
        return ()
    if not choice:
        return tuple(devices)
    if choice.isascii() and choice.isdigit():
        if int(choice) > len(devices):
            raise GpuError(f"--gpus {choice}: there {counted(devices)}")
        return tuple(devices[: int(choice)])
    selection: dict[str, Device] = {}
    for entry in choice.split(","):
        matches = [device for device in devices if entry and device.uuid.startswith(entry)]
        if len(matches) != 1:
            rule = "must be a number, none, or UUIDs as nvidia-smi -L lists them"
            raise GpuError(
                f"--gpus {choice}: {entry or 'an empty entry'} is not a GPU that can be used here; it {rule}"
            )
        selection[matches[0].uuid] = matches[0]
    return tuple(selection.values())


def counted(devices: Sequence[Device]) -> str:
    """``are 4 GPUs (NVIDIA L4)``."""
    if not devices:
        return "is not a GPU that can be used here"
    number = "is 1 GPU" if len(devices) == 1 else f"are {len(devices)} GPUs"
    return f"{number} ({names(devices)})"


def names(devices: Sequence[Device]) -> str:
    return ", ".join(dict.fromkeys(device.name for device in devices))


def _matches(devices: Sequence[Device], entry: str) -> list[Device]:
    if entry.isascii() and entry.isdigit():
        return [device for device in devices if device.index.partition(":")[0] == str(int(entry))]
    matches = [device for device in devices if entry and device.uuid.startswith(entry)]
    return matches if len(matches) == 1 else []


def _answer(ask: Callable[[Any], _Answer], otherwise: _Answer) -> _Answer:
    """The answer of NVML, within ``ANSWERED_WITHIN``; ``otherwise`` where there is no driver."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return otherwise
    answers, problems = list[_Answer](), list[Exception]()

    def work() -> None:
        try:
            with _opened() as nvml:
                answers.append(ask(nvml))
        except Exception as error:  # noqa: BLE001 (whatever a driver says, jobs without GPUs run)
            problems.append(error)

    thread = Thread(target=work, name="nvml", daemon=True)
    thread.start()
    thread.join(ANSWERED_WITHIN)
    if answers:
        return answers[0]
    if not problems:
        raise GpuError(f"NVIDIA's driver has not answered within {ANSWERED_WITHIN:g} s")
    if isinstance(problems[0], ImportError):
        raise GpuError("GPUs are found by the package nvidia-ml-py: pip install 'tf-operator[local]'")
    raise GpuError(f"NVIDIA's driver does not say which GPUs there are: {problems[0]}")


@contextmanager
def _opened() -> Iterator[Any]:
    import pynvml  # noqa: PLC0415 (only where there is a driver)

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _devices(nvml: Any) -> Iterator[tuple[Device, Any]]:  # noqa: ANN401 (a module without types)
    """Each device with its handle."""
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if not _is_partitioned(nvml, handle):
            yield Device(nvml.nvmlDeviceGetUUID(handle), str(index), nvml.nvmlDeviceGetName(handle)), handle
            continue
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            except nvml.NVMLError:  # there is none in this place
                continue
            name = nvml.nvmlDeviceGetName(instance)
            if profile := _PROFILE.search(name):
                # As NVIDIA's device plugin names it: a + is not allowed in the name of a resource.
                resource = MIG + profile[1].replace("+", ".")
                yield Device(nvml.nvmlDeviceGetUUID(instance), f"{index}:{place}", name, resource), instance


def _is_partitioned(nvml: Any, handle: Any) -> bool:  # noqa: ANN401 (as above)
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:  # a GPU that cannot be
        return False


def _load(nvml: Any, handle: Any) -> Load:  # noqa: ANN401 (as above)
    try:
        # As nvidia-smi counts: without what the driver keeps for itself.
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError:  # a driver from before 2022
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    try:
        used = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    except nvml.NVMLError:
        used = None
    return Load(used, memory.used, memory.total)
