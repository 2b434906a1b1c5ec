"""Bad requests to the embedded API server: a Status each, and nothing that was stored is lost or changed.

Without sockets; what is refused before the state machine (tokens, hosts, sizes) is in ``unit/local/apiserver``.
"""

import json
import os
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from tf_operator.app import local
from tf_operator.dialects import registry
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.forms import protobuf
from tf_operator.local.apiserver.messages import JSON, PROTOBUF, Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Request

BAD_REQUESTS = int(os.environ.get("BAD_REQUESTS", "100"))
NAMESPACE = "/api/v1/namespaces/team"
STORED = f"{NAMESPACE}/configmaps/stored"
_SERVER = ApiServer(FakeClock(), kinds=catalog.KINDS)
for api in registry.SERVED:
    local.install(_SERVER, api.crd.load(*api.conversion.versions))
KINDS = tuple(_SERVER.registry)
toy_kinds.call(_SERVER, "POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
_, BODY = toy_kinds.call(
    _SERVER, "POST", f"{NAMESPACE}/configmaps", {"metadata": {"name": "stored"}, "data": {"a": "b"}}
)
_RESOURCES = sorted({kind.resource.plural for kind in KINDS})

_PARTS = st.sampled_from(
    [
        *("api", "apis", "v1", "v2", "apps", "namespaces", "team", "stored", "status", "scale", "log", *_RESOURCES),
        *("", "%2e%2e", "..", "%zz", "%ff", "a" * 300, "Ü", "watch", "openapi", "v3", "version"),
    ]
)
_COLLECTIONS = [requests.path(kind.resource, "team") for kind in KINDS]
_PATHS = st.lists(_PARTS, max_size=9).map(lambda parts: "/" + "/".join(parts)) | st.sampled_from(
    [*_COLLECTIONS, *(f"{path}/none" for path in _COLLECTIONS), STORED, f"{STORED}/status"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = (
    *("spec", "status", "data", "containers", "name", "image", "command", "env", "valueFrom", "ports", "resources"),
    *("limits", "volumes", "volumeMounts", "selector", "template", "names", "versions", "schema", "group", "hard"),
    *("involvedObject", "lastTimestamp", "holderIdentity", "value", "type", "rules"),
)
_NESTED = st.recursive(
    st.sampled_from([None, True, -1, 1.5, "", "x", "9Ü", [], {}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=4),
    max_leaves=10,
)
# Bodies that are wrong in each case: not JSON, no object, or with a type that their field cannot have.
_BODIES = st.one_of(
    st.binary(max_size=40).filter(lambda raw: not _is_object(raw)),
    st.sampled_from([None, b"", b"[" * 100_000, b'{"a":' * 5_000, b"{" + b" " * (3 * 2**20 + 1) + b"}", b"\xff\xfe{}"]),
    _VALUES.filter(lambda value: not isinstance(value, dict)).map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries({"metadata": _VALUES.filter(lambda value: not isinstance(value, dict | None))}).map(
        lambda value: json.dumps(value).encode()
    ),
    st.fixed_dictionaries({"kind": st.just("Box"), "apiVersion": st.just("v1")}).map(
        lambda value: json.dumps(value).encode()
    ),
    st.fixed_dictionaries({"metadata": st.just({"name": "new"})}, optional=dict.fromkeys(_FIELDS, _NESTED)).map(
        lambda value: json.dumps(value).encode()
    ),
)
_QUERIES = st.dictionaries(
    st.sampled_from(
        [
            *("limit", "continue", "resourceVersion", "resourceVersionMatch", "watch", "timeoutSeconds"),
            *("labelSelector", "fieldSelector", "dryRun", "propagationPolicy", "gracePeriodSeconds", "fieldValidation"),
            *("sendInitialEvents", "allowWatchBookmarks", "pretty", "force", "fieldManager"),
        ]
    ),
    st.sampled_from(["", "-1", "x", "a=b", "a in (", "1" * 30, "true", "0", "==", "All", "\0", "٣"]),
    max_size=3,
)
_MEDIA = st.just(JSON) | st.sampled_from(
    [
        *("application/json", "application/merge-patch+json", "application/json-patch+json", "text/html", "", "*/*"),
        *("application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/yaml"),
        *("application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/cbor"),
    ]
)
_METHODS = st.sampled_from([*("POST", "PUT", "PATCH") * 3, "GET", "GET", "DELETE", "BREW", "OPTIONS", "get", ""])


def _is_object(raw: bytes) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except (ValueError, RecursionError):
        return False


def _decoded(answer: Response) -> Any:
    if answer.content_type.startswith(PROTOBUF):
        return json.loads(protobuf.to_json(answer.body))
    return yaml.safe_load(answer.body) if "yaml" in answer.content_type else json.loads(answer.body)


@settings(max_examples=BAD_REQUESTS)
@given(st.builds(Request, st.just(""), _METHODS, _PATHS, _QUERIES, _BODIES, _MEDIA, _MEDIA))
def test_each_bad_request_is_answered_and_changes_nothing(request: Request) -> None:
    if request.method == "DELETE":
        request = structs.replace(request, path=f"{NAMESPACE}/configmaps/none")
    answer = _SERVER.handle(request)
    if isinstance(answer, Response) and answer.content_type.startswith("text/plain"):
        # As kube-apiserver answers for paths that are none of its API.
        assert answer.code == 404
    elif isinstance(answer, Response):
        body = _decoded(answer)
        # Some of kube-apiserver's refusals are a 500 without a reason; a panic has one.
        assert body.get("reason") != "InternalError", body
        if answer.code >= 400:
            assert (body["kind"], body["code"], body["status"]) == ("Status", answer.code, "Failure")
            assert body["message"]
    else:
        answer.news()
        answer.close()
    assert toy_kinds.call(_SERVER, "GET", STORED) == (200, BODY)
