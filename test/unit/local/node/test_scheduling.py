"""Which pods a node takes that is cordoned or tainted."""

import msgspec
import pytest

from tf_operator.local.node.cached_objects import CachedObject
from tf_operator.local.node.pod import pod_of
from tf_operator.local.node.scheduling import refusal

CORDONED = "0/1 nodes are available: 1 node(s) were unschedulable."
TAINTED = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def pod(*tolerations):
    return pod_of({"spec": {"tolerations": tolerations}})


@pytest.mark.parametrize(
    ("node", "tolerations", "reason"),
    [
        ({}, [], ""),
        ({"unschedulable": True}, [], CORDONED),
        ({"unschedulable": True}, [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], ""),
        ({"taints": [GPU]}, [], TAINTED),
        ({"taints": [{**GPU, "effect": "NoExecute"}]}, [], TAINTED),
        ({"taints": [{**GPU, "effect": "PreferNoSchedule"}]}, [], ""),
        ({"taints": [GPU]}, [{"operator": "Exists"}], ""),
        ({"taints": [GPU]}, [{"key": "gpu", "value": "yes"}], ""),
        ({"taints": [GPU]}, [{"key": "gpu", "value": "no"}], TAINTED),
        ({"taints": [GPU]}, [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], ""),
        ({"taints": [GPU]}, [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], TAINTED),
        ({"taints": [GPU]}, [{"key": "other", "operator": "Exists"}], TAINTED),
        ({"taints": [GPU]}, [{"value": "yes"}], TAINTED),
        ({"taints": [GPU, {"key": "b", "effect": "NoSchedule"}]}, [{"key": "gpu", "operator": "Exists"}], TAINTED),
    ],
)
def test_a_pod_is_taken_if_it_tolerates_the_taints_of_the_node(node, tolerations, reason):
    assert refusal(msgspec.convert({"metadata": {}, "spec": node}, CachedObject), pod(*tolerations)) == reason
