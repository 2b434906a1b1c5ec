"""Protobuf is read and written as the JSON of the same object, field by field; nothing is lost without a word.

The bodies are those of kubectl 1.36. What kube-apiserver makes of bodies of ours is in ``test/scenarios/parity``.
"""

import base64
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fake_clock import FakeClock
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.forms import protobuf, protobuf_descriptors, protobuf_messages
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import JSON, PROTOBUF, ApiFailure
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.validation import built_in_fields
from tf_operator.local.node import usage
from tf_operator.machinery.transport.requests import Request

HIGH = (
    "azhzAAolChRzY2hlZHVsaW5nLms4cy5pby92MRINUHJpb3JpdHlDbGFzcxI8ChQKBGhpZ2gSABoAIgAqADIAOABCABD2//////////8BGAAiAWQq"
    "FFByZWVtcHRMb3dlclByaW9yaXR5GgAiAA=="
)
QUOTA = (
    "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRI3ChgKAXESABoHa3ViZWN0bCIAKgAyADgAQgASGQoKCgNjcHUSAwoBMgoLCgRwb2RzEgMKATUaABoA"
    "IgA="
)
SECRET = "azhzAAoMCgJ2MRIGU2VjcmV0EiQKGAoBcxIAGgdrdWJlY3RsIgAqADIAOABCABIGCgFwEgF4GgAaACIA"
CONFIG = "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEiIKGAoBYRIAGgdrdWJlY3RsIgAqADIAOABCABIGCgFrEgF2GgAiAA=="
OWNED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (
            HIGH,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high", "creationTimestamp": None},
                "value": -10,
                "description": "d",
                "preemptionPolicy": "PreemptLowerPriority",
            },
        ),
        (
            QUOTA,
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q", "namespace": "kubectl", "creationTimestamp": None},
                "spec": {"hard": {"cpu": "2", "pods": "5"}},
                "status": {},
            },
        ),
        (
            SECRET,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s", "namespace": "kubectl", "creationTimestamp": None},
                "data": {"p": "eA=="},
            },
        ),
        (
            CONFIG,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "kubectl", "creationTimestamp": None},
                "data": {"k": "v"},
            },
        ),
    ],
)
def test_an_object_of_kubectl_is_read_as_go_writes_it_in_json(sent, expected):
    assert json.loads(protobuf.to_json(base64.b64decode(sent))) == expected


@pytest.mark.parametrize(
    ("find", "added", "path"),
    [
        (b"\x12\x00", b"\xaa\x06\x01x", "ConfigMap, number 101"),
        (b"\x12\x07\x0a\x05", b"\xa0\x06\x00", "ConfigMap.metadata, number 100"),
    ],
    ids=["of the object", "of its metadata, though it is empty"],
)
def test_a_field_that_nobody_knows_is_refused_by_name(find, added, path):
    inner = {b"\x12\x00": b"\x12" + bytes([len(added)]) + added}
    metadata = b"\x0a" + bytes([3 + len(added)]) + b"\x0a\x01a" + added
    raw = inner.get(find, b"\x12" + bytes([len(metadata)]) + metadata)
    body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap" + raw
    with pytest.raises(ApiFailure, match=path) as refused:
        protobuf.to_json(body)
    assert refused.value.code == 400


def test_damaged_bytes_are_refused_or_read_and_nothing_else():
    whole = base64.b64decode(HIGH)
    damaged = [whole[:end] for end in range(len(whole))]
    damaged += [
        whole[:at] + bytes([value]) + whole[at + 1 :] for at in range(len(whole)) for value in (0, 7, 0x80, 0xFF)
    ]
    codes = set()
    for body in damaged:
        try:
            protobuf.to_json(body)
        except ApiFailure as failure:
            codes.add(failure.code)
    assert codes == {400, 415}


def test_another_kind_is_refused_with_a_way_out():
    body = base64.b64decode(CONFIG).replace(b"ConfigMap", b"Nothing!!")
    with pytest.raises(ApiFailure, match="a Nothing!! of v1 has no protobuf here; send JSON") as refused:
        protobuf.to_json(body)
    assert refused.value.code == 415


