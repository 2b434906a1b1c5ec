"""A kind whose objects are computed when somebody reads them."""

import pytest

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from support.toys.toy_kinds import call
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.meta import GroupVersionResource

WEIGHTS = GroupVersionResource("weights.io", "v1", "weights", "Weight")
PATH = "/apis/weights.io/v1"


def weight(namespace, name):
    metadata = {"name": name, "namespace": namespace, "labels": {"of": name}}
    return {"kind": "Weight", "apiVersion": "weights.io/v1", "metadata": metadata}


@pytest.fixture
def server():
    weights = [weight("a", "x"), weight("a", "y"), weight("b", "x")]
    return ApiServer(FakeClock(), kinds=(*toy_kinds.KINDS, Kind(WEIGHTS, "weight", read=lambda _: weights)))


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("weights", {}, "a/x a/y b/x"),
        ("namespaces/a/weights", {}, "a/x a/y"),
        ("namespaces/a/weights", {"labelSelector": "of=x"}, "a/x"),
        ("namespaces/a/weights", {"fieldSelector": "metadata.name=y"}, "a/y"),
        ("namespaces/c/weights", {}, ""),
    ],
)
def test_a_list_has_those_of_a_namespace_that_selectors_choose(server, path, query, expected):
    code, body = call(server, "GET", f"{PATH}/{path}", **query)

    items = [f"{it['metadata']['namespace']}/{it['metadata']['name']}" for it in body["items"]]
    assert (code, body["kind"], body["metadata"], " ".join(items)) == (200, "WeightList", {}, expected)


def test_one_is_read_by_its_name(server):
    assert call(server, "GET", f"{PATH}/namespaces/b/weights/x") == (200, weight("b", "x"))
    assert call(server, "GET", f"{PATH}/namespaces/b/weights/y")[0] == 404


@pytest.mark.parametrize(("method", "query"), [("PUT", {}), ("DELETE", {}), ("PATCH", {}), ("GET", {"watch": "1"})])
def test_nobody_writes_or_watches_them(server, method, query):
    path = f"{PATH}/namespaces/a/weights{'' if query else '/x'}"

    assert call(server, method, path, **query)[0] == 405
    verbs = call(server, "GET", PATH)[1]["resources"][0]["verbs"]
    assert verbs == ["get", "list"]
