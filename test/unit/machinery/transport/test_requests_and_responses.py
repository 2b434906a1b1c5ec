"""Requests as they go onto the wire, and replies as they come from it: the whole grammar, without a server."""

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
DEEP = b"[" * 50_000 + b"]" * 50_000


def body_of(request):
    return json.loads(request.body)


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


IMPOSSIBLE = ["", ".", "..", "a/b", "a/status", "../pods", "%2e%2e", "a%2Fb", "a\n/b"]


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda key: requests.get(PODS, key), id="get"),
        pytest.param(lambda key: requests.delete(PODS, key, uid="u"), id="delete"),
        pytest.param(lambda key: requests.update(PODS, key, {}), id="update"),
        pytest.param(lambda key: requests.merge_patch(PODS, key, {}, subresource="status"), id="patch"),
    ],
)
def test_a_name_that_no_object_can_have_is_not_found_and_never_another_path(build, name):
    for key in (ObjectKey("ns", name), ObjectKey(name, "a")):
        with pytest.raises(errors.NotFound) as caught:
            build(key)
        assert (caught.value.code, caught.value.reason) == (404, "NotFound")


@pytest.mark.parametrize("name", [".hidden", "...", "a..b", "system:node:x", "~"])
def test_an_odd_name_is_a_name(name):
    assert requests.get(NODES, ObjectKey("", name)).path.startswith("/api/v1/nodes/")


@pytest.mark.parametrize(
    ("options", "query"),
    [
        pytest.param({}, {"limit": "500"}, id="first page"),
        pytest.param({"token": "abc"}, {"limit": "500", "continue": "abc"}, id="next page"),
        pytest.param({"resource_version": "0"}, {"limit": "500", "resourceVersion": "0"}, id="any version"),
        pytest.param({"resource_version": ""}, {"limit": "500", "resourceVersion": ""}, id="an empty version"),
    ],
)
def test_a_list_asks_for_one_page_and_without_a_version_for_a_consistent_one(options, query):
    request = requests.list_page(JOBS, EVERYWHERE, limit=500, **options)

    assert (request.verb, request.method, request.path) == ("list", "GET", "/apis/kubeflow.org/v1/tfjobs")
    assert request.query == query


def test_a_scope_is_a_namespace_and_selectors():
    scope = Scope("ns", label_selector="a=b,c in (d)", field_selector="spec.nodeName=")
    selectors = {"labelSelector": "a=b,c in (d)", "fieldSelector": "spec.nodeName="}

    for request in (
        requests.list_page(PODS, scope, limit=1),
        requests.watch(PODS, scope, resource_version="7", timeout_seconds=9),
        requests.watch_list(PODS, scope, timeout_seconds=9),
    ):
        assert request.path == "/api/v1/namespaces/ns/pods"
        assert selectors.items() <= request.query.items()


def test_a_watch_asks_for_bookmarks_and_an_end():
    request = requests.watch(PODS, EVERYWHERE, resource_version="7", timeout_seconds=9)

    assert (request.verb, request.method) == ("watch", "GET")
    assert request.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "9",
    }


def test_a_watch_list_asks_for_everything_and_for_the_mark_at_its_end():
    assert requests.watch_list(PODS, EVERYWHERE, timeout_seconds=9).query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "9",
    }


def test_what_is_created_or_replaced_names_its_kind():
    created = requests.create(JOBS, "ns", {"metadata": {"name": "name"}, "spec": None})
    updated = requests.update(JOBS, KEY, {"metadata": {"resourceVersion": "7"}})

    assert (created.verb, created.method, created.path) == ("create", "POST", requests.path(JOBS, "ns"))
    assert body_of(created) == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "name"},
        "spec": None,
    }
    assert (updated.verb, updated.method, updated.path) == ("update", "PUT", requests.path(JOBS, "ns", "name"))
    assert body_of(updated)["kind"] == "TFJob"
    assert created.content_type == updated.content_type == "application/json"


def test_a_merge_patch_keeps_nulls_which_remove_a_field():
    request = requests.merge_patch(JOBS, KEY, {"status": {"old": None}}, subresource="status")

    assert (request.verb, request.method, request.path) == (
        "patch",
        "PATCH",
        requests.path(JOBS, "ns", "name", subresource="status"),
    )
    assert request.content_type == "application/merge-patch+json"
    assert body_of(request) == {"status": {"old": None}}


@pytest.mark.parametrize(
    ("options", "more"),
    [
        pytest.param({}, {}, id="plain"),
        pytest.param({"propagation": "Foreground"}, {"propagationPolicy": "Foreground"}, id="propagation"),
        pytest.param({"grace_seconds": 0}, {"gracePeriodSeconds": 0}, id="at once"),
    ],
)
def test_a_delete_is_always_of_one_uid(options, more):
    request = requests.delete(PODS, KEY, uid="u1", **options)

    assert (request.verb, request.method, request.path) == ("delete", "DELETE", requests.path(PODS, "ns", "name"))
    assert body_of(request) == {"preconditions": {"uid": "u1"}} | more


def test_a_delete_may_be_of_one_version():
    request = requests.delete(PODS, KEY, uid="u1", version="7")

    assert body_of(request) == {"preconditions": {"uid": "u1", "resourceVersion": "7"}}


# Replies


