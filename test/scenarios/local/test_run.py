"""``tfjob run`` without a cluster, as people type it: its output, its exit code, and that it leaves nothing behind."""

import asyncio
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml

from support.local_machine import TFJOB, LocalMachine
from support.settle import eventually
from tf_operator.client import NotPossible
from tf_operator.client.local_transport import ServerGone
from tf_operator.client.run import own_server
from tf_operator.local import kubeconfig as local_kubeconfig
from tf_operator.local.node.processes import memory_limits
from tf_operator.local.state import StateFolder

HEAVY = {"aiohttp", "cryptography", "kubernetes", "prometheus_client", "rich", "sqlite3", "structlog"}
"""Packages that take longer to import than a training may take to start."""
ABSL = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
LOST_ONCE = """\
if [ "$REPLICA" = 1 ]; then
    if mkdir /shared/lost; then echo lost; kill -9 $$$$; fi
    touch /shared/back
fi 2>/dev/null
until [ -e /shared/back ]; do sleep 0.05; done; echo "on $TF_CONFIG"; sleep 1
"""
REPLICA = {"fieldRef": {"fieldPath": "metadata.labels['training.kubeflow.org/replica-index']"}}


def job(script, **replicas):
    """The manifest of a job whose replicas run a shell script; they share a folder."""
    container = {
        "name": "tensorflow",
        "image": "none",
        "command": ["sh", "-c", script],
        "env": [{"name": "REPLICA", "valueFrom": REPLICA}],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    volume = {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}
    template = {"spec": {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 1}}
    spec = {kind: {"replicas": n, "restartPolicy": "ExitCode", "template": template} for kind, n in replicas.items()}
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    objects = (
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "shared"}, "spec": claim},
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": "j"},
            "spec": {"tfReplicaSpecs": spec, "runPolicy": {"cleanPodPolicy": "Running"}},
        },
    )
    return yaml.dump_all(objects)


def saving(folder):
    """A program that takes longer to save its work than programs have whose supervisor was killed."""
    save = f"echo saving; sleep 1.1; echo saved; echo saved >> {folder}/saved; exit 1"
    return f"trap '{save}' TERM; echo here; while :; do sleep 0.05; done"


def patient(manifest):
    return manifest.replace("terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 60")


IN_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.setsid()
terminal = os.open(sys.argv[1], os.O_RDWR)
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
for descriptor in (0, 1, 2):
    os.dup2(terminal, descriptor)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture
def machine(tmp_path):
    """Where a command runs."""
    return LocalMachine(tmp_path)


async def test_a_job_runs_to_its_end_with_a_worker_that_is_lost_on_the_way(machine):
    code, output, errors = await machine.run(
        *("run", "-v", "-"), manifest=job(LOST_ONCE, Chief=1, Worker=2, PS=1), PYTHONPROFILEIMPORTTIME="1"
    )

    # When kubectl is served depends on the machine: for a job of a moment, perhaps as it ends.
    lines = [line for line in errors.splitlines() if not re.match(r"import time:| +\d+ ms ", line)]
    assert (code, lines[-1][:29]) == (0, "TFJob default/j has succeeded"), errors
    assert re.fullmatch("without a cluster: images are not used, programs run with .*python.*chooses.", lines[0])
    printed = re.findall(r"^([\w-]+) +\| (\w+)", output, re.MULTILINE)
    assert sorted(printed) == sorted(
        [("chief-0", "on"), ("ps-0", "on"), ("worker-0", "on"), ("worker-1", "lost"), ("worker-1", "on")]
    )
    assert re.search(r'"ps":\["127\.0\.0\.1:\d+"\]', output)
    assert machine.remains() == []

    startup, started, _ = errors.partition("ms  process started\n")
    assert started
    imported = {name.partition(".")[0] for name in re.findall(r"^import time:.*\| +([\w.]+)$", startup, re.MULTILINE)}
    assert imported & HEAVY == set()


