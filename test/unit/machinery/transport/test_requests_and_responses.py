"""Requests as they are sent and replies as they are received: the whole grammar, without a server."""

import json

import msgspec
import pytest

from tf_operator.machinery.transport import errors, requests, responses
from tf_operator.machinery.transport.requests import EVERYWHERE, Resource, Scope
from tf_operator.machinery.transport.responses import Bookmark, LineSplitter
from tf_operator.meta import ObjectKey

PODS = Resource("", "v1", "pods", "Pod")
JOBS = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)
KEY = ObjectKey("ns", "name")
# The apiserver stores less than 10,000 levels, which is more than decoders on Python 3.11 and 3.12 can take.
DEEP = b"[" * 1_000_000 + b"]" * 1_000_000


# Requests


@pytest.mark.parametrize(
    ("resource", "parts", "path"),
    [
        pytest.param(PODS, (), "/api/v1/pods", id="all of the core group"),
        pytest.param(PODS, ("ns",), "/api/v1/namespaces/ns/pods", id="a namespace"),
        pytest.param(JOBS, (), "/apis/kubeflow.org/v1/tfjobs", id="all of another group"),
        pytest.param(JOBS, ("ns", "a"), "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/a", id="an object"),
        pytest.param(
            JOBS, ("ns", "a", "status"), "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/a/status", id="a subresource"
        ),
        pytest.param(NODES, ("", "n1"), "/api/v1/nodes/n1", id="of the cluster"),
        pytest.param(NODES, ("ns", "n1"), "/api/v1/nodes/n1", id="of the cluster, whatever the namespace"),
        pytest.param(PODS, ("ns", "a b?c#d:é"), "/api/v1/namespaces/ns/pods/a%20b%3Fc%23d%3A%C3%A9", id="quoted"),
    ],
)
def test_a_path_names_the_collection_the_object_or_its_subresource(resource, parts, path):
    assert requests.path(resource, *parts[:2], subresource="".join(parts[2:])) == path


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a/status", "../pods", "%2e%2e", "a%2Fb", "a\n/b"])
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda key: requests.get(PODS, key), id="get"),
        pytest.param(lambda key: requests.delete(PODS, key, uid="u"), id="delete"),
        pytest.param(lambda key: requests.update(PODS, key, {}), id="update"),
        pytest.param(lambda key: requests.merge_patch(PODS, key, {}, subresource="status"), id="patch"),
    ],
)
def test_an_impossible_name_is_not_found_and_never_another_path(build, name):
    for key in (ObjectKey("ns", name), ObjectKey(name, "a")):
        with pytest.raises(errors.NotFound) as failure:
            build(key)
        assert (failure.value.code, failure.value.reason) == (404, "NotFound")


@pytest.mark.parametrize("name", [".hidden", "...", "a..b", "system:node:x", "~"])
def test_an_odd_name_is_a_name(name):
    assert requests.get(NODES, ObjectKey("", name)).path.startswith("/api/v1/nodes/")


PAGE = {"limit": "500"}
WATCH = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "9"}
STREAM = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
SELECTIVE = Scope("ns", label_selector="a=b,c in (d)", field_selector="spec.nodeName=")
SELECTORS = {"labelSelector": "a=b,c in (d)", "fieldSelector": "spec.nodeName="}


@pytest.mark.parametrize(
    ("request_", "verb", "query"),
    [
        (requests.list_page(JOBS, EVERYWHERE, limit=500), "list", PAGE),
        (requests.list_page(JOBS, EVERYWHERE, limit=500, token="abc"), "list", PAGE | {"continue": "abc"}),
        (
            requests.list_page(JOBS, EVERYWHERE, limit=500, resource_version="0"),
            "list",
            PAGE | {"resourceVersion": "0"},
        ),
        (requests.list_page(JOBS, EVERYWHERE, limit=500, resource_version=""), "list", PAGE | {"resourceVersion": ""}),
        (requests.list_page(JOBS, SELECTIVE, limit=500), "list", PAGE | SELECTORS),
        (
            requests.watch(JOBS, SELECTIVE, resource_version="7", timeout_seconds=9),
            "watch",
            WATCH | SELECTORS | {"resourceVersion": "7"},
        ),
        (requests.watch_list(JOBS, SELECTIVE, timeout_seconds=9), "watch", WATCH | SELECTORS | STREAM),
    ],
    ids=["first page", "next page", "any version", "an empty version", "selectors", "watch", "watch list"],
)
def test_a_list_or_watch_has_its_scope_and_options_in_path_and_query(request_, verb, query):
    namespace = "/namespaces/ns" if "labelSelector" in query else ""

    assert (request_.verb, request_.method) == (verb, "GET")
    assert request_.path == f"/apis/kubeflow.org/v1{namespace}/tfjobs"
    assert request_.query == query


