"""Where requests go, and what is the same in the heads of all: made once from a configuration.

What a head is made of comes from files, flags and objects. Nothing gets into one that could end a line of it.
"""

import re
import ssl
from base64 import b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode

from yarl import URL

from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ClientConfig
from tf_operator.machinery.transport.requests import Request
from tf_operator.text import one_line

_REQUEST_LINE: Final = re.compile(r"[A-Z]+ [!-~]+")
_VALUE: Final = re.compile(r"[!-~]([ -~]*[!-~])?")
_PLAIN_IN_QUERIES: Final = "!$'()*,?/:@"
"""Beside letters, digits and ``-._~``; all else is quoted."""


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """One end of a connection; without ``tls`` nothing is encrypted."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str | None = None

    def __str__(self) -> str:
        return f"{self.bracketed}:{self.port}"

    @property
    def certified_name(self) -> str:
        """Whom the certificate of the server has to name."""
        return self.server_name or self.host.removesuffix(".")

    @property
    def bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@dataclass(frozen=True, slots=True)
class Way:
    """Requests that have the same way share connections."""

    apiserver: PeerAddress
    proxy: PeerAddress | None = None
    proxy_authorization: str = field(default="", repr=False)

    @property
    def is_tunnel(self) -> bool:
        """Whether a proxy passes on bytes, and sees no request."""
        return self.proxy is not None and self.apiserver.tls is not None

    def tunnel_head(self) -> bytes:
        """What asks the proxy for a connection to the apiserver."""
        lines = [f"CONNECT {self.apiserver} HTTP/1.1", f"Host: {self.apiserver}"]
        if self.proxy_authorization:
            lines.append(f"Proxy-Authorization: {self.proxy_authorization}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


class HttpRoute:
    """To one apiserver, with one configuration."""

    def __init__(self, config: ClientConfig, *, user_agent: str) -> None:
        """Raises ``ValueError`` for an address that is none."""
        url = URL(config.host)
        proxy = URL(config.proxy) if config.proxy else None
        self.way = Way(
            _address(url, config.tls, config.server_name),
            _address(proxy, config.tls, None) if proxy else None,
            _basic(proxy) if proxy else "",
        )
        default_port = url.port == {"http": 80, "https": 443}[url.scheme]
        host = self.way.apiserver.bracketed if default_port else str(self.way.apiserver)
        path = config.host.partition("://")[2].partition("/")[2]
        self._prefix = f"/{path}" if path else ""
        lines = {
            "Host": host,
            "User-Agent": user_agent,
            # Compressed lists cost the apiserver and us more time than a cluster's network saves.
            "Accept-Encoding": "identity",
            "Authorization": config.authorization or _basic(url),
        }
        if proxy and not self.way.is_tunnel:
            self._prefix = f"http://{host}{self._prefix}"
            lines["Proxy-Authorization"] = self.way.proxy_authorization
        self._lines = "".join(f"{name}: {_checked(value)}\r\n" for name, value in lines.items() if value)

    def head(self, request: Request) -> bytes:
        """The head of a request, with the blank line that ends it."""
        query = f"?{urlencode(request.query, safe=_PLAIN_IN_QUERIES)}" if request.query else ""
        line = f"{request.method} {self._prefix}{request.path}{query}"
        if not _REQUEST_LINE.fullmatch(line):
            raise errors.Unreachable(one_line(f"this cannot be sent: {line}"))
        if request.body is not None:
            about = f"{_media_type('Content-Type', request.content_type)}Content-Length: {len(request.body)}\r\n"
        else:
            about = "" if request.method == "GET" else "Content-Length: 0\r\n"
        accept = _media_type("Accept", request.accept)
        return f"{line} HTTP/1.1\r\n{self._lines}{accept}{about}\r\n".encode("ascii")


def _address(url: URL, tls: ssl.SSLContext | None, server_name: str | None) -> PeerAddress:
    if url.scheme not in {"http", "https"} or not url.raw_host or not url.port:
        raise ValueError("no address of a server")
    if url.scheme == "http":
        return PeerAddress(url.raw_host, url.port)
    return PeerAddress(url.raw_host, url.port, tls or ssl.create_default_context(), server_name)


def _basic(url: URL) -> str:
    """What the user and password in an address become."""
    if url.user is None and url.password is None:
        return ""
    pair = f"{url.user or ''}:{url.password or ''}"
    return f"Basic {b64encode(pair.encode()).decode()}"


@lru_cache(maxsize=64)  # there are few, and each request has two
def _media_type(name: str, value: str) -> str:
    return f"{name}: {_checked(value)}\r\n"


def _checked(value: str) -> str:
    """The value of a header; ``ValueError`` for one that would not be one line. It is not quoted: it may be a token."""
    if not _VALUE.fullmatch(value):
        raise ValueError("a header with characters that no header has")
    return value
