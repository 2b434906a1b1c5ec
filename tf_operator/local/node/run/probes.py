"""Probes: what is asked, and what a row of answers means. Pure but for ``answers``, which asks over the network.

A gRPC probe is answered by a server that accepts connections at its port: this node has no gRPC client.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from tf_operator.local.node.addresses import LOOPBACK
from tf_operator.local.node.pod import Action, Call, LocalContainer, ProbeSpec
from tf_operator.local.node.processes import network_requests
from tf_operator.machinery.clock import Clock

_LONGEST_HEAD = 64 * 1024
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Probe:
    kind: str
    action: Action
    initial_delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @property
    def command(self) -> tuple[str, ...]:
        return self.action.command.command if self.action.command else ()


@dataclass(frozen=True, slots=True)
class Tally:
    """The answers so far: how many of the same kind came last."""

    last: bool = False
    count: int = 0

    def answered(self, *, is_good: bool) -> "Tally":
        return replace(self, count=self.count + 1) if is_good is self.last else Tally(is_good, 1)

    def verdict(self, probe: Probe) -> bool | None:
        """What the probe says, once there are enough answers."""
        if self.count >= (probe.successes if self.last else probe.failures):
            return self.last
        return None


def probes_of(container: LocalContainer) -> tuple[Probe, ...]:
    return tuple(_probe(kind, spec) for kind, spec in container.probes.items())


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Where the programs of a pod listen."""

    port_of: Callable[[int], int]
    """In place of a container port."""
    network: tuple[str, ...] = ()
    """The paths of their network; empty for that of the machine."""

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Stream:
        if not self.network:
            return await asyncio.open_connection(host, port, ssl=tls, limit=_LONGEST_HEAD)
        inner, name = await network_requests.connect(self.network, host, port), host if tls else None
        return await asyncio.open_connection(sock=inner, ssl=tls, server_hostname=name, limit=_LONGEST_HEAD)


async def answers(probe: Probe, container: LocalContainer, *, clock: Clock, place: PodPlace) -> str:
    """Ask over the network; why the answer is bad, ``""`` if it is good."""
    try:
        async with clock.timeout(probe.timeout):
            if call := probe.action.http_get or probe.action.tcp_socket or probe.action.grpc:
                port, host = place.port_of(_port(call.port, container)), call.host or LOOPBACK
                if call is probe.action.http_get:
                    return await _get(call, host, port, place)
                _, writer = await place.connect(host, port)
                writer.close()
                return ""
    except TimeoutError:
        return f"no answer within {probe.timeout:g} s"
    except (OSError, ssl.SSLError, ValueError) as error:
        return str(error)
    return "the probe has no action"


def _probe(kind: str, spec: ProbeSpec) -> Probe:
    return Probe(
        kind,
        spec,
        initial_delay=spec.initial_delay_seconds,
        period=max(spec.period_seconds, 1),
        timeout=max(spec.timeout_seconds, 1),
        successes=max(spec.success_threshold, 1),
        failures=max(spec.failure_threshold, 1),
    )


def _port(port: int | str, container: LocalContainer) -> int:
    if isinstance(port, int):
        return port
    number = next((entry.container_port for entry in container.spec.ports if entry.name == port), None)
    if number is None:
        raise ValueError(f"container {container.name} has no port {port!r}: its ports name none so")
    return number


async def _get(call: Call, host: str, port: int, place: PodPlace) -> str:
    """One GET; a status from 200 to 399 is good."""
    tls = None
    if call.scheme == "HTTPS":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # as a kubelet does
    reader, writer = await place.connect(host, port, tls)
    try:
        own = {header["name"]: header.get("value", "") for header in call.http_headers}
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1", "Accept": "*/*", "Connection": "close"} | own
        lines = [f"GET {call.path or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        status = (await reader.readline()).split()
        code = int(status[1]) if len(status) > 1 else 0
        return "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"
    finally:
        with suppress(OSError):
            writer.close()
