"""Which pods share a network, how long it lasts, and what leads out of it."""

import asyncio
import gc
import sys
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest

from tf_operator.job.constants import NETWORK_ANNOTATION
from tf_operator.local.node.job_networks import MOST_CONNECTIONS, JobNetworks, is_isolated
from tf_operator.local.node.pod import pod_of
from tf_operator.local.node.processes import network, network_requests
from tf_operator.local.node.processes.network_requests import NetworkError
from tf_operator.machinery.clock import SystemClock

_FLOOD = """
import socket, sys
sys.path.insert(0, sys.argv[1])
import network
network.enter(sys.argv[3:])
kept = [socket.socket() for _ in range(200)]
for each in kept:
    each.setblocking(False)
    each.connect_ex(("127.0.0.1", int(sys.argv[2])))
print("connected", flush=True)
sys.stdin.read()
"""
"""Connects from the network that has these paths, and waits."""


def pod(uid, job="", mode="Job"):
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job, "uid": job, "controller": True}
    metadata = {"name": uid, "uid": uid, "annotations": {NETWORK_ANNOTATION: mode}}
    return pod_of({"metadata": {**metadata, "ownerReferences": [owner] if job else []}})


def names(paths):
    return [str(Path(path).readlink()) for path in paths]


def is_kept(paths):
    return any(Path(path).exists() for path in paths)


def descriptors():
    return len([*Path("/proc/self/fd").iterdir()])


@asynccontextmanager
async def passing_on_to(serve):
    """A port with this server, the paths of a network in which it is reached, and the server."""
    async with asyncio.TaskGroup() as tasks, await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        networks, isolated = JobNetworks(port, SystemClock()), pod("a", "j")
        running = tasks.create_task(networks.run())
        await asyncio.sleep(0)
        paths = await networks.join(isolated)
        yield port, paths, server
        networks.release(isolated)
        await asyncio.sleep(0.1)
        assert not is_kept(paths)
        running.cancel()


async def test_pods_of_a_job_share_one_until_the_last_is_released():
    networks = JobNetworks(None, SystemClock())
    first, second, other, alone = pod("a", "j"), pod("b", "j"), pod("c", "k"), pod("d")
    both = await asyncio.gather(networks.join(first), networks.join(second))
    others = [await networks.join(other), await networks.join(alone)]

    assert both[0] == both[1]
    assert len({str(names(paths)) for paths in (both[0], *others)}) == 3
    assert await networks.join(first) == both[0], "a container that is started again"
    assert await networks.join(pod("a", "j", "None")) == both[0], "and one of a pod that somebody has edited"
    networks.release(first)
    networks.release(first)
    assert await networks.join(second) == both[0]
    networks.release(second)
    for each in (other, alone):
        networks.release(each)
    assert not networks._by_job
    assert not any(is_kept(paths) for paths in (both[0], *others))


async def test_a_pod_that_is_not_isolated_stays_in_the_network_of_the_machine(monkeypatch):
    monkeypatch.setattr(network_requests, "make", None)
    networks = JobNetworks(None, SystemClock())
    for mode in ("None", ""):
        assert not is_isolated(pod("a", "j", mode))
        assert await networks.join(pod("a", "j", mode)) == ()
        networks.release(pod("a", "j", mode))


async def test_connections_to_one_port_are_passed_on():
    async def serve(reader, writer):
        text = await reader.read()
        gc.collect()
        writer.write(text)
        writer.close()

    async with passing_on_to(serve) as (port, paths, server):
        text = b"x" * 1_000_000

        async def answer(text):
            inner = await network_requests.connect(paths, "127.0.0.1", port)
            reader, writer = await asyncio.open_connection(sock=inner)
            writer.write(text)
            writer.write_eof()
            try:
                return await reader.read()
            finally:
                writer.close()

        assert [len(each) for each in await asyncio.gather(*(answer(text) for _ in range(20)))] == [len(text)] * 20
        server.close()
        assert await answer(b"") == b"", "nobody serves: the connection is closed"


async def test_a_program_that_connects_and_connects_takes_few_descriptors():
    is_due = asyncio.Event()

    async def serve(_, writer):
        await is_due.wait()
        writer.close()

    async with passing_on_to(serve) as (port, paths, _):
        command = (sys.executable, "-c", _FLOOD, str(Path(network.__file__).parent), str(port), *paths)
        before = descriptors()
        program = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert await program.stdout.readline()
        await asyncio.sleep(0.3)
        taken = descriptors() - before
        is_due.set()
        await program.communicate(b"")
        assert taken <= 3 * MOST_CONNECTIONS + 2, "two of each connection, one of the server of this test, two pipes"


async def test_a_program_that_keeps_its_connections_does_not_keep_others_out():
    """The machine's side has closed them: there is nothing more to come."""

    async def serve(reader, writer):
        await reader.read(1)
        writer.write(b"!")
        writer.close()

    async with passing_on_to(serve) as (port, paths, _), AsyncExitStack() as kept:
        for _ in range(MOST_CONNECTIONS + 2):
            inner = kept.enter_context(closing(await network_requests.connect(paths, "127.0.0.1", port)))
            await asyncio.get_running_loop().sock_sendall(inner, b"x")
            async with asyncio.timeout(10):
                assert await asyncio.get_running_loop().sock_recv(inner, 9) == b"!"


async def test_nothing_is_kept_of_one_that_cannot_be_made_in_full(monkeypatch):
    made = []

    async def make():
        network, inner = await original()
        made.append(network)
        inner.bind(("127.0.0.1", 5000))
        return network, inner

    original = network_requests.make
    monkeypatch.setattr(network_requests, "make", make)
    networks = JobNetworks(5000, SystemClock())
    with pytest.raises(OSError, match="Invalid argument"):
        await networks.join(pod("a", "j"))
    assert not is_kept(made[0].paths)

    async def refuse():
        raise NetworkError("unshare: Operation not permitted")

    monkeypatch.setattr(network_requests, "make", refuse)
    with pytest.raises(NetworkError):
        await networks.join(pod("a", "j"))
    networks.release(pod("a", "j"))
    monkeypatch.setattr(network_requests, "make", original)
    networks = JobNetworks(None, SystemClock())
    assert len(await networks.join(pod("b", "j"))) > 0
    networks.release(pod("b", "j"))
