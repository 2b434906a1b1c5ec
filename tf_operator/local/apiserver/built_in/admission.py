"""What admission decides about a new pod: its priority, and whether the quotas of its namespace have room."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from tf_operator import quantity
from tf_operator.local.apiserver.built_in import limits, pods
from tf_operator.local.apiserver.kinds import Json, Listing
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.meta import Body, GroupVersionResource, text_of

PRIORITY_CLASSES: Final = GroupVersionResource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False
)
_SYSTEM_PRIORITIES: Final = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_COMPUTE: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""What each container has to specify, if it is limited."""
_NOTHING: Final = Decimal(0)


def admit(body: Json, listing: Listing) -> None:
    spec, namespace = body["spec"], body["metadata"]["namespace"]
    account = spec["serviceAccountName"]
    if account != "default" and account not in _names("serviceaccounts", namespace, listing):
        reason = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
        raise _forbidden(body, reason)
    sent_priority = spec.pop("priority", 0)
    spec["priority"], policy = _priority(body, listing)
    spec["preemptionPolicy"] = policy or spec["preemptionPolicy"]
    if sent_priority not in (0, spec["priority"]):
        reason = (
            f"the integer value of priority ({sent_priority}) must not be provided in pod spec; priority admission"
            f" controller computed {spec['priority']} from the given PriorityClass name"
        )
        raise _forbidden(body, reason)
    for quota in listing("resourcequotas", namespace):
        _keep(quota, body, listing)


def _names(resource: str, namespace: str, listing: Listing) -> set[str]:
    return {body["metadata"]["name"] for body in listing(resource, namespace)}


def _priority(body: Body, listing: Listing) -> tuple[int, str]:
    name = text_of(body["spec"], "priorityClassName")
    if name in _SYSTEM_PRIORITIES or not name:
        return _SYSTEM_PRIORITIES.get(name, 0), ""
    priority_class = next((one for one in listing(str(PRIORITY_CLASSES), "") if one["metadata"]["name"] == name), None)
    if priority_class is None:
        raise _forbidden(body, f"no PriorityClass with name {name} was found")
    return priority_class["value"], priority_class["preemptionPolicy"]


def _forbidden(body: Body, reason: str) -> ApiFailure:
    name = body["metadata"].get("name", "")
    details = {"name": name, "kind": "pods"}
    return ApiFailure(403, "Forbidden", f'pods "{name}" is forbidden: {reason}', details=details)


def _keep(quota: Body, pod: Body, listing: Listing) -> None:
    name, usage = quota["metadata"]["name"], pods.usage(pod)
    amounts = (quota.get("spec") or {}).get("hard") or {}
    hard = {resource: quantity.parse(amount) or _NOTHING for resource, amount in amounts.items()}
    if missing := "; ".join(_missing(pod, sorted(_COMPUTE & hard.keys()))):
        raise _forbidden(pod, f"failed quota: {name}: must specify {missing}")
    used = limits.used_by_pods(hard, pod["metadata"]["namespace"], listing)
    over = sorted(
        resource for resource in hard if resource in usage and used[resource] + usage[resource] > hard[resource]
    )
    if over:
        requested, taken, limited = (
            ",".join(f"{resource}={quantity.text(counted[resource])}" for resource in over)
            for counted in (usage, used, hard)
        )
        text = f"requested: {requested}, used: {taken}, limited: {limited}"
        raise _forbidden(pod, f"exceeded quota: {name}, {text}")


def _missing(pod: Body, resources: Sequence[str]) -> Iterator[str]:
    spec = pod["spec"]
    for resource in resources:
        part, _, name = resource.rpartition(".")
        containers = sorted(
            container["name"]
            for container in (*spec.get("initContainers", ()), *spec.get("containers", ()))
            if name not in ((container.get("resources") or {}).get(part or "requests") or {})
        )
        if containers:
            yield f"{resource} for: {','.join(containers)}"