@pytest.mark.parametrize(
    ("request_", "verb", "method", "path"),
    [
        (requests.create(JOBS, "ns", {"metadata": {"x": "y"}}), "create", "POST", requests.path(JOBS, "ns")),
        (requests.update(JOBS, KEY, {"metadata": {"x": "y"}}), "update", "PUT", requests.path(JOBS, "ns", "name")),
    ],
    ids=["create", "update"],
)
def test_a_created_or_replaced_object_names_its_kind(request_, verb, method, path):
    assert (request_.verb, request_.method, request_.path) == (verb, method, path)
    assert json.loads(request_.body) == {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"x": "y"}}
    assert request_.content_type == "application/json"


def test_a_merge_patch_keeps_nulls_which_remove_a_field():
    request = requests.merge_patch(JOBS, KEY, {"status": {"old": None}}, subresource="status")

    assert (request.verb, request.method, request.path) == (
        "patch",
        "PATCH",
        requests.path(JOBS, "ns", "name", subresource="status"),
    )
    assert request.content_type == "application/merge-patch+json"
    assert json.loads(request.body) == {"status": {"old": None}}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        pytest.param({}, {"preconditions": {"uid": "u1"}}, id="plain"),
        pytest.param({"version": "7"}, {"preconditions": {"uid": "u1", "resourceVersion": "7"}}, id="of one version"),
        pytest.param(
            {"propagation": "Foreground", "grace_seconds": 0},
            {"preconditions": {"uid": "u1"}, "propagationPolicy": "Foreground", "gracePeriodSeconds": 0},
            id="options",
        ),
        pytest.param({"is_dry_run": True}, {"preconditions": {"uid": "u1"}, "dryRun": ["All"]}, id="dry run"),
    ],
)
def test_a_delete_is_always_of_one_uid(options, body):
    request = requests.delete(PODS, KEY, uid="u1", **options)

    assert (request.verb, request.method, request.path) == ("delete", "DELETE", requests.path(PODS, "ns", "name"))
    assert json.loads(request.body) == body


def test_a_collection_is_deleted_by_namespace_and_selector():
    request = requests.delete_all(PODS, Scope("ns", label_selector="a=b"))

    assert (request.verb, request.method, request.path) == ("deletecollection", "DELETE", requests.path(PODS, "ns"))
    assert request.query == {"labelSelector": "a=b"}


@pytest.mark.parametrize(
    "scope", [Scope(), Scope("ns"), Scope(label_selector="a=b"), Scope("ns", field_selector="a=b")]
)
def test_a_collection_is_never_deleted_without_namespace_and_label_selector(scope):
    with pytest.raises(ValueError, match="by namespace and label selector"):
        requests.delete_all(PODS, scope)


# Replies


def test_a_page_has_its_items_raw_a_version_and_a_token():
    page = responses.read_page(
        b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"a":1},{"b":"\xff"}]}'
    )

    assert [bytes(item) for item in page.items] == [b'{"a":1}', b'{"b":"\xff"}']
    assert (page.resource_version, page.token) == ("7", "c")


def test_an_object_that_is_nested_too_deep_does_not_affect_the_others():
    page = responses.read_page(
        b'{"items":[{"a":1},{"metadata":{"name":"deep","uid":"u"},"x":%s},{"b":2}],"metadata":{"resourceVersion":"7",'
        b'"continue":"c"}}' % DEEP
    )

    assert [bytes(item)[:8] for item in page.items] == [b'{"a":1}', b'{"metada', b'{"b":2}']
    assert (page.resource_version, page.token) == ("7", "c")
    assert responses.read_metadata(page.items[1]) == responses.ObjectMeta("deep", "", "u", "")


