"""TfJobs of mlkube.io, in a cluster where they are the only kind: what their document promises, as kubectl shows it."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lab.control_plane.plane import ControlPlane
from support.api import Api, RefusedError
from support.crds import create_crd
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE
from support.jobs.listed_jobs import ListedJobs
from support.operators.operator_process import operator
from support.partners.kubectl import Kubectl
from support.pods import pod_status
from support.pods.kubelet import Kubelet
from support.pods.pod_status import Exit
from support.resources import CONFIG_MAPS, CRDS, LEASES, SERVICES, TFJOBS, Json, Resource
from support.settle import eventually

ROOT = Path(__file__).resolve().parents[3]
JOBS = Resource("mlkube.io", "v1beta1", "tfjobs")
SCHEME = ("--enable-scheme=TfJob.mlkube.io", "--restart-delay-base=200ms")
ALONE = ("--leader-elect=false", *SCHEME)

OPEN = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
MALFORMED = {
    "no-replicas": {},
    "a-text": {"replicaSpecs": "two"},
    "a-list-of-texts": {"replica_specs": ["two"]},
    "both-spellings": {"replicaSpecs": [{"template": TEMPLATE}], "replica_specs": [{"template": TEMPLATE}]},
    "two-masters": {"replicaSpecs": [{"template": TEMPLATE}, {"template": TEMPLATE}]},
    "text-for-a-number": {"replicaSpecs": [{"replicas": "one", "template": TEMPLATE}]},
    "unknown-type": {"replicaSpecs": [{"template": TEMPLATE}, {"tfReplicaType": "CHIEF", "template": TEMPLATE}]},
    "no-master": {"replicaSpecs": [{"tfReplicaType": "WORKER", "template": TEMPLATE}]},
    "no-container": {"replicaSpecs": [{"template": {"spec": {"containers": []}}}]},
}


def example(file="tf_job.yaml", name="example-job"):
    body = yaml.safe_load((ROOT / "manifests/examples/mlkube" / file).read_text())
    return {**body, "metadata": {"name": name}}


def rows(**states):
    """``status.replicaStatuses``: the one state in which the single replica of each type is."""
    return [{"tf_replica_type": kind, "state": state, "ReplicasStates": {state: 1}} for kind, state in states.items()]


@pytest.fixture(scope="module")
def control_plane(fresh_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    """A plane of this module's own, without TFJobs, and with the collector of what has lost its owner."""
    with fresh_plane("controller-manager", "audit") as plane:
        plane.admin.delete(CRDS.path(name="tfjobs.kubeflow.org"))
        for path in sorted((ROOT / "manifests/rbac/mlkube").glob("*.yaml")):
            plane.grant(yaml.safe_load(path.read_text()))
        asyncio.run(install(plane, "mlkube/tfjobs.yaml"))
        yield plane


async def install(plane: ControlPlane, crd: str) -> None:
    """Install a CRD of the manifests, and wait until its objects can be listed."""
    async with Api(plane.kubeconfig("admin")) as admin:
        await create_crd(admin, yaml.load((ROOT / "manifests/crd" / crd).read_text(), yaml.CSafeLoader))


@dataclass(frozen=True)
class TfJobs(ListedJobs):
    """A namespace with TfJobs, and the operator that runs them, unless it runs elsewhere."""

    async def wait_pod(self, name: str) -> None:
        """Wait until there is a pod of this name, also of a kind whose CRD the operator still waits for."""

        async def check() -> bool:
            assert name in await self.pods()
            return True

        assert await eventually(check, within=60)

    async def begin_example(self) -> tuple[str, str]:
        """Create the example, and have both pods run; their names."""
        await self.create(example())
        master = await self.run_replica("example-job-master-1234-0")
        worker = await self.run_replica("example-job-worker-1234-0")
        await self.wait_shown("example-job", phase="Running")
        return master, worker

    async def stop(self, name: str) -> None:
        """What a kubelet does with a pod that has been given a deadline; waits for that."""

        async def check() -> Json:
            pod = await self.kubelet.pod(name)
            assert pod["spec"].get("activeDeadlineSeconds") == 1
            return pod

        pod = await eventually(check, within=PATIENCE)
        ended = pod_status.finished(pod, "2026-01-01T00:00:00Z", Exit(137))
        await self.kubelet.write(pod, lambda _, __: {**ended, "reason": "DeadlineExceeded"})


