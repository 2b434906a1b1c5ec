"""Single writes, what is recorded of them, and how many are made at once."""

import asyncio

import pytest

from support.embedded.controller_harness import KEY, Harness
from support.embedded.embedded_api import refused
from support.jobs import builders
from tf_operator.controller import resources
from tf_operator.machinery.cache.consistency import Freshness, OwnerKey
from tf_operator.machinery.transport import errors, requests

BODY = builders.pod("a").in_namespace("ns").body()


@pytest.fixture
def harness():
    return Harness(builders.tfjob("j").workers(1))


@pytest.fixture
def owner(harness):
    return OwnerKey(KEY, harness.job["metadata"]["uid"])


def verdict(harness, owner):
    return harness.pending_writes.cache_state(owner).freshness


async def test_a_write_is_awaited_until_the_cache_shows_it(harness, owner):
    await harness.executor.writer.create(owner, resources.PODS, BODY)

    assert verdict(harness, owner) is Freshness.BEHIND
    harness.sync()
    assert verdict(harness, owner) is Freshness.CAUGHT_UP

    await harness.executor.writer.patch(owner, resources.PODS, "a", body={"metadata": {"labels": {"a": "b"}}})
    assert verdict(harness, owner) is Freshness.BEHIND


WRITES = {
    "create": lambda writer, owner, uid: writer.create(owner, resources.SERVICES, BODY),
    "patch": lambda writer, owner, uid: writer.patch(owner, resources.SERVICES, "a", body={"spec": {}}),
    "delete": lambda writer, owner, uid: writer.delete(owner, resources.SERVICES, name="a", uid=uid),
    "deletecollection": lambda writer, owner, uid: writer.delete_all(
        owner,
        resources.SERVICES,
        request=requests.delete_all(resources.SERVICES, requests.Scope("ns", label_selector="a=b")),
        uids=[uid],
    ),
}


@pytest.mark.parametrize("call", WRITES)
async def test_a_write_whose_reply_was_lost_has_the_next_pass_read_live(harness, owner, call):
    stored = harness.api.put(resources.SERVICES, BODY)
    harness.sync()
    harness.api.fail(call, errors.ReplyLost("reset"))

    with pytest.raises(errors.ReplyLost):
        await WRITES[call](harness.executor.writer, owner, stored["metadata"]["uid"])

    assert verdict(harness, owner) is Freshness.READ_LIVE


async def test_what_has_changed_since_it_was_decided_on_stays_and_is_looked_at_live(harness, owner):
    metadata = harness.api.put(resources.PODS, BODY)["metadata"]
    harness.api.put(resources.PODS, {**BODY, "metadata": {**BODY["metadata"], "uid": metadata["uid"]}})
    writer = harness.executor.writer

    only_at = metadata["resourceVersion"]
    assert not await writer.delete(owner, resources.PODS, name="a", uid=metadata["uid"], only_at=only_at)
    assert len(harness.api.of(resources.PODS)) == 1
    assert verdict(harness, owner) is Freshness.READ_LIVE


async def test_what_has_not_changed_is_deleted_at_its_version(harness, owner):
    metadata = harness.api.put(resources.PODS, BODY)["metadata"]
    delete = harness.executor.writer.delete

    assert await delete(owner, resources.PODS, name="a", uid=metadata["uid"], only_at=metadata["resourceVersion"])
    assert harness.api.of(resources.PODS) == []


async def test_a_cancelled_write_is_in_doubt(harness, owner):
    async def hang(_call):
        await asyncio.Event().wait()

    harness.api.on_way = hang
    task = asyncio.create_task(harness.executor.writer.create(owner, resources.PODS, BODY))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert verdict(harness, owner) is Freshness.READ_LIVE


async def test_a_refused_write_leaves_no_doubt(harness, owner):
    harness.api.fail("create", refused(403, "Forbidden"))

    with pytest.raises(errors.Forbidden):
        await harness.executor.writer.create(owner, resources.PODS, BODY)

    assert verdict(harness, owner) is Freshness.CAUGHT_UP


@pytest.mark.parametrize("uid", ["another", "gone"])
async def test_what_is_gone_or_replaced_is_as_deleted_as_it_can_be(harness, owner, uid):
    if uid == "another":
        harness.api.put(resources.PODS, BODY)
        harness.sync()

    await harness.executor.writer.delete(owner, resources.PODS, name="a", uid=uid)

    assert verdict(harness, owner) is Freshness.CAUGHT_UP
    assert len(harness.api.of(resources.PODS)) == (uid == "another")


async def test_a_name_that_is_taken_says_by_whom(harness, owner):
    reference = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "controller": True}
    harness.api.put(resources.PODS, builders.merge(BODY, {"metadata": {"ownerReferences": [reference]}}))

    with pytest.raises(errors.AlreadyExists, match="belongs to Node n"):
        await harness.executor.writer.create(owner, resources.PODS, BODY)


async def test_a_name_that_is_freed_while_it_is_looked_at_is_taken_at_once(harness, owner):
    harness.api.fail("create pods", refused(409, "AlreadyExists"))

    await harness.executor.writer.create(owner, resources.PODS, BODY)

    assert [call.partition(" ")[0] for call in harness.api.calls] == ["create", "get", "create"]
    assert verdict(harness, owner) is Freshness.BEHIND


async def test_a_404_of_a_proxy_does_not_mean_that_an_object_is_gone(harness, owner):
    harness.api.fail("delete pods", errors.refused(404, b"<html>no such backend</html>"))

    with pytest.raises(errors.NotFound):
        await harness.executor.writer.delete(owner, resources.PODS, name="a", uid="u")
