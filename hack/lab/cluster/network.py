"""The network of a one-machine cluster: a namespace of its own, and one link into it.

Everything of the cluster that Kubernetes reaches by an address, except the control plane, is in one network namespace
("the machine"): nodes, pods, kube-proxy's rules, CoreDNS. A pair of virtual links joins it to the host, where the
control plane listens on the host's end. The host gets one link, and three routes over it that end with the link;
its forwarding, its firewall and its settings stay as they are, and nothing leads from the cluster to anywhere else.

Each cluster takes one of eight ranges, 10.210.0.0/16 to 10.217.0.0/16, that no route of the host overlaps:

    10.x.0.1   the host's end: kube-apiserver            10.x.0.11 ...    nodes, one address for each
    10.x.0.2   the machine's end, kube-proxy             10.x.(64+n).0/24 pods of node n
    10.x.0.10  CoreDNS                                   10.x.128.0/20    services
"""

import contextlib
import fcntl
import ipaddress
import json
import os
import secrets
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

MOST_NODES: Final = 32
_FIRST: Final = 210
_RANGES: Final = 8
# What the link into the cluster is called on the inside.
_INSIDE: Final = "eth0"
# Only ever locked: from the choice of a range of addresses until the routes show it.
_LOCK: Final = "/sys/class/net"
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class NoFreeRangeError(Exception):
    """All ranges of addresses are in use; the message names the routes that use them."""


class Network:
    """The addresses of one cluster; *name* is that of its link on the host, and of its cgroup."""

    def __init__(self, name: str, second_byte: int) -> None:
        self.name = name
        self.second_byte = second_byte
        self.range = ipaddress.IPv4Network(f"10.{second_byte}.0.0/16")
        self.host, self.machine, self.dns = (f"10.{second_byte}.0.{number}" for number in (1, 2, 10))
        self.pods = f"10.{second_byte}.64.0/18"
        self.services = f"10.{second_byte}.128.0/20"

    @classmethod
    def with_fresh_name(cls, slot: int) -> "Network":
        return cls(f"tfo{slot}-{secrets.token_hex(3)}", _FIRST + slot)

    def node(self, number: int) -> str:
        """The address of a node; they are counted from 1."""
        return f"10.{self.second_byte}.0.{10 + number}"

    def pods_of(self, number: int) -> str:
        return f"10.{self.second_byte}.{64 + number}.0/24"


@contextlib.contextmanager
def choosing() -> Iterator[Network]:
    """Yield a network that nobody uses, and let nobody else choose before this ends; raise NoFreeRangeError."""
    lock = os.open(_LOCK, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield free_network(_routes())
    finally:
        os.close(lock)


def free_network(routes: Iterable[dict[str, Any]]) -> Network:
    """The first network that none of these routes leads into, or through a part of it."""
    used = {str(route["dst"]): str(route.get("dev", "?")) for route in routes}
    networks_in_use = {ipaddress.ip_network(target): link for target, link in used.items() if target[0].isdigit()}
    networks = [Network.with_fresh_name(slot) for slot in range(_RANGES)]
    for network in networks:
        # A route to everything, or to all private addresses, leads into no cluster in particular.
        if not any(target.prefixlen >= 9 and target.overlaps(network.range) for target in networks_in_use):
            return network
    links = sorted(
        {link for target, link in networks_in_use.items() if any(target.overlaps(it.range) for it in networks)}
    )
    raise NoFreeRangeError(
        f"all address ranges from {networks[0].range} to {networks[-1].range} are in use, by {', '.join(links)}; "
        "take down a cluster (hack/cluster down)"
    )


def around_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that keep programs from asking a proxy for a cluster's addresses; none where there is no proxy."""
    if not any(environ.get(name) or environ.get(name.lower()) for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")):
        return {}
    ranges = ipaddress.collapse_addresses(Network("", _FIRST + slot).range for slot in range(_RANGES))
    exclusions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    value = ",".join(dict.fromkeys([*filter(None, exclusions.split(",")), *map(str, ranges)]))
    return {"NO_PROXY": value, "no_proxy": value}


def join(network: Network, machine: int, nodes: int) -> None:
    """Make the link between the host and the namespace of the process *machine*, with addresses and routes."""
    inside = ("nsenter", f"--net=/proc/{machine}/ns/net", "ip")
    _run("ip", "link", "add", network.name, "type", "veth", "peer", "name", _INSIDE, "netns", str(machine))
    for address in (network.machine, network.dns, *(network.node(number + 1) for number in range(nodes))):
        _run(*inside, "address", "add", f"{address}/24", "dev", _INSIDE)
    _run(*inside, "link", "set", _INSIDE, "up")
    _run("ip", "address", "add", f"{network.host}/24", "dev", network.name)
    _run("ip", "link", "set", network.name, "up")
    for target in (network.pods, network.services):
        _run("ip", "route", "add", target, "via", network.machine, "dev", network.name)


def _routes() -> list[dict[str, Any]]:
    routes: list[dict[str, Any]] = json.loads(_run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
    return routes


def _run(*command: str) -> str:
    process = subprocess.run(
        command, env=os.environ | {"PATH": _PATH}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if process.returncode != 0:
        raise OSError(f"{' '.join(command)}: {process.stderr.strip()}")
    return process.stdout
