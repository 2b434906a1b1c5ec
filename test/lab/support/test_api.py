"""The clients of tests at a server that cannot look at a request yet."""

import asyncio
import json
import ssl

import pytest
import trustme

from lab.control_plane.api import TRIES_WHEN_UNAVAILABLE, ApiRefusedError, BlockingApi
from lab.kubeconfig import Access, write
from support.api import Api, RefusedError
from support.disturbances.loopback import Loopback, reply

CHANGING = reply(503, b'{"message": "apiserver is shutting down"}', Retry_After="0")


@pytest.fixture
def tls():
    return trustme.CA()


def serve(tls, script):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.issue_cert("127.0.0.1").configure_cert(context)
    return Loopback(script, tls=context)


async def ask(client, tls, server, folder):
    """Create something with one of the clients; the answer."""
    authority = folder / "ca"
    tls.cert_pem.write_to_path(str(authority))
    if client is BlockingApi:
        blocking = BlockingApi(server.url, token="t", authority=authority)
        return await asyncio.to_thread(blocking.create, "/jobs", {"name": "j"})
    write(folder / "kubeconfig", Access(server.url, "t", authority.read_text()), user="u")
    async with Api(folder / "kubeconfig") as api:
        return await api.create("/jobs", {"name": "j"})


@pytest.mark.parametrize("client", [Api, BlockingApi])
async def test_a_request_that_the_server_asks_for_again_is_sent_again(client, tls, tmp_path):
    async with serve(tls, [CHANGING, reply(201, b'{"made": true}')]) as server:
        assert await ask(client, tls, server, tmp_path) == {"made": True}
        assert [json.loads(request.body) for request in server.requests] == [{"name": "j"}] * 2


@pytest.mark.parametrize(
    ("client", "answer", "requests"),
    [
        pytest.param(client, answer, requests, id=f"{client.__name__} {title}")
        for client in (Api, BlockingApi)
        for title, answer, requests in (
            ("for ever", CHANGING, TRIES_WHEN_UNAVAILABLE),
            ("without being asked", reply(503, b"{}"), 1),
        )
    ],
)
async def test_a_request_is_not_sent_again_for_ever_or_without_being_asked(client, answer, requests, tls, tmp_path):
    async with serve(tls, answer) as server:
        with pytest.raises((RefusedError, ApiRefusedError), match="503"):
            await ask(client, tls, server, tmp_path)
        assert len(server.requests) == requests
