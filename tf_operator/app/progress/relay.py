"""Hands the reports that reach a standby to the replica that leads.

The leader writes its address into an annotation of its Lease, beside its identity: what an earlier leader has left
there leads nowhere. The annotation is not believed. A report carries the token of its pod, so it is sent over TLS only,
to a server whose certificate is signed by the authority that pods trust and names the host of their URL. Who forges a
Lease gets a handshake, and no token.

The leader limits what unknown tokens cost, by address. So it is told from which one a report came in the first place,
with a code that only a replica can make: its key is the private key of the certificate that all replicas have. A report
is handed on once: two replicas that take each other for the leader do not play with it.

On the loop of the HTTP server.
"""

import hashlib
import hmac
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import quote

from yarl import URL

from tf_operator.app.http.server import HttpReply, PageRequest
from tf_operator.app.options import flag_types
from tf_operator.app.options.flag_types import Address
from tf_operator.app.options.progress import ProgressOptions
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.lease import Lease
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.http.pool import Pool
from tf_operator.machinery.transport.http.route import PeerAddress, Way

ANNOTATION: Final = "tf-operator.kubeflow.org/progress-address"
FORWARDED: Final = "X-Progress-Forwarded-For"
"""The code of a replica, and the address that the report came from."""
FORWARDED_WITHIN: Final = 2.0
PLACES: Final = 16
LOG_EVERY: Final = 60.0

_log = Logger(__name__)


def annotations(identity: str, address: Address | None) -> dict[str, str]:
    """What the Lease of a replica says while it leads; nothing if it has no address."""
    return {ANNOTATION: f"{identity} {address}"} if address else {}


def address_of_leader(lease: Lease | None) -> Address | None:
    """Where the holder of the Lease takes reports; ``None`` if it does not say so itself, or names no IP address."""
    if lease is None or not lease.record.holder:
        return None
    identity, _, text = lease.annotation(ANNOTATION).rpartition(" ")
    if identity != lease.record.holder:
        return None
    try:
        address = flag_types.address(text)
        if address:
            ip_address(address.host)
    except ValueError:
        return None
    return address


class Relay:
    """Between the replicas of one Service."""

    def __init__(self, clock: Clock, options: ProgressOptions, lease: Callable[[], Lease | None]) -> None:
        """``lease`` says who leads, as far as this replica knows. ``OSError`` if there is no key."""
        self._clock = clock
        self._host = URL(options.url).raw_host or ""
        self._own = options.own_address
        self._folder = Path(options.folder)
        self._lease = lease
        self._pool = Pool(PLACES, clock=clock)
        self._route: tuple[Address, str, Way] | None = None
        """With the authority by which its end is verified."""
        self._log_at = clock.monotonic()
        self._key = self._read_key()

    def origin_of(self, request: PageRequest) -> str | None:
        """The address that a report came from in the first place, if another replica hands it on."""
        code, _, client = request.headers.get(FORWARDED, "").partition(" ")
        is_of_replica = code and hmac.compare_digest(_raw(code), _raw(self._code(client, request)))
        return client if is_of_replica else None

    async def forward(self, request: PageRequest, body: bytes) -> HttpReply | None:
        """The leader's reply; ``None`` if there is none, or nobody who has proved to be a replica."""
        address = address_of_leader(self._lease())
        if FORWARDED in request.headers or address is None or address == self._own:
            return None
        try:
            async with self._clock.timeout(FORWARDED_WITHIN):
                return await self._exchange(self._way_to(address), request, body)
        except (errors.ApiError, OSError, ValueError, TimeoutError) as error:
            self._report("the leader cannot be reached for reports", error, address=str(address))
            return None

    def close(self) -> None:
        self._pool.close()

    async def _exchange(self, way: Way, request: PageRequest, body: bytes) -> HttpReply:
        lines = {
            "Host": self._host,
            "Authorization": request.headers["Authorization"],
            FORWARDED: f"{self._code(request.client, request)} {request.client}",
            "Content-Type": "application/json",
            "Content-Length": len(body),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        wire = await self._pool.take(way)
        try:
            await wire.send(f"POST {quote(request.path)} HTTP/1.1\r\n{head}\r\n".encode("ascii"), body)
            reply = await wire.read()
        finally:
            self._pool.give_back(way, wire)
        headers = {name: value for name in ("Content-Type", "Retry-After") if (value := wire.header(name))}
        return HttpReply(wire.status, reply, headers, is_admitted=wire.status == 200)

    def _way_to(self, address: Address) -> Way:
        authority = Path(self._folder, "ca.crt").read_text(encoding="ascii")
        if self._route is None or self._route[:2] != (address, authority):
            tls = ssl.create_default_context(cadata=authority)
            self._route = address, authority, Way(PeerAddress(address.host, address.port, tls, self._host))
        return self._route[2]

    def _code(self, client: str, request: PageRequest) -> str:
        """What only who has the key of the certificate can say of this address and this token."""
        words = f"{client} {request.headers.get('Authorization', '')}"
        return hmac.digest(self._current_key(), _raw(words), "sha256").hex()

    def _current_key(self) -> bytes:
        """That of the certificate; while it cannot be read, the last one, with which the certificate is served, too."""
        try:
            self._key = self._read_key()
        except OSError as error:
            self._report("the key of the certificate of reports cannot be read; keeping the old one", error)
        return self._key

    def _read_key(self) -> bytes:
        return hashlib.sha256(Path(self._folder, "tls.key").read_bytes()).digest()

    def _report(self, event: str, error: Exception, **details: str) -> None:
        """Once a minute: programs never stop reporting."""
        if self._clock.monotonic() >= self._log_at:
            self._log_at = self._clock.monotonic() + LOG_EVERY
            _log.warning(event, **details, error=str(error))


def _raw(header: str) -> bytes:
    """The bytes of a header, which need not be UTF-8."""
    return header.encode("utf-8", "surrogateescape")