async def test_a_restart_of_the_whole_job_is_one_line(machine):
    manifest = job(LOST_ONCE, Chief=1, Worker=2).replace("runPolicy:", "runPolicy:\n    restarts: {scope: Job}")
    code, output, notes = await machine.run("run", "-", manifest=manifest)

    assert code == 0, notes
    (line,) = re.findall(r".*exited with code 137.*", notes)
    begin, end = "warning: worker-1 .* with code 137: lost; attempt 2 begins", "new pods for it and 2 other"
    assert re.match(f"{begin}.*{end}", line), line
    assert output.count("on {") == 3
    assert machine.remains() == []


async def test_what_needs_more_memory_than_its_limit_has_it_in_the_end(machine):
    """Where the system keeps no limits, it has it from the beginning."""
    if limits := memory_limits.find():
        limits.close()
    claim, body = yaml.safe_load_all(job(f"exec {sys.executable} -c 'print(len(bytes(1) * {130 * 2**20}))'", Worker=1))
    worker = body["spec"]["tfReplicaSpecs"]["Worker"]
    worker |= {"restartPolicy": "Never", "oomPolicy": {"maxMemory": "256Mi"}}
    worker["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}

    code, output, notes = await machine.run("run", "-", manifest=yaml.dump_all([claim, body]))

    assert (code, output) == (0, f"{130 * 2**20}\n"), notes
    growths = re.findall(r"memory limit of new pods grows from (\w+) to (\w+) after an OOM kill", notes)
    assert growths == ([("64Mi", "96Mi"), ("96Mi", "144Mi")] if limits else [])
    assert machine.remains() == []


@pytest.mark.parametrize(("shell", "lines"), [({}, ["level 1"]), ({"TF_CPP_MIN_LOG_LEVEL": "0"}, [ABSL, "level 0"])])
async def test_what_tensorflow_says_of_itself_is_not_shown_unless_asked_for(machine, shell, lines):
    script = f"echo '{ABSL}'; echo level $TF_CPP_MIN_LOG_LEVEL"
    code, output, errors = await machine.run("run", "-", manifest=job(script, Worker=1), **shell)

    assert (code, output.splitlines()) == (0, lines), errors


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$$$; sleep 9", 137)], ids=["exit", "signal"])
async def test_the_exit_code_is_that_of_the_replica_that_failed(machine, script, code):
    manifest = job(script, Worker=1).replace("ExitCode", "Never")

    ended, _, errors = await machine.run("run", "-", manifest=manifest)

    assert (ended, f"code {code}" in errors.partition("Why:")[2]) == (code, True), errors
    assert machine.remains() == []


@pytest.mark.parametrize(
    ("api_version", "kind", "replicas"),
    [
        ("batch.tensorstack.dev/v1beta1", "TensorFlowTrainingJob", {"type": "worker", "replicas": 2}),
        ("kubeflow.org/v1alpha1", "TFJob", {"tfReplicaType": "MASTER"}),
        ("mlkube.io/v1beta1", "TfJob", {"tfReplicaType": "MASTER"}),
    ],
    ids=lambda it: it if isinstance(it, str) and "/" in it else "",
)
async def test_jobs_of_other_apis_run_as_well(machine, tmp_path, api_version, kind, replicas):
    count = replicas.get("replicas", 1)  # none ends before all have begun: the first one may decide
    begun = tmp_path / "begun"
    begun.mkdir()
    script = f"echo here; mktemp -p {begun}; until [ $(ls {begun} | wc -l) = {count} ]; do sleep 0.02; done"
    container = {"name": "tensorflow", "image": "none", "command": ["sh", "-c", script]}
    template = {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "j"}}
    body["spec"] = {"replicaSpecs": [{**replicas, "template": template}]}

    code, output, errors = await machine.run("run", "-", manifest=yaml.safe_dump(body))

    assert (code, output.count("here")) == (0, count), errors


async def test_nothing_is_left_of_a_command_that_is_killed(machine):
    process = await machine.start("run", "-", manifest=job("echo here; sleep 100 & sleep 100", Worker=2))
    assert b"here" in await process.stdout.readline()

    process.kill()
    await process.communicate()

    await eventually(lambda: not machine.remains())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda it: it.name)
