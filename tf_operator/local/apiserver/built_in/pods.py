"""Pods: the defaults of the API server and of its admission plugins, deletion with grace, binding to a node.

The plugins are Priority, DefaultTolerationSeconds, and of ServiceAccount the name alone: a process has no use for a
token. Neighbours: ``pod_rules`` (validation), ``columns``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from tf_operator import quantity
from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.meta import Body, metadata_of, rfc3339

CONTAINER_LISTS: Final = ("initContainers", "containers")
_SPEC_DEFAULTS: Final[Mapping[str, object]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER_DEFAULTS: Final[Mapping[str, object]] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE_DEFAULTS: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_DEFAULT_MODE: Final = 0o644
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_COMPUTE: Final = ("cpu", "memory")
_CONTAINER_STATUS: Final[Mapping[str, object]] = {
    "state": {},
    "lastState": {},
    "ready": False,
    "restartCount": 0,
    "image": "",
    "imageID": "",
}
_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_TAG: Final = r"(?:[^/]+/)*[^/:@]+(?::(?P<tag>[^/:@]+))?(?P<digest>@.+)?"


def prepare(body: Json, old: Body | None, now: datetime) -> None:
    """Fill a new pod, or what an update leaves out."""
    spec = body["spec"] = body.get("spec") or {}
    if not spec.get("serviceAccountName") and not spec.get("serviceAccount"):
        spec["serviceAccountName"] = "default"
    set_spec_defaults(spec)
    _set_own_defaults(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if "priorityClassName" not in spec and "priority" not in spec:
        spec["priority"] = 0
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    _tolerate(spec)
    if old is None:
        conditions = (
            {"conditions": [_GATED | {"lastTransitionTime": rfc3339(now)}]} if spec.get("schedulingGates") else {}
        )
        body["status"] = {"phase": "Pending", **conditions, "qosClass": qos_class(spec)}
    else:
        status = body["status"] = body.get("status") or {}
        status.setdefault("qosClass", old.get("status", {}).get("qosClass", qos_class(spec)))
        _fill_status(status)


def _fill_status(status: Json) -> None:
    """What Go's types always have."""
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    if status.get("hostIP") and not status.get("hostIPs"):
        status["hostIPs"] = [{"ip": status["hostIP"]}]
    for condition in _objects(status.get("conditions")):
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    for name in ("containerStatuses", "initContainerStatuses"):
        for container in _objects(status.get(name)):
            for field, value in _CONTAINER_STATUS.items():
                container.setdefault(field, {} if value == {} else value)


def _set_own_defaults(spec: Json) -> None:
    """What a pod has, and a template has not."""
    _set_defaults(spec, {"enableServiceLinks": True})
    for container in (container for name in CONTAINER_LISTS for container in _objects(spec.get(name))):
        resources = container["resources"] or {}
        for name, value in (resources.get("limits") or {}).items():
            requests = resources["requests"] = resources.get("requests") or {}
            requests.setdefault(name, value)


def set_spec_defaults(spec: Json) -> None:
    _set_defaults(spec, _SPEC_DEFAULTS)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("securityContext", {})
    for name in CONTAINER_LISTS:
        for container in _objects(spec.get(name)):
            _set_container_defaults(container, is_on_host=spec.get("hostNetwork") is True)
    for volume in _objects(spec.get("volumes")):
        _set_volume_defaults(volume)


def _set_defaults(target: Json, defaults: Mapping[str, object]) -> None:
    for name, value in defaults.items():
        if target.get(name) in (None, ""):
            target[name] = value


def _objects(items: object) -> Iterator[Json]:
    return (item for item in items if isinstance(item, dict)) if isinstance(items, list) else iter(())


def _set_container_defaults(container: Json, *, is_on_host: bool) -> None:
    _set_defaults(container, _CONTAINER_DEFAULTS)
    container.setdefault("resources", {})
    if not container.get("imagePullPolicy"):
        match = re.fullmatch(_TAG, container.get("image") or "")
        is_latest = match is None or (match["tag"] or ("latest" if not match["digest"] else "")) == "latest"
        container["imagePullPolicy"] = "Always" if is_latest else "IfNotPresent"
    for port in _objects(container.get("ports")):
        _set_defaults(port, {"protocol": "TCP"})
        if is_on_host and not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]
    for name in _PROBES:
        if isinstance(probe := container.get(name), dict):
            _set_defaults(probe, _PROBE_DEFAULTS)
            _set_http_defaults(probe)
    for hook in (container.get("lifecycle") or {}).values():
        _set_http_defaults(hook)
    _set_field_versions(variable.get("valueFrom") for variable in _objects(container.get("env")))


def _set_http_defaults(handler: Json) -> None:
    if isinstance(request := handler.get("httpGet"), dict):
        _set_defaults(request, {"path": "/", "scheme": "HTTP"})


