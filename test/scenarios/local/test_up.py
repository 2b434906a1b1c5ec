"""``tfjob local up`` and ``down``: a server that outlives its command, and its own death."""

import asyncio
import base64
import json
import os
import random
import signal
import sqlite3
import ssl
import subprocess
import sys
import urllib.request
from contextlib import suppress

import pytest
import yaml

from support.settle import eventually
from tf_operator.local.process_identity import start_time
from tf_operator.local.state import StateFolder

INTERRUPTED_STARTS = int(os.environ.get("INTERRUPTED_STARTS", "2"))
CONFIGS = "/api/v1/namespaces/default/configmaps"
TFJOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
PODS = "/api/v1/namespaces/default/pods"


class Local:
    """One state folder, by its command line and its kubeconfig."""

    def __init__(self, folder):
        self.folder = StateFolder(folder)

    def command(self, verb, *arguments):
        program = [sys.executable, "-m", "tf_operator.cli", "local", verb]
        return [*program, f"--state-dir={self.folder.path}", *arguments]

    def tfjob(self, verb, *arguments):
        command = self.command(verb, *arguments)
        return subprocess.run(command, env=self._environment(), capture_output=True, text=True, timeout=90, check=False)

    def start(self, verb):
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(self.command(verb), env=self._environment(), stdout=nowhere, stderr=nowhere)

    def _environment(self):
        """Whoever runs tests remembers no server of theirs as his last cluster."""
        return {**os.environ, "XDG_STATE_HOME": str(self.folder.path.parent.with_name("home"))}

    @property
    def pid(self):
        return self.folder.server().process.pid

    def ask(self, path, body=None):
        """An answer, with nothing but what is in the kubeconfig."""
        config = yaml.safe_load(self.folder.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}
        request = urllib.request.Request(cluster["server"] + path, json.dumps(body).encode() if body else None, headers)
        with urllib.request.urlopen(request, timeout=30, context=ssl.create_default_context(cadata=authority)) as reply:
            return json.load(reply)


@pytest.fixture
def local(tmp_path):
    folder = Local(tmp_path / "tf-operator" / "local")
    yield folder
    folder.tfjob("down", "--purge")


