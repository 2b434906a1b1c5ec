"""Faults 7, 8, 12, 16 and 18: the initial list, and what can go wrong with it."""

import asyncio
import json

import pytest

from lab.fault_proxy import faults
from lab.fault_proxy.trigger import INITIAL_END, listing, opening, watch
from support import copier, oracle
from support.settle import eventually
from tf_operator.machinery.cache.reflector import Timing

COPIES = "configmaps"
WIDGETS = "widgets.test.tf-operator.dev"
STREAMED = "*sendInitialEvents*"


@pytest.mark.parametrize("missing", [WIDGETS, COPIES])
async def test_a_picture_without_its_mark_is_not_taken_for_complete(proxy, field, start, missing):
    """Fault 12: the bookmark that ends the initial events never comes; then the list is read page by page."""
    await field.want("w", 3)
    proxy.on(watch(missing, event=INITIAL_END), do=faults.drop())
    page = proxy.on(listing(missing), do=faults.hold())
    controller = await start(timing=Timing(mark=1.0))

    await proxy.until(page.has_fired, within=20)
    informer = controller.widgets if missing == WIDGETS else controller.copies
    assert not informer.has_synced
    page.release()
    await field.settled(controller)

    oracle.no_copy_twice(proxy)


async def test_a_picture_whose_mark_comes_twice_is_taken_once(proxy, field, start):
    """Fault 12."""
    await field.want("w", 3)
    proxy.on(watch("*", event=INITIAL_END), do=faults.duplicate())
    controller = await start()

    await field.settled(controller)

    assert [oracle.pictures(proxy, kind) for kind in (COPIES, WIDGETS)] == [1, 1]
    oracle.no_copy_twice(proxy)


async def test_a_picture_that_is_cut_just_before_its_mark_is_dropped(proxy, field, start):
    """Fault 12: nothing of it is used, and the next one is complete."""
    await field.want("w", 3)
    cut = proxy.on(watch(WIDGETS, event=INITIAL_END), do=faults.cut(), at_most=2)
    controller = await start()
    await proxy.until(lambda: cut.fired == 2, within=20)

    await field.settled(controller)

    oracle.no_copy_twice(proxy)


async def test_half_a_picture_is_not_taken_for_a_whole_one(proxy, field, start):
    """Fault 12: cut after the first of five copies; a controller that believed it would make the others again."""
    first = await start()
    await field.want("w", 5)
    await field.settled(first)

    cut = proxy.on(watch(COPIES, event="ADDED"), do=faults.cut(), nth=2)
    second = await start()
    await proxy.until(cut.has_fired)
    await field.settled(second)

    oracle.no_copy_twice(proxy)


@pytest.mark.parametrize("code", [400, 422], ids=["bad-request", "invalid"])
async def test_an_apiserver_that_does_not_stream_lists_is_asked_for_pages(proxy, field, start, code):
    """Fault 12: the feature is off, or the server is older than it."""
    await field.want("w", 3)
    proxy.on(opening("*", path=STREAMED), do=faults.fail(code, message="sendInitialEvents is forbidden"))
    controller = await start()

    await field.settled(controller)

    assert [oracle.pictures(proxy, kind) for kind in (COPIES, WIDGETS)] == [2, 2], "one that is refused, and one page"


async def test_a_token_that_expires_between_two_pages_never_yields_half_a_list(proxy, field, start):
    """Fault 7: the second page is refused with 410; the list is read again, in one piece."""
    await asyncio.gather(*(field.want(f"w{number:04}", 0) for number in range(510)))
    proxy.on(opening(WIDGETS, path=STREAMED), do=faults.fail(422))
    second = proxy.on(listing(WIDGETS, path="*continue=*"), do=faults.gone(), at_most=1)
    controller = await start()

    await proxy.until(second.has_fired, within=30)
    await field.settled(controller, within=60)

    assert len(controller.widgets.store) == 510


async def test_a_version_from_the_future_is_given_up_for_a_relist(proxy, field, start):
    """Fault 8: far ahead of the apiserver, which would accept a watch from there, and be silent up to it."""
    await field.want("w", 2)
    ahead = proxy.on(watch(WIDGETS, event=INITIAL_END), do=faults.set_version(99_999_999), at_most=1)
    controller = await start()
    await proxy.until(ahead.has_fired)

    proxy.now(watch(WIDGETS), do=faults.cut(faults.RST))
    await field.want("w", 4)
    await field.settled(controller)

    assert proxy.count(opening(WIDGETS, path=STREAMED)) == 2

    oracle.no_copy_twice(proxy)


async def test_an_object_near_the_limit_of_etcd_is_one_line_like_any_other(proxy, field, start):
    """Fault 16: a line of 1.4 MB, long past the limits of the usual line readers."""
    controller = await start()
    await field.want("huge", 2, blob="x" * 1_400_000)
    await field.want("small", 2)

    await field.settled(controller)

    assert controller.failures == []


@pytest.mark.parametrize("where", ["in a streamed picture", "in the watch"])
async def test_an_object_that_json_makes_six_times_as_long_is_one_line_like_any_other(proxy, field, start, where):
    """Fault 16: a line of 8.4 MB. Go writes ``<`` in six bytes, which etcd holds in one where it holds protobuf.

    Ours holds JSON, for the oracles; so the proxy has to fill the line.
    """

    def filled(event):
        event["object"]["data"] = {"text": "FILL"}
        return json.dumps(event).encode().replace(b"FILL", rb"\u003c" * 1_400_000)

    if where == "in a streamed picture":
        first = await start(past_proxy=True)
        await field.want("long", 2)
        await field.settled(first)
    proxy.on(watch(COPIES, event="ADDED"), do=faults.rewrite(filled))
    controller = await start()
    await field.want("long", 2)
    await field.settled(controller)

    assert oracle.pictures(proxy, COPIES) == 1


@pytest.mark.parametrize("where", ["in a streamed picture", "in a page", "in the watch"])
async def test_an_object_that_no_decoder_reads_costs_only_itself(proxy, field, start, where):
    """Fault 18: nested nine thousand levels deep; the apiserver stores it."""
    nested = "[" * 9000 + "]" * 9000
    deep = json.dumps(copier.widget("deep", 1, deep="NESTED")).replace('"NESTED"', nested).encode()
    if where != "in the watch":
        await field.store_raw(deep)
    if where == "in a page":
        proxy.on(opening(WIDGETS, path=STREAMED), do=faults.fail(422))
    controller = await start()
    await controller.widgets.wait_synced()
    if where == "in the watch":
        await field.store_raw(deep)
    await field.want("good", 3)

    good = await field.uid("good")
    await eventually(lambda: len(controller.copies.store.by_index("owner", good)) == 3, within=30)
    assert controller.widgets.store.get(field.key("deep")) is None