@pytest.mark.parametrize(
    "body",
    [
        OWNED | {"unheard": 1},
        OWNED | {"data": {"k": 1}},
        OWNED | {"immutable": "yes"},
        OWNED | {"binaryData": {"k": "?"}},
        OWNED | {"metadata": {"creationTimestamp": "yesterday"}},
    ],
)
def test_what_protobuf_cannot_hold_is_not_left_out_of_an_answer(body):
    with pytest.raises(ApiFailure, match="accept JSON") as refused:
        protobuf.enveloped(body)
    assert refused.value.code == 406


def test_every_kind_that_is_served_has_a_message_and_so_has_its_list():
    missing = [
        str(kind.resource)
        for kind in catalog.KINDS
        for name in (kind.resource.kind, *([] if kind.answer else [f"{kind.resource.kind}List"]))
        if not protobuf_descriptors.name_of(kind.resource.api_version, name)
    ]
    assert missing == []


def test_what_a_message_has_is_known_in_json():
    """Otherwise a field would be read, and dropped by the decoder of JSON."""
    unknown = []
    for kind in catalog.KINDS:
        waiting = {built_in_fields.definition_of(kind.resource): protobuf_descriptors.name_of(
            kind.resource.api_version, kind.resource.kind
        )}  # fmt: skip
        done = set()
        while waiting and kind.prepare:
            definition, message = waiting.popitem()
            done.add(definition)
            properties = built_in_fields.definitions()[definition]["properties"]
            for name, place in protobuf_messages.json_fields(message).items():
                if name != "metadata" and name not in properties:
                    unknown.append(f"{definition}.{name}")
                schema = properties.get(name, {})
                schema = schema.get("items") or schema.get("additionalProperties") or schema
                reference = schema.get("$ref")
                if reference and reference not in done and name != "metadata":
                    waiting[reference] = place[-1].kind
    assert unknown == []


# Any object of any kind, as the messages have them.

NAMES = st.text("abc", min_size=1, max_size=3)
SPECIAL = {
    "apis.meta.v1.Time": st.sampled_from(["1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2026-11-24T01:02:03Z"]),
    "apis.meta.v1.MicroTime": st.sampled_from(["1970-01-01T00:00:00.000001Z", "2026-11-24T01:02:03.999999Z"]),
    "api.resource.Quantity": st.sampled_from(["0", "1500m", "1Gi"]),
    "util.intstr.IntOrString": st.sampled_from([0, 80, "http", ""]),
    "apis.meta.v1.FieldsV1": st.just({"f:metadata": {"f:labels": {".": {}}}}),
    "runtime.RawExtension": st.sampled_from([{"a": [1, None]}, {}]),
    "apiextensions.v1.JSON": st.sampled_from([None, 0, "x", [], {"a": 1.5}]).filter(lambda value: value is not None),
    "apiextensions.v1.JSONSchemaPropsOrBool": st.sampled_from([True, False, {}, {"type": "string"}]),
    "apiextensions.v1.JSONSchemaPropsOrArray": st.sampled_from([{"type": "string"}, [{"minLength": 0}, {}]]),
    "apiextensions.v1.JSONSchemaPropsOrStringArray": st.sampled_from([{"type": "string"}, ["a", "b"]]),
}
SCALARS = {
    "string": st.text('aé"\n', max_size=3),
    "bytes": st.binary(max_size=3).map(lambda data: base64.b64encode(data).decode()),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
}


def value_of(field, depth):
    if field.kind in SCALARS:
        one = SCALARS[field.kind]
    elif field.kind in SPECIAL:
        one = SPECIAL[field.kind]
    else:
        one = message_of(field.kind, depth - 1)
    if field.is_list:
        return st.lists(one, min_size=1, max_size=2)
    if field.is_map:
        return st.dictionaries(NAMES, one, min_size=1, max_size=2)
    if field.is_pointer or field.is_written_empty or field.kind not in SCALARS:
        return one
    return one.filter(bool)  # Go leaves it out of JSON when it is empty


