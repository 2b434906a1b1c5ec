"""A flood of connections and requests does not keep the kubelet from the probes."""

import asyncio
import socket
from contextlib import ExitStack

from prometheus_client import CollectorRegistry

from support.fake_clock import FakeClock
from tf_operator.app.http import endpoints, policies, server
from tf_operator.app.metrics.exposition import Exposition
from tf_operator.app.options.flag_types import Address
from tf_operator.machinery import sockets

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(_request):
    return server.HttpReply(200, b"ok\n")


class Backlog:
    """Always has one more connection; the first is the probe's, with its request. Ends after so many."""

    def __init__(self, stack, most):
        self.stack = stack
        self.most = most
        self.clients = []

    async def accept(self, _listener):
        if len(self.clients) == self.most:
            await asyncio.Event().wait()
        accepted, client = map(self.stack.enter_context, socket.socketpair())
        accepted.setblocking(False)
        client.setblocking(False)
        if not self.clients:
            client.sendall(REQUEST)
        self.clients.append(client)
        return accepted


async def test_a_probe_is_answered_while_the_backlog_never_empties(monkeypatch):
    with ExitStack() as stack:
        backlog = Backlog(stack, policies.PAGES.most * 2)
        monkeypatch.setattr(sockets, "accept", backlog.accept)
        async with asyncio.TaskGroup() as tasks:
            endpoint = server.Endpoint(Address("", 0), {"/healthz": answer})
            serving = tasks.create_task(server._Site(endpoint, FakeClock(), tasks).open.accept(None))
            while len(backlog.clients) < backlog.most:
                await asyncio.sleep(0)
            received = backlog.clients[0].recv(1000)
            serving.cancel()
            for client in backlog.clients:
                client.close()

    assert received.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_client_that_has_just_connected_is_not_closed_for_the_next_ones_while_slow_readers_hold_the_places():
    async def long(_request):
        return server.HttpReply(200, bytes(50_000_000))

    pages = {"/metrics": long, "/healthz": answer}
    with server.serving(server.Endpoint(Address("127.0.0.1", 0), pages)) as (address,), ExitStack() as stack:
        for _ in range(policies.PAGES.most):
            reader = stack.enter_context(socket.create_connection((address.host, address.port), timeout=10))
            reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert reader.recv(4) == b"HTTP"
        probe, *_ = (
            stack.enter_context(socket.create_connection((address.host, address.port), timeout=10))
            for _ in range(policies.PAGES.most // 2)
        )
        probe.sendall(REQUEST)

        assert probe.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_only_so_many_requests_wait_for_a_page_of_metrics():
    sampled = asyncio.Event()
    page = endpoints.metrics_page(Exposition(CollectorRegistry(), FakeClock(), sampled.wait))
    waiting = [asyncio.ensure_future(page(server.PageRequest())) for _ in range(endpoints.SCRAPES_AT_ONCE)]
    await asyncio.sleep(0)

    assert (await asyncio.wait_for(page(server.PageRequest()), 10)).status == 503
    sampled.set()
    assert {reply.status for reply in await asyncio.gather(*waiting)} == {200}
    assert (await page(server.PageRequest())).status == 200


def test_a_request_with_more_headers_than_any_scraper_sends_is_refused():
    """Each may have the length of a token, so a few connections could fill the memory."""
    with (
        server.serving(server.Endpoint(Address("127.0.0.1", 0), {"/healthz": answer})) as (address,),
        socket.create_connection((address.host, address.port), timeout=10) as client,
    ):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"x: y\r\n" * 40 + b"\r\n")

        assert client.recv(1000).startswith(b"HTTP/1.0 400 ")
