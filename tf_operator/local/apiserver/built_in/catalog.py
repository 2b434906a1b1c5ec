"""The kinds that are there without any CRD.

Each row says how a kind differs from an object that is stored as it is sent.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from tf_operator import quantity
from tf_operator.local.apiserver.built_in import (
    admission,
    columns,
    config_maps,
    deployments,
    events,
    limits,
    pod_rules,
    pods,
    rows,
    services,
    stored_only,
)
from tf_operator.local.apiserver.definitions import definition
from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.local.apiserver.validation import causes, names
from tf_operator.meta import Body, GroupVersionResource

# Namespaces.


def _fill_namespace(body: Json, old: Body | None, _: datetime) -> None:
    metadata = body["metadata"]
    metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata.get("name", "")
    if old is None:
        finalizers = (body.get("spec") or {}).get("finalizers") or []
        body["spec"] = {"finalizers": list(dict.fromkeys([*finalizers, "kubernetes"]))}
        body["status"] = {"phase": "Active"}
    else:
        body["spec"] = old.get("spec", {})


def _namespace_rules(body: Body, _: Body | None) -> Iterator[FieldCause]:
    phase, is_ending = body.get("status", {}).get("phase"), bool(body["metadata"].get("deletionTimestamp"))
    if phase != ("Terminating" if is_ending else "Active"):
        only, when = ("Terminating", "not empty") if is_ending else ("Active", "empty")
        yield causes.invalid("status.Phase", phase, f"may only be '{only}' if `deletionTimestamp` is {when}")


def _finalize(old: Body, payload: Json, _: datetime) -> Json:
    finalizers = (payload.get("spec") or {}).get("finalizers")
    return {**old, "spec": {"finalizers": finalizers} if finalizers else {}}


_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})


def _terminate(body: Json) -> None:
    name = body["metadata"]["name"]
    if name in _IMMORTAL:
        details = {"name": name, "kind": "namespaces"}
        message = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
        raise ApiFailure(403, "Forbidden", message, details=details)
    body["status"] = {**body.get("status", {}), "phase": "Terminating"}


# Claims, nodes and leases.

_NODE_INFO: Final = (
    *("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion"),
    *("machineID", "operatingSystem", "osImage", "systemUUID"),
)


def _fill_claim(body: Json, old: Body | None, _: datetime) -> None:
    spec = body["spec"] = body.get("spec") or {}
    spec.setdefault("volumeMode", "Filesystem")
    if old is None:
        body["status"] = {"phase": "Pending"}


def _claim_rules(body: Body, old: Body | None) -> Iterator[FieldCause]:
    spec = body["spec"]
    modes = tuple(columns.ACCESS_MODES)
    if not spec.get("accessModes"):
        yield causes.required("spec.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        if mode not in modes:
            yield causes.not_supported("spec.accessModes", mode, sorted(modes))
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield causes.required("spec.resources[storage]")
    elif (quantity.parse(requests["storage"]) or 0) <= 0:
        yield causes.invalid("spec.resources[storage]", requests["storage"], "must be greater than zero")
    unchangeable = ("accessModes", "selector", "storageClassName", "volumeMode")
    old_spec = (old or {}).get("spec", {})
    if old is not None and any(spec.get(name) != old_spec.get(name) for name in unchangeable):
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield causes.forbidden("spec", detail)


def _fill_node(body: Json, _: Body | None, __: datetime) -> None:
    """What Go writes of a node even if it is empty."""
    status = body["status"] = body.get("status") or {}
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {"Port": 0})
    status["nodeInfo"] = dict.fromkeys(_NODE_INFO, "") | (status.get("nodeInfo") or {})


def _fill_lease(body: Json, _: Body | None, __: datetime) -> None:
    body["spec"] = body.get("spec") or {}


def _lease_rules(body: Body, _: Body | None) -> Iterator[FieldCause]:
    spec = body.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield causes.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield causes.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


# Reviews: there is one user, who may do everything.


def _allowed(body: Json, _: datetime) -> Json:
    return {**body, "status": {"allowed": True}}


_USER: Final = {"username": "local", "groups": ["system:masters", "system:authenticated"]}


def _self(body: Json, _: datetime) -> Json:
    return {**body, "status": {"userInfo": _USER}}


def _review(
    group: str, plural: str, kind: str, *, answer: Callable[[Json, datetime], Json], local: bool = False
) -> Kind:
    resource = GroupVersionResource(f"{group}.k8s.io", "v1", plural, kind, is_namespaced=local)
    return Kind(resource, kind.lower(), answer=answer)


EVENTS: Final = GroupVersionResource("", "v1", "events", "Event")
_DEPLOYMENTS: Final = GroupVersionResource("apps", "v1", "deployments", "Deployment")
_LEASES: Final = GroupVersionResource("coordination.k8s.io", "v1", "leases", "Lease")


def _event_kinds() -> Iterator[Kind]:
    fields_of_reference = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    core = replace(
        rows.make(EVENTS, "ev", fill=events.prepare, rules=events.check, columns=columns.EVENTS),
        may_create_by_update=True,
        fields=rows.selectable(*(f"involvedObject.{name}" for name in fields_of_reference), "reason", "type")
        | {"reportingComponent": rows.read("reportingComponent"), "source": rows.read("source", "component")},
    )
    newer = GroupVersionResource("events.k8s.io", "v1", "events", "Event")
    fill, rules = events.prepare_newer, events.check_newer
    regarding = {f"regarding.{name}": rows.read("regarding", name) for name in fields_of_reference}
    yield replace(core, convert=events.convert, seconds_to_live=3600.0)
    yield replace(
        rows.make(newer, "ev", fill=fill, rules=rules, columns=columns.NEWER_EVENTS),
        may_create_by_update=True,
        stored_as=EVENTS,
        convert=events.convert,
        fields=regarding | rows.selectable("reason", "type", "reportingController"),
    )


def _pods() -> Kind:
    kind = rows.make(
        rows.core("pods", "Pod"),
        "po",
        fill=pods.prepare,
        rules=pod_rules.check,
        keys=rows.below("spec", rows.POD_SPEC_KEYS) | {"status.podIPs": "ip", "status.hostIPs": "ip"},
        columns=columns.PODS,
        has_status=True,
    )
    spec = ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName", "hostNetwork")
    status = ("phase", "podIP", "nominatedNodeName")
    paths = (*(f"spec.{name}" for name in spec), *(f"status.{name}" for name in status))
    return replace(
        kind,
        subresources=kind.subresources | {"log", "binding", "eviction"},
        has_generation=True,
        returns_deleted=True,
        grace_seconds=pods.grace_seconds,
        admit=admission.admit,
        actions={"binding": pods.bind, "eviction": pods.evict},
        deleting=frozenset({"eviction"}),
        fields=rows.selectable(*paths, hostNetwork="false"),
    )


def _services() -> Kind:
    kind = rows.make(
        rows.core("services", "Service"),
        "svc",
        fill=services.prepare,
        rules=services.check,
        name_rule=names.object_label,
        keys={"spec.ports": "port"},
        columns=columns.SERVICES,
        has_status=True,
    )
    return replace(
        kind,
        returns_deleted=True,
        may_create_by_update=True,
        admit=services.allocate,
        fields=rows.selectable("spec.clusterIP", "spec.type"),
    )


def _namespaces() -> Kind:
    kind = rows.make(
        rows.core("namespaces", "Namespace", is_namespaced=False),
        "ns",
        fill=_fill_namespace,
        rules=_namespace_rules,
        name_rule=names.object_label,
        columns=columns.NAMESPACES,
        has_status=True,
    )
    return replace(
        kind,
        subresources=kind.subresources | {"finalize"},
        is_namespace=True,
        changes={"finalize": _finalize},
        on_delete=_terminate,
        fields=rows.selectable("status.phase"),
    )


def _stored_data() -> Iterator[Kind]:
    """What pods read, and what they need to run."""
    maps, fill_map = rows.core("configmaps", "ConfigMap"), config_maps.prepare_config_map
    yield rows.make(maps, "cm", fill=fill_map, rules=config_maps.check, columns=columns.CONFIG_MAPS)
    fill, rules = config_maps.prepare_secret, config_maps.check_secret
    secrets = rows.make(rows.core("secrets", "Secret"), fill=fill, rules=rules, columns=columns.SECRETS)
    yield replace(secrets, fields=rows.selectable("type"))
    keys = {"secrets": "name", "imagePullSecrets": "name"}
    accounts = rows.core("serviceaccounts", "ServiceAccount")
    kind = rows.make(accounts, "sa", keys=keys, columns=(columns.AGE,))
    yield replace(kind, returns_deleted=True, in_each_namespace=("default",))
    claims = rows.core("persistentvolumeclaims", "PersistentVolumeClaim")
    kind = rows.make(claims, "pvc", fill=_fill_claim, rules=_claim_rules, columns=columns.CLAIMS, has_status=True)
    yield replace(kind, returns_deleted=True)


def _limits() -> Iterator[Kind]:
    """What decides which pods may be created."""
    quotas = rows.core("resourcequotas", "ResourceQuota")
    kind = rows.make(
        quotas,
        "quota",
        fill=limits.prepare_quota,
        rules=limits.check_quota,
        columns=columns.QUOTAS,
        has_status=True,
    )
    yield replace(kind, returns_deleted=True, observe=limits.observe_quota)
    classes, fill = admission.PRIORITY_CLASSES, limits.prepare_class
    yield rows.make(classes, "pc", fill=fill, rules=limits.check_class, columns=columns.PRIORITY_CLASSES)


def _machinery() -> Iterator[Kind]:
    """Nodes, the leases of leaders, and the Deployments of TensorBoards."""
    keys = {"spec.taints": "key", "status.addresses": "type"}
    nodes = rows.core("nodes", "Node", is_namespaced=False)
    kind = rows.make(nodes, "no", fill=_fill_node, keys=keys, columns=columns.NODES, has_status=True)
    yield replace(kind, fields=rows.selectable("spec.unschedulable", unschedulable="false"))
    leases = rows.make(_LEASES, fill=_fill_lease, rules=_lease_rules, columns=columns.LEASES)
    yield replace(leases, must_name_version=True, may_create_by_update=True)
    kind = rows.make(
        _DEPLOYMENTS,
        "deploy",
        fill=deployments.prepare,
        rules=deployments.check,
        keys=rows.below("spec.template.spec", rows.POD_SPEC_KEYS),
        columns=columns.DEPLOYMENTS,
        has_status=True,
    )
    yield replace(rows.scaled(stored_only.only_stored(kind)), has_generation=True)


def _reviews() -> Iterator[Kind]:
    yield _review("authorization", "selfsubjectaccessreviews", "SelfSubjectAccessReview", answer=_allowed)
    yield _review("authorization", "subjectaccessreviews", "SubjectAccessReview", answer=_allowed)
    yield _review("authorization", "localsubjectaccessreviews", "LocalSubjectAccessReview", answer=_allowed, local=True)
    yield _review("authentication", "selfsubjectreviews", "SelfSubjectReview", answer=_self)


KINDS: Final = (
    _pods(),
    _services(),
    _namespaces(),
    *_stored_data(),
    *_limits(),
    *_machinery(),
    *_event_kinds(),
    *stored_only.kinds(),
    *_reviews(),
    definition.kind(),
)
"""All of them."""
