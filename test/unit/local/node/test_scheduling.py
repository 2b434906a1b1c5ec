"""Which pods a node takes that is cordoned or tainted, and which have room where requests count."""

import msgspec
import pytest

from tf_operator.local.node import requested
from tf_operator.local.node.cached_objects import CachedObject
from tf_operator.local.node.machine import Capacity
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


CPU, MEMORY = "1 Insufficient cpu", "1 Insufficient memory"


def asking(main, *inits, sidecar=None, **limits):
    """A pod whose containers request so many CPUs; a text is memory."""

    def container(name, amount, **fields):
        requests = {"memory": amount} if isinstance(amount, str) else {"cpu": amount}
        return {"name": name, "resources": {"requests": requests}, **fields}

    first = [container("s", sidecar, restartPolicy="Always")] if sidecar else []
    others = [container(f"i{number}", amount) for number, amount in enumerate(inits)]
    own = container("m", main)
    own["resources"]["limits"] = limits
    return pod_of({"spec": {"initContainers": first + others, "containers": [own]}})


@pytest.mark.parametrize(
    ("pod", "others", "reasons"),
    [
        (asking(4), [], []),
        (asking(5), [], [CPU]),
        (asking(2), [asking(2)], []),
        (asking(2), [asking(1), asking("1Gi"), asking(2)], [CPU]),
        (asking("6Gi"), [asking("3Gi")], [MEMORY]),
        (asking(1, cpu="4", memory="9Gi"), [], [MEMORY]),
        (asking(1, cpu="4", memory="8Gi"), [], []),
        (asking(0), [asking(9)], []),
        (asking(1, 3, 4), [], []),
        (asking(1, 5), [], [CPU]),
        (asking(3, sidecar=1), [], []),
        (asking(4, sidecar=1), [], [CPU]),
        (asking(1, 4, sidecar=1), [], [CPU]),
        (asking(1, memory="4Gi"), [asking(9, memory="8Gi")], [CPU, MEMORY]),
    ],
)
def test_a_pod_has_room_if_what_is_requested_fits_the_machine(pod, others, reasons):
    assert requested.reasons(pod, others, Capacity(4, 8 << 30)) == reasons
