"""Whom NetworkPolicies let in, as a network plugin decides it: policies that name pods of their namespace by labels."""

from collections.abc import Sequence

from support.resources import Json


def lets_in(policies: Sequence[Json], pod: Json, peer: Json) -> bool:
    """Whether *peer* may connect to *pod*. Policies add up; a pod that none selects is open."""
    selecting = [policy["spec"] for policy in policies if _is_in(pod, policy) and _selects(policy, pod)]
    if not selecting:
        return True
    return any(
        _names(source, peer) and _is_in(peer, pod)
        for spec in selecting
        for rule in spec.get("ingress", ())
        for source in rule["from"]
    )


def _selects(policy: Json, pod: Json) -> bool:
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    return _names({"podSelector": policy["spec"]["podSelector"]}, pod)


def _names(source: Json, pod: Json) -> bool:
    (selector,) = source.values()
    assert list(source) == ["podSelector"]
    assert list(selector) == ["matchLabels"]
    labels: Json = pod["metadata"].get("labels", {})
    return all(labels.get(name) == value for name, value in selector["matchLabels"].items())


def _is_in(one: Json, other: Json) -> bool:
    return bool(one["metadata"]["namespace"] == other["metadata"]["namespace"])
