"""What jobs in the operator's queue wait for: how much of it is free, and who has the rest.

Of a single machine in a few words, beside each job. Of a cluster, where this is a report about all nodes, for one job.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Final

from tf_operator import quantity
from tf_operator.client import changes
from tf_operator.client.job import Job
from tf_operator.job import templates
from tf_operator.job.record import JobPhase
from tf_operator.machinery.transport import requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import (
    Body,
    controller_of,
    key_of,
    labels_of,
    list_of,
    mapping_of,
    objects_of,
    text_of,
)
from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_queue.capacity import FreeCapacity, Node
from tf_operator.planning.job_queue.shapes import Taint

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


async def room(client: ApiClient, job: Job) -> tuple[str, ...]:
    """For which of a job's pods the nodes have no room now, and who has what they lack; empty if they have it."""
    nodes = (await changes.list_all(client, _NODES, Scope())).items
    pods = (await changes.list_all(client, _PODS, _NOT_ENDED)).items
    if not any(mapping_of(mapping_of(node.get("status")).get("nodeInfo")).get("kubeletVersion") for node in nodes):
        # This machine, whose queue counts devices alone.
        return tuple(notes_of([job], nodes[0], pods).values()) if nodes else ()
    return room_of(job, nodes, pods)


async def machine(client: ApiClient) -> tuple[Body, list[Body]] | None:
    """The node of a single machine and its pods that have not ended; ``None`` where there are several."""
    page = responses.read_object(await client.send(requests.list_page(_NODES, Scope(), limit=2)))
    nodes = objects_of(list_of(page.get("items")))
    # All of them: those behind the first ones may have what somebody waits for.
    return (nodes[0], (await changes.list_all(client, _PODS, _NOT_ENDED)).items) if len(nodes) == 1 else None


def room_of(job: Job, nodes: Iterable[Body], pods: Iterable[Body]) -> tuple[str, ...]:
    placed = [pod for pod in pods if mapping_of(pod.get("spec")).get("nodeName")]
    free = FreeCapacity(_nodes(nodes, placed))
    for spec in job.spec.replicas:
        shape = shapes.shape_of(templates.pod_of(spec))
        fit, places = free.count(shape, most=spec.count), free.nodes_for(shape.places)
        if fit < spec.count:
            noun = f"{job.spec.profile.words.type(spec.type)} pod{'s' if spec.count > 1 else ''}"
            shortage = f"room for {spec.count} {noun}; the nodes have room for {fit} of them now"
            scarce = min(shape.requests, key=lambda of: sum(free.left(node, of[0]) // of[1] for node in places))
            return (shortage, *_holders(scarce, [(free.name_of(n), free.left(n, scarce[0])) for n in places], placed))
    return ()


def _nodes(nodes: Iterable[Body], placed: Iterable[Body]) -> Iterator[Node]:
    used = defaultdict[str, Counter[str]](Counter)
    for pod in placed:
        spec = mapping_of(pod.get("spec"))
        used[spec["nodeName"]].update(dict(shapes.requests_of(spec)))
    for node in nodes:
        name, spec, status = key_of(node).name, mapping_of(node.get("spec")), mapping_of(node.get("status"))
        yield Node(
            name,
            shapes.amounts_of(status.get("allocatable")),
            shapes.amounts(used[name]),
            labels_of(node),
            tuple(Taint(*(text_of(it, part) for part in Taint._fields)) for it in objects_of(spec.get("taints"))),
            is_usable=_is_ready(status) and not spec.get("unschedulable"),
        )


def _is_ready(status: Body) -> bool:
    return any((it.get("type"), it.get("status")) == ("Ready", "True") for it in objects_of(status.get("conditions")))


def _holders(scarce: tuple[str, int], left: Sequence[tuple[str, int]], placed: Iterable[Body]) -> Iterator[str]:
    """Of the resource that the fewest pods would get: what one wants, where most is left, and who has most of it."""
    resource, amount = scarce
    if not left:
        return
    node, most = max(left, key=itemgetter(1))
    yield f"{resource}: each requests {_text(resource, amount)}; {node} has most left: {_text(resource, max(most, 0))}"
    holders, names = Counter[str](), {name for name, _ in left}
    for pod in placed:
        spec, key, owner = mapping_of(pod.get("spec")), key_of(pod), controller_of(pod)
        if spec["nodeName"] in names:
            request = dict(shapes.requests_of(spec)).get(resource, 0)
            holders[f"{key.namespace}/{owner.name if owner else key.name}"] += request
    largest = [f"{holder} ({_text(resource, total)})" for holder, total in holders.most_common(_MOST_HOLDERS) if total]
    if largest:
        yield f"{resource} is held by {', '.join(largest)}"


def _text(resource: str, amount: int) -> str:
    exact = Decimal(amount) / shapes.ONE
    return quantity.memory(exact) if resource == "memory" else quantity.text(exact)


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
