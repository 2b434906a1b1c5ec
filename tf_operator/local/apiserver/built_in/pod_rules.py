"""Validation of pods, as far as users get them wrong: names, images, ports, variables, volumes, resources.

The real server has more rules, for features that no process on a laptop has.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tf_operator import quantity
from tf_operator.local.apiserver.built_in.pods import CONTAINER_LISTS
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes, names
from tf_operator.meta import Body

_LARGEST_PORT: Final = 65535
_PORT_RULE: Final = f"must be between 1 and {_LARGEST_PORT}, inclusive"
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RESOURCE: Final = r"cpu|memory|ephemeral-storage|hugepages-.+"
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_OPERATORS: Final = ("In", "NotIn")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_FIELD_PATHS: Final = (
    r"metadata\.(name|namespace|uid|labels|annotations)|metadata\.(labels|annotations)\['[^']+'\]"
    r"|spec\.(nodeName|serviceAccountName|host)|status\.(podIP|podIPs|hostIP|hostIPs|phase)"
)
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_VOLUME_NAMES: Final = {
    "configMap": "name",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "hostPath": "path",
}
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_LONGEST_DEADLINE: Final = 2**31 - 1
_CHANGEABLE: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_CHANGE_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check(pod: Body, old: Body | None) -> Iterator[FieldCause]:
    spec = pod["spec"]
    if old is None:
        yield from check_spec(spec, "spec")
    elif _unchangeable(spec) != _unchangeable(old["spec"]):
        yield causes.forbidden("spec", _CHANGE_RULE)
    elif spec != old["spec"]:
        yield from check_spec(spec, "spec")
        yield from _check_changes(spec, old["spec"])


def _unchangeable(spec: Body) -> dict[str, Any]:
    """The spec without what an update may change."""
    rest = {name: value for name, value in spec.items() if name not in _CHANGEABLE}
    for kind in CONTAINER_LISTS:
        if kind in rest:
            rest[kind] = [{n: v for n, v in container.items() if n != "image"} for container in rest[kind]]
    return rest


def _check_changes(spec: Body, old: Body) -> Iterator[FieldCause]:
    """Some fields may change in one direction only."""
    deadline, old_deadline = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if old_deadline is not None and deadline is None:
        yield causes.invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif old_deadline is not None and deadline is not None and deadline > old_deadline:
        yield causes.invalid("spec.activeDeadlineSeconds", deadline, "must be less than or equal to previous value")
    if any(gate not in old.get("schedulingGates", ()) for gate in spec.get("schedulingGates", ())):
        detail = "only deletion is allowed, but found new scheduling gates"
        yield causes.forbidden("spec.schedulingGates", detail)
    tolerations = [_lasting(toleration) for toleration in spec.get("tolerations", ())]
    if any(_lasting(toleration) not in tolerations for toleration in old.get("tolerations", ())):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield causes.forbidden("spec.tolerations", detail)


def _lasting(toleration: Body) -> dict[str, Any]:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def check_spec(spec: Body, path: str) -> Iterator[FieldCause]:
    for name, choices in _CHOICES.items():
        if spec.get(name) not in (None, *choices):
            yield causes.not_supported(f"{path}.{name}", spec[name], choices)
    yield from _check_placement(spec, path)
    yield from _check_volumes(spec.get("volumes") or (), f"{path}.volumes")
    if not spec.get("containers"):
        yield causes.required(f"{path}.containers")
    yield from _check_spread(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    yield from _check_containers(spec, path)
    yield from _check_host_ports(spec, f"{path}.containers")


def _check_placement(spec: Body, path: str) -> Iterator[FieldCause]:
    deadline = spec.get("activeDeadlineSeconds", 1)
    if not 0 < deadline <= _LONGEST_DEADLINE:
        detail = f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        yield causes.invalid(f"{path}.activeDeadlineSeconds", deadline, detail)
    for key, value in (spec.get("nodeSelector") or {}).items():
        for problem in names.qualified(key):
            yield causes.invalid(f"{path}.nodeSelector", key, problem)
        for problem in names.label_value(value):
            yield causes.invalid(f"{path}.nodeSelector", value, problem)


def _check_spread(constraints: Any, path: str) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    pairs = [(constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")) for constraint in constraints]
    for index, pair in enumerate(pairs):
        if pair in pairs[index + 1 :]:
            field = f"{path}[{index}].{{topologyKey, whenUnsatisfiable}}"
            yield causes.duplicate(field, f"{{{pair[0]}, {pair[1]}}}")


def _check_containers(spec: Body, path: str) -> Iterator[FieldCause]:
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    container_names = {container.get("name") for container in spec.get("containers") or ()}
    for kind in CONTAINER_LISTS:
        names_so_far = set(container_names) if kind == "initContainers" else set[str]()
        for index, container in enumerate(spec.get(kind) or ()):
            field = f"{path}.{kind}[{index}]"
            yield from _check_container(container, field, volumes)
            if (name := container.get("name")) in names_so_far:
                yield causes.duplicate(f"{field}.name", name)
            names_so_far.add(name)


def _check_volumes(volumes: Any, path: str) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    names_so_far = set[str]()
    for index, volume in enumerate(volumes):
        field, name = f"{path}[{index}]", volume.get("name", "")
        yield from _check_name(name, f"{field}.name")
        if name in names_so_far:
            yield causes.duplicate(f"{field}.name", name)
        names_so_far.add(name)
        types = [kind for kind, value in volume.items() if kind != "name" and value is not None]
        for kind in types[1:]:
            yield causes.forbidden(f"{field}.{kind}", "may not specify more than 1 volume type")
        for kind, name in _VOLUME_NAMES.items():
            if kind in types and not volume[kind].get(name):
                yield causes.required(f"{field}.{kind}.{name}")


def _check_name(name: str, field: str) -> Iterator[FieldCause]:
    if not name:
        yield causes.required(field)
    for problem in names.label(name) if name else ():
        yield causes.invalid(field, name, problem)


def _check_container(container: Body, path: str, volumes: set[Any]) -> Iterator[FieldCause]:
    yield from _check_name(container.get("name", ""), f"{path}.name")
    image = container.get("image", "")
    if not image:
        yield causes.required(f"{path}.image")
    elif image != image.strip():
        yield causes.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    if container.get("imagePullPolicy", "Always") not in _PULL_POLICIES:
        yield causes.not_supported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES)
    yield from _check_ports(container.get("ports") or (), f"{path}.ports")
    yield from _check_restarts(container, path)
    for index, variable in enumerate(container.get("env") or ()):
        yield from _check_variable(variable, f"{path}.env[{index}]")
    yield from _check_mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    yield from _check_resources(container.get("resources") or {}, f"{path}.resources")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None and not any(probe.get(handler) for handler in _HANDLERS):
            yield causes.required(f"{path}.{name}", "must specify a handler type")


def _check_restarts(container: Body, path: str) -> Iterator[FieldCause]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None and rules:
        yield causes.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in (None, *_CHOICES["restartPolicy"]):
        yield causes.not_supported(f"{path}.restartPolicy", policy, sorted(_CHOICES["restartPolicy"]))
    for index, rule in enumerate(rules):
        field, exits = f"{path}.restartPolicyRules[{index}]", rule.get("exitCodes")
        if rule.get("action") not in _ACTIONS:
            yield causes.not_supported(f"{field}.action", rule.get("action", ""), _ACTIONS)
        if exits is None:
            yield causes.required(f"{field}.exitCodes", "must be specified")
        elif exits.get("operator") not in _OPERATORS:
            yield causes.not_supported(f"{field}.exitCodes.operator", exits.get("operator", ""), _OPERATORS)


def _check_ports(ports: Any, path: str) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    port_names = set[str]()
    for index, port in enumerate(ports):
        field, name, number = f"{path}[{index}]", port.get("name", ""), port.get("containerPort", 0)
        for problem in names.port_name(name) if name else ():
            yield causes.invalid(f"{field}.name", name, problem)
        if name in port_names:
            yield causes.duplicate(f"{field}.name", name)
        port_names |= {name} - {""}
        if not number:
            yield causes.required(f"{field}.containerPort")
        elif not 0 < number <= _LARGEST_PORT:
            yield causes.invalid(f"{field}.containerPort", number, _PORT_RULE)
        if port.get("hostPort") and not 0 < port["hostPort"] <= _LARGEST_PORT:
            yield causes.invalid(f"{field}.hostPort", port["hostPort"], _PORT_RULE)
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            yield causes.not_supported(f"{field}.protocol", port["protocol"], _PROTOCOLS)


def _check_host_ports(spec: Body, path: str) -> Iterator[FieldCause]:
    ports_so_far = set[str]()
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            field, host_port = f"{path}[{index}].ports[{number}]", port.get("hostPort", 0)
            if spec.get("hostNetwork") and host_port != port.get("containerPort"):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield causes.invalid(f"{field}.containerPort", port.get("containerPort"), detail)
            key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{host_port}"
            if host_port and key in ports_so_far:
                yield causes.duplicate(f"{field}.hostPort", key)
            ports_so_far.add(key)


def _check_variable(variable: Body, path: str) -> Iterator[FieldCause]:
    name, source = variable.get("name", ""), variable.get("valueFrom")
    if not name:
        yield causes.required(f"{path}.name")
    for problem in names.env_name(name) if name else ():
        yield causes.invalid(f"{path}.name", name, problem)
    if source is None:
        return
    sources = [kind for kind in _SOURCES if source.get(kind) is not None]
    if variable.get("value"):
        yield causes.invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield causes.invalid(f"{path}.valueFrom", "", "may not have more than one field specified at a time")
    elif not sources:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        yield causes.invalid(f"{path}.valueFrom", "", detail)
    for kind in sources:
        yield from _check_source(source[kind], kind, f"{path}.valueFrom.{kind}")


def _check_source(source: Body, kind: str, path: str) -> Iterator[FieldCause]:
    if kind in ("configMapKeyRef", "secretKeyRef"):
        for name in ("name", "key"):
            if not source.get(name):
                yield causes.required(f"{path}.{name}")
    if kind == "fieldRef":
        field = source.get("fieldPath", "")
        if not field:
            yield causes.required(f"{path}.fieldPath")
        elif not re.fullmatch(_FIELD_PATHS, field):
            detail = f"error converting fieldPath: field label not supported: {field}"
            yield causes.invalid(f"{path}.fieldPath", field, detail)


def _check_mounts(mounts: Any, path: str, volumes: set[Any]) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    paths = set[str]()
    for index, mount in enumerate(mounts):
        field, name, place = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield causes.required(f"{field}.name")
        elif name not in volumes:
            yield causes.not_found(f"{field}.name", name)
        if not place:
            yield causes.required(f"{field}.mountPath")
        elif place in paths:
            yield causes.invalid(f"{field}.mountPath", place, "must be unique")
        paths.add(place)
        below = mount.get("subPath", "")
        if below.startswith("/"):
            yield causes.invalid(f"{field}.subPath", below, "must be a relative path")
        if ".." in below.split("/"):
            yield causes.invalid(f"{field}.subPath", below, "must not contain '..'")


def _check_resources(resources: Body, path: str) -> Iterator[FieldCause]:
    limits = resources.get("limits") or {}
    for kind in ("limits", "requests"):
        for name, text in (resources.get(kind) or {}).items():
            field, amount = f"{path}.{kind}[{name}]", quantity.parse(text)
            if "/" not in name and not re.fullmatch(_RESOURCE, name):
                yield causes.invalid(field, name, "must be a standard resource type or fully qualified")
                yield causes.invalid(field, name, "must be a standard resource for containers")
            for problem in names.qualified(name):
                yield causes.invalid(field, name, problem)
            if amount is not None and amount < 0:
                yield causes.invalid(field, str(text), "must be greater than or equal to 0")
            limit = quantity.parse(limits.get(name))
            if kind == "requests" and amount is not None and limit is not None and amount > limit:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                yield causes.invalid(f"{path}.requests", str(text), detail)
