"""The tests' own client against a real apiserver."""

import pytest

from support import api as api_module
from support import builders
from support.api import Api, RefusedError
from support.resources import CONFIG_MAPS, NODES, PODS, SERVICES


def config_map(name: str = "c", **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
async def stored(admin: Api, namespace: str) -> str:
    """The path of a ConfigMap with ``a: 1``."""
    await admin.create(CONFIG_MAPS.path(namespace), config_map(a="1"))
    return CONFIG_MAPS.path(namespace, "c")


async def test_an_object_is_created_read_and_replaced(admin, stored):
    found = await admin.get(stored)

    await admin.replace(stored, found | {"data": {"b": "2"}})

    assert found["data"] == {"a": "1"}
    assert (await admin.get(stored))["data"] == {"b": "2"}


@pytest.mark.parametrize(
    ("how", "patch", "expected"),
    [
        ("merge", {"data": {"a": None, "b": "2"}}, {"b": "2"}),
        ("strategic", {"data": {"$patch": "replace", "b": "2"}}, {"b": "2"}),
        ("json", [{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
        ("apply", config_map(b="2"), {"a": "1", "b": "2"}),
    ],
    ids=["merge", "strategic", "json", "apply"],
)
async def test_a_patch_is_of_the_kind_that_was_asked_for(admin, stored, how, patch, expected):
    assert (await admin.patch(stored, patch, how))["data"] == expected


async def test_a_delete_is_guarded_by_uid_and_resource_version(admin, stored):
    found = await admin.find(stored)
    assert found
    metadata = found["metadata"]

    with pytest.raises(RefusedError) as refusal:
        await admin.delete(stored, uid="another")
    assert (refusal.value.status, refusal.value.reason) == (409, "Conflict")
    with pytest.raises(RefusedError, match="409"):
        await admin.delete(stored, resource_version="1")

    await admin.delete(stored, uid=metadata["uid"], resource_version=metadata["resourceVersion"])

    assert await admin.find(stored) is None
    with pytest.raises(RefusedError, match="404 NotFound"):
        await admin.get(stored)


async def test_a_delete_carries_grace_and_propagation(admin, kubelet, namespace):
    await admin.create(PODS.path(namespace), builders.pod("a").body())
    await kubelet.bind("a")

    deleted = await admin.delete(PODS.path(namespace, "a"), grace=7, propagation="Foreground")

    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 7
    assert deleted["metadata"]["finalizers"] == ["foregroundDeletion"]
    await kubelet.confirm_deletion("a")


async def test_a_list_is_whole_when_it_takes_many_pages(admin, namespace, monkeypatch):
    monkeypatch.setattr(api_module, "_PAGE", 2)
    for index in range(5):
        labels = {"metadata": {"name": f"p{index}", "labels": {"odd": str(index % 2)}}}
        await admin.create(CONFIG_MAPS.path(namespace), config_map() | labels)

    everything = await admin.list(CONFIG_MAPS.path(namespace), fieldSelector="metadata.name!=kube-root-ca.crt")
    odd = await admin.list(CONFIG_MAPS.path(namespace), labelSelector="odd=1")

    assert [item["metadata"]["name"] for item in everything] == [f"p{index}" for index in range(5)]
    assert [item["metadata"]["name"] for item in odd] == ["p1", "p3"]


async def test_a_misspelt_field_is_refused_and_not_dropped(admin, namespace):
    pod = builders.pod().merged({"spec": {"restartPolcy": "Never"}}).body()

    with pytest.raises(RefusedError, match=r'unknown field "spec\.restartPolcy"'):
        await admin.create(PODS.path(namespace), pod)


async def test_a_path_that_is_not_served_is_refused_with_the_servers_text(admin):
    with pytest.raises(RefusedError, match="404 page not found") as refusal:
        await admin.get("/apis/no.such.group/v1/things")
    assert refusal.value.status == 404


async def test_a_watch_misses_nothing_that_is_written_once_it_is_entered(admin, namespace, stored):
    path = CONFIG_MAPS.path(namespace)

    async with admin.watch(path, fieldSelector="metadata.name=c", timeoutSeconds="10") as events:
        first = await anext(events)
        await admin.patch(stored, {"data": {"a": "2"}})
        await admin.delete(stored)
        seen = [await anext(events) for _ in range(2)]

    assert (first.type, first.body["data"]) == ("ADDED", {"a": "1"})
    assert [(event.type, event.body["data"]["a"]) for event in seen] == [("MODIFIED", "2"), ("DELETED", "2")]


async def test_a_watch_ends_when_the_server_ends_it(admin, namespace, stored):
    version = (await admin.get(stored))["metadata"]["resourceVersion"]

    async with admin.watch(CONFIG_MAPS.path(namespace), resourceVersion=version, timeoutSeconds="1") as events:
        assert [event async for event in events] == []


async def test_a_watch_that_is_refused_says_so(admin, namespace):
    with pytest.raises(RefusedError, match=r"resourceVersion: Invalid value"):
        async with admin.watch(CONFIG_MAPS.path(namespace), resourceVersion="x"):
            pass


async def test_each_identity_has_its_own_rights_and_leaves_its_own_name(admin, kubelet, namespace):
    with pytest.raises(RefusedError) as refusal:
        await kubelet.api.create(SERVICES.path(namespace), builders.service().body())
    await admin.create(PODS.path(namespace), builders.pod("a").body())
    await kubelet.run("a")

    entries = (await kubelet.pod("a"))["metadata"]["managedFields"]
    assert (refusal.value.status, refusal.value.reason) == (403, "Forbidden")
    assert [entry["manager"] for entry in entries] == ["test-admin", "test-kubelet"]


async def test_a_cluster_scoped_collection_needs_no_namespace(admin):
    assert isinstance(await admin.list(NODES.path()), list)


async def test_no_connection_outlives_its_client_when_it_was_left_in_the_middle(control_plane, namespace):
    async with Api(control_plane.kubeconfig("admin")) as api, api.watch(PODS.path(namespace)):
        (transport,) = api._connector._transports
        socket = transport.get_extra_info("socket")

    assert socket.fileno() == -1
