"""The cluster and the credentials of a configured client of the ``kubernetes`` package.

Programs that use the package have one already, with whatever they have set up: a token from elsewhere, an authority, a
proxy. It is read again as any other source, so that its ``refresh_api_key_hook`` renews the token here, too.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf_operator.client.cluster import ClusterChoice
from tf_operator.client.job import NotPossible
from tf_operator.machinery.transport import proxies
from tf_operator.machinery.transport.config import (
    ClientConfig,
    ConfigSource,
    ConfigurationError,
    checked,
    make_tls,
)

_HARMLESS = frozenset({"user-agent", "accept", "content-type"})


class PackageClient:
    """A source of configurations: an instance of ``kubernetes.client.ApiClient``."""

    def __init__(self, api_client: Any) -> None:  # noqa: ANN401 (the package is not typed, and need not be installed)
        self._client = api_client
        self._tls: ssl.SSLContext | None = None
        self._tls_from: tuple[object, ...] = ()

    async def read(self, *, refused: bool = False) -> ClientConfig:  # noqa: ARG002 (the hook of the client decides)
        headers = {name.lower(): str(value) for name, value in self._client.default_headers.items()}
        configuration = self._client.configuration
        if unsupported := sorted(headers.keys() - _HARMLESS - {"authorization"}):
            # To ignore one that impersonates would mean to act with more rights than was meant.
            raise ConfigurationError(f"api_client: its default header {unsupported[0]!r} is not supported")
        settings = configuration.auth_settings().values()
        credential = next((str(setting["value"] or "") for setting in settings), "")
        authorization = credential or headers.get("authorization", "")
        return ClientConfig(
            str(configuration.host).rstrip("/"),
            checked(authorization, "api_client") if authorization else "",
            self._context(configuration),
            configuration.tls_server_name or None,
            _proxy(configuration),
        )

    def _context(self, configuration: Any) -> ssl.SSLContext:  # noqa: ANN401 (as above)
        """The TLS context: the same one until a file changes, since connections are pooled by it."""
        try:
            authority = _text(configuration.ca_cert_data or b"")
            if configuration.ssl_ca_cert:
                authority += Path(configuration.ssl_ca_cert).read_text()
            certificate, key = configuration.cert_file, configuration.key_file
            pair = [Path(file).read_bytes() for file in (certificate, key) if file]
            made_from = (authority, configuration.verify_ssl, *pair)
            if self._tls is None or made_from != self._tls_from:
                self._tls = make_tls(authority or None, is_verified=bool(configuration.verify_ssl))
                if certificate:
                    self._tls.load_cert_chain(certificate, key or None, password="")
                self._tls_from = made_from
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"api_client: its certificates cannot be used: {error}") from error
        return self._tls


def _text(data: str | bytes) -> str:
    return data if isinstance(data, str) else data.decode()


def _proxy(configuration: Any) -> str | None:  # noqa: ANN401 (as above)
    """The proxy of the client, which has read the environment for it; its ``no_proxy`` spares some addresses."""
    proxy, spared = configuration.proxy, configuration.no_proxy
    if not proxy or not spared:
        return proxies.checked(proxy, "api_client: its proxy") if proxy else None
    variables = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": spared}
    return proxies.from_environment(str(configuration.host), variables)


@dataclass(frozen=True, slots=True)
class PackageChoice(ClusterChoice):
    """The cluster of a client of the package: named by whoever has configured it."""

    api_client: object = None

    def source(self) -> ConfigSource:
        return PackageClient(self.api_client)

    def name(self, config: ClientConfig) -> str:
        return config.host


def choice(api_client: object | None, *other_names: str | None) -> PackageChoice | None:
    """The cluster of this client, if there is one; ``NotPossible`` beside another name, which may mean another one."""
    if api_client is None:
        return None
    if any(name is not None for name in other_names):
        raise NotPossible("api_client, and context or kubeconfig, may name different clusters: leave one of them out")
    return PackageChoice(None, None, "api_client", api_client=api_client)
