"""Whether this node takes a pod, as kube-scheduler decides it by cordons and taints. Pure.

There is one node, and ``requested`` counts what pods request. ``NoExecute`` keeps new pods away, too; those that run
stay.
"""

from collections.abc import Sequence
from typing import Final

from tf_operator.local.node.cached_objects import CachedObject, NodeTaint
from tf_operator.local.node.pod import LocalPod, PodToleration

_CORDON: Final = NodeTaint("node.kubernetes.io/unschedulable", effect="NoSchedule")
_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})


def refusal(node: CachedObject, pod: LocalPod) -> str:
    """Why the node does not take the pod, in words of kube-scheduler; empty if it does."""
    reason = ""
    if node.spec.unschedulable and not _is_tolerated(_CORDON, pod):
        reason = "1 node(s) were unschedulable"
    elif any(not _is_tolerated(taint, pod) for taint in node.spec.taints):
        reason = "1 node(s) had untolerated taint(s)"
    return sentence([reason]) if reason else ""


def sentence(reasons: Sequence[str]) -> str:
    """As kube-scheduler says why a pod waits."""
    return f"0/1 nodes are available: {', '.join(reasons)}."


def _is_tolerated(taint: NodeTaint, pod: LocalPod) -> bool:
    return taint.effect not in _KEEPS_AWAY or any(_tolerates(entry, taint) for entry in pod.spec.tolerations)


def _tolerates(toleration: PodToleration, taint: NodeTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == taint.value)