@asynccontextmanager
async def tfjobs(plane: ControlPlane, purpose: str, **options: object) -> AsyncIterator[TfJobs]:
    """A namespace of its own, and an operator for it."""
    namespace = await asyncio.to_thread(plane.make_namespace, purpose)
    async with (
        Api(plane.kubeconfig("admin")) as admin,
        Api(plane.kubeconfig("kubelet")) as nodes,
        operator(plane, **{"namespaces": [namespace], "arguments": ALONE, **options}) as process,
    ):
        yield TfJobs(plane, admin, Kubelet(nodes, namespace), namespace, process, JOBS.path(namespace))


@pytest.mark.documents("mlkube/printed-list")
@pytest.mark.programs("kubectl")
async def test_the_list_shows_name_and_kinds_even_when_no_operator_runs(control_plane, tmp_path):
    namespace = await asyncio.to_thread(control_plane.make_namespace, "kinds")
    kubectl = Kubectl(control_plane.kubeconfig("admin"), tmp_path, namespace)

    async def create() -> bool:
        """The discovery of kinds, which kubectl asks first, follows a new CRD a moment later."""
        process = kubectl.attempt("create", f"--filename={ROOT / 'manifests/examples/mlkube/tf_job.yaml'}")
        assert process.returncode == 0, process.stderr
        return True

    assert await eventually(create, within=PATIENCE)
    header, line = kubectl.run("get", "tfjobs").splitlines()

    assert header.split() == ["NAME", "KINDS"]
    assert line.split() == ["example-job", "TfJob.v1beta1.mlkube.io"]


@pytest.mark.documents(
    "mlkube/one-job",
    "mlkube/counts",
    "mlkube/example-runs",
    "mlkube/pods-stay",
    "mlkube/none-runs",
    "mlkube/status",
    "mlkube/printed-example",
)
async def test_the_example_of_the_document_runs_to_its_end_and_its_logs_stay(control_plane):
    """Nothing shows Running any more when it is done, and nothing is deleted before the TfJob is."""
    async with tfjobs(control_plane, "example") as here:
        await here.create(example())
        created = await here.wait_shown("example-job", phase="Creating", state="Running", reason="", conditions=None)
        assert created["replicaStatuses"] == rows(MASTER="Running", WORKER="Running")
        assert created["controlPaused"] is False
        master = await here.run_replica("example-job-master-1234-0")
        assert await here.wait_shown(
            "example-job", phase="Running", state="Running", replicaStatuses=created["replicaStatuses"]
        )
        worker = await here.run_replica("example-job-worker-1234-0")

        await here.succeed(master)
        ends = rows(MASTER="Succeeded", WORKER="Running")
        await here.wait_shown("example-job", phase="CleanUp", state="Succeeded", replicaStatuses=ends)
        await here.stop(worker)
        await here.wait_shown("example-job", phase="Done", state="Succeeded", reason="", replicaStatuses=ends)

        phases = {name: pod["status"]["phase"] for name, pod in (await here.pods()).items()}
        assert phases == {master: "Succeeded", worker: "Failed"}
        assert await here.services() == {"example-job-master-1234-0", "example-job-worker-1234-0"}
        (printed,) = await here.admin.list(JOBS.path(here.namespace))
        assert (printed["spec"], printed["status"]["phase"]) == (example()["spec"], "Done")
        await here.admin.delete(JOBS.path(here.namespace, "example-job"))
        await here.wait_pods(within=90)  # the collector looks for new kinds every 30 s
        await here.wait_services()


@pytest.mark.documents("mlkube/status", "mlkube/pods-stay")
async def test_a_permanent_failure_of_the_master_ends_the_job_and_keeps_the_pods(control_plane):
    """Also when the kubelet has started the master again in place before anybody saw its end."""
    async with tfjobs(control_plane, "fails") as here:
        master, worker = await here.begin_example()

        await here.kubelet.restart(master, Exit(1))

        for pod in (master, worker):
            await here.stop(pod)
        status = await here.wait_shown("example-job", phase="Done", state="Failed")
        assert status["replicaStatuses"] == rows(MASTER="Failed", WORKER="Running")
        assert master in status["reason"]
        assert "exited with code 1" in status["reason"]
        assert set(await here.pods()) == {master, worker}


async def test_a_master_that_got_a_signal_runs_again(control_plane):
    async with tfjobs(control_plane, "signal") as here:
        master, _ = await here.begin_example()
        old_pod = await here.kubelet.pod(master)

        await here.kubelet.fail(master, Exit(143))

        again = await here.run_replica("example-job-master-1234-0", other_than=old_pod)
        assert again != master
        await here.wait_shown(
            "example-job", phase="Running", state="Running", replicaStatuses=rows(MASTER="Running", WORKER="Running")
        )
        await here.succeed(again)
        await here.wait_shown("example-job", state="Succeeded")


