"""What must be so at the end of every fault test, read from the apiserver past the proxy.

``in_order`` is a check for ``eventually``: it raises an AssertionError that names the difference. The other functions
look at what the proxy saw go through: the final state can be right although a pod was created, lost and created again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter

from support.api import Api, RefusedError
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.request import Call
from support.disturbances.fault_proxy.trigger import anything, create, get
from support.operators.operator_process import OperatorProcess
from support.resources import PODS, SERVICES, TFJOBS, Json

_LIVE_PAGE = "100"
"""The page size of a live read, by which it is told from the lists of an informer."""
_CHILDREN = {"pods", "services"}


async def in_order(process: OperatorProcess, admin: Api, namespace: str) -> bool:
    """The apiserver holds what the jobs want, their status says so, and the caches equal the apiserver."""
    stored = await store_in_order(admin, namespace)
    caches = await process.caches()
    for kind, versions in stored.items():
        _same(
            f"cache of {kind}",
            versions,
            {name: tuple(versions_of_one) for name, versions_of_one in caches[kind].items()},
        )
    return True


async def store_in_order(admin: Api, namespace: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Each worker of each job has its pod and its Service; UIDs and versions of all objects."""
    try:
        jobs, pods, services = [await admin.list(kind.path(namespace)) for kind in (TFJOBS, PODS, SERVICES)]
    except RefusedError as refused:
        raise AssertionError(str(refused)) from refused  # not yet, to eventually
    owners = {
        f"{job['metadata']['name']}-worker-{index}": job["metadata"]["uid"]
        for job in jobs
        for index in range(_replicas(job))
    }
    _same("pods", owners, {pod["metadata"]["name"]: _owner(pod) for pod in pods})
    _same("services", owners, {service["metadata"]["name"]: _owner(service) for service in services})
    for job in jobs:
        status = job.get("status", {})
        if "managedBy" not in job["spec"].get("runPolicy", {}):
            assert status.get("observedGeneration") == job["metadata"]["generation"], f"{job['metadata']}: {status}"
            assert status.get("ready") == f"0/{_replicas(job)}", f"{job['metadata']['name']}: {status}"
    return {"jobs": _versions(jobs), "pods": _versions(pods), "services": _versions(services)}


def nothing_twice(proxy: FaultProxy) -> None:
    """Every create of a replica's object that the apiserver carried out was the first, and none met itself."""
    carried_out = Counter((call.resource, call.name) for call in _creates(proxy) if call.upstream_code == 201)
    assert [call for call, times in carried_out.items() if times > 1] == []
    assert [(call.resource, call.name) for call in _creates(proxy) if call.upstream_code == 409] == []


def pods_created(proxy: FaultProxy) -> list[str]:
    return sorted(call.name for call in proxy.calls(create("pods")) if call.upstream_code == 201)


def live_reads(proxy: FaultProxy) -> int:
    """How often a reconcile read its job from the apiserver, because the cache could not be trusted."""
    return proxy.count(get("tfjobs"))


def blind_repeats(proxy: FaultProxy) -> list[str]:
    """Objects whose create may have been carried out, and was sent again without a live read before."""
    doubtful: set[tuple[str, str]] = set()
    repeats = []
    for call in proxy.calls():
        target = call.resource, call.name
        if call.verb == "list" and call.query.get("limit") == _LIVE_PAGE:
            doubtful = {other for other in doubtful if other[0] != call.resource}
        elif call.verb == "create" and call.resource in _CHILDREN:
            if target in doubtful:
                repeats.append(f"{call.resource} {call.name}")
            if call.code is None or call.code >= 500:
                doubtful.add(target)
    return repeats


def unexplained(proxy: FaultProxy) -> list[str]:
    """Objects that were found to exist already although no reply about them had been lost, or was late, before."""
    doubtful, conflicts = set(), []
    for call in _creates(proxy):
        target = call.resource, call.name
        if call.code == 409 and target not in doubtful:
            conflicts.append(f"{call.resource} {call.name}")
        if call.code != 201 or call.upstream_code != 201 or call.ending not in {"clean", ""}:
            doubtful.add(target)
    return conflicts


def lists(proxy: FaultProxy, resource: str) -> int:
    """How often informers asked for a list: by a watch that begins with one, or by the first page."""
    return sum("sendInitialEvents" in call.target or _is_first_page(call) for call in proxy.calls(anything(resource)))


def _is_first_page(call: Call) -> bool:
    """Neither a further page, nor the question how far the apiserver is, nor a live read."""
    return call.verb == "list" and "continue" not in call.query and call.query["limit"] not in {"1", _LIVE_PAGE}


def _creates(proxy: FaultProxy) -> list[Call]:
    return [call for call in proxy.calls(create()) if call.resource in _CHILDREN]


def _replicas(job: Json) -> int:
    if "managedBy" in job["spec"].get("runPolicy", {}):
        return 0
    return int(job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"])


def _owner(child: Json) -> str:
    owners = child["metadata"].get("ownerReferences", ())
    return next((owner["uid"] for owner in owners if owner.get("controller")), "nobody")


def _versions(bodies: Iterable[Json]) -> dict[str, tuple[str, str]]:
    version = itemgetter("uid", "resourceVersion")
    return {body["metadata"]["name"]: version(body["metadata"]) for body in bodies}


def _same(subject: str, expected: Mapping[str, object], actual: Mapping[str, object]) -> None:
    assert sorted(expected.keys() - actual.keys()) == [], f"{subject}: these are missing"
    assert sorted(actual.keys() - expected.keys()) == [], f"{subject}: these are too many"
    assert [name for name in expected if expected[name] != actual[name]] == [], f"{subject}: these differ"
