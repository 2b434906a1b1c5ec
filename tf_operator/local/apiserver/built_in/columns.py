"""What ``kubectl get`` shows of the built-in kinds, cell by cell as the real server prints it."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from tf_operator.local.apiserver.ages import age
from tf_operator.local.apiserver.built_in import events
from tf_operator.local.apiserver.kinds import Column
from tf_operator.meta import Body, parse_time

_NONE: Final = "<none>"


def path(*names: str, missing: object = "") -> Callable[[Body, datetime], object]:
    """A cell that shows one field."""

    def cell(body: Body, _: datetime) -> object:
        value: Any = body
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return missing if value in (None, "") else value

    return cell


def count(*names: str) -> Callable[[Body, datetime], object]:
    read = path(*names, missing=())
    return lambda body, now: len(items) if isinstance(items := read(body, now), Mapping | list) else 0


def since(*names: str) -> Callable[[Body, datetime], object]:
    """A cell with the time since what one field says."""
    read = path(*names)
    return lambda body, now: age(parse_time(read(body, now)), now)


def _joined(items: Iterable[object]) -> str:
    return ",".join(map(str, items)) or _NONE


def _text(name: str, cell: Callable[[Body, datetime], object], *, wide: bool = False) -> Column:
    return Column(name, "string", cell, priority=int(wide))


def _number(name: str, cell: Callable[[Body, datetime], object]) -> Column:
    return Column(name, "integer", cell)


def _containers(pod: Body) -> list[Body]:
    return list(pod.get("spec", {}).get("containers", ()))


def _ready(pod: Body, _: datetime) -> str:
    """Native sidecars count, too."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = {c["name"] for c in spec.get("initContainers", ()) if c.get("restartPolicy") == "Always"}
    statuses = status.get("containerStatuses", ())
    ready = sum(
        bool(container.get("ready") and container.get("state", {}).get("running") is not None) for container in statuses
    )
    ready += sum(
        bool(container.get("started") and container.get("ready"))
        for container in status.get("initContainerStatuses", ())
        if container.get("name") in sidecars
    )
    return f"{ready}/{len(_containers(pod)) + len(sidecars)}"


