"""Server-side apply: managers, conflicts, and how sets, lists and maps are merged.

What kube-apiserver answers to the same is in ``test/scenarios/parity/conversations/patches.txt``.
"""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from support.fake_clock import FakeClock
from support.toys.toy_kinds import call
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.writes import structured_merge
from tf_operator.local.apiserver.writes.structured_merge import Schema

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
TEXT = {"type": "string"}
PART = {"type": "object", "required": ["id"], "properties": {"id": TEXT, "n": {"type": "integer"}, "sub": TEXT}}
SPEC = {
    "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "parts": {"type": "array", "items": PART, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
    "list": {"type": "array", "items": TEXT},
    "atom": {"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "atomic"},
    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "size": {"type": "integer"},
}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}, "status": PART}}
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "subresources": {"status": {}},
    "schema": {"openAPIV3Schema": SCHEMA},
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [VERSION],
    },
}
WIDGET = ("/apis/x.io/v1/namespaces/n/widgets/a", "x.io/v1", "Widget")
SERVICE = ("/api/v1/namespaces/n/services/a", "v1", "Service")
CONFIG = ("/api/v1/namespaces/n/configmaps/a", "v1", "ConfigMap")


class Cluster:
    """A server with widgets, and what managers apply to it."""

    def __init__(self) -> None:
        self.server = ApiServer(FakeClock(), kinds=catalog.KINDS)
        call(self.server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
        call(self.server, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})

    def apply(
        self, kind: tuple[str, str, str], manager: str, *, force: bool = False, below: str = "", **fields: Any
    ) -> tuple[int, Json]:
        path, version, name = kind
        body = {"apiVersion": version, "kind": name, **fields, "metadata": {"name": "a", **fields.get("metadata", {})}}
        query = {"fieldManager": manager, "force": str(force).lower()}
        return call(self.server, "PATCH", path + below, body, content_type="application/apply-patch+yaml", **query)

    def merge(self, kind: tuple[str, str, str], manager: str, **fields: Any) -> Json:
        return call(self.server, "PATCH", kind[0], fields, content_type=MERGE, fieldManager=manager)[1]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def managers(body: Json) -> dict[str, Json]:
    return {entry["manager"]: entry["fieldsV1"] for entry in body["metadata"].get("managedFields", ())}


def test_lists_of_a_custom_resource_are_merged_by_what_its_schema_says(cluster: Cluster) -> None:
    first = {"tags": ["a", "b"], "parts": [{"id": "x", "n": 1}], "list": ["1"], "atom": {"k": "v"}, "open": {"o": 1}}
    second = {"tags": ["c"], "parts": [{"id": "y"}, {"id": "x", "sub": "s"}], "open": {"p": [1]}}
    cluster.apply(WIDGET, "one", spec=first, metadata={"finalizers": ["x.io/a"]})
    code, both = cluster.apply(WIDGET, "two", spec=second, metadata={"finalizers": ["x.io/b"]})
    assert code == 200
    assert both["metadata"]["finalizers"] == ["x.io/a", "x.io/b"]
    assert both["spec"] == {
        "tags": ["a", "b", "c"],
        "parts": [{"id": "y"}, {"id": "x", "n": 1, "sub": "s"}],
        "list": ["1"],
        "atom": {"k": "v"},
        "open": {"o": 1, "p": [1]},
    }
    assert managers(both)["two"] == {
        "f:metadata": {"f:finalizers": {'v:"x.io/b"': {}}},
        "f:spec": {
            "f:open": {"f:p": {}},
            "f:parts": {
                'k:{"id":"x"}': {".": {}, "f:id": {}, "f:sub": {}},
                'k:{"id":"y"}': {".": {}, "f:id": {}},
            },
            "f:tags": {'v:"c"': {}},
        },
    }


def test_what_is_no_longer_applied_goes_but_for_what_others_apply(cluster: Cluster) -> None:
    cluster.apply(WIDGET, "one", spec={"tags": ["a", "b"], "parts": [{"id": "x", "n": 1}, {"id": "y"}], "size": 1})
    cluster.apply(WIDGET, "two", spec={"tags": ["b"], "parts": [{"id": "x", "n": 1}]})
    cluster.merge(WIDGET, "three", spec={"open": {"o": 1}})
    last = cluster.apply(WIDGET, "one", spec={"parts": []})[1]
    assert last["spec"] == {"tags": ["b"], "parts": [{"id": "x", "n": 1}], "open": {"o": 1}}
    assert sorted(managers(last)) == ["three", "two"]


def test_what_others_have_written_is_overwritten_by_force_only(cluster: Cluster) -> None:
    cluster.apply(CONFIG, "one", data={"k": "v", "l": "v"})
    cluster.merge(CONFIG, "patcher", data={"k": "w"})
    code, status = cluster.apply(CONFIG, "one", data={"k": "v", "l": "v"})
    assert (code, status["reason"]) == (409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "patcher" using v1: .data.k'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "patcher" using v1', "field": ".data.k"}
    ]
    code, status = cluster.apply(CONFIG, "two", data={"k": "x", "l": "x"})
    assert status["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.l\nconflicts with "patcher" using v1:\n- .data.k'
    )
    code, forced = cluster.apply(CONFIG, "one", force=True, data={"k": "v", "l": "v"})
    assert (code, forced["data"], list(managers(forced))) == (200, {"k": "v", "l": "v"}, ["one"])
    assert cluster.apply(CONFIG, "one", data={"k": "v", "l": "v"})[1] == forced


