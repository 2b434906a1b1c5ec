"""Clusters that show one older version of TFJob and no v1: the commands of its time print what they printed."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from support.api import Api
from support.jobs.job_namespace import PATIENCE
from support.jobs.listed_jobs import ListedJobs
from support.jobs.older_versions import path, serving
from support.operators.operator_fixture import ONE_OPERATOR
from support.partners.kubectl import Kubectl
from support.pods.kubelet import Kubelet
from support.resources import CRDS
from support.settle import eventually

pytestmark = [ONE_OPERATOR, pytest.mark.real_server("conversion webhooks")]
MANIFESTS = Path(__file__).resolve().parents[3] / "manifests"
CRD = CRDS.path(name="tfjobs.kubeflow.org")
KIND = "TFJob.hub.kubeflow.org"


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory, fresh_plane):
    """A plane of this module's own, without v1: it takes the overlays, and collects what has lost its owner."""
    with fresh_plane("controller-manager", "audit") as plane:
        kubectl = Kubectl(plane.kubeconfig("admin"), tmp_path_factory.mktemp("kubectl"))
        kubectl.run("delete", "crd", "tfjobs.kubeflow.org")
        dry_run = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
        for overlay in sorted((MANIFESTS / "overlays").glob("period-*")):
            accepted = kubectl.run(*dry_run, "-k", str(overlay))
            assert "tfjobs.kubeflow.org serverside-applied (server dry run)" in accepted
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(own_plane):
    namespace = await asyncio.to_thread(own_plane.make_namespace, "operator")
    versions = ("v1alpha1",)
    async with serving(own_plane, namespace, kind=KIND, versions=versions, is_own=True, namespaces=[]) as operator:
        yield operator


@asynccontextmanager
async def period(plane, process, version, cache):
    """The definition of an overlay, converted by this operator; a kubectl, and jobs of the version."""
    crd = yaml.safe_load((MANIFESTS / f"overlays/period-{version}/tfjobs.yaml").read_text())
    namespace = await asyncio.to_thread(plane.make_namespace, version)
    async with Api(plane.kubeconfig("admin")) as admin, Api(plane.kubeconfig("kubelet")) as nodes:
        await admin.patch(CRD, {"spec": {"versions": crd["spec"]["versions"]}})
        kubectl = Kubectl(plane.kubeconfig("admin"), cache, namespace)

        def is_shown():
            served = kubectl.run("api-resources", "--api-group=kubeflow.org", "--no-headers").split()
            assert served == ["tfjobs", "tfj", f"kubeflow.org/{version}", "true", "TFJob"]
            return True

        await eventually(lambda: asyncio.to_thread(is_shown), within=PATIENCE)
        jobs = ListedJobs(plane, admin, Kubelet(nodes, namespace), namespace, process, path(version, namespace))
        yield partial(asyncio.to_thread, kubectl.run), jobs


def without_ours(job):
    status = {name: value for name, value in job["status"].items() if name not in {"kinds", "operator", "fixed"}}
    return {name: value for name, value in job.items() if name != "metadata"} | {"status": status}


@pytest.mark.documents("v1alpha1/printed-list", "v1alpha1/printed-get")
async def test_kubectl_prints_a_job_as_in_the_days_of_v1alpha1(own_plane, process, tmp_path):
    async with period(own_plane, process, "v1alpha1", tmp_path) as (kubectl, jobs):
        example = MANIFESTS / "examples/kubeflow-v1alpha1/tf_job.yaml"
        await kubectl("create", "-f", str(example))
        header, line = (await kubectl("get", "tfjobs")).splitlines()
        assert (header.split(), line.split()) == (["NAME", "KINDS"], ["example-job", "TFJob.v1alpha1.kubeflow.org"])

        await jobs.wait_shown("example-job", phase="Creating")
        rid = (await jobs.get("example-job"))["spec"]["RuntimeId"]
        replicas = [f"example-job-{role}-{rid}-{index}" for role, index in (("worker", 0), ("ps", 0), ("ps", 1))]
        master, *_ = [await jobs.run_replica(replica) for replica in (f"example-job-master-{rid}-0", *replicas)]
        owner = (await jobs.kubelet.pod(master))["metadata"]["ownerReferences"][0]
        assert (owner["apiVersion"], owner["kind"], owner["controller"]) == ("kubeflow.org/hub", "TFJob", True)
        event = await jobs.wait_event("SuccessfulCreatePod")
        assert event["involvedObject"]["apiVersion"] == "kubeflow.org/hub"
        await jobs.succeed(master)
        await jobs.wait_shown("example-job", phase="Done")

        printed = yaml.safe_load((example.parent / "status" / example.name).read_text())
        job = yaml.safe_load(await kubectl("get", "-o", "yaml", "tfjobs", "example-job"))
        assert without_ours(job) == without_ours(printed | {"spec": printed["spec"] | {"RuntimeId": rid}})
        assert "SuccessfulCreatePod" in await kubectl("describe", "tfjobs", "example-job")

        await kubectl("delete", "tfjobs", "example-job")

        async def is_empty():
            others = "--field-selector=metadata.name!=kube-root-ca.crt"
            assert await kubectl("get", "tfjobs,pods,services,configmaps", others) == ""
            return True

        await eventually(is_empty, within=90)  # the collector looks for new kinds every 30 s


@pytest.mark.documents("v1beta1/printed-list", "v1beta1/printed-pod")
async def test_kubectl_prints_a_job_as_in_the_days_of_v1beta1(own_plane, process, tmp_path):
    async with period(own_plane, process, "v1beta1", tmp_path) as (kubectl, jobs):
        await kubectl("create", "-f", str(MANIFESTS / "examples/kubeflow-v1beta1/tf_job_gpu.yaml"))
        header, line = (await kubectl("get", "tfjob")).splitlines()
        assert (header.split(), line.split()[0], len(line.split())) == (["NAME", "AGE"], "module6-ex1-gpu", 2)

        await jobs.wait_pods("module6-ex1-gpu-master-0")
        header, line = (await kubectl("get", "pod")).splitlines()
        assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert line.split()[0] == "module6-ex1-gpu-master-0"
