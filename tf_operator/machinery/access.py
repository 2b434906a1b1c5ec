"""Where the apiserver is and how to be let in, read from a kubeconfig or from inside a pod.

A source is read again and again, because credentials change while the process runs. Neighbours: ``connect``, which
decides when; ``kubeconfig``, which reads the files that people have, and is imported only when there is one: inside
a cluster the configuration is an address, a token and a certificate, and what it takes to read a kubeconfig would
cost more memory than the rest of the operator.
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from tf_operator.machinery.clock import Clock, SystemClock

if TYPE_CHECKING:
    from tf_operator.machinery.kubeconfig import KubeConfigFiles, Settings

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PRINTABLE = re.compile(r"[!-~]*( [!-~]+)?")


class ConfigurationError(Exception):
    """The process cannot know where its apiserver is, or who it is itself; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the apiserver is and how to be let in. ``repr`` shows no credentials."""

    host: str
    authorization: str = field(default="", repr=False)
    tls: ssl.SSLContext | bool = True
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)


class Source(Protocol):
    """Reads the access as it is now."""

    async def read(self, *, refused: bool = False) -> Access:
        """Read everything anew; ``ConfigurationError`` when it cannot be had.

        ``refused``: the apiserver did not accept what was read last, so nothing that was remembered is good.
        """


class InCluster:
    """The access of a pod: two variables, and the files that the kubelet keeps fresh."""

    def __init__(self, environment: Mapping[str, str] = os.environ, *, directory: Path = SERVICE_ACCOUNT) -> None:
        self._environment = environment
        self._directory = directory
        self._certificates = ""
        self._tls: ssl.SSLContext | None = None

    async def read(self, *, refused: bool = False) -> Access:  # noqa: ARG002 (remembers nothing)
        """Two small files on tmpfs: read without a thread."""
        host, port = (self._variable(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
        authorization = checked(f"Bearer {self._file('token')}", self._directory / "token")
        host = f"[{host}]" if ":" in host else host
        return Access(f"https://{host}:{port}", authorization, self._context())

    def _context(self) -> ssl.SSLContext:
        """The TLS context: the same one until the CA changes, since connections are pooled by it."""
        certificates = self._file("ca.crt")
        if self._tls is None or certificates != self._certificates:
            try:
                self._tls = make_tls(certificates)
            except ssl.SSLError as error:
                raise ConfigurationError(f"{self._directory / 'ca.crt'} holds no certificates") from error
            self._certificates = certificates
        return self._tls

    def _variable(self, name: str) -> str:
        value = self._environment.get(name, "")
        if not value:
            raise ConfigurationError(f"not inside a cluster: {name} is not set; give a kubeconfig instead")
        return value

    def _file(self, name: str) -> str:
        path = self._directory / name
        try:
            content = path.read_text(errors="replace").strip()
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
        if not content:
            raise ConfigurationError(f"{path} is empty")
        return content


class KubeConfig:
    """The access that a kubeconfig describes: the file at ``path``, or what ``kubectl`` would take."""

    def __init__(
        self,
        path: str | None = None,
        *,
        context: str | None = None,
        clock: Clock | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._path = path
        self._context = context
        self._clock = clock or SystemClock()
        self._environment = environment
        self._files: KubeConfigFiles | None = None
        self._tls: ssl.SSLContext | None = None
        self._tls_from: tuple[object, ...] = ()

    async def read(self, *, refused: bool = False) -> Access:
        """Read the files; run plugins and renew tokens where it is time to."""
        if self._files is None:
            # Imported here: half a second, and 50 MB that a pod does without.
            from tf_operator.machinery.kubeconfig import KubeConfigFiles  # noqa: PLC0415

            self._files = KubeConfigFiles(self._paths(), context=self._context, clock=self._clock)
        found = await self._files.read(refused=refused)
        return Access(found.host, found.authorization, self._context_for(found), found.server_name, found.proxy)

    def _paths(self) -> tuple[Path, ...]:
        if self._path:
            return (Path(self._path).expanduser(),)
        listed = self._environment.get("KUBECONFIG", "").split(os.pathsep)
        return tuple(Path(path).expanduser() for path in listed if path) or (Path("~/.kube/config").expanduser(),)

    def _context_for(self, found: "Settings") -> ssl.SSLContext:
        """The TLS context: the same one until a certificate changes, since connections are pooled by it."""
        made_from = (found.authorities, found.certificate, found.key, found.is_verified)
        if self._tls is None or made_from != self._tls_from:
            try:
                context = make_tls(found.authorities or None, is_verified=found.is_verified)
                if found.certificate:
                    _present(context, found.certificate, found.key)
            except (ssl.SSLError, ValueError) as error:
                raise ConfigurationError(f"the kubeconfig's certificates cannot be used: {error}") from error
            self._tls, self._tls_from = context, made_from
        return self._tls


def checked(authorization: str, origin: object) -> str:
    """What is to be sent as ``Authorization``, once it is sure that it can be: half a file is often no header."""
    if not _PRINTABLE.fullmatch(authorization):
        raise ConfigurationError(f"{origin}: the token is not one line of printable characters")
    return authorization


def make_tls(authorities: str | None, *, is_verified: bool = True) -> ssl.SSLContext:
    """A context that trusts ``authorities`` (PEM), or whom this machine trusts."""
    # Bundles have names in their comments, in any alphabet; OpenSSL takes nothing but ASCII.
    context = ssl.create_default_context(cadata=authorities and authorities.encode("ascii", "ignore").decode())
    # On since Python 3.13, and refuses what client-go accepts: the authorities of EKS and others lack an extension.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _present(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Make ``context`` present a client certificate. It is only read from a file, so there is one for a moment."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_text(f"{certificate}\n{key}\n")
        # A key that asks for a passphrase must not stop the process at a prompt.
        context.load_cert_chain(path, password="")
