"""Probes: what is asked, and what a row of answers means. Pure but for ``answers``, which asks over the network.

A gRPC probe is answered by a server that accepts connections at its port: this node has no gRPC client.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tf_operator.local.node.addresses import LOOPBACK
from tf_operator.local.node.containers import LocalContainer, list_of, mapping_of
from tf_operator.machinery.clock import Clock
from tf_operator.meta import Body, text_of

KINDS = ("startupProbe", "readinessProbe", "livenessProbe")
_LONGEST_HEAD = 64 * 1024


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of a container."""

    kind: str
    action: Body
    initial_delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @property
    def command(self) -> list[str]:
        """What an exec probe runs."""
        return [word for word in mapping_of(self.action, "exec").get("command") or () if isinstance(word, str)]


@dataclass(frozen=True, slots=True)
class Tally:
    """The answers so far: how many of the same kind came last."""

    last: bool = False
    count: int = 0

    def answered(self, *, is_good: bool) -> "Tally":
        """One more answer."""
        return replace(self, count=self.count + 1) if is_good is self.last else Tally(is_good, 1)

    def verdict(self, probe: Probe) -> bool | None:
        """What the probe says, once there are enough answers."""
        if self.count >= (probe.successes if self.last else probe.failures):
            return self.last
        return None


def probes_of(container: LocalContainer) -> tuple[Probe, ...]:
    """All probes of a container."""
    return tuple(_probe(kind, mapping_of(container.spec, kind)) for kind in KINDS if container.has_probe(kind))


async def answers(probe: Probe, container: LocalContainer, *, clock: Clock, port_of: Callable[[int], int]) -> str:
    """Ask over the network; why the answer is bad, ``""`` if it is good."""
    try:
        async with clock.timeout(probe.timeout):
            for field in ("httpGet", "tcpSocket", "grpc"):
                if action := mapping_of(probe.action, field):
                    port = port_of(_port(action.get("port"), container))
                    host = text_of(action, "host") or LOOPBACK
                    return await (_get(action, host, port) if field == "httpGet" else _connect(host, port))
    except TimeoutError:
        return f"no answer within {probe.timeout:g} s"
    except (OSError, ssl.SSLError, ValueError) as error:
        return str(error)
    return "the probe has no action"


def _probe(kind: str, body: Body) -> Probe:
    return Probe(
        kind,
        body,
        initial_delay=_number(body, "initialDelaySeconds", 0),
        period=max(_number(body, "periodSeconds", 10), 1),
        timeout=max(_number(body, "timeoutSeconds", 1), 1),
        successes=max(_number(body, "successThreshold", 1), 1),
        failures=max(_number(body, "failureThreshold", 3), 1),
    )


def _number(body: Body, field: str, default: int) -> int:
    number = body.get(field)
    return number if isinstance(number, int) else default


def _port(port: object, container: LocalContainer) -> int:
    """A port by its number, or by the name that the container gives it."""
    if isinstance(port, int):
        return port
    for entry in list_of(container.spec, "ports"):
        number = entry.get("containerPort")
        if entry.get("name") == port and isinstance(number, int):
            return number
    raise ValueError(f"container {container.name} has no port {port!r}: its ports name none so")


async def _connect(host: str, port: int) -> str:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return ""


async def _get(action: Mapping[str, object], host: str, port: int) -> str:
    """One GET; a status from 200 to 399 is good."""
    tls = None
    if action.get("scheme") == "HTTPS":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # as a kubelet does
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=_LONGEST_HEAD)
    try:
        own = {text_of(entry, "name"): text_of(entry, "value") for entry in list_of(action, "httpHeaders")}
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1", "Accept": "*/*", "Connection": "close"} | own
        path = action.get("path") or "/"
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        status = (await reader.readline()).split()
        code = int(status[1]) if len(status) > 1 else 0
        return "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"
    finally:
        with suppress(OSError):
            writer.close()
