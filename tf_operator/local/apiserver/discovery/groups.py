"""Discovery: which groups, versions and resources there are, in the old form and in the aggregated one."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tf_operator.local.apiserver.kinds import Json, Kind, version_rank

KUBERNETES: Final = "v1.36.3"
"""The release that the embedded server answers like."""
_PLATFORM: Final = {"buildDate": "", "compiler": "", "gitCommit": "", "gitTreeState": "clean", "goVersion": ""}
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUBRESOURCES: Final[dict[str, tuple[tuple[str, str, str] | None, tuple[str, ...]]]] = {
    # The kind that it has, if it is another one, and the verbs.
    "binding": (("", "v1", "Binding"), ("create",)),
    "eviction": (("policy", "v1", "Eviction"), ("create",)),
    "finalize": (None, ("update",)),
    "log": (None, ("get",)),
    "status": (None, ("get", "patch", "update")),
    "scale": (("autoscaling", "v1", "Scale"), ("get", "patch", "update")),
}
_ORDER: Final = {
    group: place
    for place, group in enumerate(
        (
            *("", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch"),
            *("networking.k8s.io", "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io"),
            *("scheduling.k8s.io", "coordination.k8s.io", "discovery.k8s.io"),
        )
    )
}
_AGGREGATED: Final = re.compile(r"application/json;(?=[^,]*as=APIGroupDiscoveryList)[^,]*v=(?P<version>v2(?:beta1)?)")


def version() -> Json:
    major, minor = KUBERNETES.removeprefix("v").split(".")[:2]
    return {"major": major, "minor": minor, "gitVersion": KUBERNETES, **_PLATFORM, "platform": ""}


def aggregated_version(accept: str) -> str:
    """The version of aggregated discovery that a client accepts; empty for the old form."""
    match = _AGGREGATED.search(accept.replace(" ", ""))
    return match["version"] if match else ""


def document(path: str, kinds: Iterable[Kind], version: str = "") -> Json | None:
    """The answer to a path of discovery; ``None`` for any other path."""
    all_kinds = list(kinds)
    match path.strip("/").split("/"):
        case ["api" | "apis" as root]:
            return _aggregated(all_kinds, version, is_core=root == "api") if version else _roots(root, all_kinds)
        case ["apis", group] if group in _groups(all_kinds):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, all_kinds)}
        case ["api", "v1"]:
            return _resources("", "v1", all_kinds)
        case ["apis", group, name] if name in _versions(group, all_kinds):
            return _resources(group, name, all_kinds)
    return None


def _roots(root: str, kinds: list[Kind]) -> Json:
    if root == "api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = [_group(group, kinds) for group in _groups(kinds) if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _groups(kinds: Iterable[Kind]) -> list[str]:
    """Built-in groups first, and then those of CRDs by name."""
    return sorted({kind.resource.group for kind in kinds}, key=lambda group: (_ORDER.get(group, len(_ORDER)), group))


def _versions(group: str, kinds: Iterable[Kind]) -> list[str]:
    return sorted({kind.resource.version for kind in kinds if kind.resource.group == group}, key=version_rank)


def _group(group: str, kinds: Iterable[Kind]) -> Json:
    versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in _versions(group, kinds)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _of_version(group: str, name: str, kinds: Iterable[Kind]) -> list[Kind]:
    of_version = [kind for kind in kinds if (kind.resource.group, kind.resource.version) == (group, name)]
    return sorted(of_version, key=lambda kind: kind.resource.plural)


def _verbs(kind: Kind) -> list[str]:
    if kind.answer is not None:
        return ["create"]
    if kind.read is not None:
        return ["get", "list"]
    return list(_CUSTOM_VERBS if kind.is_custom else _VERBS)


def _resources(group: str, name: str, kinds: Iterable[Kind]) -> Json:
    resources = [entry for kind in _of_version(group, name, kinds) for entry in _entries(kind)]
    head = {"apiVersion": "v1", "groupVersion": f"{group}/{name}"} if group else {"groupVersion": name}
    return {"kind": "APIResourceList", **head, "resources": resources}


def _entries(kind: Kind) -> Iterator[Json]:
    resource = kind.resource
    entry = {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": _verbs(kind),
    }
    lists = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    yield entry | {name: words for name, words in lists.items() if words}
    for name in (name for name in _SUBRESOURCES if name in kind.subresources):
        other, verbs = _SUBRESOURCES[name]
        place = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.is_namespaced}
        if other is None:
            yield place | {"kind": resource.kind, "verbs": list(verbs)}
        else:
            group = {"group": other[0]} if other[0] else {}
            yield place | group | {"version": other[1], "kind": other[2], "verbs": list(verbs)}


def _aggregated(kinds: Iterable[Kind], form: str, *, is_core: bool) -> Json:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": name,
                    "resources": [_aggregated_entry(kind) for kind in _of_version(group, name, kinds)],
                    "freshness": "Current",
                }
                for name in _versions(group, kinds)
            ],
        }
        for group in _groups(kinds)
        if (not group) is is_core
    ]
    api_version = f"apidiscovery.k8s.io/{form}"
    return {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items}


def _aggregated_entry(kind: Kind) -> Json:
    resource = kind.resource
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    entry = {
        "resource": resource.plural,
        "responseKind": own,
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    subresources = [
        {
            "subresource": name,
            "responseKind": own if other is None else dict(zip(("group", "version", "kind"), other, strict=True)),
            "verbs": list(verbs),
        }
        for name, (other, verbs) in _SUBRESOURCES.items()
        if name in kind.subresources
    ]
    more = {"shortNames": list(kind.short_names), "categories": list(kind.categories), "subresources": subresources}
    return entry | {name: value for name, value in more.items() if value}