def test_an_object_that_was_never_applied_has_no_managers_and_belongs_to_nobody_by_name(cluster: Cluster) -> None:
    created = call(cluster.server, "POST", CONFIG[0][:-2], {"metadata": {"name": "a"}, "data": {"k": "v"}})[1]
    assert "managedFields" not in created["metadata"]
    code, status = cluster.apply(CONFIG, "one", data={"k": "w"})
    assert (code, "before-first-apply" in status["message"]) == (409, True)
    code, shared = cluster.apply(CONFIG, "one", data={"k": "v", "l": "v"})
    assert (code, sorted(managers(shared))) == (200, ["before-first-apply", "one"])


def test_kubectl_takes_over_what_it_applied_by_itself(cluster: Cluster) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    noted = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest)}
    metadata = {"name": "a", "annotations": noted}
    call(cluster.server, "POST", CONFIG[0][:-2], {"metadata": metadata, "data": {"k": "v", "other": "v"}})
    assert cluster.apply(CONFIG, "another", data={"k": "w"})[0] == 409
    assert cluster.apply(CONFIG, "kubectl", data={"other": "w"})[0] == 409
    assert cluster.apply(CONFIG, "kubectl", data={"k": "w"})[1]["data"] == {"k": "w", "other": "v"}


@pytest.mark.parametrize(
    ("kind", "fields", "problem"),
    [
        (CONFIG, {"foo": 1}, ".foo: field not declared in schema"),
        (CONFIG, {"metadata": {"foo": 1}}, ".metadata.foo: field not declared in schema"),
        (CONFIG, {"data": {"k": True}}, ".data.k: expected string, got &{true}"),
        (CONFIG, {"data": "x"}, ".data: expected map, got &{x}"),
        (WIDGET, {"spec": {"nope": 1}}, ".spec.nope: field not declared in schema"),
        (WIDGET, {"spec": {"tags": ["a", "a"]}}, '.spec.tags: duplicate entries for key [="a"]'),
        (WIDGET, {"spec": {"list": 5}}, ".spec.list: expected list, got &{5}"),
        (WIDGET, {"spec": {"size": "x"}}, ".spec.size: expected numeric (int or float), got &{x}"),
        (
            SERVICE,
            {"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}},
            '.spec.ports: duplicate entries for key [port=1,protocol="TCP"]',
        ),
    ],
)
def test_what_no_schema_knows_is_refused(
    cluster: Cluster, kind: tuple[str, str, str], fields: Json, problem: str
) -> None:
    code, status = cluster.apply(kind, "one", **fields)
    named = f"(/a; {kind[1] if '/' in kind[1] else '/' + kind[1]}, Kind={kind[2]})"
    assert (code, status["message"]) == (500, f"failed to create typed patch object {named}: {problem}")


def test_a_key_that_is_left_out_is_its_default(cluster: Cluster) -> None:
    ports = [{"port": 1, "name": "a"}]
    cluster.apply(SERVICE, "one", spec={"clusterIP": "None", "ports": ports, "selector": {"a": "b"}})
    service = cluster.apply(SERVICE, "one", spec={"clusterIP": "None", "ports": ports, "selector": {"c": "d"}})[1]
    assert service["spec"]["selector"] == {"c": "d"}
    assert service["spec"]["ports"] == [{"port": 1, "name": "a", "protocol": "TCP", "targetPort": 1}]
    assert list(managers(service)["one"]["f:spec"]["f:ports"]) == ['k:{"port":1,"protocol":"TCP"}']


def test_a_status_is_applied_by_itself(cluster: Cluster) -> None:
    assert cluster.apply(WIDGET, "one", below="/status", status={"id": "x"})[0] == 404
    cluster.apply(WIDGET, "one", spec={"size": 1}, status={"id": "ignored"})
    code, both = cluster.apply(WIDGET, "two", below="/status", spec={"size": 2}, status={"id": "x"})
    assert (code, both["spec"], both["status"]) == (200, {"size": 1}, {"id": "x"})
    assert managers(both)["two"] == {"f:status": {"f:id": {}}}
    assert both["metadata"]["managedFields"][1]["subresource"] == "status"


@pytest.mark.parametrize(
    ("low", "high", "merged"),
    [
        ("abc", "", "abc"),
        ("abc", "x", "abcx"),
        ("abc", "cb", "acb"),
        ("abcd", "da", "bcda"),
        ("ab", "axb", "axb"),
        ("abc", "bxa", "bcxa"),
    ],
)
def test_a_list_has_the_order_of_who_applies_it(low: Iterable[str], high: Iterable[str], merged: str) -> None:
    schema = Schema({}, {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"})
    assert structured_merge.merged(list(low), list(high), schema) == list(merged)


def test_a_set_of_fields_is_read_as_it_was_written() -> None:
    tree = {"f:a": {".": {}, "f:b": {}}, "f:c": {'k:{"id":"x"}': {".": {}, "f:d": {}}, 'v:"y"': {}}, "f:e": {}}
    assert structured_merge.to_json(structured_merge.from_json(tree)) == tree
