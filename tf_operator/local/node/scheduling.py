"""Whether this node takes a pod, as kube-scheduler decides it by cordons and taints. Pure.

There is one node, and requests are not counted. ``NoExecute`` keeps new pods away, too; those that run stay.
"""

from typing import Final

from tf_operator.local.node.containers import list_of, spec_of
from tf_operator.meta import Body, text_of

_CORDON: Final[Body] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})


def refusal(node: Body, pod: Body) -> str:
    """Why the node does not take the pod, in words of kube-scheduler; empty if it does."""
    reason = ""
    if spec_of(node).get("unschedulable") is True and not _is_tolerated(_CORDON, pod):
        reason = "1 node(s) were unschedulable"
    elif any(not _is_tolerated(taint, pod) for taint in list_of(spec_of(node), "taints")):
        reason = "1 node(s) had untolerated taint(s)"
    return f"0/1 nodes are available: {reason}." if reason else ""


def _is_tolerated(taint: Body, pod: Body) -> bool:
    """Whether the taint means nothing to the pod."""
    if text_of(taint, "effect") not in _KEEPS_AWAY:
        return True
    return any(_tolerates(toleration, taint) for toleration in list_of(spec_of(pod), "tolerations"))


def _tolerates(toleration: Body, taint: Body) -> bool:
    key, operator = text_of(toleration, "key"), text_of(toleration, "operator") or "Equal"
    if text_of(toleration, "effect") not in ("", text_of(taint, "effect")) or key not in ("", text_of(taint, "key")):
        return False
    if operator == "Exists":
        return True
    return bool(key) and text_of(toleration, "value") == text_of(taint, "value")
