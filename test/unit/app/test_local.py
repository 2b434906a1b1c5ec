"""A local process: what has to be in its API server before anything else."""

import asyncio

import msgspec

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from support.toys.toy_kinds import call
from tf_operator.app import local
from tf_operator.dialects import registry
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport import requests
from tf_operator.meta import ObjectKey


def test_what_has_to_be_there_is_created_and_replaced():
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    earlier = registry.DEFAULT.crd.load()
    earlier["spec"]["versions"][0].pop("additionalPrinterColumns")

    local.install(server, earlier)
    local.install(server, registry.DEFAULT.crd.load())

    kind = server.registry.of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    stored = msgspec.json.decode(server.handle(requests.get(kind.resource, ObjectKey("", "tfjobs.kubeflow.org"))).body)
    assert stored["spec"]["versions"][0]["additionalPrinterColumns"]
    assert server.registry.find("kubeflow.org", "v1", "tfjobs")


def test_a_program_finds_the_namespaces_and_the_service_of_a_cluster_and_a_service_account():
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    for body in (*local.FIRST, *local.FIRST):  # and again by the next process on the same state
        local.install(server, body)
    while server.collect():
        pass

    names = [namespace["metadata"]["name"] for namespace in call(server, "GET", "/api/v1/namespaces")[1]["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    code, service = call(server, "GET", "/api/v1/namespaces/default/services/kubernetes")
    assert (code, service["spec"]["clusterIP"], service["spec"]["ports"][0]["port"]) == (200, "10.96.0.1", 443)
    assert call(server, "GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200

    for port in (1, 2):
        for body in local.endpoints(f"https://127.0.0.1:{port}"):
            local.install(server, body)
    subset = call(server, "GET", "/api/v1/namespaces/default/endpoints/kubernetes")[1]["subsets"][0]
    assert (subset["addresses"], subset["ports"][0]["port"]) == ([{"ip": "127.0.0.1"}], 2)
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    assert call(server, "GET", f"{slices}/kubernetes")[1]["ports"][0]["port"] == 2


async def test_collecting_goes_on_after_a_disk_was_full(monkeypatch):
    clock = FakeClock()
    server = toy_kinds.server(clock)
    orphan = {"apiVersion": "toys.io/v1", "kind": "Toy", "name": "x", "uid": "gone"}
    note = {"metadata": {"name": "a", "ownerReferences": [orphan]}}
    call(server, "POST", "/api/v1/namespaces/team/notes", note)
    async with asyncio.TaskGroup() as tasks:
        collecting = tasks.create_task(local._collect(server, clock))
        with monkeypatch.context() as patch:
            patch.setattr(server.store, "commit", None)
            await clock.advance(5)
        assert call(server, "GET", "/api/v1/namespaces/team/notes/a")[0] == 200
        await clock.advance(5)
        assert call(server, "GET", "/api/v1/namespaces/team/notes/a")[0] == 404
        collecting.cancel()
