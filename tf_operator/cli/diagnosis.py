"""What is right and what is missing in a cluster, from what its API server says: findings, each with what to do."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tf_operator.client import display
from tf_operator.dialects.served import ServedAPI
from tf_operator.meta import Body, key_of, mapping_of, metadata_of, parse_time
from tf_operator.text import printable

INSTALL: Final = (
    "install the operator: tfjob install, helm install tf-operator, or kubectl apply -k manifests/overlays/cluster-wide"
)
UPGRADE_CRD: Final = "upgrade the operator's chart, or run tf-operator crd --apply"
RESTART_SERVER: Final = "the server is of another release than this tfjob: tfjob local down, then tfjob local up"
_ONE_OF_TWO: Final = (
    "take kubeflow.org/tfjob out of integrations.frameworks of Kueue's configuration, and restart Kueue;"
    " or install the operator with controller.kueue=none"
)
_NONE_OF_TWO: Final = "to let them wait, install the operator with controller.kueue=external"
_MOST_FIELDS: Final = 3
_PERMISSIONS: Final = (
    ("", "create list watch patch delete"),
    ("pods", "list watch delete"),
    ("pods/log", "get"),
    ("events", "list"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    is_well: bool | None
    """``None``: it cannot be known."""
    sentence: str
    step: str = ""

    @classmethod
    def well(cls, sentence: str) -> "Finding":
        return cls(is_well=True, sentence=sentence)

    @classmethod
    def wrong(cls, sentence: str, step: str) -> "Finding":
        return cls(is_well=False, sentence=sentence, step=step)

    @classmethod
    def unknown(cls, sentence: str, step: str = "") -> "Finding":
        return cls(is_well=None, sentence=sentence, step=step)

    def __str__(self) -> str:
        mark = {True: "ok  ", False: "FAIL", None: "?   "}[self.is_well]
        return f"{mark} {printable(self.sentence)}" + (f"\n     -> {self.step}" if self.step else "")


@dataclass(frozen=True, slots=True)
class Permission:
    """What a verb of ``tfjob`` needs."""

    verb: str
    group: str
    resource: str
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'/{self.subresource}' if self.subresource else ''}"

    def review(self, namespace: str, name: str = "") -> dict[str, Any]:
        attributes = {"namespace": namespace, "verb": self.verb, "group": self.group, "resource": self.resource}
        return {"spec": {"resourceAttributes": attributes | {"subresource": self.subresource, "name": name}}}


def permissions(api: ServedAPI) -> tuple[Permission, ...]:
    needed = []
    for path, verbs in _PERMISSIONS:
        resource, _, subresource = path.partition("/")
        group = "" if resource else api.resource.group
        needed += [Permission(verb, group, resource or api.resource.plural, subresource) for verb in verbs.split()]
    return tuple(needed)


def of_permissions(denied: Collection[Permission], namespace: str) -> Finding:
    if not denied:
        return Finding.well(f"you have all permissions that tfjob needs in namespace {namespace}")
    listed = ", ".join(map(str, denied))
    step = f"ask an administrator for the role edit in namespace {namespace}"
    return Finding.wrong(f"you lack permissions in namespace {namespace}: {listed}", step)


def of_crd(api: ServedAPI, crd: Body, *, is_local: bool = False) -> Finding:
    step = RESTART_SERVER if is_local else UPGRADE_CRD
    version = api.resource.version
    stored, ours = _schema(crd, version), _schema(api.crd.load(), version)
    if stored is None or ours is None:
        return Finding.wrong(f"the CRD {api.resource} does not serve {version}", step)
    missing = sorted(set(_fields(ours)) - set(_fields(stored)))
    if missing:
        listed = ", ".join(missing[:_MOST_FIELDS])
        more = f" and {len(missing) - _MOST_FIELDS} more" if len(missing) > _MOST_FIELDS else ""
        difference = f"the CRD {api.resource} is older, or another product's: it lacks {listed}{more}"
        return Finding.wrong(difference, step)
    return Finding.well(f"the CRD {api.resource} is of this release or a newer one")


def of_operator(leases: Iterable[Body], deployments: Iterable[Body], now: datetime) -> Iterator[Finding]:
    """Whether an operator runs: who leads, and whether its pods are available."""
    count = 0
    for body in deployments:
        count += 1
        yield _of_deployment(body)
    for body in leases:
        count += 1
        yield _of_lease(body, now)
    if not count:
        yield Finding.wrong("no operator is installed: neither its Deployment nor its Lease exists", INSTALL)


def _of_deployment(body: Body) -> Finding:
    key, desired = key_of(body), _number(body, "spec", "replicas")
    available = _number(body, "status", "availableReplicas")
    sentence = f"the operator's Deployment {key} has {available} of {desired} pods available"
    step = f"kubectl -n {key.namespace} describe pods; kubectl -n {key.namespace} logs deployment/{key.name}"
    return Finding.well(sentence) if available else Finding.wrong(sentence, step)


def _of_lease(body: Body, now: datetime) -> Finding:
    key, fields = key_of(body), mapping_of(body.get("spec"))
    renewed, holder = parse_time(fields.get("renewTime")), fields.get("holderIdentity") or "nobody"
    limit = _number(body, "spec", "leaseDurationSeconds") or 15
    age = (now - renewed).total_seconds() if renewed else None
    if age is not None and age <= 2 * limit and holder != "nobody":
        return Finding.well(f"{holder} leads, and renewed the Lease {key} {max(0, int(age))} s ago")
    ago = f"was renewed {display.age(renewed, now)} ago" if renewed else "was never renewed"
    return Finding.wrong(f"no replica leads: the Lease {key} {ago}", f"kubectl -n {key.namespace} get pods")


def makes_workloads(deployments: Iterable[Body]) -> bool:
    """Whether one of these operators makes the Workloads of jobs that name a queue of Kueue."""
    return any("--kueue=external" in _arguments(body) for body in deployments)


def of_queues(*, by_operator: bool, by_kueue: bool) -> Finding:
    """Whether jobs wait that name a queue of Kueue: either the operator or Kueue's own code makes their Workloads."""
    if by_operator and by_kueue:
        return Finding.wrong(
            "Kueue's own code for TFJobs is on, and the operator runs with --kueue=external", _ONE_OF_TWO
        )
    if by_operator or by_kueue:
        return Finding.well(
            f"jobs wait in queues of Kueue, by {'the operator' if by_operator else 'its own code for TFJobs'}"
        )
    return Finding.unknown("jobs do not wait in queues of Kueue, even if they name one", _NONE_OF_TWO)


