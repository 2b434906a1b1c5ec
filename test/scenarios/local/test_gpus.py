"""GPUs of one machine, as jobs without a cluster share them out; the driver is a stand-in."""

import json
import os
import re
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace

import pytest
import yaml

from support.local_machine import LocalMachine
from support.partners import nvml
from support.settle import eventually
from tf_operator.local.process_identity import start_time
from tf_operator.local.state import StateFolder

SHOW = "echo sees $CUDA_VISIBLE_DEVICES, $NVIDIA_VISIBLE_DEVICES.;"


@pytest.fixture
def machine(tmp_path):
    return LocalMachine(tmp_path)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return nvml.install(tmp_path_factory.mktemp("nvml"))


def job(script, *, name="j", workers=1, gpus=1):
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    container = {"name": "tensorflow", "image": "none", "command": ["sh", "-c", script], "resources": limits}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    worker = {"replicas": workers, "restartPolicy": "ExitCode", "template": template}
    spec = {
        "tfReplicaSpecs": {"Worker": worker},
        "runPolicy": {"cleanPodPolicy": "Running"},
        "successPolicy": "AllWorkers",
    }
    return yaml.dump({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec})


def gpus_in(output):
    """Of each replica: the indexes of the GPUs that it sees."""
    lines = re.findall(r"^(?:(\S+) \| )?sees (\S*), (\S*)\.$", output, re.MULTILINE)
    assert all(runtime == (own or "void") for _, own, runtime in lines)
    return {
        replica or "worker-0": [int(uuid[4:12], 16) for uuid in own.split(",") if uuid] for replica, own, _ in lines
    }


async def test_replicas_have_gpus_of_their_own_and_the_command_says_which(machine, driver):
    code, output, errors = await machine.run("run", "-", manifest=job(SHOW, workers=2, gpus=2), **driver.variables)
    assert code == 0, errors
    assert gpus_in(output) == {"worker-0": [0, 1], "worker-1": [2, 3]}
    line = "This machine has 4 GPUs (NVIDIA L4): worker-0 has GPUs 0 and 1, worker-1 GPUs 2 and 3."
    assert line in errors.splitlines()


async def test_a_replica_without_a_limit_sees_none_and_the_line_to_add_is_named(machine, driver):
    _, output, errors = await machine.run("run", "-", manifest=job(SHOW, gpus=0), **driver.variables)
    assert gpus_in(output) == {"worker-0": []}
    line = "a container gets one with resources: {limits: {nvidia.com/gpu: 1}}"
    assert f"This machine has 4 GPUs (NVIDIA L4), and no replica asks for one: {line}" in errors.splitlines()


async def test_the_shells_variable_and_the_flag_limit_what_there_is(machine, driver):
    variables = driver.variables | {"CUDA_VISIBLE_DEVICES": "3,1"}
    _, output, errors = await machine.run("run", "-", manifest=job(SHOW, gpus=2), **variables)
    assert gpus_in(output) == {"worker-0": [3, 1]}
    refused = await machine.run("run", "-", "--gpus", "1", manifest=job(SHOW, gpus=2), **variables)
    fewer = "the job needs 2 nvidia.com/gpu, and this machine has 1 (NVIDIA L4)"
    assert refused[0] == 1
    assert refused[2].splitlines()[-1] == f"tfjob: {fewer}; --share-gpus gives a GPU to several replicas"
    code, _, errors = await machine.run("run", "-", "--gpus", "3", manifest=job(SHOW), **variables)
    assert (code, errors.splitlines()[-1]) == (1, "tfjob: --gpus 3: there are 2 GPUs (NVIDIA L4)")


async def test_shared_gpus_let_a_large_job_run(machine, driver):
    arguments, manifest = ("run", "-", "--gpus", "2", "--share-gpus"), job(SHOW, workers=4)
    code, output, errors = await machine.run(*arguments, manifest=manifest, **driver.variables)
    assert code == 0, errors
    assert sorted(gpus_in(output).values()) == [[0], [0], [1], [1]]


async def test_without_a_gpu_a_limit_is_ignored_with_a_warning_and_nothing_else_changes(machine):
    variables = {"CUDA_VISIBLE_DEVICES": "5", "NVIDIA_VISIBLE_DEVICES": "all"}
    code, output, errors = await machine.run("run", "-", manifest=job(SHOW, workers=2, gpus=2), **variables)
    assert code == 0
    assert set(output.splitlines()) == {"worker-0 | sees 5, all.", "worker-1 | sees 5, all."}
    warning = "warning: no GPU here: nvidia.com/gpu of 2 replicas is ignored, and their programs see none"
    assert warning in errors.splitlines()
    _, _, errors = await machine.run("run", "-", manifest=job(SHOW, gpus=0), **variables)
    assert "GPU" not in errors


async def test_a_driver_that_does_not_answer_keeps_no_job_from_running(machine, driver):
    variables = replace(driver, is_silent=True).variables
    code, _, errors = await machine.run("run", "-", manifest=job(SHOW), **variables)
    warning = "warning: NVIDIA's driver has not answered within 2 s: nvidia.com/gpu of 1 replica is ignored"
    assert code == 0
    assert warning in errors.splitlines()