async def test_programs_have_their_grace_period_when_the_command_is_interrupted(machine, tmp_path, number):
    process = await machine.start("run", "-", manifest=patient(job(saving(tmp_path), Worker=1, PS=1)))
    assert [b"here" in await process.stdout.readline() for _ in range(2)] == [True, True]

    process.send_signal(number)
    output, errors = await process.communicate()

    assert (tmp_path / "saved").read_text() == "saved\nsaved\n"
    replicas = ("ps-0    ", "worker-0")
    assert sorted(output.decode().splitlines()) == [f"{it} | {text}" for it in replicas for text in ("saved", "saving")]
    assert (process.returncode, b"default/j is stopped and deleted" in errors) == (128 + number, True), errors
    assert machine.remains() == []


async def test_programs_have_their_grace_period_when_the_terminal_is_closed(machine, tmp_path):
    terminal, its_end = os.openpty()
    (tmp_path / "job.yaml").write_text(patient(job(saving(tmp_path), Worker=1)))
    with os.fdopen(its_end):
        command = [sys.executable, "-c", IN_TERMINAL, os.ttyname(its_end), *TFJOB, "run", str(tmp_path / "job.yaml")]
        process = await machine.start(command=tuple(command))
        text = b""
        while b"here" not in text:
            text += await asyncio.to_thread(os.read, terminal, 4096)

    os.close(terminal)

    assert await process.wait() == 128 + signal.SIGHUP
    assert (tmp_path / "saved").read_text() == "saved\n"
    assert machine.remains() == []


async def test_a_second_interrupt_kills_programs_at_once(machine):
    stubborn = "trap '' TERM; echo here; while :; do sleep 0.05; done"
    process = await machine.start("run", "-", manifest=patient(job(stubborn, Worker=1)))
    assert b"here" in await process.stdout.readline()
    for expected in (b"Ctrl-C again kills", b"killing all programs"):
        process.send_signal(signal.SIGINT)
        while expected not in await process.stderr.readline():
            assert process.returncode is None

    await process.communicate()

    assert process.returncode == 130
    assert machine.remains() == []


async def test_a_local_server_that_runs_is_used_with_the_python_and_the_folder_of_this_shell(
    machine, tmp_path, monkeypatch
):
    assert (await machine.run("local", "up"))[0] == 0
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "train.py").write_text("import sys; print(sys.executable)")
    monkeypatch.chdir(tmp_path)
    try:
        assert (await machine.run("init", "job.yaml", "--program=train.py"))[0] == 0
        code, output, errors = await machine.run("run", "job.yaml", VIRTUAL_ENV=str(tmp_path / "venv"))
        assert (await machine.run("get", "my-job", "-o", "name"))[:2] == (0, "tfjob.kubeflow.org/my-job\n")
    finally:
        down = await machine.run("local", "down", "--purge")

    assert (code, output) == (0, f"{tmp_path}/venv/bin/python\n"), errors
    assert "those of the shell in which 'tfjob local up' was typed" in errors
    assert down[0] == 0
    # Kept, so that the next command which names no cluster does not silently change another one.
    assert [path.name for path in machine.remains()] == ["last-cluster.json"]


async def test_a_server_that_was_killed_sends_no_change_to_the_cluster_that_is_left(
    machine, tmp_path, control_plane, namespace
):
    """Two servers have a job of one name, and the one of this machine dies."""
    kubeconfig = control_plane.kubeconfig("admin")
    manifest = job("sleep 1000", Worker=1)
    submitted = await machine.run("submit", "-", "-n", namespace, "--kubeconfig", str(kubeconfig), manifest=manifest)
    assert submitted[0] == 0, submitted
    (tmp_path / "home/.kube").mkdir()
    shutil.copy(kubeconfig, tmp_path / "home/.kube/config")
    assert (await machine.run("local", "up"))[0] == 0
    try:
        folder = StateFolder(tmp_path / "state/tf-operator/local")
        server = folder.process()
        server.process.signal(signal.SIGKILL)
        await eventually(lambda: not server.process.is_alive)

        code, output, errors = await machine.run("delete", "j", "-n", namespace)
        assert (code, output) == (1, "")
        assert f"nothing was changed, because the local server of {folder.path} does not run" in errors
        notes = [(await machine.run("get", "j", "-o", "name", "-n", namespace))[1:] for _ in range(2)]
        assert [name for name, _ in notes] == ["tfjob.kubeflow.org/j\n"] * 2
        assert ["this is" in note for _, note in notes] == [True, False]
        context = yaml.safe_load(kubeconfig.read_text())["current-context"]
        process = await machine.run("delete", "j", "-n", namespace, "--context", context)
        assert process == (0, f"TFJob {namespace}/j deleted in {context}\n", "")
    finally:
        await machine.run("local", "down", "--purge")