NO_LISTS = [
    pytest.param(b"", id="empty"),
    pytest.param(b"<html>Welcome</html>", id="HTML"),
    pytest.param(b'{"metadata":{"resourceVersion":"7"},"items":[{"a":', id="cut"),
    pytest.param(b"{}", id="an empty object"),
    pytest.param(b'{"metadata":{"resourceVersion":"7"}}', id="no items"),
    pytest.param(b'{"metadata":{},"items":[]}', id="no version"),
    pytest.param(b'{"metadata":{"resourceVersion":""},"items":[]}', id="an empty version"),
    pytest.param(b'{"metadata":null,"items":[]}', id="no metadata"),
    pytest.param(b'{"metadata":{"resourceVersion":"7"},"items":{}}', id="no array"),
    pytest.param(b'{"metadata":{"resourceVersion":"\xff"},"items":[]}', id="broken UTF-8"),
    pytest.param(b'{"kind":"Status","metadata":{},"status":"Failure"}', id="a Status"),
    pytest.param(b'{"items":[%s],"metadata":{}}' % DEEP, id="deep, no version"),
    pytest.param(b'{"metadata":{"resourceVersion":"7"},"items":[%s,' % DEEP, id="deep, cut"),
    pytest.param(b'{"metadata":{"resourceVersion":"7","x":%s},"items":[]}' % DEEP, id="deep in the metadata"),
    pytest.param(b'{"\\ud800":1,"items":[%s]}' % DEEP, id="deep, a name that is no text"),
]


@pytest.mark.parametrize("body", NO_LISTS)
def test_an_invalid_list_is_garbled_and_never_an_empty_one(body):
    with pytest.raises(errors.Garbled):
        responses.read_page(body)


def test_a_line_has_a_type_and_a_raw_object():
    line = responses.read_line(b'{"type":"ADDED","object":{"a":1}}\r')

    assert (line.type, bytes(line.object)) == ("ADDED", b'{"a":1}')


@pytest.mark.parametrize("form", [b'{"type":"ADDED","object":%s}', b'{"object" : %s, "type":"ADDED"}'])
def test_a_line_whose_object_is_nested_too_deep_is_still_a_line(form):
    deep = b'{"metadata":{"name":"deep"},"x":%s}' % DEEP

    line = responses.read_line(form % deep)

    assert (line.type, bytes(line.object)) == ("ADDED", deep)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"<html>", id="HTML"),
        pytest.param(b'{"type":"ADDED","obj', id="cut"),
        pytest.param(b'{"type":"ADDED"}', id="no object"),
        pytest.param(b'{"object":{}}', id="no type"),
        pytest.param(b'{"type":5,"object":{}}', id="a number as type"),
        pytest.param(b'{"type":"\xff","object":{}}', id="broken UTF-8"),
        pytest.param(b'{"type":5,"object":%s}' % DEEP, id="deep, a number as type"),
        pytest.param(b'{"object":%s}' % DEEP, id="deep, no type"),
        pytest.param(b'{"type":"ADDED","object":{"x":' + b"[" * 9000, id="deep, cut"),
    ],
)
def test_an_invalid_line_of_a_watch_is_garbled(line):
    with pytest.raises(errors.Garbled):
        responses.read_line(line)


@pytest.mark.parametrize(
    ("raw", "version", "is_end"),
    [
        pytest.param(b'{"metadata":{"resourceVersion":"7"}}', "7", False, id="plain"),
        pytest.param(b'{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}', "", True, id="the end"),
        pytest.param(b'{"metadata":{"annotations":{"k8s.io/initial-events-end":"no"}}}', "", False, id="not the end"),
        pytest.param(b'{"metadata":{"annotations":null,"resourceVersion":"7"}}', "7", False, id="null"),
    ],
)
def test_a_bookmark_has_a_version_and_may_end_the_initial_events(raw, version, is_end):
    bookmark = responses.read_bookmark(msgspec.Raw(raw))

    assert isinstance(bookmark, Bookmark)
    assert (bookmark.metadata.resource_version, bookmark.ends_initial_events) == (version, is_end)