TRAINS = """
import sys
from tf_operator.client import NotPossible, TFJobs

def fit():
    import json, os, pathlib, time

    print("sees", os.environ.get("CUDA_VISIBLE_DEVICES", "all"), flush=True)
    other = pathlib.Path("OTHER")
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"]:
        other.touch()
    while not other.exists():  # the end of worker 0 is that of the job
        time.sleep(0.01)

try:
    print(TFJobs().train(fit, num_workers=2, resources_per_worker={"gpu": sys.argv[1]}).exit_code)
except NotPossible as error:
    print(error)
"""


async def test_python_says_what_becomes_of_gpus(machine, driver, tmp_path):
    (tmp_path / "program.py").write_text(TRAINS.replace("OTHER", str(tmp_path / "other")))

    async def train(gpus, **variables):
        code, output, errors = await machine.run(
            gpus, command=(sys.executable, str(tmp_path / "program.py")), **variables
        )
        assert (code, errors) == (0, "")
        return output.splitlines()

    both = {f"worker-{index} | sees {nvml.uuid_of(index)}" for index in (0, 1)}
    assert set(await train("1", **driver.variables)) == {*both, "0"}
    lack = "the job needs 6 nvidia.com/gpu, and this machine has 4 (NVIDIA L4)"
    assert await train("3", **driver.variables) == [lack]
    warning = "warning: no GPU here: nvidia.com/gpu of 2 replicas is ignored, and their programs see none"
    assert (await train("1"))[0] == warning
    warning = "warning: NVIDIA's driver has not answered within 2 s: nvidia.com/gpu of 2 replicas is ignored"
    assert (await train("1", **replace(driver, is_silent=True).variables))[0] == warning


async def test_gpus_that_cannot_be_written_down_are_not_given_away(machine, driver, tmp_path):
    (tmp_path / "file").touch()
    variables = driver.variables | {"XDG_STATE_HOME": str(tmp_path / "file")}
    code, _, errors = await machine.run("run", "-", "--gpus", "1", manifest=job(SHOW), **variables)
    assert code == 1
    folder = tmp_path / "file/tf-operator/gpus"
    assert errors.splitlines()[-1] == f"tfjob: who has which GPU cannot be written down in {folder}: Not a directory"


async def test_two_commands_share_the_machine_and_never_a_gpu(machine, driver, tmp_path):
    script = f"{SHOW} touch {tmp_path}/first; until [ -e {tmp_path}/end ]; do sleep 0.05; done"
    first = await machine.start("run", "-", manifest=job(script, gpus=3), **driver.variables)
    await eventually((tmp_path / "first").exists)
    second = await machine.start("run", "-", manifest=job(SHOW, gpus=2), **driver.variables)
    assert second.stderr is not None
    sentence = "worker-0: waits: Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.\n"
    while (line := (await second.stderr.readline()).decode()) != sentence:
        assert line, "it has not waited"
    (tmp_path / "end").touch()
    outputs = [(await process.communicate())[0].decode() for process in (first, second)]
    assert [gpus_in(output)["worker-0"] for output in outputs] == [[0, 1, 2], [0, 1]]


async def test_a_server_that_was_killed_takes_back_every_gpu(machine, driver, tmp_path):
    state = tmp_path / "state/tf-operator"
    folder = StateFolder(state / "local")

    def holdings():
        current = []
        for file in (state / "gpus").glob("*.json"):
            with suppress(FileNotFoundError):  # it goes with its last holding
                current += json.loads(file.read_bytes()).values()
        return current

    async def waits(number):
        async def check():
            current = holdings()
            assert len(current) == number
            assert all(holding["sessions"] for holding in current)
            return current

        return await eventually(check)

    assert (await machine.run("local", "up", **driver.variables))[0] == 0
    try:
        manifest = job("trap '' TERM; while :; do sleep 0.1; done", workers=2, gpus=2)
        assert (await machine.run("submit", "-", manifest=manifest))[0] == 0
        assert [len(holding["gpus"]) for holding in await waits(2)] == [2, 2]
        server = folder.server().process.pid
        os.kill(server, signal.SIGKILL)
        await eventually(lambda: not start_time(server))

        assert (await machine.run("local", "up", **driver.variables))[0] == 0
        after = await waits(2)
        assert len({uuid for holding in after for uuid in holding["gpus"]}) == 4
        code, *outputs = await machine.run("delete", "j")
        assert code == 0, outputs
        await eventually(lambda: not holdings())
    finally:
        await machine.run("local", "down", "--purge")


