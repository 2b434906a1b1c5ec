"""How much memory the containers that decide may use: by the template, or more of it after OOM kills.

A template and an ``OOMPolicy`` fix all limits that a type may ever have, one after the other. Which of them is in force
is in the status; there is nothing else to remember.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple, Self

from tf_operator import quantity
from tf_operator.meta import Body, list_of, mapping_of, objects_of

LEAST_PERCENT: Final = 10
MOST_PERCENT: Final = 400
MOST_GROWTHS: Final = 16
"""The last of them is to the maximum."""
_MEBIBYTE: Final = Decimal(2**20)


@dataclass(frozen=True, slots=True)
class OOMPolicy:
    """What is done about pods that use more memory than they may."""

    growth_percent: int
    maximum: str
    """A quantity, if the job is valid."""

    def limits(self, first: Decimal) -> tuple[Decimal, ...]:
        """All limits that a type may have whose template has the first one."""
        most = quantity.parse(self.maximum) or first
        limits = [first]
        while limits[-1] < most:
            more = _whole(limits[-1] * (100 + self.growth_percent) / 100)
            limits.append(most if len(limits) == MOST_GROWTHS else min(more, most))
        return tuple(limits)


class MemoryLimit(NamedTuple):
    """The limit of the deciding container of one type."""

    policy: OOMPolicy
    template: Decimal
    """What the template says."""
    in_force: Decimal
    """What new pods get."""

    @property
    def next(self) -> Decimal | None:
        """What they get after the next OOM kill; ``None`` at the maximum."""
        return next((limit for limit in self.policy.limits(self.template) if limit > self.in_force), None)

    @property
    def is_grown(self) -> bool:
        return self.in_force > self.template

    @property
    def problem(self) -> str:
        """What is wrong with the maximum; empty if it leaves the template its limit."""
        most = quantity.parse(self.policy.maximum)
        if most is None or most >= self.template:
            return ""
        return f"must be at least {quantity.memory(self.template)}, which is the limit in the template"

    @property
    def path(self) -> tuple[Decimal, ...]:
        """The limits that it has had, as far as nobody has edited policy or template in between."""
        limits = self.policy.limits(self.template)
        steps = tuple(limit for limit in limits if limit <= self.in_force)
        return steps if steps[-1] == self.in_force else (self.template, self.in_force)

    @classmethod
    def of(cls, policy: OOMPolicy, template: Body, container: str, recorded_limit: str) -> Self | None:
        """The recorded limit is in force if it is above that of the template, up to the maximum of today.

        ``None`` where the template has no limit that could grow: a node was full then, and not the pod. Nor does a
        limit grow that the template sets for the pod as a whole.
        """
        pod = mapping_of(template.get("spec"))
        main = next((entry for entry in objects_of(pod.get("containers")) if entry.get("name") == container), {})
        limit = quantity.parse(_amounts(main, "limits").get("memory"))
        if limit is None or limit <= 0 or "memory" in _amounts(pod, "limits"):
            return None
        most, grown = quantity.parse(policy.maximum), quantity.parse(recorded_limit)
        return cls(policy, limit, max(limit, min(grown, most)) if most and grown else limit)

    def applied(self, template: Body, container: str) -> dict[str, Any]:
        """The template with this limit. The request grows by the same factor, so that the QoS class stays."""
        pod = mapping_of(template.get("spec"))
        containers = [
            self._apply_to_container(entry) if isinstance(entry, Mapping) and entry.get("name") == container else entry
            for entry in list_of(pod.get("containers"))
        ]
        return {**template, "spec": {**pod, "containers": containers}}

    def _apply_to_container(self, container: Body) -> Body:
        requests = _amounts(container, "requests")
        limits = {**_amounts(container, "limits"), "memory": quantity.memory(self.in_force)}
        resources = {**mapping_of(container.get("resources")), "limits": limits}
        if request := quantity.parse(requests.get("memory")):
            more = min(_whole(request * self.in_force / self.template), self.in_force)
            resources["requests"] = {**requests, "memory": quantity.memory(more)}
        return {**container, "resources": resources}


def _amounts(part: Body, name: str) -> Body:
    return mapping_of(mapping_of(part.get("resources")).get(name))


def _whole(amount: Decimal) -> Decimal:
    """Rounded up to MiB."""
    return (amount / _MEBIBYTE).to_integral_value(rounding="ROUND_CEILING") * _MEBIBYTE
