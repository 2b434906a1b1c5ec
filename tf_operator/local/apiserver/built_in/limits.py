"""ResourceQuotas and PriorityClasses. ``admission`` applies them to pods."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final

from tf_operator import quantity
from tf_operator.local.apiserver.built_in import pods
from tf_operator.local.apiserver.kinds import Json, Listing
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes
from tf_operator.meta import Body

_COUNTED: Final = frozenset({"configmaps", "persistentvolumeclaims", "resourcequotas", "secrets", "services"})
"""What can be limited without ``count/``, too."""
_HIGHEST_PRIORITY: Final = 1_000_000_000


def prepare_quota(body: Json, old: Body | None, _: datetime) -> None:
    body["spec"] = body.get("spec") or {}
    if old is None:
        body["status"] = {}


def check_quota(body: Body, _: Body | None) -> Iterator[FieldCause]:
    for name, text in (body["spec"].get("hard") or {}).items():
        amount = quantity.parse(text) or Decimal(0)
        if amount < 0:
            yield causes.invalid(f"spec.hard[{name}]", text, "must be greater than or equal to 0")
        elif (name == "pods" or name.startswith("count/")) and amount != int(amount):
            yield causes.invalid(f"spec.hard[{name}]", quantity.text(amount), "must be an integer")


def used_by_pods(resources: Iterable[str], namespace: str, listing: Listing) -> dict[str, Decimal]:
    used = dict.fromkeys(resources, Decimal(0))
    for pod in listing("pods", namespace):
        for resource, amount in pods.usage(pod).items():
            if resource in used:
                used[resource] += amount
    return used


def observe_quota(body: Body, listing: Listing) -> Json:
    hard, namespace = body["spec"].get("hard") or {}, body["metadata"]["namespace"]
    used = used_by_pods(hard, namespace, listing)
    for name in hard:
        if name in _COUNTED or name.startswith("count/"):
            used[name] = Decimal(sum(1 for _ in listing(name.removeprefix("count/"), namespace)))
    return {"hard": hard, "used": {name: quantity.text(amount) for name, amount in used.items()}} if hard else {}


def prepare_class(body: Json, old: Body | None, _: datetime) -> None:
    """Fill a PriorityClass, whose generation never grows."""
    if old is None:
        body["metadata"]["generation"] = 1
    body.setdefault("value", 0)
    body.setdefault("preemptionPolicy", "PreemptLowerPriority")


def check_class(body: Body, old: Body | None) -> Iterator[FieldCause]:
    name = body["metadata"].get("name", "")
    if name.startswith("system-"):
        rule = "priority class names with 'system-' prefix are reserved for system use only. error:"
        yield causes.forbidden("metadata.name", f"{rule} {name} is not a known system priority class")
    if body["value"] > _HIGHEST_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        yield causes.forbidden("value", detail)
    if old is not None and body.get("value") != old.get("value"):
        yield causes.forbidden("value", "may not be changed in an update.")
    if old is not None and body.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield causes.invalid("preemptionPolicy", body.get("preemptionPolicy"), "field is immutable")
