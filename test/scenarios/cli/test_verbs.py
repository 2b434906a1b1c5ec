"""The verbs of ``tfjob`` against a real API server, with the operator at work and nodes that are the test's."""

import asyncio
import base64
import io
import json
import random
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml
from kubernetes import config

from lab.control_plane.access import VIEWER
from support.jobs.builders import tfjob
from support.jobs.job_namespace import PATIENCE, pod_names
from support.operators.operator_fixture import ONE_OPERATOR
from support.pods.pod_status import Exit
from support.resources import CONFIG_MAPS, Resource
from support.settle import eventually
from tf_operator.cli import main
from tf_operator.client import AsyncTFJobs, JobPhase, TFJobs
from tf_operator.client.manifests import kube_yaml
from tf_operator.client.upload import archive, uploaded_job

pytestmark = ONE_OPERATOR
TFJOB = Path(sys.executable).with_name("tfjob")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
def tfjob_command(job_namespace):
    """Call it with words, as a user types them: exit code, standard output, standard error."""
    kubeconfig = str(job_namespace.plane.kubeconfig("admin"))
    options = ("--kubeconfig", kubeconfig, "-n", job_namespace.namespace)

    async def call(*words):
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
            code = await asyncio.to_thread(main.main, [*words, *options])
        return code, output.getvalue(), errors.getvalue()

    return call


@pytest.fixture
def tfjob_process(job_namespace):
    """The same as a process, which can be interrupted."""
    kubeconfig = str(job_namespace.plane.kubeconfig("admin"))
    options = ("--kubeconfig", kubeconfig, "-n", job_namespace.namespace)

    async def call(*words, interrupted_after=None):
        process = await asyncio.create_subprocess_exec(
            TFJOB, *words, *options, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        if interrupted_after:
            await interrupted_after
            process.send_signal(signal.SIGINT)
        output, errors = await process.communicate()
        return process.returncode, output.decode(), errors.decode()

    return call


def current_context(kubeconfig):
    return yaml.safe_load(kubeconfig.read_text())["current-context"]


async def test_a_job_is_submitted_changed_waited_for_and_deleted(job_namespace, tfjob_command, tmp_path):
    job = tfjob("j").chief().workers(2, restart="OnFailure")
    (tmp_path / "job.yaml").write_text(f"{kube_yaml.write(CLAIM)}---\n{kube_yaml.write(job.body())}")
    where = job_namespace.namespace

    async def says(command, code=0):
        exit_code, output, errors = await tfjob_command(*command.split())
        assert exit_code == code, f"{command}: {output}{errors}"
        return output + errors

    text = await says(f"submit {tmp_path}/job.yaml")
    name = current_context(job_namespace.plane.kubeconfig("admin"))
    assert text == f"TFJob {where}/j submitted in {name}\nPersistentVolumeClaim data created in {name}\n"
    stored = await job_namespace.job()
    await job_namespace.wait_pods(*pod_names(stored))
    assert "already exists; --replace deletes it first" in await says(f"submit {tmp_path}/job.yaml", 1)
    text = f"tfjob: TFJob {where}/j is Created after 1 s; tfjob explain j says why\n"
    assert await says("wait j --timeout 1", 124) == text

    await job_namespace.run(*pod_names(stored))
    assert "running" in await says("wait j --for running")

    async def are_all_listed():
        assert (await says("list")).split()[5:9] == ["j", "Running", "3/3", "0"]
        return True

    await eventually(are_all_listed, within=PATIENCE)
    assert await says("list -o name") == "tfjob.kubeflow.org/j\n"
    assert json.loads(await says("get tfjob.kubeflow.org/j -o json"))["metadata"]["name"] == "j"
    assert "SuccessfulCreatePod" in await says("events j")

    replaced = (await job_namespace.pods())["j-worker-1"]
    text = f"worker-1: pod j-worker-1 deleted in {name}; the operator replaces it\n"
    assert await says("restart j --replica worker-1") == text
    await job_namespace.wait_replaced(replaced)
    await says("suspend j")
    await job_namespace.wait_pods()
    await says("scale j --replicas 1")
    await says("resume j")
    await job_namespace.wait_pods("j-chief-0", "j-worker-0")
    assert "can only change while the job is suspended" in await says("scale j --replicas 2", 1)
    await job_namespace.run("j-chief-0")
    await job_namespace.succeed("j-chief-0")
    assert "succeeded" in await says("wait j --timeout 30s")
    assert "has succeeded: submit it again" in await says("suspend j", 1)

    assert await says("delete j") == f"TFJob {where}/j deleted in {name}\n"
    await job_namespace.wait_job_gone()
    assert "tfjob list shows the jobs" in await says("get j", 1)


async def test_a_job_is_run_to_its_end_and_left_when_it_is_interrupted(job_namespace, tfjob_process, tmp_path):
    (tmp_path / "job.yaml").write_text(kube_yaml.write(tfjob("j").workers(1, restart="Never").body()))

    async def begin():
        await job_namespace.wait_pods("j-worker-0")
        await job_namespace.run("j-worker-0")
        await job_namespace.wait("j", "Running")

    async def fail():
        await begin()
        await job_namespace.kubelet.fail("j-worker-0", Exit(3, message="no data"))

    code, _, errors = await tfjob_process("run", f"{tmp_path}/job.yaml", interrupted_after=begin())
    assert (code, "goes on. Follow it: tfjob logs j -f" in errors) == (130, True), errors
    await job_namespace.delete_job()
    await job_namespace.wait_pods()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fail())
        code, _, errors = await tfjob_process("run", f"{tmp_path}/job.yaml", "-v")
    assert code == 3, errors
    milestones = [errors.index(f"ms  {text}") for text in ("job submitted", "pod created", "process started")]
    assert milestones == sorted(milestones)
    assert milestones[-1] < errors.index("worker-0: ended with exit code 3\n") < errors.index("j has failed after ")
    code, explained, _ = await tfjob_process("explain", "j")
    assert (code, "no data" in explained) == (0, True), explained
    code, ticket, _ = await tfjob_process("debug", "j")
    assert (code, "== Log of worker-0\n" in ticket, explained.splitlines()[0] in ticket) == (0, True, True), ticket