@pytest.mark.parametrize("raw", [b"{}", b"5", b'{"metadata":{"resourceVersion":7}}', b'{"metadata":{"x":%s}}' % DEEP])
def test_an_invalid_bookmark_is_garbled(raw):
    with pytest.raises(errors.Garbled):
        responses.read_bookmark(msgspec.Raw(raw))


@pytest.mark.parametrize(
    ("raw", "kind", "code"),
    [
        pytest.param(b'{"kind":"Status","code":410,"reason":"Expired"}', errors.Expired, 410, id="a Status"),
        pytest.param(b"5", errors.ServerFailed, 500, id="a number"),
        pytest.param(b'{"code":"x"}', errors.ServerFailed, 500, id="an invalid code"),
        pytest.param(b'"\xff"', errors.ServerFailed, 500, id="broken UTF-8"),
        pytest.param(b'{"message":%s}' % DEEP, errors.ServerFailed, 500, id="deep"),
    ],
)
def test_an_error_line_becomes_the_error_of_its_status_or_a_failure_of_the_server(raw, kind, code):
    error = responses.read_error(msgspec.Raw(raw))

    assert (type(error), error.code) == (kind, code)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a":', b"[1]", b"null", b'{"a":"\xff"}', b'{"x":%s}' % DEEP])
def test_an_invalid_object_is_garbled_and_one_that_is_nested_too_deep_is_unreadable(body):
    with pytest.raises(errors.Garbled) as failure:
        responses.read_object(body)
    assert type(failure.value) is (errors.Unreadable if DEEP in body else errors.Garbled)


@pytest.mark.parametrize(
    ("body", "identity"),
    [
        pytest.param(b'{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"n":[1]}}', ("u", "7"), id="object"),
        pytest.param(b'{"kind":"Status","metadata":{},"details":{"uid":"v"}}', ("", ""), id="Status"),
        pytest.param(b'{"kind":"Status"}', ("", ""), id="no metadata"),
    ],
)
def test_a_reply_says_which_object_was_stored_at_which_version(body, identity):
    stored = responses.read_identity(body)

    assert (stored.uid, stored.resource_version) == identity


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"metadata":{"uid":7}}', b'{"metadata":'])
def test_a_reply_that_is_no_object_is_garbled(body):
    with pytest.raises(errors.Garbled):
        responses.read_identity(body)


@pytest.mark.parametrize(
    ("raw", "key", "version"),
    [
        pytest.param(b'{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"}}', "n/a", "7", id="plain"),
        pytest.param(b'{"x":%s,"metadata":{"name":"a"}}' % DEEP, "a", "", id="deep"),
        pytest.param(b'{"x":%s}' % DEEP, "", "", id="deep, no metadata"),
        pytest.param(b'{"metadata":%s}' % DEEP, "", "", id="deep metadata"),
        pytest.param(b'{"metadata":{"name":"a","x":%s}}' % DEEP, "a", "", id="deep in the metadata"),
        pytest.param(b'{"metadata":{"name":%s}}' % DEEP, "", "", id="a deep name"),
        pytest.param(b"5", "", "", id="no object"),
        pytest.param(b'{"metadata":{"name":5}}', "", "", id="a number as name"),
        pytest.param(b'{"metadata":{"name":"\xff"}}', "", "", id="broken UTF-8"),
        pytest.param(b"", "", "", id="nothing"),
    ],
)
def test_metadata_is_read_as_far_as_possible(raw, key, version):
    metadata = responses.read_metadata(msgspec.Raw(raw))

    assert (str(metadata.key), metadata.resource_version) == (key, version)


# Lines


def test_a_line_may_be_as_long_as_the_limit_and_no_longer():
    splitter = LineSplitter(limit=10)

    assert splitter.feed(b"a" * 6) == []
    assert splitter.feed(b"a" * 4) == []
    assert splitter.feed(b"\nb\n") == [b"a" * 10, b"b"]
    with pytest.raises(errors.Garbled, match="more than 10 bytes"):
        splitter.feed(b"c" * 11)
