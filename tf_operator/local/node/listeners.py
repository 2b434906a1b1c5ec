"""Which programs of pods the whole network reaches, and a warning for each job that has such programs.

TensorFlow's servers listen on all interfaces, whatever host they are given, and ask nobody who they are: who reaches
one reads and writes files with the rights of the user. In a cluster a NetworkPolicy is between them.
"""

import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tf_operator.local.node.addresses import RANGE
from tf_operator.local.node.node_parts import PODS, NodeParts
from tf_operator.local.node.pod import LocalPod
from tf_operator.machinery.events.event_object import Reference, reference_to
from tf_operator.meta import ObjectKey

_EVERY: Final = 3.0
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"
_LOOPBACK: Final = re.compile(r"(?:0{16}FFFF0000)?[0-9A-F]{6}7F|0{24}01000000")
"""127.0.0.0/8, also as an address of IPv6, and ::1: in words whose bytes are in the order of the machine."""


class Listener(NamedTuple):
    """A pod whose programs run, and the ports of this machine where they may listen."""

    pod: LocalPod
    ports: Collection[int]


class ListenerWatch:
    """Warns once for each job. ``listeners`` are those of now."""

    def __init__(self, parts: NodeParts, listeners: Callable[[], Iterable[Listener]]) -> None:
        self._parts = parts
        self._listeners = listeners
        self._warned: set[str] = set()

    async def run(self) -> None:
        """Look again and again, until cancelled: a network may come later."""
        while True:
            await self._parts.clock.sleep(_EVERY)
            listeners = [it for it in self._listeners() if subject_of(it.pod).uid not in self._warned and it.ports]
            open_ports = exposed_ports() if listeners and is_reachable() else set[int]()
            for listener in listeners:
                if ports := open_ports.intersection(listener.ports):
                    self._warn(subject_of(listener.pod), min(ports))

    def _warn(self, subject: Reference, port: int) -> None:
        if subject.uid in self._warned:
            return
        self._warned.add(subject.uid)
        message = (
            f"programs of {subject.kind} {subject.key.name} listen on all interfaces, as at port {port}: whoever"
            " reaches a server of TensorFlow over the network has the rights of this user. Keep others away from the"
            f" ports {RANGE.start} to {RANGE.stop - 1} by a firewall"
        )
        self._parts.recorder.event(subject, "Warning", reason="ListensOnAllInterfaces", message=message)


def subject_of(pod: LocalPod) -> Reference:
    """What is warned of: the job, or a pod without one."""
    if (owner := pod.owner) is None:
        return reference_to(PODS, pod.key, pod.uid)
    return Reference(owner.api_version, owner.kind, ObjectKey(pod.key.namespace, owner.name), owner.uid)


def is_reachable() -> bool:
    """Whether this machine has more than loopback, as far as that can be asked now."""
    with suppress(OSError):  # no file descriptor is left: a warning less, and no end of the node
        return any(name != "lo" for _, name in socket.if_nameindex())
    return False


def exposed_ports() -> set[int]:
    """The ports at which something listens for more than this machine, where the system says so (Linux)."""
    ports = set[int]()
    for table in _TABLES:
        with suppress(OSError):  # a system without IPv6
            ports.update(_exposed_ports(table.read_text()))
    return ports


def _exposed_ports(table: str) -> Iterator[int]:
    for line in table.splitlines()[1:]:
        local, _, state = line.split()[1:4]
        address, _, port = local.rpartition(":")
        if state == _LISTENS and not _LOOPBACK.fullmatch(address):
            yield int(port, 16)