async def test_no_change_goes_to_the_cluster_that_is_left_while_a_server_with_a_folder_of_its_own_is_not_named(
    machine, tmp_path
):
    config = local_kubeconfig.text("https://127.0.0.1:1", authority=b"", token="t")
    (tmp_path / "home/.kube").mkdir()
    (tmp_path / "home/.kube/config").write_text(config.replace(local_kubeconfig.CONTEXT, "prod-eu"))
    own = f"--state-dir={tmp_path}/state/my own"
    code, output, errors = await machine.run("local", "up", own)
    try:
        assert "commands in this shell are for another cluster" not in output
        again = await machine.run("local", "up", own, KUBECONFIG=str(tmp_path / "prod"))
        assert "Before that, commands in this shell are for another cluster, which KUBECONFIG names.\n" in again[1]
        assert (code, f"export KUBECONFIG='{tmp_path}/state/my own/kubeconfig'\n" in output) == (0, True), errors
        code, output, errors = await machine.run("delete", "j")
        assert (code, output) == (1, "")
        assert re.search("because earlier commands used the local server at .*: name the cluster", errors)
    finally:
        await machine.run("local", "down", "--purge", own)


async def test_flags_of_this_machine_and_a_named_cluster_exclude_each_other(machine):
    manifest = job("exit 0", Worker=1)

    assert (await machine.run("run", "-", "--mount=/a=/", "--context=c", manifest=manifest))[0] == 2
    assert (await machine.run("run", "-", "--python=/no/such", manifest=manifest))[0] == 2


