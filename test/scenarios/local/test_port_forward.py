"""``tfjob port-forward``: a port of a replica that runs on this machine."""

import asyncio
import signal
from contextlib import suppress

import pytest

from support.local_machine import LocalMachine
from support.settle import eventually

# Says which replica it is to whoever connects, and repeats what it is sent.
SERVER = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["TF_OPERATOR_PORT_7000"])))
while True:
    connection, _ = server.accept()
    connection.sendall(os.environ["REPLICA"].encode())
    while piece := connection.recv(1 << 16):
        connection.sendall(piece)
    connection.close()
"""
REPLICA = {"fieldRef": {"fieldPath": "metadata.labels['training.kubeflow.org/replica-index']"}}


@pytest.fixture
async def machine(tmp_path):
    """A server on which a job with two replicas runs."""
    machine = LocalMachine(tmp_path)
    container = {
        "name": "tensorflow",
        "image": "none",
        "command": ["python", "-c", SERVER],
        "env": [{"name": "REPLICA", "valueFrom": REPLICA}],
        "ports": [{"containerPort": 7000}, {"containerPort": 7001}],
    }
    async with machine.with_job({"containers": [container]}):
        yield machine


async def answer(port, text):
    """What a replica says, and what it repeats until it is told that nothing follows."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_a_port_of_a_replica_is_open_until_the_replica_or_the_user_ends_it(machine):
    process = await machine.start("port-forward", "j", "--replica", "worker-1", ":7000", ":7001")
    lines = [(await process.stdout.readline()).decode().split() for _ in range(2)]
    assert [line[2:] for line in lines] == [
        [line[2], "->", port] for line, port in zip(lines, ("7000", "7001"), strict=True)
    ]
    first, second = (int(line[2].rpartition(":")[2]) for line in lines)

    async def is_answered():
        large = b"x" * 1_000_000
        with suppress(ConnectionError):  # its program does not listen yet
            return await answer(first, large) == b"1" + large

    await eventually(is_answered, within=60)
    assert await answer(second, b"") == b""
    while b"port 7001" not in (line := await process.stderr.readline()):
        assert line.startswith(b"worker-1 does not listen on port 7000"), line
    assert line.startswith(b"worker-1 does not listen on port 7001, which is 127.0.0.1:")

    code, _, errors = await machine.run("port-forward", "j", "--replica", "worker-0", f"{first}:7000")
    rule = f"127.0.0.1:{first} cannot be opened: something listens there already; :7000 opens one that is free"
    assert (code, errors) == (1, f"tfjob: {rule}\n")

    reader, writer = await asyncio.open_connection("127.0.0.1", first)
    assert await reader.readexactly(1) == b"1"
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 130  # although somebody is connected
    writer.close()

    process = await machine.start("port-forward", "j", "--replica", "worker-0", ":7000")
    port = int((await process.stdout.readline()).split()[2].rpartition(b":")[2])
    assert await answer(port, b"") == b"0"
    assert (await machine.run("delete", "j"))[0] == 0

    async def is_over():
        with suppress(ConnectionError):
            await answer(port, b"")
        return process.returncode is not None

    await eventually(is_over, within=60)
    assert (await process.wait(), (await process.stderr.read()).startswith(b"tfjob: ")) == (1, True)


async def test_what_cannot_be_forwarded_is_a_sentence(machine):
    refusals = {
        "j 7000": (1, "j has several replicas, name one with --replica: worker-0, worker-1"),
        "j --replica ps-0 7000": (1, "j has no such pod; tfjob explain j says why"),
        "j --replica worker-1 80": (
            1,
            "port 80 of worker-1 is 127.0.0.1:80 already: connect to that, or open another one with :80",
        ),
        "k 7000": (1, 'tfjobs.kubeflow.org "k" not found; tfjob list shows the jobs, -n names another namespace'),
    }
    for line, (code, sentence) in refusals.items():
        assert await machine.run("port-forward", *line.split()) == (code, "", f"tfjob: {sentence}\n")
    for ports in ("x", "0", "70000", "1:2:3", "-1", "80:"):
        code, _, errors = await machine.run("port-forward", "j", "--", ports)
        assert (code, f"{ports!r} is not PORT, LOCAL:PORT or :PORT, from 1 to 65535" in errors) == (2, True), errors
