"""What jobs ask for of the GPUs of a machine, and what is said where it has too few."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from tf_operator.client.job import read_job
from tf_operator.dialects import registry
from tf_operator.job import templates
from tf_operator.local.node import pod as pods
from tf_operator.local.node.gpus import assignment, devices
from tf_operator.local.node.gpus.gpu_settings import GpuSettings
from tf_operator.meta import Body


@dataclass(frozen=True, slots=True)
class GpuDemand:
    """What jobs ask for."""

    amounts: Counter[str] = field(default_factory=Counter)
    """By resource, of all replicas."""
    replicas: int = 0
    """How many ask for any."""

    def shortage(self, gpus: GpuSettings, remedy: str = "") -> str:
        """Why the jobs cannot run here: they would wait for ever. Empty if they can, or the machine has no GPU.

        ``remedy`` helps where there are some.
        """
        capacity = Counter(device.resource for device in gpus.usable)
        for resource, number in sorted(self.amounts.items()) if gpus.usable else ():
            own = capacity[resource]
            if own < number and not (gpus.shares and own):
                machine = f"this machine has {own} ({devices.names(gpus.usable)})"
                return f"the job needs {number} {resource}, and {machine}{remedy if own else ''}"
        return ""

    def loss(self, problem: str = "") -> str:
        """What becomes of it on a machine without GPUs, or where they cannot be used."""
        replicas = "1 replica" if self.replicas == 1 else f"{self.replicas} replicas"
        effect = "is ignored" if problem else "is ignored, and their programs see none"
        return f"{problem or 'no GPU here'}: {', '.join(sorted(self.amounts))} of {replicas} {effect}"


def of(bodies: Iterable[Body]) -> GpuDemand:
    amounts, replicas = Counter[str](), 0
    for body in bodies:
        api = registry.api_of(body)
        for spec in read_job(body, api).spec.replicas if api else ():
            try:
                needs = assignment.needs_of(pods.pod_of({"spec": templates.pod_of(spec)}))
            except msgspec.ValidationError:  # the API server refuses it, and says why
                continue
            replicas += spec.count if needs else 0
            amounts.update({resource: number * spec.count for resource, number in needs.items()})
    return GpuDemand(amounts, replicas)
