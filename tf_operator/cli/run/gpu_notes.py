"""What ``tfjob run`` says about the GPUs of this machine: whether there are enough, and which replica has which."""

import os
from collections.abc import Sequence
from typing import Final

from tf_operator.cli import session
from tf_operator.client.run.gpu_demand import GpuDemand
from tf_operator.local.node.gpus import devices, gpu_settings
from tf_operator.local.node.gpus.devices import GPU, Device, GpuError
from tf_operator.local.node.gpus.gpu_settings import GpuSettings
from tf_operator.local.node.pod import LocalPod

_REMEDY: Final = "; --share-gpus gives a GPU to several replicas"


def checked(demand: GpuDemand, choice: str, *, shares: bool) -> GpuSettings | None:
    """The GPUs for the job; ``GpuError`` if there are too few, or ``--gpus`` selects some that are not there.

    Says what becomes of GPUs that the job asks for, if there are none, and of those that it does not ask for.
    """
    gpus, problem = None, ""
    try:
        gpus = gpu_settings.of_machine(os.environ, choice, shares=shares)
    except GpuError as error:
        if choice:
            raise
        problem = str(error)
    if lack := demand.shortage(gpus, _REMEDY) if gpus else "":
        raise GpuError(lack)
    usable = gpus.usable if gpus else ()
    if demand.replicas and not usable:
        session.say(f"warning: {demand.loss(problem)}")
    elif usable and not demand.replicas:
        line = "resources: {limits: {" + GPU + ": 1}}"
        session.say(f"{_machine(usable)}, and no replica asks for one: a container gets one with {line}")
    return gpus


class AssignmentNote:
    """Says once who has which GPU, when all replicas of the job have theirs."""

    def __init__(self, demand: GpuDemand, usable: Sequence[Device]) -> None:
        self._replicas = demand.replicas
        self._usable = usable
        self._parts = dict[str, str]()

    def on_given(self, pod: LocalPod, held: Sequence[Device]) -> None:
        is_first = len(self._parts) < self._replicas
        replica = pod.key.name.removeprefix(f"{pod.owner.name}-") if pod.owner else pod.key.name
        indexes = [device.index for device in held]
        *first, last = indexes
        listed = f"GPUs {', '.join(first)} and {last}" if first else f"GPU {last}"
        self._parts[replica] = f"{replica} {listed}" if self._parts else f"{replica} has {listed}"
        if is_first and len(self._parts) == self._replicas:
            session.say(f"{_machine(self._usable)}: {', '.join(self._parts.values())}.")


def _machine(usable: Sequence[Device]) -> str:
    return f"This machine has {len(usable)} {'GPU' if len(usable) == 1 else 'GPUs'} ({devices.names(usable)})"
