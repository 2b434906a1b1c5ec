"""Lists that end too early, never, twice or not at all, and objects that are hard to read."""

import asyncio
import json

import pytest

from support import invariants, oracle
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.trigger import INITIAL_END, listing, opening, watch
from support.jobs import builders
from support.resources import TFJOBS
from support.settle import eventually

STREAMED = "*sendInitialEvents*"


@pytest.mark.parametrize("missing", ["jobs", "pods"])
async def test_a_list_without_its_final_bookmark_is_not_taken_for_complete(proxy, field, start, missing):
    """The bookmark that ends the initial events never comes; then the list is read page by page."""
    resource = {"jobs": "tfjobs"}.get(missing, missing)
    await field.want("w", 3)
    proxy.on(watch(resource, event=INITIAL_END), do=faults.drop())
    page = proxy.on(listing(resource), do=faults.hold())
    operator = await start(speed=20, until="started")

    await proxy.until(page.has_fired, within=20)
    assert not (await operator.caches())["synced"][missing]
    page.release()
    await field.settled(operator)

    oracle.nothing_twice(proxy)


async def test_a_list_whose_final_bookmark_comes_twice_is_taken_once(proxy, field, operator):
    await field.reach(operator, "w", 3)
    proxy.on(watch("*", event=INITIAL_END), do=faults.duplicate())
    for resource in ("pods", "tfjobs"):
        await field.relist(resource)

    await field.reach(operator, "w", 4)

    assert [oracle.lists(proxy, resource) for resource in ("pods", "tfjobs")] == [1, 1]
    oracle.nothing_twice(proxy)


async def test_a_list_that_is_cut_just_before_its_final_bookmark_is_dropped(proxy, field, operator):
    """Nothing of it is used, and the next one is complete."""
    cut = proxy.on(watch("tfjobs", event=INITIAL_END), do=faults.cut(), at_most=2)
    await field.relist("tfjobs")
    await field.want("w", 3)
    await proxy.until(lambda: cut.fired == 2, within=20)

    await field.settled(operator)

    oracle.nothing_twice(proxy)


async def test_half_a_list_is_not_taken_for_a_whole_one(proxy, field, start):
    """Cut after the first of five pods; an operator that believed it would create the others again."""
    first = await start()
    await field.reach(first, "w", 5)
    await first.kill()

    cut = proxy.on(watch("pods", event="ADDED"), do=faults.cut(), nth=2)
    second = await start()
    await proxy.until(cut.has_fired)
    await field.settled(second)

    oracle.nothing_twice(proxy)


@pytest.mark.parametrize("code", [400, 422], ids=["bad-request", "invalid"])
async def test_an_apiserver_that_does_not_stream_lists_is_asked_for_pages(proxy, field, start, code):
    """The feature is off, or the server is older than it."""
    await field.want("w", 3)
    refused = proxy.on(opening("*", path=STREAMED), do=faults.fail(code, message="sendInitialEvents is forbidden"))
    operator = await start()

    await field.settled(operator)

    assert refused.fired == 3, "each informer asks once"
    assert proxy.count(listing("pods")) == 2, "at the start, and before the first write"


async def test_a_token_that_expires_between_two_pages_never_yields_half_a_list(proxy, field, start):
    """The second page is refused with 410; the list is read again, in one piece."""
    unmanaged = builders.tfjob().workers(1).managed_by()
    path = TFJOBS.path(field.namespace)
    await asyncio.gather(*(field.admin.create(path, unmanaged.named(f"w{number}").body()) for number in range(510)))
    proxy.on(opening("tfjobs", path=STREAMED), do=faults.fail(422))
    second = proxy.on(listing("tfjobs", path="*continue=*"), do=faults.gone(), at_most=1)
    operator = await start()

    await proxy.until(second.has_fired, within=30)
    await field.settled(operator)

    assert len((await operator.caches())["jobs"]) == 510


async def test_a_version_from_the_future_is_given_up_for_a_relist(proxy, field, operator):
    """Far ahead of the apiserver, which would accept a watch from there, and be silent up to it."""
    ahead = proxy.on(watch("tfjobs", event=INITIAL_END), do=faults.set_version(99_999_999), at_most=1)
    await field.relist("tfjobs")
    await proxy.until(ahead.has_fired)

    proxy.now(watch("tfjobs"), do=faults.cut(faults.RST))
    await field.reach(operator, "w", 4)

    assert oracle.lists(proxy, "tfjobs") == 1 + 1
    oracle.nothing_twice(proxy)


async def test_an_object_near_the_limit_of_etcd_is_one_line_like_any_other(field, operator):
    """A line of 1.4 MB, long past the limits of the usual line readers."""
    await field.want("huge", 2, ballast=1_400_000)
    await field.want("small", 2)

    await field.settled(operator)


@pytest.mark.parametrize("where", ["in a streamed list", "in the watch"])
async def test_an_object_that_json_makes_six_times_as_long_is_one_line_like_any_other(proxy, field, operator, where):
    """A line of 8.4 MB. Go writes ``<`` in six bytes, which etcd holds in one where it holds protobuf.

    Ours holds JSON, for the oracles; so the proxy has to fill the line.
    """

    def filled(event):
        event["object"]["data"] = {"text": "FILL"}
        return json.dumps(event).encode().replace(b"FILL", rb"\u003c" * 1_400_000)

    await field.want("long", 1)
    if where == "in a streamed list":
        await field.settled(operator)
    long = proxy.on(watch("pods", event="ADDED", name=field.pod("long", 0)), do=faults.rewrite(filled))
    if where == "in a streamed list":
        await field.relist("pods")
    await proxy.until(long.has_fired)
    await field.settled(operator)

    assert oracle.lists(proxy, "pods") == (where == "in a streamed list")


@pytest.mark.parametrize("form", ["streamed", "in pages"])
async def test_an_object_that_no_decoder_reads_costs_only_itself(proxy, field, start, form):
    """Nested nine thousand levels deep; the apiserver stores it. In the list, and in the watch."""
    field.waived |= invariants.RULES.keys()  # they read no such job either

    def nested(name):
        body = builders.tfjob(name).workers(1).body()
        body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["deep"] = "NESTED"
        return json.dumps(body).replace('"NESTED"', "[" * 9000 + "]" * 9000).encode()

    await field.store_raw(nested("listed"))
    if form == "in pages":
        proxy.on(opening("tfjobs", path=STREAMED), do=faults.fail(422))
    operator = await start()
    await field.store_raw(nested("watched"))
    await field.want("good", 3)

    await eventually(lambda: field.has_pods("good", 3), within=30)
    await field.quiet(1)
    assert field.created() == {f"good-{index}": 1 for index in range(3)}
    assert operator.records_of("reconcile panicked; retrying") == []
