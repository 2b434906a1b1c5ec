"""Whether this machine has what a job needs that would otherwise wait for ever."""

import asyncio
import os
from collections.abc import Collection

from tf_operator.client.job import NotPossible, read_job
from tf_operator.client.run import gpu_demand
from tf_operator.dialects import registry
from tf_operator.local.node.gpus import gpu_settings
from tf_operator.local.node.gpus.devices import GpuError
from tf_operator.local.node.processes import network_requests
from tf_operator.meta import Body


def is_isolated(bodies: Collection[Body]) -> bool:
    """Whether a job asks for a network of its own."""
    return any(read_job(body, api).spec.is_isolated for body in bodies if (api := registry.api_of(body)))


async def check_network(bodies: Collection[Body]) -> None:
    """``NotPossible`` if a job cannot have the network of its own that it asks for."""
    if is_isolated(bodies) and (reason := await network_requests.refusal()):
        raise NotPossible(
            f"spec.networkPolicy: Job needs a network of the job's own, which this machine refuses ({reason}):"
            " run it as root, or allow user namespaces"
        )


async def gpu_warning(bodies: Collection[Body]) -> str:
    """What becomes of the GPUs that a job asks for, where there are none; ``NotPossible`` where there are too few."""
    demand = gpu_demand.of(bodies)
    if not demand.replicas:
        return ""
    try:
        gpus = await asyncio.to_thread(gpu_settings.of_machine, os.environ)
    except GpuError as error:
        return demand.loss(str(error))
    if lack := demand.shortage(gpus) if gpus else "":
        raise NotPossible(lack)
    return "" if gpus and gpus.usable else demand.loss()
