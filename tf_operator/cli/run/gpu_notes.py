"""What ``tfjob run`` says about the GPUs of this machine: whether there are enough, and which replica has which."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from tf_operator.cli import session
from tf_operator.client.job import read_job
from tf_operator.client.manifests.files import Manifest
from tf_operator.dialects import registry
from tf_operator.job import templates
from tf_operator.local.node import pod as pods
from tf_operator.local.node.gpus import assignment, devices, gpu_settings
from tf_operator.local.node.gpus.devices import GPU, Device, GpuError
from tf_operator.local.node.gpus.gpu_settings import GpuSettings
from tf_operator.local.node.pod import LocalPod


@dataclass(frozen=True, slots=True)
class GpuDemand:
    """What a job asks for."""

    amounts: Counter[str] = field(default_factory=Counter)
    """By resource, of all replicas."""
    replicas: int = 0
    """How many ask for any."""


def demand_of(manifests: Iterable[Manifest]) -> GpuDemand:
    amounts, replicas = Counter[str](), 0
    for manifest in manifests:
        api = registry.api_of(manifest.body)
        for spec in read_job(manifest.body, api).spec.replicas if api else ():
            try:
                needs = assignment.needs_of(pods.pod_of({"spec": templates.pod_of(spec)}))
            except msgspec.ValidationError:  # the API server refuses it, and says why
                continue
            replicas += spec.count if needs else 0
            amounts.update({resource: number * spec.count for resource, number in needs.items()})
    return GpuDemand(amounts, replicas)


def checked(demand: GpuDemand, choice: str, *, shares: bool) -> GpuSettings | None:
    """The GPUs for the job; ``GpuError`` if there are too few, or ``--gpus`` selects some that are not there.

    Says what becomes of GPUs that the job asks for, if there are none, and of those that it does not ask for.
    """
    gpus, problem, effect = None, "no GPU here", "is ignored, and their programs see none"
    try:
        gpus = gpu_settings.of_machine(os.environ, choice, shares=shares)
    except GpuError as error:
        if choice:
            raise
        problem, effect = str(error), "is ignored"
    if lack := _shortage(demand, gpus) if gpus else "":
        raise GpuError(lack)
    usable = gpus.usable if gpus else ()
    if demand.replicas and not usable:
        replicas = "1 replica" if demand.replicas == 1 else f"{demand.replicas} replicas"
        names = ", ".join(sorted(demand.amounts))
        session.say(f"warning: {problem}: {names} of {replicas} {effect}")
    elif usable and not demand.replicas:
        line = "resources: {limits: {" + GPU + ": 1}}"
        session.say(f"{_machine(usable)}, and no replica asks for one: a container gets one with {line}")
    return gpus


def _shortage(demand: GpuDemand, gpus: GpuSettings) -> str:
    """Why the job cannot run here: it would wait for ever. Empty if it can, or the machine has none."""
    capacity = Counter(device.resource for device in gpus.usable)
    for resource, number in sorted(demand.amounts.items()) if gpus.usable else ():
        own = capacity[resource]
        if own < number and not (gpus.shares and own):
            machine = f"the job needs {number} {resource}, and this machine has {own} ({devices.names(gpus.usable)})"
            return f"{machine}; --share-gpus gives a GPU to several replicas" if own else machine
    return ""


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
