"""The fault proxy before a real apiserver: transparent until it is asked for a fault.

Leases stand for all objects: small, and nothing else in a namespace touches them. What a client sees is read
by `Api` where a library sees enough, and by `Wire` where it takes every byte.
"""

import re
import threading
import time
from contextlib import AsyncExitStack

import pytest

from support.api import RefusedError
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.request import fingerprint
from support.disturbances.fault_proxy.trigger import anything, create, get, listing, patch, watch, write
from support.disturbances.fault_proxy.wire import Wire
from support.leases.lease_watch import lease
from support.open_sockets import open_sockets
from support.settle import eventually


@pytest.mark.parametrize(
    "accept",
    [
        pytest.param("application/json", id="json"),
        pytest.param("application/json;as=Table;v=v1;g=meta.k8s.io", id="table"),
        pytest.param(
            "application/vnd.kubernetes.protobuf;stream=watch",
            id="protobuf",
            marks=pytest.mark.real_server("watches in protobuf"),
        ),
    ],
)
async def test_a_watch_is_byte_for_byte_the_apiservers(accept, proxy, client, admin, path):
    start = (await admin.get(path))["metadata"]["resourceVersion"]
    for step in range(3):
        await admin.create(path, lease(f"a{step}"))
    query = {"watch": "true", "resourceVersion": start, "timeoutSeconds": "1"}

    bodies = [await raw_body(api, path, params=query, headers={"Accept": accept}) for api in (client, admin)]

    ageless = [re.sub(rb'"\d+s"', b"", body) for body in bodies]  # a table says how old its objects are
    assert ageless[0] == ageless[1]
    assert b"a2" in ageless[0]


async def raw_body(api, path, **options):
    async with api._session.get(path, **options) as reply:
        reply.raise_for_status()
        return await reply.read()


async def test_the_token_goes_up_as_the_client_sent_it_and_only_its_fingerprint_is_kept(proxy, path, token):
    for sent, code in (("wrong", 401), (token, 200)):
        async with Wire.open(proxy, sent) as wire:
            await wire.ask(path)
            assert (await wire.head())[0] == code

    assert [call.token for call in proxy.calls()] == [fingerprint("wrong"), fingerprint(token)]


async def test_every_request_is_logged_with_what_was_asked_and_what_came_of_it(proxy, client, path, namespace):
    began = time.monotonic()
    await client.create(path, lease("a"))
    with pytest.raises(RefusedError):
        await client.get(f"{path}/none")

    created, missed = proxy.calls()
    assert [created.number, missed.number] == [1, 2]
    assert began <= created.at <= missed.at <= time.monotonic()
    assert (created.verb, created.group, created.resource) == ("create", "coordination.k8s.io", "leases")
    assert (created.namespace, created.name, created.subresource) == (namespace, "a", "")
    assert (created.client, created.code, created.upstream_code, created.ending, created.faults) == (
        "client",
        201,
        201,
        "clean",
        [],
    )
    assert (missed.verb, missed.name, missed.code) == ("get", "none", 404)
    assert proxy.count(write("leases")) == 1
    assert proxy.count(anything("leases", name="no*")) == 1


async def test_nothing_is_left_after_close_whatever_was_open(control_plane, path, token):
    old = set(threading.enumerate()), open_sockets()
    requests = [("GET", "?watch=true"), ("POST", ""), ("GET", "/a"), ("GET", ""), ("PATCH", "/a")]
    async with AsyncExitStack() as connections:

        async def connect():
            return await connections.enter_async_context(Wire.open(proxy, token))

        with FaultProxy(control_plane.kubeconfig("admin")) as proxy:
            rules = [
                proxy.on(create("leases"), do=faults.hold()),
                proxy.on(patch("leases"), do=faults.late_write(3600)),
                proxy.on(get("leases"), do=faults.half_open()),
                proxy.on(listing("leases"), do=faults.trickle()),
            ]
            await connect()
            await (await connect()).send(b"GET /half/a/request HTTP/1.1\r\n")
            for method, target in requests:
                await (await connect()).ask(path + target, method=method, body=b"{}")
            await proxy.until(lambda: proxy.count() == len(requests) and all(rule.has_fired() for rule in rules))
            await proxy.until(lambda: proxy.open_watches(watch("leases")) == 1)
            proxy.close()

    def is_all_gone():
        assert (set(threading.enumerate()) - old[0], open_sockets() - old[1]) == (set(), set())
        return True

    await eventually(is_all_gone)  # the embedded server, in this process, closes its ends a moment later