def processes_with(text):
    """Of all on this machine: those whose command line has it, but for this one."""
    listing = subprocess.run(["ps", "-wweo", "pid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if text in line and str(os.getpid()) != line.split()[0]]


def sleeper(name, mark):
    command = [sys.executable, "-c", f"import time; time.sleep(1000) # {mark}"]
    program = {"name": "main", "image": "any", "command": command}
    return {"metadata": {"name": name}, "spec": {"containers": [program], "terminationGracePeriodSeconds": 1}}


async def test_a_server_that_was_killed_goes_on_where_it_was(local, tmp_path):
    mark = f"mark-{tmp_path.name}"
    up = local.tfjob("up")
    assert (up.returncode, up.stderr) == (0, "")
    assert f"export KUBECONFIG={local.folder.kubeconfig}" in up.stdout
    address, first = local.folder.server().address, local.pid
    config_map = local.ask(CONFIGS, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    local.ask(PODS, sleeper("busy", mark))
    await eventually(lambda: processes_with(mark))

    again = local.tfjob("up")
    assert (again.returncode, local.pid) == (0, first)
    assert "runs already" in again.stdout

    os.kill(first, signal.SIGKILL)
    await eventually(lambda: not start_time(first))
    assert local.tfjob("status").returncode == 1
    dead = local.tfjob("kubeconfig")  # names the file all the same: an empty KUBECONFIG would mean another cluster
    assert (dead.returncode, dead.stdout) == (1, f"{local.folder.kubeconfig}\n")

    assert local.tfjob("up").returncode == 0
    assert local.folder.server().address == address
    assert local.ask(f"{CONFIGS}/kept") == config_map
    after = local.ask(CONFIGS, {"metadata": {"name": "new"}})
    assert int(after["metadata"]["resourceVersion"]) > int(config_map["metadata"]["resourceVersion"])


@pytest.mark.parametrize("end", ["down", "killed"])
async def test_jobs_go_on_under_the_next_server_and_what_its_end_has_stopped_is_no_failure(local, end):
    """Also of a program that saves its work, and exits with 0."""
    program = {
        "name": "tensorflow",
        "image": "any",
        "command": ["sh", "-c", "trap exit TERM; while :; do sleep 0.05; done"],
    }
    worker = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [program]}}}
    spec = {"tfReplicaSpecs": {"Worker": worker}, "runPolicy": {"backoffLimit": 0}}
    assert local.tfjob("up").returncode == 0
    local.ask(TFJOBS, {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"}, "spec": spec})

    def runs(*, disruptions):
        status = local.ask(f"{TFJOBS}/j").get("status", {"conditions": []})
        worker = status.get("replicaStatuses", {}).get("Worker", {})
        assert not [entry for entry in status["conditions"] if entry["type"] == "Failed"], status
        return worker.get("active") == 1 and status.get("disruptions", 0) == disruptions and "restarts" not in status

    await eventually(lambda: runs(disruptions=0))
    if end == "killed":
        os.kill(local.pid, signal.SIGKILL)
        await eventually(lambda: local.tfjob("status").returncode == 1)
    else:
        assert local.tfjob("down").returncode == 0
    assert local.tfjob("up").returncode == 0
    await eventually(lambda: runs(disruptions=1), within=60)


@pytest.mark.parametrize("end", ["down", "killed"])
async def test_nothing_runs_afterwards_and_a_purge_leaves_nothing(local, tmp_path, end):
    mark = f"mark-{tmp_path.name}"
    assert local.tfjob("up").returncode == 0
    server = local.pid
    local.ask(PODS, sleeper("busy", mark))
    await eventually(lambda: processes_with(mark))
    if end == "killed":
        os.kill(server, signal.SIGKILL)

    down = local.tfjob("down")
    assert down.returncode == 0
    assert down.stderr in {"", "Waiting up to 1 s for programs to end; Ctrl-C kills them.\n"}, "more, if it takes long"
    assert not start_time(server)
    # They are killed; on a busy machine it takes a moment until they are gone.
    await eventually(lambda: not processes_with(mark) and not processes_with(str(local.folder.path)))
    assert local.folder.journal.exists()

    assert local.tfjob("down", "--purge").returncode == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "home"]  # of whoever has typed this: his last cluster


async def test_programs_have_their_grace_period_and_an_interrupt_kills_them(local, tmp_path):
    mark = f"mark-{tmp_path.name}"
    assert local.tfjob("up").returncode == 0
    loop = "while :; do sleep 0.05; done"
    saved, pods = tmp_path / "saved", [sleeper(name, mark) for name in ("saves", "hangs")]
    for pod, on_term in zip(pods, (f"sleep 1.1; echo saved > {saved}; exit", ""), strict=True):
        pod["spec"]["containers"][0]["command"] = ["sh", "-c", f"trap '{on_term}' TERM; echo {mark}; {loop}"]
        pod["spec"]["terminationGracePeriodSeconds"] = 60
        local.ask(PODS, pod)
    for name in ("saves", "hangs"):
        await eventually(lambda path=f"{PODS}/{name}": local.ask(path)["status"]["phase"] == "Running")
    await asyncio.sleep(0.2)  # each shell has set its trap

    down = await asyncio.create_subprocess_exec(*local.command("down"), stderr=subprocess.PIPE)
    assert await down.stderr.readline() == b"Waiting up to 60 s for programs to end; Ctrl-C kills them.\n"
    await eventually(saved.exists)
    assert processes_with(mark)
    down.send_signal(signal.SIGINT)

    assert b"Killing all programs." in (await down.communicate())[1]
    assert down.returncode == 0
    assert not processes_with(mark)


async def test_a_server_that_is_ending_is_waited_for_and_followed_by_another_one(local, tmp_path):
    assert local.tfjob("up").returncode == 0
    first, ready = local.pid, tmp_path / "ready"
    pod = sleeper("busy", "")
    pod["spec"]["containers"][0]["command"] = ["sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"]
    pod["spec"]["terminationGracePeriodSeconds"] = 60
    local.ask(PODS, pod)
    await eventually(ready.exists)
    os.kill(first, signal.SIGTERM)
    await eventually(lambda: local.folder.process().is_ending)
    status = local.tfjob("status")
    assert (status.returncode, "The server is ending" in status.stdout) == (1, True)

    up = await asyncio.create_subprocess_exec(*local.command("up"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process = f"process {first}, which is ending; '{local.folder.command('down')}' kills its programs"
    assert await up.stderr.readline() == f"Waiting up to 100 s: {local.folder.path} is used by {process}.\n".encode()
    os.kill(first, signal.SIGTERM)

    assert (b"The server runs: " in (await up.communicate())[0], up.returncode) == (True, 0)
    assert local.pid != first
    assert local.ask(CONFIGS)["items"] == []
    # The program does not get its 60 s again.
    second = local.pid
    os.kill(second, signal.SIGTERM)
    await eventually(lambda: (server := local.folder.process()) is None or server.is_ending)
    with suppress(ProcessLookupError):
        os.kill(second, signal.SIGTERM)


async def test_after_an_up_that_was_killed_the_next_one_starts_a_server(local):
    """The server of the first one has nobody to serve, and ends; otherwise it would be found starting."""
    first = local.start("up")
    await eventually(local.folder.process)
    first.kill()
    first.wait()

    up = local.tfjob("up")

    assert (up.returncode, "The server runs: " in up.stdout) == (0, True), up.stderr
    assert local.ask(CONFIGS)["items"] == []


@pytest.mark.parametrize("seed", range(INTERRUPTED_STARTS))
async def test_whenever_the_start_is_interrupted_down_leaves_nothing(local, tmp_path, seed):
    """The command, or its server too, is interrupted or killed at some moment until shortly after the start."""
    chance = random.Random(seed)
    up = local.start("up")
    await asyncio.sleep(chance.uniform(0.05, 3.0))
    signal_number = chance.choice((signal.SIGKILL, signal.SIGINT))
    started = [int(line.split()[0]) for line in processes_with(str(local.folder.path))]
    for pid in chance.choice(([up.pid], started)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)
    up.wait(timeout=90)

    down = local.tfjob("down", "--purge")
    assert (down.returncode, down.stderr) == (0, "")
    assert {*tmp_path.iterdir()} <= {tmp_path / "home"}
    # What a killed server was starting at that moment ends when it finds its parent gone.
    await eventually(lambda: not processes_with(str(local.folder.path)))


def test_a_damaged_journal_is_one_sentence(local):
    assert [local.tfjob(verb).returncode for verb in ("up", "down")] == [0, 0]
    connection = sqlite3.connect(local.folder.journal)
    with connection:
        connection.execute("update objects set body = x'00' where path = 'default'")
    connection.close()
    up = local.tfjob("up")

    volumes = f"the data of volumes, in {local.folder.node / 'claims'}, stays if the file alone is moved away"
    way_out = f"'{local.folder.command('down --purge')}' deletes it with all jobs, logs and volumes; {volumes}"
    problem = f"cannot be used (the object default in it is damaged); {way_out}"
    assert (up.returncode, up.stderr) == (1, f"tfjob local: {local.folder.journal} {problem}\n")

    data = local.folder.node / "claims" / "default" / "models" / "0123456789ab" / "model.keras"
    data.parent.mkdir(parents=True)
    data.write_text("weeks of work")
    local.folder.journal.rename(local.folder.path / "journal.damaged")
    for _ in range(2):
        assert [local.tfjob(verb).returncode for verb in ("up", "down")] == [0, 0]
    assert data.read_text() == "weeks of work"


def test_a_server_that_cannot_start_says_why(local):
    local.folder.create()
    (local.folder.path / "journal.sqlite").mkdir()
    up = local.tfjob("up")

    assert up.returncode == 1
    assert up.stderr.startswith(f"tfjob local: {local.folder.journal} cannot be used (unable to open database file)")
    assert up.stderr.count("\n") == 1
    (local.folder.path / "journal.sqlite").rmdir()


def test_a_server_that_cannot_write_its_files_says_so(local):
    """As on a full disk, where its log cannot say it either."""
    local.folder.create()
    local.folder.kubeconfig.mkdir()
    up = local.tfjob("up")

    assert up.returncode == 1
    assert up.stderr.startswith("tfjob local: the server cannot run: [Errno 21] Is a directory"), up.stderr
    assert up.stderr.count("\n") == 1
    local.folder.kubeconfig.rmdir()