@pytest.mark.documents("mlkube/status")
@pytest.mark.parametrize("end", ["fails", "is deleted"])
async def test_a_worker_runs_again_however_it_ended_and_the_job_goes_on(control_plane, end):
    async with tfjobs(control_plane, "worker") as here:
        _, worker = await here.begin_example()
        old_pod = await here.kubelet.pod(worker)

        await (here.kubelet.fail(worker, Exit(1)) if end == "fails" else here.delete_pod(worker))

        await here.run_replica("example-job-worker-1234-0", other_than=old_pod)
        await here.wait_shown("example-job", phase="Running", state="Running", reason="")


@pytest.mark.documents("mlkube/upgrade")
async def test_a_rolling_update_of_the_operator_loses_no_job_and_makes_no_pod_twice(control_plane):
    """As a Deployment does it: the new pod is ready before the old one ends. Jobs start, run and end meanwhile."""
    jobs = [f"job-{number}" for number in range(20)]
    leading = ("--leader-elect", "--leader-election-retry-period=500ms", *SCHEME)
    async with tfjobs(control_plane, "rolled", arguments=leading) as here:
        started = here.mark()
        for name in jobs[:10]:
            await here.create(example(name=name))
        async with operator(control_plane, namespaces=[here.namespace], arguments=leading, until="listening") as fresh:
            for name in jobs[10:]:
                await here.create(example(name=name))
            assert await here.process.terminate() == 0
            masters = await asyncio.gather(*(here.run_replica(f"{name}-master-1234-0") for name in jobs))
            await here.succeed(*masters)
            await fresh.wait_for("workers started")
            for name in jobs:
                await here.wait_shown(name, state="Succeeded")
        assert here.created_pods(started) == 2 * len(jobs)


@pytest.mark.documents("mlkube/log-fields")
async def test_pods_of_a_job_that_asks_for_json_logs_know_which_replica_they_are(control_plane):
    """What the programs then write is tested with Python itself; here the API server has to accept the pods."""
    async with tfjobs(control_plane, "logs") as here:
        body = example()
        body["metadata"]["annotations"] = {"tf-operator.kubeflow.org/json-logs": "true"}
        await here.create(body)

        for role in ("master", "worker"):
            (container,) = (await here.pod(f"example-job-{role}-1234-0"))["spec"]["containers"]
            (text,) = [entry["value"] for entry in container["env"] if entry["name"] == "TF_OPERATOR_LOG_FIELDS"]
            fields = json.loads(text)
            assert (fields["replica_type"], fields["replica_index"], fields["runtime_id"]) == (role, 0, "1234")


@pytest.mark.documents("mlkube/outside", "mlkube/printed-exports")
@pytest.mark.parametrize("name", [{"MY_POD_NAME": "my-pod"}, {}], ids=["with a name", "without a name"])
async def test_the_operator_runs_outside_of_the_cluster_with_the_variables_of_the_document(control_plane, name):
    """The name is only that of the holder of the Lease; without it the host's name does."""
    exports = {"USE_KUBE_CONFIG": str(control_plane.kubeconfig("admin")), "MY_POD_NAMESPACE": "default", **name}
    async with tfjobs(control_plane, "outside", arguments=SCHEME, environment=exports, user="") as here:
        lease = await here.admin.get(LEASES.path("default", "tf-operator"))
        assert lease["spec"]["holderIdentity"].startswith(name.get("MY_POD_NAME", socket.gethostname()))
        master, _ = await here.begin_example()
        await here.succeed(master)
        await here.wait_shown("example-job", state="Succeeded")


@pytest.mark.documents("mlkube/one-job")
async def test_parameter_servers_without_a_program_run_the_standard_server(control_plane):
    async with tfjobs(control_plane, "servers") as here:
        body = example()
        body["spec"]["replica_specs"].append({"tf_replica_type": "PS", "replicas": 2, "tf_port": 5000})
        await here.create(body)

        for index in range(2):
            pod = await here.pod(f"example-job-ps-1234-{index}")
            (container,) = pod["spec"]["containers"]
            assert container["command"] == ["python", "/ps-server/grpc_tensorflow_server.py"]
            volumes = [volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume]
            assert volumes == ["example-job-cm-ps-1234"]
        config_map = await here.admin.get(CONFIG_MAPS.path(here.namespace, "example-job-cm-ps-1234"))
        assert config_map["metadata"]["ownerReferences"][0]["kind"] == "TfJob"
        services = {entry["metadata"]["name"]: entry for entry in await here.admin.list(SERVICES.path(here.namespace))}
        assert services["example-job-ps-1234-1"]["spec"]["ports"][0]["port"] == 5000