async def test_the_files_of_a_job_arrive_however_many_are_allowed_and_go_with_it(
    job_namespace, tfjob_command, tmp_path
):
    (tmp_path / "job.yaml").write_text(kube_yaml.write(tfjob("j").workers(1, restart="Never").body()))
    (tmp_path / "noise").write_bytes(random.Random(0).randbytes(archive.MOST_BYTES - 2_000))

    code, _, errors = await tfjob_command("submit", f"{tmp_path}/job.yaml", "--upload", str(tmp_path))

    assert code == 0, errors
    await job_namespace.wait_pods("j-worker-0")
    path = CONFIG_MAPS.path(job_namespace.namespace, uploaded_job.config_map_name(await job_namespace.job()))
    stored = await job_namespace.admin.get(path)
    assert len(base64.b64decode(stored["binaryData"]["files.tar.gz"])) > archive.MOST_BYTES - 2_000
    await tfjob_command("delete", "j")
    await job_namespace.wait_job_gone()

    async def is_gone():
        return await job_namespace.admin.find(path) is None

    await eventually(is_gone, within=PATIENCE)


@pytest.mark.real_server("RBAC")
async def test_a_job_whose_files_may_not_be_created_does_not_stay(job_namespace, tmp_path):
    admin, namespace = job_namespace.admin, job_namespace.namespace
    rule = {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["create", "delete", "get"]}
    await admin.create(ROLES.path(namespace), {"metadata": {"name": "submitter"}, "rules": [rule]})
    user = {"apiGroup": ROLES.group, "kind": "User", "name": VIEWER.login}
    role = {"apiGroup": ROLES.group, "kind": "Role", "name": "submitter"}
    binding = {"metadata": {"name": "submitter"}, "subjects": [user], "roleRef": role}
    await admin.create(BINDINGS.path(namespace), binding)
    (tmp_path / "job.yaml").write_text(kube_yaml.write(tfjob("j").workers(1).body()))
    options = ("--kubeconfig", str(job_namespace.plane.kubeconfig("viewer")), "-n", namespace)
    words = ["submit", f"{tmp_path}/job.yaml", "--upload", str(tmp_path), *options]

    async def submit():
        with redirect_stderr(io.StringIO()) as errors:
            code = await asyncio.to_thread(main.main, words)
        assert (code, 'cannot create resource "configmaps"' in errors.getvalue()) == (1, True), errors.getvalue()
        return True

    await eventually(submit, within=PATIENCE)  # the authorizer may not have seen the role yet
    await job_namespace.wait_job_gone()