def _set_field_versions(sources: Iterable[object]) -> None:
    for source in sources:
        if isinstance(source, dict) and isinstance(field := source.get("fieldRef"), dict):
            field.setdefault("apiVersion", "v1")


def _set_volume_defaults(volume: Json) -> None:
    if not any(value is not None for name, value in volume.items() if name != "name"):
        volume["emptyDir"] = {}
    for name in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(source := volume.get(name), dict):
            source.setdefault("defaultMode", _DEFAULT_MODE)
            _set_field_versions(_objects(source.get("items")))
            for part in _objects(source.get("sources")):
                _set_field_versions(_objects((part.get("downwardAPI") or {}).get("items")))
                if isinstance(token := part.get("serviceAccountToken"), dict):
                    token.setdefault("expirationSeconds", 3600)
    if isinstance(path := volume.get("hostPath"), dict):
        path.setdefault("type", "")


def _tolerate(spec: Json) -> None:
    """Pods stay for five minutes on a node that is lost, unless they say otherwise."""
    tolerations = list(spec.get("tolerations") or ())
    for taint in _TAINTS:
        if not any(_is_tolerated(toleration, taint) for toleration in _objects(tolerations)):
            wait = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(wait)
    spec["tolerations"] = tolerations


def _is_tolerated(toleration: Json, taint: str) -> bool:
    return toleration.get("key", "") in ("", taint) and toleration.get("effect", "") in ("", "NoExecute")


def qos_class(spec: Body) -> str:
    """``Guaranteed`` if each container has limits and requests the same, ``BestEffort`` if there are none."""
    containers = [container for name in CONTAINER_LISTS for container in spec.get(name) or ()]
    resources = [container.get("resources") or {} for container in containers if isinstance(container, Mapping)]
    amounts = [
        tuple(quantity.parse((requirements.get(part) or {}).get(name)) or 0 for part in ("requests", "limits"))
        for requirements in resources
        for name in _COMPUTE
    ]
    if not any(amount for pair in amounts for amount in pair):
        return "BestEffort"
    return "Guaranteed" if all(request and request == limit for request, limit in amounts) else "Burstable"


def grace_seconds(body: Body, requested: int | None) -> int:
    """How long a deleted pod stays: not at all before it has a node, and after it has ended."""
    spec, status = body.get("spec", {}), body.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    seconds: int = spec.get("terminationGracePeriodSeconds", 30) if requested is None else requested
    return seconds if seconds >= 0 else 1


def bind(old: Body, binding: Json, now: datetime) -> Json:
    name, target = old["metadata"]["name"], binding.get("target") or {}
    node = target.get("name", "")
    if not node or target.get("kind", "Node") not in ("", "Node"):
        raise ApiFailure(500, "", "target.name: Required value")
    if current := old["spec"].get("nodeName"):
        problem = f'pod {name} is already assigned to node "{current}"'
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {problem}'
        raise ApiFailure(409, "Conflict", message, details={"kind": "pods/binding", "name": name})
    status = old.get("status", {})
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": rfc3339(now)}
    others = [condition for condition in status.get("conditions", ()) if condition.get("type") != "PodScheduled"]
    return {
        **old,
        "spec": {**old["spec"], "nodeName": node},
        "status": {**status, "conditions": [*others, scheduled]},
    }


def evict(old: Body, eviction: Json, now: datetime) -> Json:
    """The pod that knows why it is about to be deleted."""
    version, kind = eviction.get("apiVersion") or "policy/v1", eviction.get("kind") or "Eviction"
    if version not in ("policy/v1", "policy/v1beta1") or kind != "Eviction":
        last = str(version).rpartition("/")[2]
        problem = f"converting ({last}.{kind}) to (policy.Eviction): unknown conversion"
        raise failures.bad_request(f'{kind} in version "{last}" cannot be handled as a Eviction: {problem}')
    if metadata_of(eviction).get("name") != old["metadata"]["name"]:
        raise failures.bad_request("name in URL does not match name in Eviction object")
    status = old.get("status", {})
    conditions: list[Json] = status.get("conditions") or []
    disruption = next((condition for condition in conditions if condition.get("type") == "DisruptionTarget"), None)
    since = disruption.get("lastTransitionTime") if disruption and disruption.get("status") == "True" else None
    evicted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": since or rfc3339(now),
    }
    others = [condition for condition in conditions if condition is not disruption]
    return {**old, "status": {**status, "conditions": [*others, evicted]}}


def usage(pod: Body) -> dict[str, Any]:
    """What a pod counts for in a quota; nothing after it has ended."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    totals: dict[str, Any] = {"pods": quantity.parse(1), "count/pods": quantity.parse(1)}
    for container in pod["spec"].get("containers", ()):
        for part, amounts in (container.get("resources") or {}).items():
            for name, amount in amounts.items() if part in ("requests", "limits") else ():
                total = totals.get(f"{part}.{name}", 0) + (quantity.parse(amount) or 0)
                totals |= {f"{part}.{name}": total} | ({name: total} if part == "requests" else {})
    return totals
