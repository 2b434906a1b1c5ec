"""What jobs in a queue wait for on a single machine: how much of it is free, and who has the rest.

In a cluster of several nodes this would be a report about all of them, so nothing is said there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tf_operator.client import changes
from tf_operator.client.job import Job
from tf_operator.job import templates
from tf_operator.job.record import JobPhase
from tf_operator.machinery.transport import requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import Body, controller_of, key_of, list_of, mapping_of, objects_of
from tf_operator.planning.job_queue import shapes

_NODES: Final = Resource("", "v1", "nodes", "Node", is_namespaced=False)
_PODS: Final = Resource("", "v1", "pods", "Pod")
_NOT_ENDED: Final = Scope("", field_selector="status.phase!=Succeeded,status.phase!=Failed")
_MOST_HOLDERS: Final = 3
_ENDED: Final = frozenset({"Succeeded", "Failed"})


async def read(client: ApiClient, jobs: Sequence[Job]) -> dict[str, str]:
    """By UID of the jobs that wait in a queue for what a single machine lacks: what they wait for."""
    waiting = [job for job in jobs if job.phase is JobPhase.QUEUED]
    if not waiting:
        return {}
    found = await machine(client)
    return notes_of(waiting, *found) if found else {}


async def machine(client: ApiClient) -> tuple[Body, list[Body]] | None:
    """The node of a single machine and its pods that have not ended; ``None`` where there are several."""
    page = responses.read_object(await client.send(requests.list_page(_NODES, Scope(), limit=2)))
    nodes = objects_of(list_of(page.get("items")))
    # All of them: those behind the first ones may have what somebody waits for.
    return (nodes[0], (await changes.list_all(client, _PODS, _NOT_ENDED)).items) if len(nodes) == 1 else None


def notes_of(waiting: Iterable[Job], node: Body, pods: Iterable[Body]) -> dict[str, str]:
    total = _whole(shapes.amounts_of(mapping_of(node.get("status")).get("allocatable")))
    used, holders = Counter[str](), defaultdict[str, dict[str, None]](dict)
    for pod in pods:
        spec, phase = mapping_of(pod.get("spec")), mapping_of(pod.get("status")).get("phase")
        if spec.get("nodeName") and phase not in _ENDED:
            owner = controller_of(pod)
            for resource, amount in _whole(shapes.requests_of(spec)).items():
                used[resource] += amount
                holders[resource][owner.name if owner else key_of(pod).name] = None
    return {job.uid: note for job in waiting if (note := _note(job, total, used, holders))}


def _note(
    job: Job, total: Mapping[str, int], used: Mapping[str, int], holders: Mapping[str, Mapping[str, None]]
) -> str:
    needs = Counter[str]()
    for spec in job.spec.replicas:
        of_pod = _whole(shapes.requests_of(templates.pod_of(spec)))
        needs.update({resource: amount * spec.count for resource, amount in of_pod.items()})
    for resource, need in sorted(needs.items()):
        own = total.get(resource, 0)
        free = own - used.get(resource, 0)
        if free < need:
            names = list(holders.get(resource, ()))
            who = ", ".join(names[:_MOST_HOLDERS])
            more = f" and {len(names) - _MOST_HOLDERS} more" if len(names) > _MOST_HOLDERS else ""
            verb = "has" if len(names) == 1 else "have"
            held = f"; {who}{more} {verb} {'it' if own - free == 1 else 'them'}" if names else ""
            return f"waits for {need} {resource}; {free} of {own} are free{held}"
    return ""


def _whole(amounts: shapes.Amounts) -> dict[str, int]:
    """Devices and the like, which have names with a domain; whoever waits for CPU and memory is told by the queue."""
    return {name: amount // shapes.ONE for name, amount in amounts if "/" in name}