async def test_doctor_sees_server_crd_and_rights_and_misses_the_deployment(tfjob_command):
    """The operator of a test runs as a process, without a Lease."""
    code, output, _ = await tfjob_command("doctor")

    assert [line[:4].strip() for line in output.splitlines()] == ["ok", "ok", "FAIL", "", "ok"], output
    # Another test on the same server may have left a Lease that nobody renews.
    assert (code, "no operator is installed" in output or "nobody leads" in output) == (1, True)


OPTIONS = {
    "a kubeconfig": lambda path: {"kubeconfig": path},
    "a client of the package": lambda path: {"api_client": config.new_client_from_config(path)},
}


async def test_a_program_in_python_runs_a_job_to_its_end(job_namespace, tmp_path):
    kubeconfig = str(job_namespace.plane.kubeconfig("admin"))
    job = tfjob("j").workers(1, restart="Never").body()
    (tmp_path / "job.yaml").write_text(f"{kube_yaml.write(CLAIM)}---\n{kube_yaml.write(job)}")

    def in_a_program():
        with TFJobs(job_namespace.namespace, kubeconfig=kubeconfig) as jobs:
            return jobs.plan(tmp_path / "job.yaml"), jobs.run(tmp_path / "job.yaml")

    async with asyncio.TaskGroup() as tasks:
        program = tasks.create_task(asyncio.to_thread(in_a_program))
        await job_namespace.wait_pods("j-worker-0")
        await job_namespace.kubelet.run("j-worker-0")
        await job_namespace.kubelet.fail("j-worker-0", Exit(3))

    plan, result = program.result()
    assert [replica.name for replica in plan.replicas] == ["j-worker-0"]
    assert (result.job.phase, result.exit_code) == (JobPhase.FAILED, 3)
    assert str(result).startswith(f"TFJob {job_namespace.namespace}/j has failed after ")


@pytest.mark.parametrize("options_of", OPTIONS.values(), ids=OPTIONS.keys())
async def test_the_client_does_it_from_python(job_namespace, options_of):
    options = options_of(str(job_namespace.plane.kubeconfig("admin")))

    def in_a_program():
        with TFJobs(job_namespace.namespace, **options) as jobs:
            job = jobs.submit(tfjob("j").workers(1, restart="Never").body())
            phases = [change.phase for change, _ in zip(jobs.watch(job), range(1), strict=False)]
            return phases, jobs.wait(job, timeout=30), jobs.explain(job)

    async with asyncio.TaskGroup() as tasks:
        program = tasks.create_task(asyncio.to_thread(in_a_program))
        await job_namespace.wait_pods("j-worker-0")
        await job_namespace.kubelet.run("j-worker-0")
        await job_namespace.kubelet.fail("j-worker-0", Exit(3))

    phases, ended, explanation = program.result()
    assert "worker-0 (pod j-worker-0) exited with code 3" in str(explanation)
    assert len(phases) == 1
    assert (ended.phase, ended.exit_code, ended.replicas["Worker"].failed) == (JobPhase.FAILED, 3, 1)
    async with AsyncTFJobs(job_namespace.namespace, **options) as jobs:
        assert [pod.replica for pod in await jobs.pods("j")] == ["worker-0"]
        assert [job.name for job in await jobs.list()] == ["j"]
