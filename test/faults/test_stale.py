"""An apiserver that is behind the others, because it has lost touch with etcd."""

import asyncio
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from lab.control_plane.plane import ControlPlane
from support import oracle
from support.api import Api
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.trigger import create, delete, watch
from support.resources import TFJOBS
from support.settle import eventually


class Hop:
    """A TCP hop that can be frozen, from any thread: connections stay open, and not a byte moves."""

    def __init__(self, url):
        self._target = urlsplit(url)
        self._loop = asyncio.get_running_loop()
        self._sockets = set()
        self.moving = asyncio.Event()
        self.moving.set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *failure):
        self._server.close()
        self.moving.set()
        for writer in self._sockets:
            writer.transport.abort()

    def freeze(self):
        self._loop.call_soon_threadsafe(self.moving.clear)

    @contextmanager
    def frozen(self):
        self.moving.clear()
        try:
            yield
        finally:
            self.moving.set()

    async def _serve(self, reader, writer):
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._sockets |= {writer, back}
        await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))

    async def _pass_on(self, reader, writer):
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self.moving.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory, plane_programs):
    with ControlPlane.up(tmp_path_factory.mktemp("own") / "plane") as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hop(control_plane):
    """What is between the second apiserver and etcd."""
    async with Hop(control_plane.etcd_url) as running:
        await asyncio.to_thread(control_plane.add_apiserver, "second", etcd_url=running.url)
        yield running


@pytest.fixture
def proxy(control_plane, hop):
    """In front of both apiservers; the second one is the stale one when the hop is frozen."""
    kubeconfigs = [control_plane.kubeconfig("operator", server=server) for server in ("kube-apiserver", "second")]
    with FaultProxy(*kubeconfigs) as running:
        yield running
    hop.moving.set()  # also after a test that has failed amid it


async def test_an_operator_that_reads_from_a_stale_apiserver_creates_nothing_twice(proxy, hop, field, start):
    """All reads go to an apiserver that stops amid our writes, which go to one that goes on."""
    proxy.route(reads=1, writes=0)
    operator = await start(speed=10)
    await field.reach(operator, "shrunk", 3)
    stopped = proxy.on(create("pods"), do=faults.call(hop.freeze), nth=2)
    await field.want("w", 5)
    await proxy.until(stopped.has_fired)
    await eventually(lambda: not hop.moving.is_set())
    shrunk = await field.want("shrunk", 1)
    for note in range(20):
        await field.want("w", 5, note=note)
        await asyncio.sleep(0.2)
    cached = (await operator.caches())["jobs"]["shrunk"][1]
    assert cached != shrunk["metadata"]["resourceVersion"], "the stale apiserver was not stale"
    hop.moving.set()
    await field.settled(operator)

    assert sorted(call.name for call in proxy.calls(delete("pods"))) == [field.pod("shrunk", 1), field.pod("shrunk", 2)]
    oracle.nothing_twice(proxy)


async def test_a_new_operator_at_a_stale_apiserver_waits_until_it_knows(proxy, hop, field, start):
    """Its first list is a consistent one, or none."""
    first = await start()
    await field.reach(first, "w", 3)
    await both_serve(field)
    with hop.frozen():
        await field.reach(first, "w", 5)
        await first.kill()
        created = proxy.count(create("pods"))

        proxy.route(reads=1, writes=0)
        second = await start(speed=10, until="started")
        await asyncio.sleep(5)
        assert True not in (await second.caches())["synced"].values()
        assert proxy.count(create("pods")) == created
    await field.settled(second)

    oracle.nothing_twice(proxy)


async def test_requests_that_go_to_a_fresh_and_a_stale_apiserver_in_turn_create_nothing_twice(proxy, hop, field, start):
    """A load balancer alternates; the caches never go back."""
    proxy.alternate()
    operator = await start(speed=10)
    await field.reach(operator, "w", 3)
    await both_serve(field)

    with hop.frozen():
        await field.want("w", 5)
        for number in range(6):
            await field.want(f"n{number}", 0)
            await asyncio.sleep(0.7)
            # Opened again, some at the one and some at the other.
            with suppress(AssertionError):  # none is open
                proxy.now(watch(), do=faults.cut())
    await field.settled(operator)

    assert (await operator.caches())["deleted"] == {}
    assert proxy.calls(delete()) == ()
    assert set(field.created().values()) == {1}


async def both_serve(field):
    """Have the second apiserver fill its cache, which it does when it is first asked: else it would have no answer."""
    async with Api(field.plane.kubeconfig("admin", server="second")) as api:
        await eventually(lambda: api.list(TFJOBS.path(field.namespace), resourceVersion="0"))
