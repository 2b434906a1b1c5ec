"""What a pod needs of a node: amounts of resources, and which nodes it may be on.

Of the rules of kube-scheduler those are here that a node alone decides: requests, nodeSelector, required node affinity,
taints and tolerations. Affinity between pods, topology spread, host ports, volumes and resource claims are not: where
they leave a job no room, its pods wait for the scheduler.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from tf_operator import quantity
from tf_operator.meta import Body, mapping_of, objects_of

Amounts = tuple[tuple[str, int], ...]
"""Resources with thousandths of their units, sorted by name, without zeros."""

PODS: Final = "pods"
ONE: Final = 1000
MOST_RULES: Final = 1000
"""Rules about nodes of one namespace's waiting jobs that are looked at: each is compared with each node."""
_NAME_FIELD: Final = "metadata.name"


class Taint(NamedTuple):
    """What keeps pods away from a node that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(NamedTuple):
    """What a pod tolerates; empty is everything."""

    key: str = ""
    value: str | None = None
    """``None``: any."""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        if self.effect not in {"", taint.effect} or self.key not in {"", taint.key}:
            return False
        return self.value is None or self.value == taint.value


class Requirement(NamedTuple):
    """What a label of a node, or its name, has to be."""

    key: str
    operator: str
    values: tuple[str, ...]
    is_field: bool = False

    def accepts(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether the node is as required; what is not understood accepts no node."""
        value = (name if self.key == _NAME_FIELD else None) if self.is_field else labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        return False

    def _compares(self, value: str | None) -> bool:
        try:
            one, other = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return one > other if self.operator == "Gt" else one < other


@dataclass(frozen=True, slots=True)
class Places:
    """The nodes on which a pod may be."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] | None = None
    """Of its required node affinity, of which one has to hold; ``None`` for no such."""
    tolerations: tuple[Toleration, ...] = ()

    @property
    def rules(self) -> int:
        """How much there is to compare with a node."""
        requirements = [entry for term in self.terms or () for entry in term]
        values = sum(len(entry.values) for entry in requirements)
        return len(self.selector) + len(requirements) + values + len(self.tolerations)

    def accept(self, labels: Mapping[str, str], name: str, taints: Iterable[Taint]) -> bool:
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        for taint in taints:
            if taint.effect != "PreferNoSchedule" and not any(entry.covers(taint) for entry in self.tolerations):
                return False
        if self.terms is None:
            return True
        return any(term and all(entry.accepts(labels, name) for entry in term) for term in self.terms)


ANYWHERE: Final = Places()


@dataclass(frozen=True, slots=True)
class Shape:
    """What one pod needs. Pods of the same shape are the same to the queue."""

    requests: Amounts = ()
    places: Places = ANYWHERE


def shape_of(pod: Body) -> Shape:
    """The shape of a pod, from its ``spec``, which may be any JSON."""
    return Shape(requests_of(pod), _places(pod))


def rules_of(pods: Iterable[Body]) -> int:
    """How many rules about nodes pods have together, each counted once."""
    return sum(places.rules for places in {_places(pod) for pod in pods})


def requests_of(pod: Body) -> Amounts:
    """What kube-scheduler counts: the sum of the containers, or the largest init container, and the overhead.

    Init containers with restartPolicy Always are sidecars: they run beside all that follows. What the pod asks for as a
    whole takes the place of all that; a limit alone does where no container asks for that resource.
    """
    total = _sum(_of_container(entry) for entry in objects_of(pod.get("containers")))
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for entry in objects_of(pod.get("initContainers")):
        needed = _sum((_of_container(entry), beside))
        peak = {name: max(peak.get(name, 0), needed.get(name, 0)) for name in {*peak, *needed}}
        if entry.get("restartPolicy") == "Always":
            beside = needed
    total = _sum((total, beside))
    total = {name: max(total.get(name, 0), peak.get(name, 0)) for name in {*total, *peak}}
    whole = _resources(pod)
    total = _amounts(whole.get("limits")) | total | _amounts(whole.get("requests"))
    return amounts(_sum((total, _amounts(pod.get("overhead")), {PODS: ONE})))


def amounts(by_name: Mapping[str, int]) -> Amounts:
    """As they are compared."""
    return tuple(sorted((name, amount) for name, amount in by_name.items() if amount > 0))


def counted(all_amounts: Amounts, prefixes: tuple[str, ...]) -> Amounts:
    return tuple(entry for entry in all_amounts if entry[0].startswith(prefixes))


def amounts_of(value: object) -> Amounts:
    """A list of resources, such as what a node can allocate."""
    return amounts(_amounts(value))


def _of_container(container: Body) -> dict[str, int]:
    """Its requests; the API server fills in limits where there is no request of that resource."""
    resources = _resources(container)
    return _amounts(resources.get("limits")) | _amounts(resources.get("requests"))


def _resources(body: Body) -> Body:
    return mapping_of(body.get("resources"))


def _amounts(resources: object) -> dict[str, int]:
    texts = ((str(name), str(value)) for name, value in mapping_of(resources).items())
    return {
        name: amount
        for name, text in texts
        if len(text) <= quantity.LONGEST and (amount := _thousandths(text)) is not None
    }


@lru_cache(maxsize=4096)
def _thousandths(text: str) -> int | None:
    """Rounded up: a pod never needs less than it asks for."""
    number = quantity.parse(text)
    return None if number is None else max(int((number * ONE).to_integral_value(rounding="ROUND_CEILING")), 0)


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _places(pod: Body) -> Places:
    labels = mapping_of(pod.get("nodeSelector"))
    return Places(
        selector=tuple(sorted((str(key), str(value)) for key, value in labels.items())),
        terms=_terms(pod),
        tolerations=tuple(_tolerations(pod)),
    )


def _terms(pod: Body) -> tuple[tuple[Requirement, ...], ...] | None:
    part: object = pod
    for name in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        part = part.get(name) if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping):
        return None
    return tuple(tuple(_requirements(term)) for term in objects_of(part.get("nodeSelectorTerms")))


def _requirements(term: Body) -> Iterator[Requirement]:
    for name, is_field in (("matchExpressions", False), ("matchFields", True)):
        for entry in objects_of(term.get(name)):
            values = entry.get("values")
            texts = tuple(map(str, values)) if isinstance(values, list) else ()
            yield Requirement(str(entry.get("key")), str(entry.get("operator")), texts, is_field)


def _tolerations(pod: Body) -> Iterator[Toleration]:
    for entry in objects_of(pod.get("tolerations")):
        has_value = entry.get("operator", "Equal") == "Equal"
        value = str(entry.get("value") or "") if has_value else None
        yield Toleration(str(entry.get("key") or ""), value, str(entry.get("effect") or ""))
