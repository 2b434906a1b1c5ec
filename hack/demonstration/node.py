"""The node of a demonstration: that of ``tfjob run``, on a real API server."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tf_operator.app.local import this_interpreter
from tf_operator.local.node.machine import machine_capacity
from tf_operator.local.node.node_parts import NODES, NodeSettings
from tf_operator.local.node.process_node import ProcessNode
from tf_operator.local.node.registration import node_status
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.shared_config import SharedConfig
from tf_operator.machinery.transport.transport import Transport
from tf_operator.meta import ObjectKey, rfc3339

_BEAT_SECONDS: Final = 10.0
"""The controller-manager takes a node for lost that is silent for 40 s."""


@dataclass(frozen=True, slots=True)
class LiveNode:
    """The node, and the way to its API server."""

    node: ProcessNode
    transport: Transport
    clock: SystemClock


@asynccontextmanager
async def living(kubeconfig: Path, folder: Path) -> AsyncIterator[LiveNode]:
    """Run pods until the block is left."""
    clock = SystemClock()
    config = SharedConfig(KubeConfig(str(kubeconfig)), clock=clock)
    connection = Connection(config, clock=clock, user_agent="demo-node", pool_size=0)
    async with connection as transport, asyncio.TaskGroup() as tasks:
        client = ApiClient(transport, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1))
        home = folder / "home"
        home.mkdir(parents=True)
        python = this_interpreter()
        python = replace(python, variables={**python.variables, "HOME": str(home)})  # gone with the folder
        settings = NodeSettings(folder, python, machine_capacity())
        node = ProcessNode(client, clock=clock, settings=settings)
        parts = [tasks.create_task(node.run()), tasks.create_task(_beat(client, settings, clock))]
        try:
            yield LiveNode(node, transport, clock)
        finally:
            for part in parts:
                part.cancel()


async def _beat(client: ApiClient, settings: NodeSettings, clock: SystemClock) -> None:
    while True:
        await clock.sleep(_BEAT_SECONDS)
        status = node_status(settings, rfc3339(clock.now()), stored={})
        await client.merge_patch(NODES, ObjectKey("", settings.name), {"status": status}, subresource="status")
