"""Nodes and jobs for the job queue: pods need slots, and the test is the scheduler and the kubelet.

Nodes are those of one test: its jobs select them by a label.
"""

from collections.abc import Iterable
from pathlib import Path

from support.jobs import builders
from support.jobs.builders import TFJobBuilder
from support.jobs.job_namespace import JobNamespace
from support.jobs.templates import Template
from support.resources import Json, Resource
from support.settle import eventually

RIGHTS = Path(__file__).resolve().parents[3] / "manifests/rbac/job-queue"
NODES = Resource("", "v1", "nodes")
SLOT, LABEL = "example.com/slot", "example.com/test"


async def make_nodes(job_namespace: JobNamespace, **slots: int) -> dict[str, str]:
    """Nodes for this test alone, by short names, with so many slots."""
    names = {short: f"{job_namespace.namespace}-{short}" for short in slots}
    for short, name in names.items():
        room = {"pods": "110", SLOT: str(slots[short])}
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "labels": {LABEL: job_namespace.namespace}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        await job_namespace.admin.create(NODES.path(), node)
        # The server has tainted it as not ready, which a controller takes away.
        await job_namespace.admin.patch(NODES.path(name=name), {"spec": {"taints": None}})
    return names


def make_job(job_namespace: JobNamespace, name: str, workers: int, *, servers: int = 0) -> TFJobBuilder:
    """A job of which each pod needs one slot."""
    template = Template().resources(limits={SLOT: "1"}).spec(nodeSelector={LABEL: job_namespace.namespace})
    job = builders.tfjob(name).workers(workers, template=template)
    return job.parameter_servers(servers, template=template) if servers else job


async def run_on(job_namespace: JobNamespace, node: str, names: Iterable[str]) -> dict[str, Json]:
    """Bind the pods to a node and run them, when they are there."""
    pods = set(names)

    async def are_there() -> bool:
        return pods <= set(await job_namespace.pods())

    assert await eventually(are_there)
    for name in pods:
        await job_namespace.kubelet.bind(name, node)
    await job_namespace.run(*pods)
    return await job_namespace.pods()


def workers_of(name: str, count: int) -> list[str]:
    """The names of their pods."""
    return [f"{name}-worker-{index}" for index in range(count)]
