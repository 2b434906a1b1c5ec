"""What kubectl sends in protobuf is read as the JSON of the same object. The bodies are those of kubectl 1.36."""

import base64
import json

import pytest

from tf_operator.local.apiserver import protobuf
from tf_operator.local.apiserver.messages import ApiFailure

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


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (
            HIGH,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
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
                "metadata": {"name": "q", "namespace": "kubectl"},
                "spec": {"hard": {"cpu": "2", "pods": "5"}},
            },
        ),
        (
            SECRET,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s", "namespace": "kubectl"},
                "data": {"p": "eA=="},
            },
        ),
        (
            CONFIG,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "kubectl"},
                "data": {"k": "v"},
            },
        ),
    ],
)
def test_an_object_is_read_without_its_empty_fields(sent, expected):
    assert json.loads(protobuf.to_json(base64.b64decode(sent))) == expected


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
    body = base64.b64decode(CONFIG).replace(b"ConfigMap", b"CronJobXX")
    way_out = r"JSON is: add --dry-run=client -o yaml .* pipe it into: kubectl create -f -"
    with pytest.raises(ApiFailure, match=way_out) as refused:
        protobuf.to_json(body)
    assert refused.value.code == 415
