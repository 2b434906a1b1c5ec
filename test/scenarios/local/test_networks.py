"""Jobs with ``networkPolicy: Job`` on this machine: who reaches their programs, and what is left of their network."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from support.local_machine import LocalMachine
from support.settle import eventually
from tf_operator.local.node.processes import network

PROGRAM = """
import json, os, pathlib, socket, threading, time, urllib.request

config = json.loads(os.environ["TF_CONFIG"])
index, addresses = config["task"]["index"], config["cluster"]["worker"]
own, peer = (address.split(":") for address in (addresses[index], addresses[1 - index]))
server = socket.create_server(("0.0.0.0", int(own[1])))

def serve():
    while True:
        connection, _ = server.accept()
        connection.sendall(b"worker-%d" % index)
        connection.close()

threading.Thread(target=serve, daemon=True).start()
while True:
    try:
        with socket.create_connection(peer, 5) as connection:
            print("port", own[1], "hears", connection.recv(100).decode(), flush=True)
        break
    except OSError:
        time.sleep(0.05)
try:
    socket.create_connection(("127.0.0.1", int(os.environ["OUTSIDE"])), 5)
    print("reaches others", flush=True)
except OSError as error:
    print("reaches nobody else", flush=True)
if url := os.environ.get("KUBEFLOW_TRAINER_SERVER_URL"):
    token = pathlib.Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text()
    body = json.dumps({"trainerStatus": {"progressPercentage": 34}}).encode()
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}"})
    print("report", urllib.request.urlopen(request).status, flush=True)
pathlib.Path("/exchange", f"made-by-{index}").touch()
while not os.path.exists("/exchange/done"):
    time.sleep(0.05)
"""
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
WRAPPERS = {"as one who may": (), "by a user namespace": WITHOUT_RIGHTS if os.geteuid() == 0 else ()}
NONE_LEFT = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
REFUSED = ("unshare", "--user", "--map-root-user", "sh", "-c", NONE_LEFT, "sh")
"""A machine that has no more of them."""
FROM_PYTHON = """
import json, sys
from tf_operator.client import NotPossible, TFJobs

try:
    TFJobs().run(json.load(sys.stdin))
except NotPossible as error:
    print(error)
