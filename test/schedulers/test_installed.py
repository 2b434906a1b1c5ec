"""Values of the chart, and overlays, for queue, gangs, elastic jobs and Kueue bring the rights that the work needs.

Each is installed on a server of its own. The operator runs with the arguments of the installed Deployment, under the
account of its pods, and does what it was installed for. A request that its rights do not cover fails the test.
"""

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from lab.control_plane import servers
from lab.control_plane.plane import ControlPlane
from lab.tools.get import programs
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE, JobNamespace
from support.operators.operator_fixture import make_namespaces, make_operator_fixture
from support.partners.helm import CHART, Helm, one, parsed
from support.pods.pod_groups import pod_group_crd
from support.resources import NODES, PODS, Json, Resource
from support.settle import eventually
from tf_operator.app.options.flags import BY_NAME

pytestmark = pytest.mark.nightly
GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups")
HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads")
KUEUE = {
    "Workload": "workloads",
    "ResourceFlavor": "resourceflavors",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
OF_THE_PROCESS = ("leader-elect", "metrics-", "health-", "log-", "kube-api-")
"""Flags that the test sets itself, or that say where the process listens."""


async def _there(jobs: JobNamespace, resource: Resource, name: str = "") -> Json:
    """Wait until there is an object of this kind, of the job's name or of any."""

    async def check() -> Json:
        bodies = await jobs.admin.list(resource.path(jobs.namespace))
        fitting = [body for body in bodies if name in {"", body["metadata"]["name"]}]
        assert fitting, bodies
        return fitting[0]

    return await eventually(check, within=PATIENCE)


async def _queues(jobs: JobNamespace) -> None:
    await jobs.submit(builders.tfjob("j").workers(2))
    await jobs.wait("j", "Queued", reason="NoRoom")
    room = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    await jobs.admin.create(NODES.path(), {"metadata": {"name": jobs.namespace}})
    await jobs.admin.patch(NODES.path(name=jobs.namespace, subresource="status"), {"status": status})
    await jobs.admin.patch(NODES.path(name=jobs.namespace), {"spec": {"taints": None}})
    await jobs.wait_pods("j-worker-0", "j-worker-1")


async def _makes_gangs(jobs: JobNamespace) -> None:
    await jobs.submit(builders.tfjob("j").workers(2))
    await _there(jobs, GROUPS, "j")
    await jobs.wait_pods("j-worker-0", "j-worker-1")


async def _makes_hpas(jobs: JobNamespace) -> None:
    await jobs.submit(builders.tfjob("j").workers(2).dynamic_workers().elastic(1, 4, metrics=[METRIC]))
    await _there(jobs, HPAS, "j")


async def _restarts_in_place(jobs: JobNamespace) -> None:
    await jobs.begin_running(builders.tfjob("j").workers(2).elastic(1, 4, restartInPlace=True))
    await jobs.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})

    async def is_changed() -> bool:
        pod = await jobs.admin.get(PODS.path(jobs.namespace, "j-worker-0"))
        assert pod["metadata"]["annotations"]["tf-operator.kubeflow.org/cluster-size"] == "Worker=3"
        return True

    await eventually(is_changed, within=PATIENCE)


async def _makes_workloads(jobs: JobNamespace) -> None:
    """Admitted, it takes the suspension of the job back."""
    await jobs.submit(builders.tfjob("j").workers(2).labels({"kueue.x-k8s.io/queue-name": "q"}).suspended())
    workload = await _there(jobs, WORKLOADS)
    conditions = [_met("QuotaReserved"), _met("Admitted")]
    sets = [{"name": "worker", "count": 2, "flavors": {}, "resourceUsage": {}}]
    status = {"conditions": conditions, "admission": {"clusterQueue": "q", "podSetAssignments": sets}}
    path = WORKLOADS.path(jobs.namespace, workload["metadata"]["name"], "status")
    await jobs.admin.patch(path, {"status": status})
    await jobs.wait_pods("j-worker-0", "j-worker-1")


def _met(kind: str) -> Json:
    return {
        "type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"
    }  # fmt: skip


@dataclass(frozen=True)
class Feature:
    """One that is switched on: by these values, or by this overlay; and what shows that it works."""

    values: Json
    overlay: str
    works: Callable[[JobNamespace], Awaitable[None]]