def _status(pod: Body, _: datetime) -> str:
    status = pod.get("status", {})
    initializing, reason = _initializing(pod)
    if not initializing:
        reason = _running_reason(pod, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Failed", "Succeeded"):
            return "Terminating"
    return reason


def _initializing(pod: Body) -> tuple[bool, str]:
    """Whether init containers are still running, and what the column shows then."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    is_gated = any(c.get("reason") == "SchedulingGated" for c in status.get("conditions", ()))
    reason = "SchedulingGated" if is_gated else status.get("reason") or status.get("phase", "")
    sidecars = {c["name"] for c in spec.get("initContainers", ()) if c.get("restartPolicy") == "Always"}
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        state = container.get("state", {})
        end, waiting = state.get("terminated"), state.get("waiting")
        if end is not None and end.get("exitCode") == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if end is not None:
            return True, f"Init:{_end_reason(end)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return True, f"Init:{waiting['reason']}"
        return True, f"Init:{index}/{len(spec.get('initContainers', ()))}"
    return False, reason


def _end_reason(state: Body) -> str:
    if state.get("reason"):
        return str(state["reason"])
    signal = state.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{state.get('exitCode', 0)}"


def _running_reason(pod: Body, reason: str) -> str:
    status = pod.get("status", {})
    has_running = False
    for container in reversed(status.get("containerStatuses", ())):
        state = container.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _end_reason(state["terminated"])
        elif container.get("ready") and state.get("running") is not None:
            has_running = True
    if reason == "Completed" and has_running:
        is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions", ()))
        return "Running" if is_ready else "NotReady"
    return reason


def _restarts(pod: Body, now: datetime) -> str:
    """Those of the containers, or of the init containers while these run; with the time since the last."""
    status = pod.get("status", {})
    key = "initContainerStatuses" if _initializing(pod)[0] else "containerStatuses"
    statuses = list(status.get(key, ()))
    if key == "containerStatuses":
        spec = pod.get("spec", {})
        sidecars = {c["name"] for c in spec.get("initContainers", ()) if c.get("restartPolicy") == "Always"}
        statuses += [one for one in status.get("initContainerStatuses", ()) if one.get("name") in sidecars]
    total = sum(one.get("restartCount", 0) for one in statuses)
    ends = [parse_time(one.get("lastState", {}).get("terminated", {}).get("finishedAt")) for one in statuses]
    last = max((end for end in ends if end), default=None)
    return f"{total} ({age(last, now)} ago)" if total and last else str(total)


def _gates(pod: Body, _: datetime) -> str:
    gates = [gate.get("conditionType") for gate in pod.get("spec", {}).get("readinessGates", ())]
    conditions = {c.get("type"): c.get("status") for c in pod.get("status", {}).get("conditions", ())}
    return f"{sum(conditions.get(gate) == 'True' for gate in gates)}/{len(gates)}" if gates else _NONE


def _pod_ip(pod: Body, _: datetime) -> str:
    status = pod.get("status", {})
    return next((address.get("ip", "") for address in status.get("podIPs", ())), status.get("podIP", "")) or _NONE


AGE: Final = _text("Age", since("metadata", "creationTimestamp"))
PODS: Final = (
    _text("Ready", _ready),
    _text("Status", _status),
    _text("Restarts", _restarts),
    AGE,
    _text("IP", _pod_ip, wide=True),
    _text("Node", path("spec", "nodeName", missing=_NONE), wide=True),
    _text("Nominated Node", path("status", "nominatedNodeName", missing=_NONE), wide=True),
    _text("Readiness Gates", _gates, wide=True),
)


def _external_ip(service: Body, _: datetime) -> str:
    spec = service["spec"]
    kind = spec.get("type")
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind == "LoadBalancer":
        ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", ())
        addresses = [one.get("ip") or one.get("hostname", "") for one in ingress]
        return ",".join([*addresses, *spec.get("externalIPs", ())]) or "<pending>"
    return _joined(spec.get("externalIPs", ()))


def _ports(service: Body, _: datetime) -> str:
    return _joined(
        f"{port['port']}" + (f":{port['nodePort']}" if port.get("nodePort") else "") + f"/{port['protocol']}"
        for port in service["spec"].get("ports", ())
    )


def _selector(service: Body, _: datetime) -> str:
    return _joined(f"{key}={value}" for key, value in sorted(service["spec"].get("selector", {}).items()))


SERVICES: Final = (
    _text("Type", path("spec", "type")),
    _text("Cluster-IP", path("spec", "clusterIP", missing=_NONE)),
    _text("External-IP", _external_ip),
    _text("Port(s)", _ports),
    AGE,
    _text("Selector", _selector, wide=True),
)


def _event_time(event: Body, now: datetime, *names: str) -> str:
    moment = next((event[name] for name in names if event.get(name)), None)
    return age(parse_time(moment), now)


def _last_seen(event: Body, now: datetime) -> str:
    series = event.get("series") or {}
    if series.get("lastObservedTime"):
        return age(parse_time(series["lastObservedTime"]), now)
    return _event_time(event, now, "lastTimestamp", "firstTimestamp", "eventTime")


def _involved(event: Body, _: datetime) -> str:
    reference = event.get("involvedObject", {})
    kind = str(reference.get("kind", "")).lower()
    return f"{kind}/{reference['name']}" if reference.get("name") else kind


def _source(event: Body, _: datetime) -> str:
    source = event.get("source", {})
    component = source.get("component") or event.get("reportingComponent", "")
    host = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {host}" if host else str(component)


def _times(event: Body, _: datetime) -> object:
    return (event.get("series") or {}).get("count") or event.get("count") or 1


def _on_core(cell: Callable[[Body, datetime], object]) -> Callable[[Body, datetime], object]:
    """The same cell for an event of events.k8s.io."""
    return lambda event, now: cell(events.convert(event, events.CORE), now)


EVENTS: Final = (
    _text("Last Seen", _last_seen),
    _text("Type", path("type")),
    _text("Reason", path("reason")),
    _text("Object", _involved),
    _text("Subobject", path("involvedObject", "fieldPath"), wide=True),
    _text("Source", _source, wide=True),
    _text("Message", lambda event, _: str(event.get("message", "")).strip()),
    _text("First Seen", lambda event, now: _event_time(event, now, "firstTimestamp", "eventTime"), wide=True),
    _text("Count", _times, wide=True),
    Column("Name", "string", path("metadata", "name"), format="name", priority=1),
)


NEWER_EVENTS: Final = tuple(
    Column(column.name, column.type, _on_core(column.cell), priority=column.priority) for column in EVENTS
)


def _claim_phase(claim: Body, _: datetime) -> str:
    terminating = claim["metadata"].get("deletionTimestamp")
    return "Terminating" if terminating else str(claim.get("status", {}).get("phase", ""))


ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access_modes(claim: Body, _: datetime) -> str:
    volume = claim.get("spec", {}).get("volumeName")
    modes = claim.get("status", {}).get("accessModes", ()) if volume else ()
    return ",".join(ACCESS_MODES[mode] for mode in ACCESS_MODES if mode in modes)


def _capacity(claim: Body, _: datetime) -> str:
    volume = claim.get("spec", {}).get("volumeName")
    return str(claim.get("status", {}).get("capacity", {}).get("storage", "")) if volume else ""


CLAIMS: Final = (
    _text("Status", _claim_phase),
    _text("Volume", path("spec", "volumeName")),
    _text("Capacity", _capacity),
    _text("Access Modes", _access_modes),
    _text("StorageClass", path("spec", "storageClassName")),
    _text("VolumeAttributesClass", path("spec", "volumeAttributesClassName", missing="<unset>")),
    AGE,
    _text("VolumeMode", path("spec", "volumeMode", missing="<unset>"), wide=True),
)


def _node_status(node: Body, _: datetime) -> str:
    conditions = {c.get("type"): c.get("status") for c in node.get("status", {}).get("conditions", ())}
    ready = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{ready},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else ready


def _roles(node: Body, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    return _joined(
        sorted(label.removeprefix(prefix) for label in node["metadata"].get("labels", {}) if prefix in label)
    )


def _address(node: Body, kind: str) -> str:
    addresses = node.get("status", {}).get("addresses", ())
    return next((one.get("address", "") for one in addresses if one.get("type") == kind), _NONE)


NODES: Final = (
    _text("Status", _node_status),
    _text("Roles", _roles),
    AGE,
    _text("Version", path("status", "nodeInfo", "kubeletVersion")),
    _text("Internal-IP", lambda node, _: _address(node, "InternalIP"), wide=True),
    _text("External-IP", lambda node, _: _address(node, "ExternalIP"), wide=True),
    _text("OS-Image", path("status", "nodeInfo", "osImage", missing="<unknown>"), wide=True),
    _text("Kernel-Version", path("status", "nodeInfo", "kernelVersion", missing="<unknown>"), wide=True),
    _text("Container-Runtime", path("status", "nodeInfo", "containerRuntimeVersion", missing="<unknown>"), wide=True),
)
NAMESPACES: Final = (_text("Status", path("status", "phase")), AGE)
CONFIG_MAPS: Final = (
    _text("Data", lambda body, _: len(body.get("data", {})) + len(body.get("binaryData", {}))),
    AGE,
)
SECRETS: Final = (_text("Type", path("type")), _text("Data", count("data")), AGE)
LEASES: Final = (_text("Holder", path("spec", "holderIdentity")), AGE)
PRIORITY_CLASSES: Final = (
    _number("Value", path("value", missing=0)),
    Column("Global-Default", "boolean", path("globalDefault", missing=False)),
    AGE,
    _text("PreemptionPolicy", path("preemptionPolicy")),
)


def _quota(are_limits: bool) -> Callable[[Body, datetime], str]:  # noqa: FBT001 - two cells of one form
    """Requests, or limits, as ``name: used/hard``."""

    def cell(quota: Body, _: datetime) -> str:
        status = quota.get("status", {})
        used, hard = status.get("used", {}), status.get("hard", {})
        names = sorted(name for name in hard if name.startswith("limits.") is are_limits)
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


QUOTAS: Final = (_text("Request", _quota(are_limits=False)), _text("Limit", _quota(are_limits=True)), AGE)


def _deployment_ready(deployment: Body, _: datetime) -> str:
    ready = deployment.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{deployment['spec'].get('replicas', 1)}"


DEPLOYMENTS: Final = (
    _text("Ready", _deployment_ready),
    _number("Up-to-date", path("status", "updatedReplicas", missing=0)),
    _number("Available", path("status", "availableReplicas", missing=0)),
    AGE,
)
