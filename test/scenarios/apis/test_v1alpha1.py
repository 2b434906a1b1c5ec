"""TFJobs of kubeflow.org/v1alpha1: what the document of that time promises, on a real API server that converts them."""

import asyncio
import copy
import json
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from support.api import Api, RefusedError
from support.audit import Tally
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE
from support.jobs.listed_jobs import ListedJobs
from support.jobs.older_versions import WITH_SUPPORT, path, serving
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.operators.webhook_probe import ASKED
from support.partners.kubectl import Kubectl
from support.pods.kubelet import Kubelet
from support.pods.pod_status import Exit
from support.resources import CONFIG_MAPS, CRDS, PODS, SERVICES, TFJOBS
from support.settle import eventually
from tf_operator.dialects.kubeflow.versions.conversion import OLDER

pytestmark = [ONE_OPERATOR, pytest.mark.real_server("conversion webhooks")]
EXAMPLES = Path(__file__).resolve().parents[3] / "manifests/examples/kubeflow-v1alpha1"
CRD = CRDS.path(name="tfjobs.kubeflow.org")
OPEN = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
SHARED = {"MASTER": 1, "WORKER": 1, "PS": 2}
RUN = (("master", 0), ("worker", 0), ("ps", 0), ("ps", 1))


def example(file="tf_job.yaml", name="j", **spec):
    body = yaml.safe_load((EXAMPLES / file).read_text())
    return {**body, "metadata": {"name": name}, "spec": body["spec"] | spec}


def single(name, *, policy="OnFailure", **spec):
    body = example("tf_job_defaults.yaml", name, **spec)
    body["spec"]["replicaSpecs"][0]["template"]["spec"]["restartPolicy"] = policy
    return body


def rows(counts=SHARED, **states):
    return [
        {
            "tf_replica_type": kind,
            "state": states.get(kind, "Running"),
            "ReplicasStates": {states.get(kind, "Running"): count},
        }
        for kind, count in counts.items()
    ]


@pytest.fixture(scope="module")
def own_plane(fresh_plane):
    """A plane of this module's own, with the collector of what has lost its owner."""
    with fresh_plane("controller-manager", "audit") as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(own_plane):
    namespace = await asyncio.to_thread(own_plane.make_namespace, "operator")
    program = {"module": "support.operators.webhook_probe", "environment": WITH_SUPPORT}
    async with serving(own_plane, namespace, is_own=True, more=(QUICK,), namespaces=[], **program) as operator:
        yield operator


@pytest_asyncio.fixture(loop_scope="module")
async def here(own_plane, process):
    namespace = await asyncio.to_thread(own_plane.make_namespace, "jobs")
    async with Api(own_plane.kubeconfig("admin")) as admin, Api(own_plane.kubeconfig("kubelet")) as nodes:
        yield ListedJobs(own_plane, admin, Kubelet(nodes, namespace), namespace, process, path("v1alpha1", namespace))


async def begin(here, body):
    """Create a job, and have all its pods run; its RuntimeId, and the pods by role and index."""
    name = body["metadata"]["name"]
    await here.create(body)
    await here.wait_shown(name, state="Running")
    spec = (await here.get(name))["spec"]
    replicas = [
        (entry["tfReplicaType"].lower(), index) for entry in spec["replicaSpecs"] for index in range(entry["replicas"])
    ]
    names = [f"{name}-{role}-{spec['RuntimeId']}-{index}" for role, index in replicas]
    pods = dict(zip(replicas, [await here.run_replica(replica) for replica in names], strict=True))
    await here.wait_shown(name, phase="Running")
    return spec["RuntimeId"], pods