def message_of(name, depth=4):
    if any(field.is_only for field in protobuf_descriptors.fields(name)):
        return st.lists(NAMES, max_size=2)
    if depth < 0:
        return st.just({})
    fields = {key: place[-1] for key, place in protobuf_messages.json_fields(name).items()}
    key_lists = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True) if fields else st.just([])
    return key_lists.flatmap(lambda keys: st.fixed_dictionaries({key: value_of(fields[key], depth) for key in keys}))


KINDS = sorted(protobuf_descriptors.kinds().items())


@settings(max_examples=60)
@given(st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.just(kind[0]), message_of(kind[1]))))
def test_any_object_is_the_same_after_a_journey_in_protobuf(case):
    named, body = case
    api_version, kind = named.split()
    whole = {"kind": kind, "apiVersion": api_version, **body}

    assert json.loads(protobuf.to_json(protobuf.enveloped(whole))) == whole


# What a server does with it.


@pytest.fixture
def server():
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    answer = server.handle(Request("", "POST", "/api/v1/namespaces", body=b'{"metadata": {"name": "n"}}'))
    assert answer.code == 201
    return server


def sent(server, method, path, body=None, *, accept=f"{PROTOBUF},{JSON}", media=PROTOBUF):
    data = None if body is None else protobuf.enveloped(body)
    return server.handle(Request("", method, f"/api/v1/namespaces/n/{path}", {}, data, media, accept))


def test_an_update_in_protobuf_takes_no_owner_away(server):
    sent(server, "POST", "configmaps", OWNED)
    body = json.loads(protobuf.to_json(sent(server, "GET", "configmaps/a").body))
    body["data"] = {"k": "v"}
    sent(server, "PUT", "configmaps/a", body)

    stored = json.loads(sent(server, "GET", "configmaps/a", accept=JSON).body)
    assert stored["metadata"]["ownerReferences"] == OWNED["metadata"]["ownerReferences"]


def test_a_long_list_in_protobuf_is_made_in_parts(server):
    for number in range(150):
        sent(server, "POST", "configmaps", OWNED | {"metadata": {"name": f"c{number}"}})
    parts = server.begin(Request("", "GET", "/api/v1/configmaps", accept=PROTOBUF))
    assert len(list(parts)) == 1


def test_without_the_package_json_is_the_answer_and_protobuf_is_refused_with_what_to_install(server, monkeypatch):
    body = protobuf.enveloped(OWNED)
    protobuf._loaded.cache_clear()
    monkeypatch.setitem(sys.modules, "tf_operator.local.apiserver.forms.protobuf_messages", None)
    monkeypatch.delattr("tf_operator.local.apiserver.forms.protobuf_messages")
    try:
        answer = server.handle(Request("", "GET", "/api/v1/namespaces/n", accept=f"{PROTOBUF},{JSON}"))
        refused = server.handle(Request("", "POST", "/api/v1/namespaces/n/configmaps", {}, body, PROTOBUF))
    finally:
        protobuf._loaded.cache_clear()
    assert answer.content_type == JSON
    assert (refused.code, refused.content_type) == (415, JSON)
    assert "pip install 'tf-operator[local]'" in json.loads(refused.body)["message"]


def test_a_built_in_kind_without_a_message_is_shown_as_json():
    """Metrics of pods have a protobuf of their own, which kubectl top asks for first."""
    metrics = Kind(usage.POD_METRICS, "pod", read=lambda _: [])
    server = ApiServer(FakeClock(), kinds=(*catalog.KINDS, metrics))

    answer = server.handle(Request("", "GET", "/apis/metrics.k8s.io/v1beta1/pods", accept=f"{PROTOBUF},{JSON}"))

    assert (answer.code, answer.content_type, json.loads(answer.body)["items"]) == (200, JSON, [])
