"""The configuration that a kubeconfig describes.

``kubeconfig_files`` reads the files. It is imported only when there is a kubeconfig: inside a cluster the
configuration is an address, a token and a certificate.
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.transport import private_files, proxies
from tf_operator.machinery.transport.config import ClientConfig, ConfigurationError, make_tls

if TYPE_CHECKING:
    from tf_operator.machinery.transport.kubeconfig_files import KubeConfigFiles, KubeConfigSettings


class KubeConfig:
    """The configuration that a kubeconfig describes: the file at ``path``, or what ``kubectl`` would take."""

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

    async def read(self, *, refused: bool = False) -> ClientConfig:
        """Read the files; run plugins and renew tokens where it is time to."""
        if self._files is None:
            # Imported here: a pod does without.
            from tf_operator.machinery.transport.kubeconfig_files import KubeConfigFiles  # noqa: PLC0415

            self._files = KubeConfigFiles(self._paths(), context=self._context, clock=self._clock)
        settings = await self._files.read(refused=refused)
        tls = self._context_for(settings)
        # What the file says holds for every address; the variables spare some.
        proxy = settings.proxy or proxies.from_environment(settings.host, self._environment)
        return ClientConfig(
            settings.host,
            settings.authorization,
            tls,
            settings.server_name,
            proxy,
            settings.namespace,
            settings.context,
        )

    def _paths(self) -> tuple[Path, ...]:
        if self._path:
            return (Path(self._path).expanduser(),)
        paths = self._environment.get("KUBECONFIG", "").split(os.pathsep)
        return tuple(Path(path).expanduser() for path in paths if path) or (Path("~/.kube/config").expanduser(),)

    def _context_for(self, settings: "KubeConfigSettings") -> ssl.SSLContext:
        """The TLS context: the same one until a certificate changes, since connections are pooled by it."""
        made_from = (settings.authorities, settings.certificate, settings.key, settings.is_verified)
        if self._tls is None or made_from != self._tls_from:
            try:
                context = make_tls(settings.authorities or None, is_verified=settings.is_verified)
                if settings.certificate:
                    _present(context, settings.certificate, settings.key)
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"the kubeconfig's certificates cannot be used: {error}") from error
            self._tls, self._tls_from = context, made_from
        return self._tls


def _present(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Make ``context`` present a client certificate. OpenSSL reads it from files only."""
    with private_files.path_of(f"{certificate}\n{key}\n".encode()) as path:
        # A key that asks for a passphrase must not stop the process at a prompt.
        context.load_cert_chain(path, password="")