"""
RULE = "spec.networkPolicy: Job needs a network of the job's own, which this machine refuses"


def manifest(folder, outside=0, mode="Job"):
    container = {
        "name": "tensorflow",
        "image": "none",
        "command": ["python", "-c", PROGRAM],
        "env": [{"name": "OUTSIDE", "value": str(outside)}],
        "volumeMounts": [{"name": "work", "mountPath": "/exchange"}],
    }
    template = {"spec": {"containers": [container], "volumes": [{"name": "work", "hostPath": {"path": str(folder)}}]}}
    worker = {"replicas": 2, "restartPolicy": "OnFailure", "template": template}
    spec = {"networkPolicy": mode, "tfReplicaSpecs": {"Worker": worker}}
    return json.dumps({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"}, "spec": spec})


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def networks(machine):
    """Other networks than this one in which processes of this machine are, or that they keep."""
    ours, found = str(Path("/proc/self/ns/net").readlink()), set()
    for pid in machine.processes():
        for link in (Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").glob("*")):
            try:
                found.add(str(link.readlink()))
            except OSError:  # it has just ended
                continue
    return {name for name in found if name.startswith("net:[") and name != ours}


async def wait_lines(machine, replica, *expected):
    """Wait until a replica has printed these lines; the port at which it listens."""

    async def has_lines():
        _, output, errors = await machine.run("logs", "j", "--replica", replica)
        assert all(f"{line}\n" in output for line in expected), (output, errors)
        return int(output.split()[1])

    return await eventually(has_lines, within=60)


def process_of(machine, index):
    """Its number; 0 at the moment in which there is none."""
    return next(iter(machine.processes(having=f'"task":{{"type":"worker","index":{index}}}')), 0)


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
async def test_programs_reach_each_other_and_the_operator_and_nobody_else_reaches_them(tmp_path, folder, wrapper):
    machine = LocalMachine(tmp_path, wrapper)
    assert (await machine.run("local", "up"))[0] == 0
    try:
        with socket.create_server(("127.0.0.1", 0)) as outside:
            text = manifest(folder, outside.getsockname()[1])
            assert (await machine.run("submit", "-", manifest=text))[0] == 0
            expected = ("hears worker-1", "reaches nobody else", "report 200")
            port = await wait_lines(machine, "worker-0", *expected)
            other = await wait_lines(machine, "worker-1", "hears worker-0", "reaches nobody else")
        for closed in (port, other):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", closed), 5)
        assert len(networks(machine)) == 1

        async def is_told():
            return "34 %" in (await machine.run("get"))[1]

        await eventually(is_told)
        owners = [(folder / f"made-by-{index}").stat() for index in (0, 1)]
        assert {(owner.st_uid, owner.st_gid) for owner in owners} == {(os.getuid(), os.getgid())}

        devices = await machine.run("exec", "j", "--replica", "worker-0", "--", "cat", "/proc/net/dev")
        assert [line.split(":")[0].strip() for line in devices[1].splitlines()[2:]] == ["lo"], devices
        forwarder = await machine.start("port-forward", "j", "--replica", "worker-1", f"{port}:2222")
        assert await forwarder.stdout.readline() == f"Forwarding from 127.0.0.1:{port} -> 2222\n".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b"worker-1"
        writer.close()
        forwarder.send_signal(signal.SIGINT)
        assert await forwarder.wait() == 130

        network, first = networks(machine), process_of(machine, 1)
        os.kill(first, signal.SIGKILL)

        async def is_replaced():
            assert process_of(machine, 1) not in {0, first}
            return "hears worker-0" in (await machine.run("logs", "j", "--replica", "worker-1"))[1]

        await eventually(is_replaced, within=60)
        assert networks(machine) == network, "it is in the same one again"

        (folder / "done").touch()
        assert (await machine.run("wait", "j"))[0] == 0

        async def is_gone():
            return not networks(machine)

        await eventually(is_gone, within=60)
    finally:
        await machine.run("local", "down", "--purge")
    assert machine.processes() == {}


async def test_nothing_is_left_of_a_server_that_was_killed_and_the_next_one_makes_another_network(tmp_path, folder):
    machine = LocalMachine(tmp_path)
    assert (await machine.run("local", "up"))[0] == 0
    try:
        following = await machine.start("run", "-", manifest=manifest(folder))
        await wait_lines(machine, "worker-0", "hears worker-1", "report 200")
        following.kill()
        said = (await following.communicate())[1].decode()
        assert f"the programs of the job get {network.MEANING}\n" in said
        before = networks(machine)
        (server,) = (
            pid for pid, command in machine.processes().items() if "local" in command and "spawner" not in command
        )
        os.kill(server, signal.SIGKILL)

        async def is_over():
            return not machine.processes()

        await eventually(is_over, within=60)
        assert (await machine.run("local", "up"))[0] == 0
        await wait_lines(machine, "worker-0", "hears worker-1", "report 200")
        assert len(networks(machine)) == len(before) == 1
    finally:
        await machine.run("local", "down", "--purge")
    assert machine.processes() == {}


async def test_where_there_can_be_none_a_job_is_refused_and_one_that_was_submitted_waits(tmp_path, folder):
    machine = LocalMachine(tmp_path, REFUSED)
    code, output, errors = await machine.run("run", "-", manifest=manifest(folder))
    assert (code, output) == (1, "")
    reason = "(unshare: a limit in /proc/sys/user is reached)"
    assert errors.splitlines()[-1] == f"tfjob: {RULE} {reason}: run it as root, or allow user namespaces"
    refused = await machine.run(command=(sys.executable, "-c", FROM_PYTHON), manifest=manifest(folder))
    assert refused == (0, f"{RULE} {reason}: run it as root, or allow user namespaces\n", "")
    assert machine.remains() == []

    assert (await machine.run("local", "up"))[0] == 0
    try:
        assert (await machine.run("submit", "-", manifest=manifest(folder)))[0] == 0

        async def is_explained():
            text = (await machine.run("explain", "j"))[1]
            assert f"{RULE} {reason}" in " ".join(text.split()), text
            return True

        await eventually(is_explained, within=60)
        assert not machine.processes(having="TF_CONFIG=")
    finally:
        await machine.run("local", "down", "--purge")
    assert list(folder.iterdir()) == []
