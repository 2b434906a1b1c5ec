"""The configuration of a pod: two variables, and the files that the kubelet keeps fresh."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from tf_operator.machinery.transport import proxies
from tf_operator.machinery.transport.config import ClientConfig, ConfigurationError, checked, make_tls

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class InCluster:
    """The configuration of a pod: two variables, and the files that the kubelet keeps fresh."""

    def __init__(self, environment: Mapping[str, str] = os.environ, *, directory: Path = SERVICE_ACCOUNT) -> None:
        self._environment = environment
        self._directory = directory
        self._certificates = ""
        self._tls: ssl.SSLContext | None = None

    async def read(self, *, refused: bool = False) -> ClientConfig:  # noqa: ARG002 (remembers nothing)
        """Two small files on tmpfs: read without a thread."""
        host, port = (self._variable(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
        authorization = checked(f"Bearer {self._file('token')}", self._directory / "token")
        host = f"[{host}]" if ":" in host else host
        address = f"https://{host}:{port}"
        proxy = proxies.from_environment(address, self._environment)
        return ClientConfig(address, authorization, self._context(), proxy=proxy, namespace=self._namespace())

    def _namespace(self) -> str:
        """That of the pod. Only commands need it, so a pod without the file works all the same."""
        try:
            return (self._directory / "namespace").read_text(errors="replace").strip()
        except OSError:
            return ""

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