@pytest.mark.parametrize("command", ["local up", "run JOB", "get j --kubeconfig=relative"])
async def test_a_command_in_a_folder_that_was_deleted_says_so(machine, tmp_path, command):
    folder, manifest = tmp_path / "gone", tmp_path / "job.yaml"
    folder.mkdir()
    manifest.write_text(job("exit 0", Worker=1))
    in_folder = ("sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(folder), *TFJOB)

    process = await machine.start(*command.replace("JOB", str(manifest)).split(), command=in_folder)
    _, errors = await process.communicate()

    rule = "tfjob: the current folder was deleted; change to another one (cd)"
    assert (process.returncode, errors.decode().splitlines()[-1]) == (1, rule), errors


async def test_what_the_local_server_refuses_is_one_sentence(machine):
    manifest = f"{job('exit 0', Worker=1)}---\n{yaml.safe_dump({'apiVersion': 'v1', 'kind': 'Gadget'})}"

    code, _, errors = await machine.run("run", "-", manifest=manifest)

    assert (code, errors.splitlines()[-1]) == (1, "tfjob: the API server has no Gadget of v1")


async def test_a_machine_without_the_package_for_tls_runs_jobs_and_says_what_kubectl_needs(machine, tmp_path):
    (tmp_path / "cryptography.py").write_text("raise ImportError")
    missing = {"PYTHONPATH": str(tmp_path)}

    rule = "kubectl needs TLS, and that a package: pip install 'tf-operator[local]'"
    assert await machine.run("local", "up", **missing) == (1, "", f"tfjob local: {rule}\n")

    manifest = job(f"for i in $(seq 999); do [ -e {tmp_path}/is-over ] && break; sleep 0.1; done", Worker=1)
    process = await machine.start("run", "-", "-v", manifest=manifest, **missing)
    while f"kubectl is not served: {rule}" not in (await process.stderr.readline()).decode():
        assert process.returncode is None
    (tmp_path / "is-over").touch()
    await process.communicate()

    assert process.returncode == 0


async def test_python_says_that_the_server_of_its_job_was_killed():
    async def lose_server():
        async with own_server.running() as kubeconfig:
            folder = StateFolder(Path(kubeconfig).parent)
            folder.process().process.signal(signal.SIGKILL)
            await eventually(lambda: folder.process() is None)
            raise ServerGone

    with pytest.raises(NotPossible, match="the server on this machine was killed"):
        await lose_server()


IN_PYTHON = """
import sys
from tf_operator.client import TFJobs

result = TFJobs().run(sys.argv[1])
print(result, result.exit_code, sep="\\n")
"""


async def test_a_python_program_runs_a_job_without_a_cluster(machine, tmp_path):
    (tmp_path / "job.yaml").write_text(job(f"echo '{ABSL}'; echo here; exit 3", Worker=1).replace("ExitCode", "Never"))
    program = (sys.executable, "-W", "error", "-c", IN_PYTHON)

    process = await machine.start(str(tmp_path / "job.yaml"), command=program)
    output, errors = (part.decode() for part in await process.communicate())

    assert (process.returncode, errors) == (0, "")
    assert output.startswith("worker-0 | here\nTFJob default/j has failed")
    assert output.endswith(
        "to inspect a job after its end: tfjob local up, and tfjob run again; then pods, logs and events stay\n3\n"
    )
    assert machine.remains() == []


TRAINS = """
from tf_operator.client import NotPossible, TFJobs

def fit_digits(parameters):
    import json, os

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(parameters["greeting"])
    return [task["type"], task["index"]]

with TFJobs() as jobs:
    ended = jobs.train(fit_digits, parameters={"greeting": "$(HOME)"}, chief=True, on_line=print)
    print(ended.job.name, ended.exit_code, ended.result)
    try:
        jobs.train(lambda: 1)
    except NotPossible as error:
        print(error)
"""


async def test_a_python_program_trains_a_function_without_a_cluster(machine, tmp_path):
    (tmp_path / "program.py").write_text(TRAINS)
    program = (sys.executable, "-W", "error", str(tmp_path / "program.py"))

    process = await machine.start(command=program)
    output, errors = (part.decode() for part in await process.communicate())

    assert (process.returncode, errors) == (0, "")
    assert "replica='chief-0', pod='fit-digits-chief-0', text='$(HOME)'" in output
    assert output.endswith(
        "fit-digits 0 ['chief', 0]\ntrain_func is a lambda: define a function with def, and name it\n"
    )
    assert machine.remains() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
async def test_nothing_is_left_of_a_job_whose_python_program_ends(machine, tmp_path, number):
    (tmp_path / "job.yaml").write_text(job("trap 'exit 1' TERM; echo here; while :; do sleep 0.05; done", Worker=1))

    process = await machine.start(str(tmp_path / "job.yaml"), command=(sys.executable, "-c", IN_PYTHON))
    assert await process.stdout.readline() == b"worker-0 | here\n"
    process.send_signal(number)
    _, errors = await process.communicate()

    assert ("KeyboardInterrupt" in errors.decode()) is (number == signal.SIGINT)
    if number == signal.SIGKILL:
        await eventually(lambda: not machine.remains())
    assert machine.remains() == []


async def test_a_second_interruption_kills_the_programs_of_a_python_program(machine, tmp_path):
    signal_file = tmp_path / "asked"
    stubborn = patient(job(f"trap 'touch {signal_file}' TERM; echo here; while :; do sleep 0.05; done", Worker=1))
    (tmp_path / "job.yaml").write_text(stubborn)

    process = await machine.start(str(tmp_path / "job.yaml"), command=(sys.executable, "-c", IN_PYTHON))
    assert await process.stdout.readline() == b"worker-0 | here\n"
    process.send_signal(signal.SIGINT)
    await eventually(signal_file.exists)
    assert process.returncode is None
    process.send_signal(signal.SIGINT)
    await eventually(lambda: process.returncode is not None)
    _, errors = await process.communicate()

    assert "KeyboardInterrupt" in errors.decode()
    assert machine.remains() == []
