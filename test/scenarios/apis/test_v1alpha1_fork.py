"""TFJobs of the v1alpha1 fork: the exit codes of its operator, and GPUs by the old name of their resource.

The jobs are converted by ``tfjob convert``, and shown as the webhook shows them: so no webhook is needed.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from lab.control_plane.access import OPERATOR
from support.jobs.job_namespace import PATIENCE
from support.jobs.listed_jobs import ListedJobs
from support.operators.operator_fixture import ONE_OPERATOR, QUICK, make_namespaces, make_operator_fixture
from support.pods import pod_status
from support.pods.pod_status import Exit
from support.resources import TFJOBS
from support.settle import eventually
from tf_operator.dialects import registry

pytestmark = ONE_OPERATOR
TESTS = 5
CONVERSION = registry.DEFAULT.conversion
ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "manifests/examples/kubeflow-v1alpha1-fork"
GPU = "alpha.kubernetes.io/nvidia-gpu"
CONFIG = {
    "accelerators": {
        GPU: {
            "volumes": [{"name": "lib", "hostPath": "/usr/lib/nvidia-384", "mountPath": "/usr/local/nvidia/lib64"}],
            "envVars": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
        }
    }
}
REJECTED = "the changed controller config cannot be used; keeping the last one"


@dataclass(frozen=True)
class ConvertedJobs(ListedJobs):
    """Jobs that are written in v1 after a conversion, and shown in v1alpha1 by another."""

    async def create(self, body):
        return await self.submit(registry.DEFAULT.in_own_version(body))

    async def get(self, name):
        return CONVERSION.convert(await self.job(name), "v1alpha1")


def example(file, name):
    return {**yaml.safe_load((EXAMPLES / file).read_text()), "metadata": {"name": name}}


def configure(file, body):
    """Replace the file as a whole."""
    new = file.with_suffix(".new")
    new.write_text(yaml.safe_dump(body))
    new.replace(file)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    file = tmp_path_factory.mktemp("config") / "controller_config_file.yaml"
    configure(file, CONFIG)
    return file


def grant(plane, namespace):
    """What the operator needs for such jobs beside its other role."""
    rules = yaml.safe_load((ROOT / "manifests/rbac/v1alpha1/cluster-role.yaml").read_text())["rules"]
    api = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{api}/v1", "metadata": {"name": "v1alpha1", "namespace": namespace}}
    account = {"kind": "User", "apiGroup": api, "name": OPERATOR.login}
    to = {"kind": "Role", "apiGroup": api, "name": "v1alpha1"}
    plane.grant({**role, "kind": "Role", "rules": rules})
    plane.grant({**role, "kind": "RoleBinding", "subjects": [account], "roleRef": to})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator_fixture(control_plane, config):
    """Started with the arguments of a deployment of that time, too."""
    namespaces = await make_namespaces(control_plane, "fork", TESTS)
    for namespace in namespaces:
        grant(control_plane, namespace)
    old = (f"--controller-config-file={config}", "-alsologtostderr", "-v=1", "--json-log-format", "--gc-interval=10m")
    more = (*old, QUICK, "--v1alpha1-exit-codes=fork")
    async with make_operator_fixture(control_plane, namespaces=namespaces, arguments=more) as operator:
        operator.waived.add("pods of the spec")  # that of names, as v1 has them
        yield operator


@pytest.fixture
def here(job_namespace, operator_fixture):
    there = job_namespace
    place = TFJOBS.path(there.namespace)
    return ConvertedJobs(there.plane, there.admin, there.kubelet, there.namespace, operator_fixture.process, place)


async def begin(here, name):
    """Create a job of a master alone, and have it run: the names of the replica and of its pod."""
    body = example("tf_job.yaml", name)
    replica = body["spec"]["replicaSpecs"][0]
    replica["template"]["spec"]["restartPolicy"] = "Never"
    await here.create(body | {"spec": {"replicaSpecs": [replica]}})
    master = f"{name}-master-{(await here.get(name))['spec']['RuntimeId']}-0"
    pod = await here.run_replica(master)
    await here.wait_shown(name, phase="Running")
    return master, pod


async def is_unschedulable(here):
    status = (await here.get("gpu"))["status"]
    assert (status.get("phase"), status.get("state")) == ("Creating", "Running")
    assert "Unschedulable" in status["reason"]
    return status


@pytest.mark.documents("fork/printed-example", "fork/printed-yaml")
async def test_the_example_is_shown_word_for_word_after_its_success(here):
    body = example("tf_job.yaml", "example-job")
    body["spec"]["RuntimeId"] = "76no"
    await here.create(body)
    master, *_ = [
        await here.run_replica(f"example-job-{role}-76no-{at}")
        for role, at in (("master", 0), ("worker", 0), ("ps", 0), ("ps", 1))
    ]
    await here.wait_shown("example-job", phase="Running", state="Running", reason="")
    await here.succeed(master)
    printed = yaml.safe_load((ROOT / "manifests/examples/kubeflow-v1alpha1/status/tf_job.yaml").read_text())
    await here.wait_shown("example-job", **printed["status"])
    assert (await here.get("example-job"))["spec"] == printed["spec"]


@pytest.mark.documents("fork/exit-codes")
async def test_an_exit_code_below_128_of_the_master_fails_the_job(here):
    _, pod = await begin(here, "j")
    await here.kubelet.fail(pod, Exit(127))
    status = await here.wait_shown("j", phase="Done", state="Failed")
    assert "code 127" in status["reason"]


@pytest.mark.documents("fork/exit-codes")
async def test_exit_codes_from_128_of_the_master_run_it_again(here):
    for code in (128, 139):
        master, pod = await begin(here, f"j{code}")
        failed_pod = await here.kubelet.fail(pod, Exit(code))
        assert await here.run_replica(master, other_than=failed_pod) != pod
        await here.wait_shown(f"j{code}", phase="Running", state="Running")


@pytest.mark.documents("fork/accelerators", "fork/printed-gpu")
async def test_a_gpu_comes_with_what_the_configuration_says_and_its_job_says_what_it_waits_for(here):
    await here.create(example("tf_job_gpu.yaml", "gpu"))
    master = f"gpu-master-{(await here.get('gpu'))['spec']['RuntimeId']}-0"
    pod = await here.pod(master)
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {GPU: "1"}
    assert {"name": "lib", "hostPath": {"path": "/usr/lib/nvidia-384", "type": ""}} in pod["spec"]["volumes"]
    assert {"name": "lib", "mountPath": "/usr/local/nvidia/lib64", "readOnly": True} in container["volumeMounts"]
    assert {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"} in container["env"]
    stored = (await here.get("gpu"))["spec"]["replicaSpecs"]
    assert stored == example("tf_job_gpu.yaml", "gpu")["spec"]["replicaSpecs"]

    message = f"0/1 nodes are available: 1 Insufficient {GPU}."
    await here.kubelet.write(pod, partial(pod_status.unschedulable, message=message))
    status = await eventually(partial(is_unschedulable, here), within=PATIENCE)
    assert message in status["reason"]
    await here.run(pod["metadata"]["name"])
    await here.wait_shown("gpu", phase="Running", reason="")


async def asks_for(here, name):
    """What the container of the master of a new job with a GPU asks for."""
    await here.create(example("tf_job_gpu.yaml", name))
    pod = await here.pod(f"{name}-master-{(await here.get(name))['spec']['RuntimeId']}-0")
    return pod["spec"]["containers"][0]["resources"]["limits"]


@pytest.mark.documents("fork/accelerators")
async def test_a_changed_configuration_is_for_new_pods_and_a_broken_one_changes_nothing(here, config):
    process = here.process
    process.expected_errors.add(REJECTED)
    assert await asks_for(here, "before") == {GPU: "1"}
    uids = await here.uids()

    configure(config, {"accelerators": {GPU: {"resource": "nvidia.com/gpu"}}})
    await process.wait_for("the controller config has changed")
    assert await asks_for(here, "after") == {"nvidia.com/gpu": "1"}
    configure(config, {"accelerators": [GPU]})
    record = await process.wait_for(REJECTED)
    assert "accelerators: must be an object, is a list" in record["error"]
    assert await asks_for(here, "broken") == {"nvidia.com/gpu": "1"}

    assert (await here.uids()).items() >= uids.items()
    async with aiohttp.ClientSession() as session, session.get(f"{await process.address()}/metrics") as page:
        assert "\ntf_operator_config_reload_errors_total 1.0\n" in await page.text()