@pytest.mark.documents(
    "v1alpha1/create",
    "v1alpha1/nothing-left",
    "v1alpha1/master-decides",
    "v1alpha1/names",
    "v1alpha1/pod-names",
    "v1alpha1/phases",
    "v1alpha1/states",
    "v1alpha1/replica-statuses",
    "v1alpha1/task",
    "v1alpha1/printed-example",
    "v1alpha1/printed-yaml",
)
async def test_the_example_of_the_document_runs_to_its_end(here, tmp_path):
    kubectl = Kubectl(here.plane.kubeconfig("admin"), tmp_path, here.namespace)
    await asyncio.to_thread(kubectl.run, "create", f"--filename={EXAMPLES / 'tf_job.yaml'}")
    header, line = (await asyncio.to_thread(kubectl.run, "get", "tfjobs.v1alpha1.kubeflow.org")).splitlines()
    assert (header.split(), line.split()) == (["NAME", "KINDS"], ["example-job", "TFJob.v1alpha1.kubeflow.org"])

    created = await here.wait_shown("example-job", phase="Creating", state="Running", reason="", conditions=None)
    assert (created["controlPaused"], created["replicaStatuses"]) == (False, rows())
    spec = (await here.get("example-job"))["spec"]
    assert [entry["tfPort"] for entry in spec["replicaSpecs"]] == [2222] * 3
    assert len(spec["RuntimeId"]) == 4
    names = [f"example-job-{role}-{spec['RuntimeId']}-{index}" for role, index in RUN]
    master, *others = [await here.run_replica(name) for name in names]
    await here.wait_services(*names)

    await here.wait_shown("example-job", phase="Running", state="Running", reason="", replicaStatuses=rows())
    worker = await here.kubelet.pod(others[0])
    (config,) = [entry["value"] for entry in worker["spec"]["containers"][0]["env"] if entry["name"] == "TF_CONFIG"]
    tf_config = json.loads(config)
    assert (tf_config["task"]["type"], tf_config["task"]["index"]) == ("worker", 0)
    assert {role: len(hosts) for role, hosts in tf_config["cluster"].items()} == {"master": 1, "ps": 2, "worker": 1}

    held = await here.kubelet.hold(others[0])
    await here.succeed(master)
    ends = {"state": "Succeeded", "reason": "", "replicaStatuses": rows(MASTER="Succeeded")}
    await here.wait_shown("example-job", phase="CleanUp", **ends)
    await here.kubelet.release(held["metadata"]["name"])
    status = await here.wait_shown("example-job", phase="Done", conditions=None, controlPaused=False, **ends)
    printed, job = example("status/tf_job.yaml"), await here.get("example-job")
    assert job["spec"] == printed["spec"] | {"RuntimeId": spec["RuntimeId"]}
    ours = {"kinds": "TFJob.v1alpha1.kubeflow.org", "operator": status["operator"], "fixed": status["fixed"]}
    assert (job["apiVersion"], job["kind"], status) == (printed["apiVersion"], "TFJob", printed["status"] | ours)
    assert "annotations" not in job["metadata"]
    assert set(await here.pods()) == {master}

    config_map = f"example-job-cm-ps-{spec['RuntimeId']}"
    children = [PODS.path(here.namespace, master), CONFIG_MAPS.path(here.namespace, config_map)]
    for child in children:
        (owner,) = (await here.admin.get(child))["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (job["metadata"]["uid"], True)
    await here.admin.delete(f"{here.path}/example-job")
    await here.wait_pods(within=90)  # the collector looks for new kinds every 30 s
    await here.wait_services()
    config_maps = await here.admin.list(CONFIG_MAPS.path(here.namespace))
    assert config_map not in {entry["metadata"]["name"] for entry in config_maps}


@pytest.mark.documents("v1alpha1/distributed-or-not", "v1alpha1/gpus", "v1alpha1/printed-gpu")
async def test_what_the_defaults_of_a_job_are_is_shown_in_it(here):
    await here.create(example("tf_job_gpu.yaml", "gpu"))
    entry, spec = (await here.get("gpu"))["spec"]["replicaSpecs"][0], (await here.get("gpu"))["spec"]
    assert (entry["tfReplicaType"], entry["replicas"], entry["tfPort"]) == ("MASTER", 1, 2222)

    pod = await here.pod(f"gpu-master-{spec['RuntimeId']}-0")
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    (config,) = [json.loads(variable["value"]) for variable in container["env"] if variable["name"] == "TF_CONFIG"]
    host = f"gpu-master-{spec['RuntimeId']}-0.{here.namespace}.svc:2222"
    assert (config["cluster"], config["task"]) == ({"master": [host]}, {"type": "master", "index": 0})
    await here.run(pod["metadata"]["name"])
    await here.succeed(pod["metadata"]["name"])
    only = {"MASTER": 1}
    await here.wait_shown("gpu", phase="Done", state="Succeeded", replicaStatuses=rows(only, MASTER="Succeeded"))


@pytest.mark.documents("v1alpha1/master-decides", "v1alpha1/permanent-codes", "v1alpha1/states")
async def test_permanent_exit_codes_of_the_master_fail_the_job(here):
    """Also when the kubelet has started it again in place, and also when it had too little memory."""
    ends = {f"exit-{code}": Exit(code) for code in (1, 139)} | {"oom": Exit(137, reason="OOMKilled")}
    pods = {name: (await begin(here, single(name)))[1]["master", 0] for name in (*ends, "again")}
    started = here.mark()
    for name, how in ends.items():
        await here.kubelet.fail(pods[name], how)
    await here.kubelet.restart(pods["again"], Exit(1))
    for name in ends:
        status = await here.wait_shown(name, phase="Done", state="Failed")
        assert status["replicaStatuses"] == rows({"MASTER": 1}, MASTER="Failed")
        assert pods[name] in status["reason"]
        assert f"code {ends[name].code}" in status["reason"]
    await here.wait_shown("again", state="Failed")
    assert here.created_pods(started) == 0


AGAIN = {"OnFailure": (143,), "Always": (137,), "Never": (138, 255)}
"""By restart policy of the template; which codes are final is tested without a server."""
WORKERS = {"OnFailure": (137,), "Always": (1, 0), "Never": (1,)}


async def fail_again(here, replica, pod, *, policy, code):
    """The end of a program under a policy of the template: by itself the kubelet starts it again, but under Never."""
    if policy != "Never":
        await here.kubelet.restart(pod, Exit(code))
        return pod
    failed_pod = await here.kubelet.fail(pod, Exit(code))
    again = await here.run_replica(replica, other_than=failed_pod)
    assert again != pod
    return again


@pytest.mark.documents("v1alpha1/retryable-codes", "v1alpha1/code-138", "v1alpha1/other-codes", "v1alpha1/pod-names")
@pytest.mark.parametrize("policy", AGAIN)
async def test_other_exit_codes_of_the_master_run_it_again(here, policy):
    """In its pod, if the kubelet restarts it, and otherwise in a pod of another name."""
    for code in AGAIN[policy]:
        name = f"exit-{code}"
        rid, pods = await begin(here, single(name, policy=policy))
        again = await fail_again(here, f"{name}-master-{rid}-0", pods["master", 0], policy=policy, code=code)
        await here.wait_shown(name, phase="Running", state="Running", replicaStatuses=rows({"MASTER": 1}))
        await here.succeed(again)
        await here.wait_shown(name, phase="Done", state="Succeeded")


@pytest.mark.documents("v1alpha1/master-decides", "v1alpha1/workers", "v1alpha1/replica-statuses")
@pytest.mark.parametrize("policy", WORKERS)
async def test_workers_run_again_whenever_they_fail_and_under_always_after_their_success(here, policy):
    body = example()
    body["spec"]["replicaSpecs"] = copy.deepcopy(body["spec"]["replicaSpecs"][:2])
    body["spec"]["replicaSpecs"][1]["template"]["spec"]["restartPolicy"] = policy
    both = {"MASTER": 1, "WORKER": 1}
    rid, pods = await begin(here, body)
    worker = pods["worker", 0]
    for code in WORKERS[policy]:
        worker = await fail_again(here, f"j-worker-{rid}-0", worker, policy=policy, code=code)
        await here.wait_shown("j", phase="Running", state="Running", replicaStatuses=rows(both))
    if policy != "Always":
        await here.succeed(worker)
        await here.wait_shown("j", phase="Running", replicaStatuses=rows(both, WORKER="Succeeded"))
    await here.succeed(pods["master", 0])
    end = rows(both, MASTER="Succeeded", WORKER="Running" if policy == "Always" else "Succeeded")
    await here.wait_shown("j", phase="Done", state="Succeeded", replicaStatuses=end)


@pytest.mark.documents("v1alpha1/servers")
async def test_a_deleted_parameter_server_is_replaced_behind_its_service(here):
    rid, pods = await begin(here, example())
    server = await here.delete_pod(pods["ps", 1])
    await here.run_replica(f"j-ps-{rid}-1", other_than=server)
    status = await here.wait_shown("j", phase="Running", state="Running", replicaStatuses=rows())
    assert status["operator"]["disruptions"] == 1
    assert "restarts" not in status["operator"]["replicaStatuses"]["PS"]


@pytest.mark.documents("v1alpha1/default-server")
async def test_a_parameter_server_with_a_sidecar_alone_gets_a_container_that_serves(here):
    """All parameter servers of the job share the program, which goes with the job."""
    body = example()
    side = {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}
    body["spec"]["replicaSpecs"][2]["template"] = side
    rid, pods = await begin(here, body)

    programs = {entry["metadata"]["name"]: entry for entry in await here.admin.list(CONFIG_MAPS.path(here.namespace))}
    (owner,) = programs[f"j-cm-ps-{rid}"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("TFJob", "j", True)
    for index in (0, 1):
        spec = (await here.kubelet.pod(pods["ps", index]))["spec"]
        assert [container["name"] for container in spec["containers"]] == ["side", "tensorflow"]
        (source,) = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
        assert source == f"j-cm-ps-{rid}"
        assert spec["containers"][1]["command"] == ["python", "/ps-server/grpc_tensorflow_server.py"]
        assert "/ps-server" in [mount["mountPath"] for mount in spec["containers"][1]["volumeMounts"]]
    await here.succeed(pods["master", 0])
    await here.wait_shown("j", phase="Done", state="Succeeded")


async def test_the_job_may_name_who_decides_and_what_is_cleaned_up(here):
    worker = copy.deepcopy(example()["spec"]["replicaSpecs"][1:])
    chief = {"terminationPolicy": {"chief": {"replicaName": "WORKER", "replicaIndex": 0}}}
    _, pods = await begin(here, example(name="worker", replicaSpecs=worker, cleanupPodPolicy="None", **chief))
    _, all_pods = await begin(here, example(name="all", cleanupPodPolicy="All"))
    await here.succeed(pods["worker", 0], all_pods["master", 0])
    await here.wait_shown("worker", phase="Done", state="Succeeded")
    await here.wait_shown("all", phase="Done", state="Succeeded")
    assert set(await here.pods()) == set(pods.values())


@pytest.mark.documents("v1alpha1/runtime-id", "v1alpha1/names", "v1alpha1/logs-by-runtime-id")
async def test_the_runtime_id_is_in_names_and_labels(here):
    """Two jobs may have the same one."""
    jobs = [await begin(here, example(name=name, RuntimeId="76no")) for name in ("one", "two")]
    services = await here.admin.list(SERVICES.path(here.namespace))
    assert {entry["metadata"]["labels"]["runtime_id"] for entry in services} == {"76no"}
    assert {"one-ps-76no-0", "one-ps-76no-1", "two-ps-76no-1"} <= {entry["metadata"]["name"] for entry in services}
    await here.succeed(*(pods["master", 0] for _, pods in jobs))
    for name in ("one", "two"):
        await here.wait_shown(name, phase="Done", state="Succeeded")


@pytest.mark.documents("v1alpha1/logs-by-runtime-id")
async def test_what_the_operator_logs_of_a_job_has_its_runtime_id(here):
    body = single("rejected", RuntimeId="log1")
    (container,) = body["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"cpu": 1}, "requests": {"cpu": 2}}
    await here.create(body)

    async def is_logged():
        records = [record for record in here.process.records if record.get("runtime_id") == "log1"]
        assert records, here.process.records[-5:]
        return records

    (record, *_) = await eventually(is_logged, within=PATIENCE)
    assert (record["message"], record["job_name"]) == ("a create was rejected", "rejected")


MASTER, WORKER, SERVERS = example()["spec"]["replicaSpecs"]
NO_CONTAINER = copy.deepcopy(WORKER)
NO_CONTAINER["template"]["spec"]["containers"][0]["name"] = "main"
MALFORMED = {
    "no-master": ([WORKER], "needs the replica that decides the job: one item of the type MASTER"),
    "two-masters": ([MASTER, MASTER], "has the same type twice"),
    "count": ([MASTER | {"replicas": 2}], "must be 1 for the type MASTER"),
    "no-container": ([MASTER, NO_CONTAINER], "needs a container named tensorflow"),
    "type": ([MASTER, WORKER | {"tfReplicaType": "BOSS"}], 'Unsupported value: "BOSS"'),
    "twice": ([MASTER, WORKER, WORKER], "has the same type twice"),
}


@pytest.mark.documents("v1alpha1/one-master", "v1alpha1/container")
@pytest.mark.parametrize("name", MALFORMED)
async def test_a_job_that_cannot_be_run_is_refused_with_the_rule(here, name):
    replicas, sentence = MALFORMED[name]
    with pytest.raises(RefusedError, match=sentence):
        await here.create(example(name=name, replicaSpecs=replicas))


@pytest.mark.parametrize(("least", "most"), [(3, 4), (1, 1)], ids=["fewer", "more"])
async def test_another_number_of_workers_than_the_instances_allow_is_refused(here, least, most):
    replicas = [MASTER, WORKER | {"replicas": 2}]
    with pytest.raises(RefusedError, match="needs as many workers as min-instance and max-instance allow"):
        await here.create(example(replicaSpecs=replicas, **{"min-instance": least, "max-instance": most}))


async def test_the_id_of_a_job_never_changes(here):
    await here.create(example(RuntimeId="76no"))
    with pytest.raises(RefusedError, match="cannot change: it is in the names"):
        await here.admin.patch(f"{here.path}/j", {"spec": {"RuntimeId": "x"}})


async def is_created(here, body):
    """The API server needs a moment until it goes by other rules."""
    try:
        return await here.create(body)
    except RefusedError as refusal:
        raise AssertionError(str(refusal)) from refusal


@pytest.mark.documents("v1alpha1/one-master", "v1alpha1/container", "v1alpha1/phases", "v1alpha1/states")
async def test_a_job_that_got_past_the_rules_fails_and_hurts_no_other(here):
    crd = await here.admin.get(CRD)
    versions = [
        version | ({"schema": OPEN} if version["name"] == "v1alpha1" else {}) for version in crd["spec"]["versions"]
    ]
    await here.admin.patch(CRD, {"spec": {"versions": versions}})
    try:
        for name, (replicas, _) in MALFORMED.items():
            body = example(name=name, replicaSpecs=replicas)
            await eventually(partial(is_created, here, body), within=PATIENCE)
        for name in MALFORMED:
            status = await here.wait_shown(name, phase="Failed", state="Failed")
            assert "spec.replicaSpecs" in status["reason"]
    finally:
        await here.admin.patch(CRD, {"spec": {"versions": crd["spec"]["versions"]}})
    assert not await here.pods()
    _, pods = await begin(here, single("good"))
    await here.succeed(pods["master", 0])
    await here.wait_shown("good", state="Succeeded")
    for version in ("v1", "v1beta2", "v1beta1", "v1alpha2", "v1alpha1"):
        assert len(await here.admin.list(path(version, here.namespace))) == len(MALFORMED) + 1


async def test_an_edit_in_any_version_changes_nothing_else(here):
    _, pods = await begin(here, example())
    await here.wait_status(ready="4/4")
    await here.quiet()
    job_before, children = await here.admin.get(TFJOBS.path(here.namespace, "j")), await here.pods()
    for number, version in enumerate(("v1alpha1", "v1beta1", "v1")):
        await here.admin.patch(path(version, here.namespace, "j"), {"metadata": {"labels": {"edit": str(number)}}})
    job_after = await here.admin.get(TFJOBS.path(here.namespace, "j"))
    assert (job_after["status"], job_after["spec"]) == (job_before["status"], job_before["spec"])
    assert job_after["metadata"]["annotations"] == job_before["metadata"]["annotations"]
    assert await here.pods() == children
    assert job_after["status"]["origin"] == "v1alpha1"
    await here.succeed(pods["master", 0])
    await here.wait_shown("j", phase="Done", state="Succeeded")


async def test_each_change_of_a_job_of_v1_is_converted_once_for_each_older_version_that_is_served(here):
    """For the caches that the API server has of each version; and nothing else of such a job is converted."""
    await here.begin_running(builders.tfjob("j").workers(2))
    await here.succeed("j-worker-0")
    await here.wait("j", "Succeeded")
    await here.quiet()
    changes = 1 + here.sent().tally()[Tally("patch", f"{TFJOBS.qualified}/status", 200)]

    async def are_converted():
        conversions = Counter(
            record["to"]
            for record in here.process.records_of(ASKED)
            for job in record["jobs"]
            if job == f"{here.namespace}/j"
        )
        assert conversions == {f"kubeflow.org/{version}": changes for version in OLDER}
        return True

    assert 3 <= changes <= 5
    assert await eventually(are_converted, within=PATIENCE)


async def test_jobs_go_on_while_the_webhook_is_down(here):
    """Only requests in an older version fail, also for jobs that were created in one."""
    _, pods = await begin(here, example())
    held = await here.kubelet.hold(pods["worker", 0])
    alive = (await here.admin.get(CRD))["spec"]["conversion"]["webhook"]["clientConfig"]["url"]
    await point_webhook(here, "https://localhost:1")
    try:
        await eventually(partial(is_refused, here, "j"), within=PATIENCE)
        await here.succeed(pods["master", 0])
        status = (await here.wait("j", "Succeeded"))["status"]
        assert (status["origin"], status.get("cleanUpTime")) == ("v1alpha1", None)
        await here.kubelet.release(held["metadata"]["name"])

        async def is_cleaned_up():
            assert (await here.job())["status"].get("cleanUpTime")
            return True

        assert await eventually(is_cleaned_up, within=PATIENCE)
        assert set(await here.pods()) == {pods["master", 0]}

        await here.submit(builders.tfjob("new").workers(1))
        await here.wait_pods(pods["master", 0], "new-worker-0")
        await here.run("new-worker-0")
        await here.succeed("new-worker-0")
        await here.wait("new", "Succeeded")
        assert len(await here.admin.list(TFJOBS.path(here.namespace))) == 2
        assert await is_refused(here, "new")
    finally:
        await point_webhook(here, alive)

    async def is_shown():
        try:
            return await here.get("j")
        except RefusedError as refusal:
            raise AssertionError(str(refusal)) from refusal

    await eventually(is_shown, within=PATIENCE)
    ends = {"state": "Succeeded", "reason": "", "replicaStatuses": rows(MASTER="Succeeded")}
    await here.wait_shown("j", phase="Done", **ends)


async def point_webhook(here, url):
    change = {"conversion": {"webhook": {"clientConfig": {"url": url}}}}
    await here.admin.patch(CRD, {"spec": change})


async def is_refused(here, name):
    """Whether a job cannot be read in v1alpha1, because the webhook does not answer."""
    try:
        await here.get(name)
    except RefusedError as refusal:
        return "conversion webhook" in str(refusal)
    return False


async def test_jobs_that_an_older_operator_has_stored_are_migrated_and_ended_ones_stay_ended(here):
    """The definition of that time stores v1alpha1; it is replaced by ours, and then no v1alpha1 is stored.

    Jobs that had not ended, or have no status, run.
    """
    crd = await here.admin.get(CRD)
    versions = [version | {"storage": version["name"] == "v1alpha1"} for version in crd["spec"]["versions"]]
    await here.admin.patch(CRD, {"spec": {"versions": versions}})
    ends = {"done": ("Succeeded", "Succeeded"), "failed": ("Failed", "Failed")}
    for name, (state, _) in ends.items():
        await eventually(partial(is_created, here, single(name)), within=PATIENCE)
        await here.wait_shown(name, phase="Creating")
        old = {"phase": "Done", "state": state, "operator": None}
        await here.admin.patch(f"{here.path}/{name}/status", {"status": old})
    pods = {}
    for name, old in {"without-status": None, "under-way": {"phase": "Running", "state": "Running"}}.items():
        await eventually(partial(is_created, here, single(name, RuntimeId="76no")), within=PATIENCE)
        await here.wait_shown(name, phase="Creating")
        pods[name] = (await here.pod(f"{name}-master-76no-0"))["metadata"]["name"]
        if old:
            await here.admin.patch(f"{here.path}/{name}/status", {"status": old | {"operator": None}})
    assert "v1alpha1" in (await here.admin.get(CRD))["status"]["storedVersions"]
    started = here.mark()
    await here.admin.patch(CRD, {"spec": {"versions": crd["spec"]["versions"]}})

    command = [sys.executable, "-m", "tf_operator", "crd", "migrate", f"--kubeconfig={here.plane.kubeconfig('admin')}"]
    for least in (4, 0):
        process = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False, timeout=60
        )
        assert process.returncode == 0, process.stderr
        assert int(process.stdout.split()[1]) >= least

    assert (await here.admin.get(CRD))["status"]["storedVersions"] == ["v1"]
    for name, (state, condition) in ends.items():
        await here.wait_shown(name, phase="Done", state=state)
        assert (await here.job(name))["status"]["conditions"][-1]["type"] == condition
    for name, pod in pods.items():
        await here.run(pod)
        await here.succeed(pod)
        await here.wait_shown(name, phase="Done", state="Succeeded")
    assert here.created_pods(started) == 0
