"""What a course for kubeflow.org/v1beta1 promises, and the versions around it, on a real API server."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from support.api import Api, RefusedError
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE
from support.jobs.listed_jobs import ListedJobs
from support.jobs.older_versions import TEMPLATE, old_job, path, serving
from support.jobs.t9k import over
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.partners.kubectl import Kubectl
from support.pods.kubelet import Kubelet
from support.pods.pod_status import Exit, Waiting
from support.resources import TFJOBS
from support.settle import eventually

pytestmark = [ONE_OPERATOR, pytest.mark.real_server("conversion webhooks")]
EXAMPLES = Path(__file__).resolve().parents[3] / "manifests/examples/kubeflow-v1beta1"
INVALID = Waiting("InvalidImageName", 'couldn\'t parse image name "<DOCKER_USERNAME>/tf-mnist:gpu": invalid reference')
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha2")


def example(name):
    body = yaml.safe_load((EXAMPLES / "tf_job_gpu.yaml").read_text())
    return body | {"metadata": {"name": name}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(shared_plane):
    namespace = await asyncio.to_thread(shared_plane.make_namespace, "operator")
    async with serving(shared_plane, namespace, more=(QUICK,), namespaces=[]) as operator:
        yield operator


@pytest_asyncio.fixture(loop_scope="module")
async def here(shared_plane, process):
    namespace = await asyncio.to_thread(shared_plane.make_namespace, "jobs")
    async with Api(shared_plane.kubeconfig("admin")) as admin, Api(shared_plane.kubeconfig("kubelet")) as nodes:
        yield ListedJobs(shared_plane, admin, Kubelet(nodes, namespace), namespace, process, path("v1beta1", namespace))


async def wait_conditions(here, name, *, text="", within=PATIENCE, **states):
    """Wait for exactly these conditions, as v1beta1 shows them, and for a text in the first message; the status."""

    async def check():
        status = (await here.get(name)).get("status") or {}
        assert {entry["type"]: entry["status"] for entry in status.get("conditions") or ()} == states, f"{status}"
        assert text in status["conditions"][0]["message"]
        return status

    return await eventually(check, within=within)


async def warnings(here, name, reason):
    """The counts of the warnings about a job for this reason."""
    events = [event for event in await here.events(reason) if event["involvedObject"]["name"] == name]
    assert {event["type"] for event in events} <= {"Warning"}
    return [event.get("count", 1) for event in events]


async def in_versions(here, name):
    """The job in each version, between two writes."""

    async def check():
        bodies = {version: await here.admin.get(path(version, here.namespace, name)) for version in VERSIONS}
        assert len({body["metadata"]["resourceVersion"] for body in bodies.values()}) == 1
        return bodies

    return await eventually(check, within=PATIENCE)


@pytest.mark.documents("v1beta1/object", "v1beta1/master-alone", "v1beta1/pod", "v1beta1/waits-for-image")
@pytest.mark.documents("v1beta1/container-ends", "v1beta1/printed-example", "v1beta1/printed-exercise")
async def test_the_jobs_of_the_course_wait_for_their_image_run_and_end_as_it_says(here, tmp_path):
    kubectl = Kubectl(here.plane.kubeconfig("admin"), tmp_path, here.namespace)
    for file in ("tf_job.yaml", "tf_job_gpu.yaml"):
        await asyncio.to_thread(kubectl.run, "create", "-f", str(EXAMPLES / file))
    header, *lines = (await asyncio.to_thread(kubectl.run, "get", "tfjobs.v1beta1.kubeflow.org")).splitlines()
    assert header.split() == ["NAME", "AGE"]
    assert [line.split()[0] for line in lines] == ["example-tfjob", "module6-ex1-gpu"]
    assert {len(line.split()) for line in lines} == {2}
    pods = await here.wait_pods("example-tfjob-master-0", "module6-ex1-gpu-master-0")
    for pod in pods.values():
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}

    await here.kubelet.wait_in("module6-ex1-gpu-master-0", INVALID)
    await wait_conditions(here, "module6-ex1-gpu", text="InvalidImageName", within=25, Created="True")
    await here.wait_event("ReplicaPending", "InvalidImageName")
    assert await warnings(here, "module6-ex1-gpu", "ReplicaPending") == [1]

    await here.run("module6-ex1-gpu-master-0")
    status = await wait_conditions(here, "module6-ex1-gpu", Created="True", Running="True")
    assert status["replicaStatuses"]["Master"]["active"] == 1
    assert list((await here.get("module6-ex1-gpu"))["spec"]["tfReplicaSpecs"]) == ["MASTER"]
    await here.succeed("module6-ex1-gpu-master-0")
    ended = {"Created": "True", "Running": "False", "Succeeded": "True"}
    status = await wait_conditions(here, "module6-ex1-gpu", **ended)
    assert status["replicaStatuses"]["Master"]["succeeded"] == 1
    assert not status["replicaStatuses"]["Master"].get("active")
    printed = await asyncio.to_thread(kubectl.run, "get", "pod", "module6-ex1-gpu-master-0", "--no-headers")
    assert printed.split()[:3] == ["module6-ex1-gpu-master-0", "0/1", "Completed"]


async def test_never_is_in_force_where_only_the_template_asks_for_restarts(here):
    await here.create(example("failed"))
    await here.wait_pods("failed-master-0")
    await here.run("failed-master-0")
    await wait_conditions(here, "failed", Created="True", Running="True")
    await here.kubelet.fail("failed-master-0", Exit(1))
    status = await wait_conditions(here, "failed", Created="True", Running="False", Failed="True")
    assert status["conditions"][-1]["reason"] == "TFJobFailed"
    await here.wait_event("SetPodTemplateRestartPolicy")
    assert await warnings(here, "failed", "SetPodTemplateRestartPolicy") == [1]


@pytest.mark.documents("v1beta1/claims", "v1beta1/printed-volume")
async def test_the_claim_of_the_course_is_mounted_where_the_training_writes(here):
    fragment = yaml.safe_load((EXAMPLES / "fragments/volume.yaml").read_text())
    await here.create(over(example("j"), fragment))
    spec = (await here.wait_pods("j-master-0"))["j-master-0"]["spec"]
    expected_spec = fragment["spec"]["tfReplicaSpecs"]["MASTER"]["template"]["spec"]
    assert expected_spec["volumes"][0] in spec["volumes"]
    assert expected_spec["containers"][0]["volumeMounts"][0] in spec["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("key", ["master", "Master", "MASTER"])
async def test_a_job_is_shown_in_each_version_as_it_was_written(here, key):
    """Without a policy of the user: v1 says which one is in force, and v1beta1 says nothing."""
    created = await here.create(old_job("v1beta1", tfReplicaSpecs={key: {"template": TEMPLATE}}))
    await here.wait_pods("j-master-0")
    await wait_conditions(here, "j", Created="True")
    bodies = await in_versions(here, "j")
    assert bodies["v1"]["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    assert bodies["v1beta2"]["spec"]["cleanPodPolicy"] == "Running"
    assert bodies["v1beta1"]["spec"] == created["spec"]
    assert created["spec"].keys() == {"tfReplicaSpecs"}
    assert created["spec"]["tfReplicaSpecs"][key]["template"] == TEMPLATE
    records = [bodies[version]["status"].pop("fixed") for version in ("v1beta1", "v1alpha2")]
    assert records[0] == records[1] == {"counts": {"master": {"least": 1, "most": 1}}, "noOtherTypes": True}
    assert bodies["v1beta1"]["status"] == bodies["v1"]["status"]
    status = dict(bodies["v1"]["status"])
    assert bodies["v1alpha2"]["status"] == {"tfReplicaStatuses": status.pop("replicaStatuses"), **status}


REPLICAS = {"MASTER": {"replicas": 1, "template": TEMPLATE}}
NO_CONTAINER = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
MALFORMED = {
    "two-leaders": ({"MASTER": {"template": TEMPLATE}, "Chief": {"template": TEMPLATE}}, "both a Chief and a Master"),
    "two-evaluators": ({"Evaluator": {"template": TEMPLATE, "replicas": 2}}, "at most 1 replica of the type Chief"),
    "type": ({"Boss": {"template": TEMPLATE}}, "knows only the types Chief, Master"),
    "no-container": ({"MASTER": {"template": NO_CONTAINER}}, "needs a container named tensorflow"),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_older_versions_have_rules_of_their_own(here, name):
    replicas, sentence = MALFORMED[name]
    with pytest.raises(RefusedError, match=sentence):
        await here.create(old_job("v1beta1", tfReplicaSpecs=replicas))
    with pytest.raises(RefusedError, match='Unsupported value: "Some"'):
        await here.create(old_job("v1beta1", cleanPodPolicy="Some"))


@pytest.mark.parametrize("version", ["v1beta2", "v1"])
async def test_policies_directly_in_the_spec_are_in_force(here, version):
    """As v1beta2 has them, and as v1 had them before its first release: there with one warning."""
    retried = {"MASTER": REPLICAS["MASTER"] | {"restartPolicy": "ExitCode"}}
    jobs = {"slow": {"activeDeadlineSeconds": 3}, "limited": {"backoffLimit": 1, "tfReplicaSpecs": retried}}
    for name, policies in jobs.items():
        body = old_job(version, name, **policies)
        await here.admin.create(path(version, here.namespace), body)
    for number in range(2):
        uid = (await here.wait_pods("limited-master-0", "slow-master-0"))["limited-master-0"]["metadata"]["uid"]
        await here.run("limited-master-0")
        pod = await here.kubelet.fail("limited-master-0", Exit(130))
        assert pod["metadata"]["uid"] == uid
        if number == 0:
            await here.wait_replaced(pod)
    for name, reason in {"slow": "TFJobDeadlineExceeded", "limited": "TFJobBackoffLimitExceeded"}.items():
        await here.wait(name, "Failed", reason=reason)
        if version == "v1":
            await eventually(partial(warnings, here, name, "OutdatedFields"), within=PATIENCE)
        assert await warnings(here, name, "OutdatedFields") == [1] * (version == "v1")


async def test_an_edit_in_an_older_version_loses_nothing_that_only_v1_knows(here):
    policy = {
        "suspend": True,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "schedulingPolicy": {"queue": "q", "minAvailable": 1},
    }
    more = {"successPolicy": "AllWorkers", "enableDynamicWorker": True, "runPolicy": policy}
    job = builders.tfjob("j").workers(2).merged({"spec": more})
    created = await here.admin.create(TFJOBS.path(here.namespace), job.body())
    await here.admin.replace(path("v1beta1", here.namespace, "j"), await here.get("j"))
    assert (await here.job())["spec"] == created["spec"]
    await here.admin.patch(path("v1beta1", here.namespace, "j"), {"metadata": {"labels": {"team": "a"}}})
    await here.admin.patch(path("v1beta1", here.namespace, "j"), {"spec": {"ttlSecondsAfterFinished": 60}})
    after = await here.job()
    assert after["metadata"]["labels"] == {"team": "a"}
    changed = created["spec"]["runPolicy"] | {"ttlSecondsAfterFinished": 60}
    assert after["spec"] == created["spec"] | {"runPolicy": changed}
