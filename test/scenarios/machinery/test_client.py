"""The client against a real apiserver: its replies and errors are understood; its failures are in test/faults."""

import json
import math
import secrets
from contextlib import suppress

import pytest

from support.api import RefusedError
from support.crds import create_crd
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import errors, requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import ObjectKey

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PODS = Resource("", "v1", "pods", "Pod")
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
MEBIBYTE = 1024 * 1024


@pytest.fixture
async def api(control_plane):
    clock = SystemClock()
    async with Connection(KubeConfig(str(control_plane.kubeconfig("admin"))), clock=clock) as connection:
        yield ApiClient(connection, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1))


def config_map(name, **data):
    return {"metadata": {"name": name}, "data": data}


# Single objects


async def test_a_deletion_of_another_uid_is_a_conflict_and_deletes_nothing(api, namespace):
    key = ObjectKey(namespace, "a")
    created = await api.create(MAPS, namespace, config_map("a"))

    for uid in ("", "0d9c9a51-7f0c-4d7e-9f0e-000000000000"):
        with pytest.raises(errors.Conflict, match="UID in the precondition"):
            await api.delete(MAPS, key, uid=uid)

    assert await api.get(MAPS, key) == created


async def test_a_deletion_with_a_grace_period_returns_the_object_and_the_options_are_obeyed(api, namespace):
    body = {"metadata": {"name": "a", "finalizers": ["test.example/stays"]}}
    created = await api.create(MAPS, namespace, body)
    key, uid = ObjectKey(namespace, "a"), created["metadata"]["uid"]

    deleted = await api.delete(MAPS, key, uid=uid, propagation="Foreground", grace_seconds=0)

    assert deleted["metadata"]["deletionTimestamp"]
    assert sorted(deleted["metadata"]["finalizers"]) == ["foregroundDeletion", "test.example/stays"]


async def test_a_change_of_a_version_that_is_no_longer_the_newest_is_a_conflict(api, namespace):
    key = ObjectKey(namespace, "a")
    old = await api.create(MAPS, namespace, config_map("a", x="1"))
    await api.merge_patch(MAPS, key, {"data": {"x": "2"}})

    guard = {"resourceVersion": old["metadata"]["resourceVersion"]}
    with pytest.raises(errors.Conflict):
        await api.merge_patch(MAPS, key, {"metadata": guard, "data": {"x": "3"}})
    with pytest.raises(errors.Conflict):
        await api.update(MAPS, key, old)

    assert (await api.get(MAPS, key))["data"] == {"x": "2"}


async def test_an_api_that_is_not_there_is_not_found_without_a_reason(api, namespace):
    with pytest.raises(errors.NotFound, match="404 page not found") as failure:
        await api.get(Resource("no.example", "v1", "things", "Thing"), ObjectKey(namespace, "a"))

    assert failure.value.reason == ""


async def test_quoting_does_not_keep_a_slash_in_a_name_so_it_never_leaves_here(api, namespace):
    created = await api.create(PODS, namespace, pod("a"))
    path = f"{requests.path(PODS, namespace)}/a%2Fstatus"
    assert json.loads(await api.send(requests.Request("get", "GET", path)))["metadata"]["name"] == "a", "a subresource"

    with pytest.raises(errors.NotFound, match="nothing can be called 'a/status'"):
        await api.delete(PODS, ObjectKey(namespace, "a/status"), uid=created["metadata"]["uid"])


def pod(name, **spec):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]} | spec}


# Lists


async def test_selectors_arrive_as_they_were_meant(api, namespace):
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2", "y": "z"}), ("c", {})):
        await api.create(MAPS, namespace, {"metadata": {"name": name, "labels": labels}})

    async def listed(**selectors):
        page = responses.read_page(await api.send(requests.list_page(MAPS, Scope(namespace, **selectors), limit=100)))
        return [responses.read_metadata(item).name for item in page.items]

    assert await listed(label_selector="x in (1,2),y!=z") == ["a"]
    assert await listed(label_selector="x,!w,y=z") == ["b"]
    assert await listed(field_selector="metadata.name=c") == ["c"]


async def test_a_version_of_the_future_is_told_apart_and_not_asked_for_again(api, namespace):
    with pytest.raises(errors.ResourceVersionTooLarge) as failure:
        await api.send(requests.list_page(MAPS, Scope(namespace), limit=0, resource_version="99999999999"))

    assert failure.value.retry_after == 1.0
    assert not failure.value.outcome_unknown


# What is too large or too deep


@pytest.fixture
async def blobs(admin):
    """A resource that stores whatever it is given."""
    group = f"t{secrets.token_hex(4)}.example"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "blobs", "singular": "blob", "kind": "Blob"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    await create_crd(
        admin, {"apiVersion": CRDS.api_version, "kind": CRDS.kind, "metadata": {"name": f"blobs.{group}"}, "spec": spec}
    )
    yield Resource(group, "v1", "blobs", "Blob")
    with suppress(RefusedError):
        await admin.delete(requests.path(CRDS, name=f"blobs.{group}"))


@pytest.mark.parametrize(
    ("mebibytes", "code"),
    [
        pytest.param(1.6, 500, id="past what etcd takes", marks=pytest.mark.real_server("limits of etcd")),
        pytest.param(2.5, 500, id="past what its client sends", marks=pytest.mark.real_server("limits of etcd")),
        pytest.param(3.1, 413, id="past what the apiserver reads"),
        pytest.param(20, 413, id="far past it"),
    ],
)
async def test_an_object_past_the_limits_is_too_large_and_certainly_not_stored(api, blobs, namespace, mebibytes, code):
    with pytest.raises(errors.TooLarge) as failure:
        await api.create(blobs, namespace, {"metadata": {"name": "a"}, "x": "y" * int(mebibytes * MEBIBYTE)})

    assert failure.value.code == code
    assert not failure.value.outcome_unknown
    with pytest.raises(errors.NotFound):
        await api.get(blobs, ObjectKey(namespace, "a"))