def test_a_page_has_its_items_raw_a_version_and_a_token():
    page = responses.read_page(
        b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"a":1},{"b":"\xff"}]}'
    )

    assert [bytes(item) for item in page.items] == [b'{"a":1}', b'{"b":"\xff"}']
    assert (page.resource_version, page.token) == ("7", "c")


def test_one_object_that_is_nested_too_deep_costs_only_itself():
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
    pytest.param(b'{"metadata":{"resourceVersion":7},"items":[]}', id="a number as version"),
    pytest.param(b'{"metadata":{"resourceVersion":"7"},"items":{}}', id="no array"),
    pytest.param(b'{"metadata":{"resourceVersion":"\xff"},"items":[]}', id="broken UTF-8"),
    pytest.param(b'{"kind":"Status","metadata":{},"status":"Failure"}', id="a Status"),
    pytest.param(b'{"items":[%s],"metadata":{}}' % DEEP, id="deep, no version"),
    pytest.param(b'{"items":[%s]}' % DEEP, id="deep, no metadata"),
    pytest.param(b'{"metadata":{"resourceVersion":"7"},"items":[%s,' % DEEP, id="deep, cut"),
    pytest.param(b'{"metadata":%s,"items":[]}' % DEEP, id="deep metadata"),
    pytest.param(b'{"metadata":{"resourceVersion":"7","x":%s},"items":[]}' % DEEP, id="deep in the metadata"),
    pytest.param(b'{"\\ud800":1,"items":[%s]}' % DEEP, id="deep, a name that is no text"),
    pytest.param(DEEP, id="deep, no object"),
]


@pytest.mark.parametrize("body", NO_LISTS)
def test_what_is_no_list_is_garbled_and_never_an_empty_one(body):
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
def test_what_is_no_line_of_a_watch_is_garbled(line):
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
def test_what_is_no_bookmark_is_garbled(raw):
    with pytest.raises(errors.Garbled):
        responses.read_bookmark(msgspec.Raw(raw))


def test_an_error_line_becomes_its_error():
    expired = responses.read_error(msgspec.Raw(b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'))

    assert (type(expired), str(expired)) == (errors.Expired, "too old")


@pytest.mark.parametrize("raw", [b"5", b'{"code":"x"}', b'"\xff"', b'{"message":' + DEEP + b"}"])
def test_an_error_line_without_a_status_is_a_failure_of_the_server(raw):
    error = responses.read_error(msgspec.Raw(raw))

    assert (type(error), error.code) == (errors.ServerFailed, 500)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a":', b"[1]", b"null", b'{"a":"\xff"}'])
def test_what_is_no_object_is_garbled(body):
    with pytest.raises(errors.Garbled) as caught:
        responses.read_object(body)
    assert type(caught.value) is errors.Garbled


def test_an_object_that_is_nested_too_deep_is_unreadable():
    with pytest.raises(errors.Unreadable):
        responses.read_object(b'{"metadata":{},"x":' + DEEP + b"}")


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
def test_metadata_is_read_wherever_it_can_be(raw, key, version):
    metadata = responses.read_metadata(msgspec.Raw(raw))

    assert (str(metadata.key), metadata.resource_version) == (key, version)


# Lines


def test_lines_are_found_wherever_the_chunks_are_cut():
    text = b'{"a":1}\r\n\n{"b":"\xc3\xa9"}\n \r\n{"c":3}\n{"unfinished'
    lines = [b'{"a":1}\r', b'{"b":"\xc3\xa9"}', b'{"c":3}']

    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            splitter = LineSplitter()
            chunks = (text[:first], text[first:second], text[second:])
            assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines


def test_a_line_may_be_as_long_as_the_limit_and_no_longer():
    splitter = LineSplitter(limit=10)

    assert splitter.feed(b"a" * 6) == []
    assert splitter.feed(b"a" * 4) == []
    assert splitter.feed(b"\nb\n") == [b"a" * 10, b"b"]
    with pytest.raises(errors.Garbled, match="more than 10 bytes"):
        splitter.feed(b"c" * 11)


def test_a_line_of_sixteen_mebibytes_passes_and_a_longer_one_is_given_up_at_once():
    splitter = LineSplitter()
    chunk = b"a" * 65_536
    for _ in range(256):
        assert splitter.feed(chunk) == []
    assert [len(line) for line in splitter.feed(b"\n")] == [16 * 1024 * 1024]

    for _ in range(256):
        splitter.feed(chunk)
    with pytest.raises(errors.Garbled):
        splitter.feed(b"a")


def test_a_collection_is_deleted_by_namespace_and_selector():
    request = requests.delete_all(Resource("", "v1", "services", "Service"), Scope("ns", label_selector="a=b"))

    assert (request.verb, request.method, request.path) == (
        "deletecollection",
        "DELETE",
        "/api/v1/namespaces/ns/services",
    )
    assert request.query == {"labelSelector": "a=b"}


@pytest.mark.parametrize(
    "scope", [Scope(), Scope("ns"), Scope(label_selector="a=b"), Scope("ns", field_selector="a=b")]
)
def test_everything_there_is_is_never_deleted(scope):
    with pytest.raises(ValueError, match="by namespace and label selector"):
        requests.delete_all(Resource("", "v1", "services", "Service"), scope)