async def set_schema(admin: Api, path: str, schema: Json) -> None:
    """Give the CRD another schema, and wait until creating an object without a spec fails or passes accordingly."""
    crd = await admin.get(CRDS.path(name="tfjobs.mlkube.io"))
    (version,) = crd["spec"]["versions"]
    await admin.patch(CRDS.path(name="tfjobs.mlkube.io"), {"spec": {"versions": [{**version, "schema": schema}]}})
    body = {"apiVersion": JOBS.api_version, "kind": "TfJob", "metadata": {"name": "probe"}, "spec": {"any": 1}}
    is_open = "properties" not in schema["openAPIV3Schema"]

    async def check() -> bool:
        try:
            await admin.create(path, body, dryRun="All")
        except RefusedError:
            assert not is_open
        else:
            assert is_open
        return True

    assert await eventually(check, within=PATIENCE)


async def test_jobs_that_were_stored_before_there_were_rules_are_reported_and_ended_ones_stay_ended(control_plane):
    async with tfjobs(control_plane, "stored", until="") as here:
        path = JOBS.path(here.namespace)
        (version,) = (await here.admin.get(CRDS.path(name="tfjobs.mlkube.io")))["spec"]["versions"]
        here.process.signal(signal.SIGSTOP)  # before it has seen the job that is to be an ended one
        await set_schema(here.admin, path, OPEN)
        for name, spec in MALFORMED.items():
            await here.create({**example(name=name), "spec": spec})
        ended = {"phase": "Done", "state": "Succeeded", "reason": "", "replicaStatuses": []}
        await here.create(example(name="ended"))
        await here.admin.patch(JOBS.path(here.namespace, "ended", "status"), {"status": ended})
        await set_schema(here.admin, path, version["schema"])
        await here.create(example())
        here.process.signal(signal.SIGCONT)

        for name in MALFORMED:
            status = await here.wait_shown(name, phase="Failed", state="Failed")
            assert status["reason"].startswith("The spec is invalid: spec"), status
        await here.run_replica("example-job-master-1234-0")
        await here.wait_shown("example-job", phase="Running")
        await here.wait_shown("ended", **ended)
        assert {name.split("-1234-")[0] for name in await here.pods()} == {"example-job-master", "example-job-worker"}


@pytest.mark.programs("kubectl")
async def test_a_tfjob_and_a_tfjob_of_kubeflow_of_one_name_share_nothing(control_plane, tmp_path):
    arguments = ("--enable-scheme=TFJob", *ALONE)
    async with tfjobs(control_plane, "both", arguments=arguments) as here:
        await install(control_plane, "tfjobs.yaml")
        await here.create(example())
        await here.submit(builders.tfjob("example-job").master().workers(1))
        master = await here.run_replica("example-job-master-1234-0")
        await here.run_replica("example-job-worker-1234-0")
        for name in ("example-job-master-0", "example-job-worker-0"):
            await here.wait_pod(name)
            await here.run(name)

        pods, services = await here.pods(), await here.admin.list(SERVICES.path(here.namespace))
        for service in services:
            selector = service["spec"]["selector"].items()
            backends = [name for name, pod in pods.items() if selector <= pod["metadata"]["labels"].items()]
            assert len(backends) == 1, backends
            assert backends[0].startswith(service["metadata"]["name"])
        assert (len(services), len(pods)) == (4, 4)

        await here.succeed(master, "example-job-master-0")
        await here.wait_shown("example-job", state="Succeeded")
        await here.wait("example-job", "Succeeded")
        kubectl = Kubectl(control_plane.kubeconfig("admin"), tmp_path, here.namespace)
        assert kubectl.run("get", "tfjobs", "--output=name") == "tfjob.kubeflow.org/example-job\n"
        assert kubectl.run("get", "tfjobs.mlkube.io", "--output=name") == "tfjob.mlkube.io/example-job\n"
        await here.admin.delete(TFJOBS.path(here.namespace, "example-job"))
        await here.admin.delete(CRDS.path(name="tfjobs.kubeflow.org"))