FEATURES = {
    "job queue": Feature({"controller": {"jobQueue": {"enabled": True}}}, "job-queue", _queues),
    "gangs": Feature({"controller": {"gangSchedulerName": "native"}}, "native-gangs", _makes_gangs),
    "elastic": Feature({"elastic": {"horizontalPodAutoscalers": True}}, "elastic", _makes_hpas),
    "in place": Feature({"elastic": {"restartInPlace": True}}, "restart-in-place", _restarts_in_place),
    "kueue": Feature({"controller": {"kueue": "external"}}, "kueue", _makes_workloads),
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A server with the APIs of native gangs and of Kueue, where the operator's account has no rights."""
    features = frozenset({"audit", servers.GANGS})
    with ControlPlane.up(tmp_path_factory.mktemp("installed") / "plane", features) as control_plane:
        _revoke(control_plane)
        for kind, plural in KUEUE.items():
            control_plane.admin.apply(_crd(plural, kind))
        yield control_plane


def _revoke(plane: ControlPlane) -> None:
    """Take away what the account of the operator has been given."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    for binding in plane.admin.get(f"{group}/clusterrolebindings")["items"]:
        subjects = binding.get("subjects") or ()
        if any(subject["name"] == "tf-operator" for subject in subjects):
            plane.admin.delete(f"{group}/clusterrolebindings/{binding['metadata']['name']}")
    for binding in plane.admin.get(f"{group}/namespaces/tf-operator/rolebindings")["items"]:
        plane.admin.delete(f"{group}/namespaces/tf-operator/rolebindings/{binding['metadata']['name']}")


def _objects(how: str, feature: Feature, helm: Helm) -> list[Json]:
    if how == "chart":
        process = helm.ok(
            *("template", "tf", CHART, "--namespace", "tf-operator", "--no-hooks"),
            values={"fullnameOverride": "tf-operator", "leaderElection": {"enabled": False}, "replicaCount": 1}
            | feature.values,
        )
        return parsed(process)
    folder = CHART.parents[1] / "manifests/overlays" / feature.overlay
    command = [programs("kubectl")["kubectl"], "kustomize", str(folder)]
    return parsed(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def _arguments(objects: list[Json]) -> list[str]:
    """Those of the Deployment that are about jobs; all are flags of the operator."""
    run, *flags = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert run == "run"
    names = [flag.removeprefix("--").partition("=")[0] for flag in flags]
    assert set(names) <= set(BY_NAME)
    return [flag for name, flag in zip(names, flags, strict=True) if not name.startswith(OF_THE_PROCESS)]


@asynccontextmanager
async def _installed(plane: ControlPlane, objects: list[Json]) -> AsyncIterator[JobNamespace]:
    for body in objects:
        if body["kind"] != "Namespace":
            namespaced = {"namespace": "tf-operator"} if body["kind"] in {"Role", "RoleBinding", "Deployment"} else {}
            plane.admin.apply({**body, "metadata": namespaced | body["metadata"]})
    namespaces = await make_namespaces(plane, "installed", 1)
    try:
        async with make_operator_fixture(plane, namespaces=namespaces, arguments=_arguments(objects)) as operator:
            yield operator.job_namespace()
    finally:
        _revoke(plane)
        plane.admin.delete("/apis/apps/v1/namespaces/tf-operator/deployments/tf-operator")


@pytest.mark.parametrize("how", ["chart", "overlay"])
@pytest.mark.parametrize("name", FEATURES)
async def test_what_is_installed_for_a_feature_is_enough_for_it(plane, how, name, tmp_path):
    feature = FEATURES[name]
    objects = _objects(how, feature, Helm("helm-3", tmp_path))
    async with _installed(plane, objects) as jobs:
        await feature.works(jobs)


def _crd(plural: str, kind: str) -> Json:
    """A kind of Kueue that takes anything."""
    resource = Resource(WORKLOADS.group, WORKLOADS.version, plural)
    crd = pod_group_crd(resource)
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    scope = "Namespaced" if plural == "workloads" else "Cluster"
    crd["spec"] |= {"names": names, "scope": scope}
    return crd
