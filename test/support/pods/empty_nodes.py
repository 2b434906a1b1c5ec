"""Nodes without a kubelet: a scheduler binds pods to them, and whoever made them plays what becomes of the pods."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.api import Api
from support.resources import NODES


@asynccontextmanager
async def empty_node(admin: Api, name: str, *, pods: int) -> AsyncIterator[str]:
    """A node with room for so many pods."""
    capacity = {"pods": str(pods), "cpu": "64", "memory": "64Gi"}
    ready = {"type": "Ready", "status": "True", "reason": "Test"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    await admin.create(NODES.path(), {"metadata": {"name": name}, "status": status})
    await admin.patch(NODES.path(name=name, subresource="status"), {"status": status})
    # A new node has the taint of one that is not ready.
    await admin.patch(NODES.path(name=name), {"spec": {"taints": None}})
    try:
        yield name
    finally:
        await admin.delete(NODES.path(name=name))
