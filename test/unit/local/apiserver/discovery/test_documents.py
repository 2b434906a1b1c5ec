"""Discovery, OpenAPI and the version: what ``kubectl`` asks before it does anything."""

import re
from typing import Any

import msgspec
import pytest

from tf_operator.dialects import registry
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.definitions import custom_kinds
from tf_operator.local.apiserver.discovery import documents
from tf_operator.local.apiserver.registry import Registry
from tf_operator.machinery.transport.requests import Request

KINDS = Registry((*catalog.KINDS, *custom_kinds.defined(registry.DEFAULT.crd.load("v1beta1"))))
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def _get(path: str, accept: str = "application/json") -> tuple[Any, str]:
    response = documents.answer(Request("get", "GET", path, accept=accept), KINDS)
    return msgspec.json.decode(response.body), response.content_type


def test_the_groups_name_their_versions_with_the_newest_first() -> None:
    groups = {group["name"]: group for group in _get("/apis")[0]["groups"]}
    assert [version["version"] for version in groups["kubeflow.org"]["versions"]] == ["v1", "v1beta1"]
    assert groups["kubeflow.org"]["preferredVersion"]["version"] == "v1"
    assert _get("/apis/kubeflow.org")[0] | {"kind": "APIGroup"} == groups["kubeflow.org"] | {
        "kind": "APIGroup",
        "apiVersion": "v1",
    }
    assert _get("/api")[0]["versions"] == ["v1"]


def test_a_version_lists_its_resources_and_their_subresources() -> None:
    resources = {entry["name"]: entry for entry in _get("/apis/kubeflow.org/v1")[0]["resources"]}
    assert set(resources) == {"tfjobs", "tfjobs/status", "tfjobs/scale"}
    assert resources["tfjobs"]["shortNames"] == ["tfj"]
    assert resources["tfjobs/scale"]["kind"] == "Scale"
    assert {"pods/binding", "pods/log", "pods/status"} < {e["name"] for e in _get("/api/v1")[0]["resources"]}


@pytest.mark.parametrize(("root", "group"), [("/api", ""), ("/apis", "kubeflow.org")])
def test_aggregated_discovery_says_all_at_once(root: str, group: str) -> None:
    groups, content_type = _get(root, AGGREGATED)
    assert content_type == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    items = {item["metadata"].get("name", ""): item for item in groups["items"]}
    assert ("" in items) is (root == "/api")
    resources = {entry["resource"]: entry for entry in items[group]["versions"][0]["resources"]}
    entry = resources["tfjobs" if group else "pods"]
    assert entry["scope"] == "Namespaced"
    assert "status" in {part["subresource"] for part in entry["subresources"]}


def test_kubectl_finds_what_it_needs_for_explain_and_for_validation_by_the_server() -> None:
    urls = _get("/openapi/v3")[0]["paths"]
    assert urls["apis/kubeflow.org/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/kubeflow.org/v1?hash=")
    document = _get("/openapi/v3/apis/kubeflow.org/v1")[0]
    patch = document["paths"]["/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    kind = {"group": "kubeflow.org", "version": "v1", "kind": "TFJob"}
    assert patch["x-kubernetes-group-version-kind"] == kind
    schema = document["components"]["schemas"]["org.kubeflow.v1.TFJob"]
    assert schema["x-kubernetes-group-version-kind"] == [kind]
    assert "runPolicy" in schema["properties"]["spec"]["properties"]


def test_kubectl_finds_which_kinds_there_are_before_it_applies_a_list() -> None:
    operation = _get("/openapi/v2")[0]["paths"]["/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/{name}"]["patch"]
    assert operation["x-kubernetes-group-version-kind"] == {"group": "kubeflow.org", "version": "v1", "kind": "TFJob"}
    assert "fieldValidation" in {parameter["name"] for parameter in operation["parameters"]}

    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    raw = documents.answer(Request("get", "GET", "/openapi/v2", accept=accept), KINDS).body
    [paths], paths_of = _fields(raw)[8], {}
    for item in _fields(paths)[2]:
        named = _fields(item)
        [patch] = _fields(named[2][0])[8]
        paths_of[named[1][0].decode()] = _fields(patch)
    patch = paths_of["/api/v1/namespaces/{name}"]
    [extension] = map(_fields, patch[13])
    [value] = extension[2]
    assert extension[1] == [b"x-kubernetes-group-version-kind"]
    assert msgspec.json.decode(_fields(value)[2][0]) == {"group": "", "version": "v1", "kind": "Namespace"}
    names = [_fields(_fields(_fields(_fields(item)[1][0])[2][0])[3][0])[4] for item in patch[8]]
    assert [b"fieldValidation"] in names


def _fields(message: bytes) -> dict[int, list[bytes]]:
    """The fields of a message in protobuf that has nothing but messages and texts."""
    fields: dict[int, list[bytes]] = {}
    rest = iter(message)

    def number() -> int:
        low = next(rest)
        return low if low < 0x80 else low & 0x7F | number() << 7

    for first in rest:
        assert first & 7 == 2
        fields.setdefault(first >> 3, []).append(bytes(next(rest) for _ in range(number())))
    return fields


def test_the_fields_of_built_in_kinds_are_described_with_all_that_they_refer_to() -> None:
    schemas = _get("/openapi/v3/api/v1")[0]["components"]["schemas"]
    references = set(re.findall(r"#/components/schemas/([\w.]+)", msgspec.json.encode(schemas).decode()))
    assert references <= set(schemas)
    assert schemas["core.v1.Pod"]["properties"]["spec"]["$ref"] == "#/components/schemas/io.k8s.PodSpec"
    assert "containers" in schemas["io.k8s.PodSpec"]["properties"]