async def test_what_the_end_of_a_server_has_stopped_is_no_failure_although_the_next_one_has_fewer_gpus(machine, driver):
    async def status():
        body = json.loads((await machine.run("get", "j", "-o", "json"))[1])
        conditions = [entry["type"] for entry in body.get("status", {}).get("conditions", ())]
        assert "Failed" not in conditions, body["status"]
        return body.get("status", {})

    async def has_begun():
        return (await status()).get("replicaStatuses", {}).get("Worker", {}).get("active") == 2

    async def has_lost_both():
        return (await status()).get("disruptions") == 2

    assert (await machine.run("local", "up", **driver.variables))[0] == 0
    try:
        manifest = yaml.safe_load(job("while :; do sleep 0.1; done", workers=2))
        manifest["spec"]["runPolicy"]["backoffLimit"] = 0
        assert (await machine.run("submit", "-", manifest=yaml.dump(manifest)))[0] == 0
        await eventually(has_begun)
        assert (await machine.run("local", "down", **driver.variables))[0] == 0
        assert (await machine.run("local", "up", "--gpus", "1", **driver.variables))[0] == 0
        await eventually(has_lost_both)
        assert "restarts" not in await status()
    finally:
        await machine.run("local", "down", "--purge")


async def test_jobs_wait_whole_and_start_by_age(machine, driver, tmp_path):
    def holding(name, **sizes):
        return job(f"until [ -e {tmp_path}/{name} ]; do sleep 0.05; done", name=name, **sizes)

    async def states(**expected):
        async def check():
            items = json.loads((await machine.run("get", "-o", "json"))[1])["items"]
            current = {it["metadata"]["name"]: it["status"]["conditions"][-1]["type"] for it in items if "status" in it}
            assert current == expected
            return True

        await eventually(check)

    assert (await machine.run("local", "up", **driver.variables))[0] == 0
    try:
        for manifest in (holding("a", workers=2, gpus=2), holding("b", workers=4), holding("c", workers=4)):
            assert (await machine.run("submit", "-", manifest=manifest))[0] == 0
            submitted = int(time.time())  # an age has whole seconds
            await eventually(lambda submitted=submitted: int(time.time()) > submitted)
        await states(a="Running", b="Queued", c="Queued")
        _, table, _ = await machine.run("get")
        note = "waits for 4 nvidia.com/gpu; 0 of 4 are free; a has them"
        assert re.search(rf"^b +Queued +0/4 .*{note}$", table, re.MULTILINE)
        (tmp_path / "a").touch()
        await states(a="Succeeded", b="Running", c="Queued")
        (tmp_path / "b").touch()
        await states(a="Succeeded", b="Succeeded", c="Running")
    finally:
        await machine.run("local", "down", "--purge")


async def test_where_requests_count_jobs_wait_whole_for_cpus_too(machine, driver, tmp_path):
    cpus = os.cpu_count()

    def asking(name, *, workers):
        body = yaml.safe_load(job(f"until [ -e {tmp_path}/{name} ]; do sleep 0.05; done", name=name, workers=workers))
        (container,) = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
        container["resources"]["requests"] = {"cpu": cpus / workers}
        return yaml.dump(body)

    async def state(name, expected):
        async def check():
            status = json.loads((await machine.run("get", name, "-o", "json"))[1]).get("status", {})
            assert [it["type"] for it in status.get("conditions", ())][-1:] == [expected]
            return True

        await eventually(check)

    assert (await machine.run("local", "up", "--requests", "enforce", **driver.variables))[0] == 0
    try:
        assert (await machine.run("submit", "-", manifest=asking("a", workers=1)))[0] == 0
        await state("a", "Running")
        assert (await machine.run("submit", "-", manifest=asking("b", workers=2)))[0] == 0
        await state("b", "Queued")
        assert "It waits until its 2 pods fit into what the nodes have left." in (await machine.run("queue"))[1]
        _, _, errors = await machine.run("local", "up", "--requests", "enforce", **driver.variables)
        rule = "It stays as it is: --gpus, --share-gpus and --requests count after 'tfjob local down'.\n"
        assert errors == rule
        (tmp_path / "a").touch()
        await state("b", "Running")
    finally:
        await machine.run("local", "down", "--purge")


async def test_status_and_top_say_who_has_which_gpu_and_what_it_does(machine, driver):
    assert (await machine.run("local", "up", "--gpus", "2", **driver.variables))[0] == 0
    try:
        manifest = job("while :; do sleep 0.1; done", gpus=2)
        assert (await machine.run("submit", "-", manifest=manifest))[0] == 0

        async def top():
            output = (await machine.run("top", "j"))[1]
            row = r"worker-0 +j-worker-0 +\d+m +\d+Mi +141% +12288Mi +local"
            return re.fullmatch(rf"REPLICA +POD +CPU +MEMORY +GPU +GPU MEMORY +NODE\n{row}\n", output)

        await eventually(top)
        code, status, _ = await machine.run("local", "status", **driver.variables)
        rows = [re.split(r" {3,}", line.strip()) for line in status.splitlines()[1:]]
        assert code == 0
        assert rows[0] == ["GPU", "NAME", "STATE", "LOAD", "MEMORY", "PODS"]
        assert rows[2] == ["1", "NVIDIA L4", "busy", "70 %", "6.0/24.0 GiB", "default/j-worker-0"]
        assert rows[3] == ["2", "NVIDIA L4", "free", "69 %", "6.0/24.0 GiB", "-"]
        assert len((await machine.run("local", "status"))[1].splitlines()) == 1
    finally:
        await machine.run("local", "down", "--purge")