def _arguments(deployment: Body) -> Iterator[str]:
    part: Any = deployment
    for name in ("spec", "template", "spec"):
        part = part.get(name) if isinstance(part, Mapping) else None
    containers = part.get("containers") if isinstance(part, Mapping) else None
    for container in containers or ():
        yield from container.get("args") or ()


def _schema(crd: Body, version: str) -> Mapping[str, Any] | None:
    for entry in crd["spec"]["versions"]:
        if entry["name"] == version and entry.get("served"):
            schema: Mapping[str, Any] = entry["schema"]["openAPIV3Schema"]
            return schema
    return None


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The fields of a schema, without those of pod templates, which are Kubernetes' own."""
    for name, below in schema.get("properties", {}).items():
        if name in {"template", "metadata"}:
            continue
        yield f"{path}{name}"
        yield from _fields(below, f"{path}{name}.")
    for nested in ("items", "additionalProperties"):
        if isinstance(below := schema.get(nested), Mapping):
            yield from _fields(below, path)


def crd_name(api: ServedAPI) -> str:
    return str(metadata_of(api.crd.load())["name"])


def _number(body: Body, part: str, name: str) -> int:
    below = body.get(part)
    number = below.get(name) if isinstance(below, Mapping) else None
    return number if isinstance(number, int) else 0
