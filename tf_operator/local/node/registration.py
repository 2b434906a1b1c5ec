"""The Node of this machine, as the API server has it."""

import os
import platform
from collections import Counter
from typing import Any

from tf_operator.local.node.addresses import LOOPBACK
from tf_operator.local.node.node_parts import NODES, NodeParts, NodeSettings
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors
from tf_operator.meta import Body, ObjectKey, mapping_of, rfc3339

_log = Logger(__name__)


async def register(parts: NodeParts) -> None:
    """Create the Node, or take the one of an earlier run; it is ready at once."""
    settings, client = parts.settings, parts.client
    key = ObjectKey("", settings.name)
    labels = {"kubernetes.io/hostname": settings.name, "kubernetes.io/os": platform.system().lower()}
    try:
        try:
            node = await client.create(NODES, "", {"metadata": {"name": settings.name, "labels": labels}})
        except errors.AlreadyExists:
            node = await client.get(NODES, key)
        status = {"status": node_status(settings, rfc3339(parts.clock.now()), node)}
        await client.merge_patch(NODES, key, status, subresource="status")
    except errors.ApiError as error:
        _log.warning("the Node cannot be registered; its pods run all the same", error=str(error))


def node_status(settings: NodeSettings, now: str, node: Body) -> dict[str, Any]:
    """The patch of a Node that is stored so."""
    capacity, gpus = settings.capacity, settings.gpus
    previous = mapping_of(mapping_of(node.get("status")).get("capacity"))
    amounts: dict[str, str | None] = dict.fromkeys(previous)
    amounts |= {"cpu": str(capacity.cpus), "memory": f"{capacity.memory // 1024}Ki", "pods": "10000"}
    amounts |= (
        {resource: str(n) for resource, n in Counter(gpu.resource for gpu in gpus.usable).items()} if gpus else {}
    )
    machine = os.uname()
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "runs pods as processes"}
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [ready | {"lastTransitionTime": now, "lastHeartbeatTime": now}],
        "addresses": [{"type": "InternalIP", "address": LOOPBACK}],
        "nodeInfo": {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(machine.machine, machine.machine),
            "operatingSystem": machine.sysname.lower(),
            "kernelVersion": machine.release,
        },
    }
