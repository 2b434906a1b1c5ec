"""Where the pods of a node are reached: ports of the loopback interface in place of names and ports of a cluster.

In a cluster every pod has an address, and Services give it a name; one with a hostname and a subdomain has its own
name in the Service called as its subdomain. Here all pods share 127.0.0.1, so each has ports of its own: one for each
pair of such a name and port that any of the processes mentions, or that the pod has as a container port. Wherever such
a pair reaches a process, the address takes its place (pure, but for the question whether a port is free):

    job-worker-0.ns.svc:2222    job-worker-0.ns.svc.cluster.local:2222    job-worker-0.ns:2222    job-worker-0:2222
    job-worker-0.job.ns.svc:2222    job-worker-0.job.ns.svc.cluster.local:2222    job-worker-0.job:2222
    localhost:2222, 0.0.0.0:2222 (in the pod that has this container port)

A pair gets its port when it is seen first, whichever pod it is that mentions it, so all pods agree. It is kept until no
pod mentions it. The bare name without a port is left alone: it may be part of a folder's name.
"""

import re
import socket
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from tf_operator.meta import ObjectKey

LOOPBACK = "127.0.0.1"
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOST = re.compile(
    rf"(?<![\w.\-])(?P<name>{_LABEL})(?:\.(?P<service>{_LABEL}))??"
    rf"(?:\.(?P<namespace>{_LABEL})(?P<svc>\.svc(?:\.{_LABEL}){{0,8}})?)?"
    r"(?::(?P<port>[0-9]{1,5}))?(?![\w\-]|\.\w)"
)
_OWN = re.compile(r"(?<![\w.\-:])(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(?P<port>[0-9]{1,5})(?![\w\-.])")
RANGE = range(20_000, 32_000)
"""Below the ports that systems give to outgoing connections: those are taken at any moment, also by other programs."""


class ServicePort(NamedTuple):
    """A port of a Service, of a host in one (``host.service``), or of a pod without one, as the cluster knows it."""

    host: ObjectKey
    port: int


class NoPortLeft(Exception):
    """More addresses are mentioned than this machine has."""


class Addresses:
    """The ports of all pods of a node."""

    def __init__(self, *, is_free: Callable[[int], bool] | None = None, start: int = 0) -> None:
        """``start`` says where in the range to begin, so that two nodes on one machine seldom try the same ports."""
        self._is_free = is_free or is_port_free
        self._ports: dict[ServicePort, int] = {}
        self._numbers: set[int] = set()
        self._users: dict[ServicePort, set[str]] = {}
        self._candidates = _endless(start)

    def port(self, place: ServicePort, uid: str) -> int:
        if place not in self._ports:
            candidates = islice(self._candidates, len(RANGE))
            port = next((port for port in candidates if port not in self._numbers and self._is_free(port)), None)
            if port is None:
                raise NoPortLeft(f"no port of this machine is free between {RANGE.start} and {RANGE.stop}")
            self._ports[place] = port
            self._numbers.add(port)
        self._users.setdefault(place, set()).add(uid)
        return self._ports[place]

    def release(self, uid: str) -> None:
        for place, users in list(self._users.items()):
            users.discard(uid)
            if not users:
                del self._users[place]
                self._numbers.discard(self._ports.pop(place))


class PodNames(NamedTuple):
    """What names mean in the processes of one pod."""

    addresses: Addresses
    uid: str
    namespace: str
    hosts: Container[str]
    """The names that are Services of the namespace, as far as the node has seen them; others are recognised by
    ``.svc``."""
    own: Callable[[], ObjectKey]
    """The Service, or else the pod, by which others reach this one, as far as that is known by now."""
    own_ports: Collection[int]
    """Its container ports."""
    domain: str = ""
    """The Service in which the pod is a host, if it is in one: nobody is reached by that name alone."""

    def replaced(self, text: str) -> str:
        """The text with each address of a pod in place of its name in the cluster."""
        return _HOST.sub(self._host, _OWN.sub(self._own, text))

    def port_of(self, port: int) -> int:
        return self.addresses.port(ServicePort(self.own(), port), self.uid) if port in self.own_ports else port

    def _own(self, match: re.Match[str]) -> str:
        port = int(match["port"])
        return f"{LOOPBACK}:{self.port_of(port)}" if port in self.own_ports else match[0]

    def _host(self, match: re.Match[str]) -> str:
        host, port = self._key(match), match["port"]
        if host is None or not (port or match["svc"]):
            return match[0]
        if not port:
            return LOOPBACK
        return f"{LOOPBACK}:{self.addresses.port(ServicePort(host, int(port)), self.uid)}"

    def _key(self, match: re.Match[str]) -> ObjectKey | None:
        """What a name means; ``None`` where it is no name of a pod. ``a.b`` may be in namespace b, or in Service b."""
        name, service, namespace = match["name"], match["service"], match["namespace"]
        if match["svc"]:
            return ObjectKey(namespace, f"{name}.{service}" if service else name)
        is_service = name in self.hosts and name != self.domain
        if service is None and namespace in {None, self.namespace} and is_service:
            return ObjectKey(self.namespace, name)
        if service is None:
            service, namespace = namespace, None
        is_host = service is not None and namespace in {None, self.namespace} and service in self.hosts
        return ObjectKey(self.namespace, f"{name}.{service}") if is_host else None


def is_port_free(port: int) -> bool:
    """Whether a server could listen there, on all interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("0.0.0.0", port))  # noqa: S104 (closed at once; most servers bind to all interfaces)
        return True
    return False


def _endless(start: int) -> Iterator[int]:
    """The range, from some place on, again and again."""
    place = start % len(RANGE)
    while True:
        yield RANGE[place]
        place = (place + 1) % len(RANGE)
