"""Services: defaults, addresses, validation. Nothing routes them here: the node replaces their names."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from tf_operator.local.apiserver.kinds import Json, Listing
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes, names
from tf_operator.meta import Body

_DEFAULTS: Final[Mapping[str, object]] = {
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "internalTrafficPolicy": "Cluster",
}
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_FIRST_NODE_PORT, _LAST_NODE_PORT = 30000, 32767
_LARGEST_PORT: Final = 65535
_PORT_RULE: Final = f"must be between 1 and {_LARGEST_PORT}, inclusive"
_ADDRESSES: Final = 2**16 - 2
_ALLOCATED: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def prepare(body: Json, old: Body | None, _: datetime) -> None:
    """Fill a service; what was allocated stays in an update that leaves it out."""
    spec = body["spec"] = body.get("spec") or {}
    for name, value in _DEFAULTS.items():
        if not spec.get(name):
            spec[name] = value
    old_spec: Body = (old or {}).get("spec", {})
    for name in _ALLOCATED if spec["type"] != "ExternalName" else ():
        if not spec.get(name) and name in old_spec:
            spec[name] = old_spec[name]
    _fill_ports(spec, old_spec)
    if old is None:
        body["status"] = {"loadBalancer": {}}


def _fill_ports(spec: Json, old_spec: Body) -> None:
    ports = {_port_key(port): port.get("nodePort") for port in old_spec.get("ports", ())}
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        if not port.get("targetPort") and "port" in port:
            port["targetPort"] = port["port"]
        if spec["type"] in _WITH_NODE_PORTS and not port.get("nodePort") and (node_port := ports.get(_port_key(port))):
            port["nodePort"] = node_port
    if spec["type"] in _WITH_NODE_PORTS:
        spec.setdefault("externalTrafficPolicy", "Cluster")


def _port_key(port: Body) -> tuple[object, object]:
    return port.get("port"), port.get("protocol", "TCP")


def allocate(body: Json, listing: Listing) -> None:
    """Give the service the addresses and ports that it did not name."""
    spec = body["spec"]
    if spec["type"] == "ExternalName":
        return
    has_node_ports, is_headless = spec["type"] in _WITH_NODE_PORTS, spec.get("clusterIP") == "None"
    # A headless service takes nothing that another may have, and there may be as many of them as pods.
    others = [other["spec"] for other in listing("services", "")] if has_node_ports or not is_headless else []
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_address({other.get("clusterIP") for other in others}, body["metadata"]["uid"])
    is_open = is_headless and not spec.get("selector")  # its addresses are made by somebody else
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if is_open else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_open else "SingleStack")
    if has_node_ports:
        ports = {port.get("nodePort") for other in others for port in other.get("ports", ())}
        free = (number for number in range(_FIRST_NODE_PORT, _LAST_NODE_PORT + 1) if number not in ports)
        for port in spec.get("ports", ()):
            if not port.get("nodePort"):
                port["nodePort"] = next(free)


def _free_address(used: set[Any], uid: str) -> str:
    """One of 10.96.0.0/16, beginning at a place that the UID decides."""
    start = int.from_bytes(uid.encode()[-8:], "big")
    numbers = ((start + step) % _ADDRESSES + 1 for step in range(_ADDRESSES))
    addresses = (f"10.96.{number >> 8}.{number & 255}" for number in numbers)
    return next(address for address in addresses if address not in used)


def check(body: Body, old: Body | None) -> Iterator[FieldCause]:
    spec = body["spec"]
    kind, address, ports = spec["type"], spec.get("clusterIP"), spec.get("ports") or ()
    if kind not in _TYPES:
        yield causes.not_supported("spec.type", kind, _TYPES)
    if kind == "ExternalName" and not spec.get("externalName"):
        yield causes.required("spec.externalName")
    if not ports and address != "None" and kind != "ExternalName":
        yield causes.required("spec.ports")
    if kind in _WITH_NODE_PORTS and address == "None":
        yield causes.invalid("spec.clusterIPs[0]", address, f"may not be set to 'None' for {kind} services")
    yield from _check_ports(ports)
    if spec.get("sessionAffinity") not in ("ClientIP", "None"):
        yield causes.not_supported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    old_address = (old or {}).get("spec", {}).get("clusterIP")
    if old_address and kind != "ExternalName" and address != old_address:
        yield causes.invalid("spec.clusterIPs[0]", [address], "may not change once set")


def _check_ports(ports: Any) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    taken, port_keys = set[str](), set[tuple[object, object]]()
    for index, port in enumerate(ports):
        field, name, number = f"spec.ports[{index}]", port.get("name", ""), port.get("port", 0)
        if not name and len(ports) > 1:
            yield causes.required(f"{field}.name")
        for problem in names.label(name) if name else ():
            yield causes.invalid(f"{field}.name", name, problem)
        if name in taken:
            yield causes.duplicate(f"{field}.name", name)
        taken |= {name} - {""}
        if not 0 < number <= _LARGEST_PORT:
            yield causes.invalid(f"{field}.port", number, _PORT_RULE)
        if port["protocol"] not in _PROTOCOLS:
            yield causes.not_supported(f"{field}.protocol", port["protocol"], _PROTOCOLS)
        yield from _check_target(port.get("targetPort", 1), f"{field}.targetPort")
        if _port_key(port) in port_keys:
            yield causes.duplicate(field, {"protocol": port["protocol"], "port": number})
        port_keys.add(_port_key(port))


def _check_target(target: int | str, field: str) -> Iterator[FieldCause]:
    if isinstance(target, str):
        yield from (causes.invalid(field, target, problem) for problem in names.port_name(target))
    elif not 0 < target <= _LARGEST_PORT:
        yield causes.invalid(field, target, _PORT_RULE)
