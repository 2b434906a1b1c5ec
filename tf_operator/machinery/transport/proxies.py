"""The proxy to an API server, chosen as Go's ``http.ProxyFromEnvironment`` chooses it, and so ``kubectl``.

Lower case wins over upper case. No proxy leads to ``localhost``, to a loopback address, or to what ``NO_PROXY`` lists:
domains (with a leading dot only what is below them), addresses, both perhaps with a port, networks, or ``*``. What
``NO_PROXY`` has besides is ignored. An invalid address of a proxy is an error, while Go takes part of it for a name.

No message shows the address of a proxy: it may hold a password.
"""

import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from string import whitespace

from yarl import URL

from tf_operator.machinery.transport.config import ConfigurationError

_HOST_AND_PORT = re.compile(r"(?:\[(?P<bracketed>[^][]*)\]|(?P<host>[^][:]*)):(?P<port>[^][:]*)")
_NO_ADDRESS = "is not the address of a proxy, as http://proxy:3128 is"
_NETWORK = re.compile(r"[^%]+/[0-9]+")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def from_environment(target: str, environment: Mapping[str, str]) -> str | None:
    try:
        url = URL(target)
    except ValueError:
        raise ConfigurationError(f"{target[:80]!r} is not the address of a server") from None
    name, value = _variable(environment, f"{url.scheme}_proxy")
    if not value or _is_direct(url, _variable(environment, "no_proxy")[1]):
        return None
    if url.scheme == "http" and environment.get("REQUEST_METHOD"):
        raise ConfigurationError(f"{name} is not used in a CGI program, where it may come from a client's header")
    return checked(value if _is_complete(value) else f"http://{value}", name)


def checked(proxy: str, origin: str) -> str:
    """A proxy's address that can be used; ``origin`` is where it stands."""
    try:
        url = URL(proxy)
        is_address = bool(url.host and url.port != 0 and not set(proxy) & set(whitespace))
    except ValueError:
        raise ConfigurationError(f"{origin} {_NO_ADDRESS}") from None
    if is_address and url.scheme not in {"http", "https"}:
        raise ConfigurationError(f"{origin} has to be http:// or https://; other proxies are not supported")
    if not is_address:
        raise ConfigurationError(f"{origin} {_NO_ADDRESS}")
    return proxy


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    spellings = (name, name.upper())
    return next(((spelling, value) for spelling in spellings if (value := environment.get(spelling))), (name, ""))


def _is_complete(proxy: str) -> bool:
    """Whether there is a scheme; ``host:port`` is one only by its looks."""
    with suppress(ValueError):
        return bool(URL(proxy).scheme and URL(proxy).raw_authority)
    return "://" in proxy


def _is_direct(url: URL, no_proxy: str) -> bool:
    host, port = url.raw_host or "", str(url.port)
    address = _address(host.partition("%")[0])
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = [entry.strip().lower() for entry in no_proxy.split(",")]
    return "*" in entries or any(_covers(entry, host, port, address) for entry in entries)


def _covers(entry: str, host: str, port: str, address: Address | None) -> bool:
    """Whether one entry of ``NO_PROXY`` is about this host and port."""
    if network := _network(entry):
        return address is not None and address in network
    match = _HOST_AND_PORT.fullmatch(entry)
    name = (match["bracketed"] or match["host"] or "") if match else entry
    if match and match["port"] not in {"", port}:
        return False
    if (entry_address := _address(name)) or address:
        return entry_address == address
    return bool(name) and _is_within(host, _ascii(name.removeprefix("*")))


def _is_within(host: str, domain: str) -> bool:
    """Whether a host is in a domain, which itself counts unless it is written with a dot."""
    return host.endswith(domain) if domain.startswith(".") else f".{host}".endswith(f".{domain}")


def _address(text: str) -> Address | None:
    """An address; one of IPv4 in the clothes of IPv6 is one of IPv4."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return None if address.scope_id else address.ipv4_mapped or address
    return address


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if not _NETWORK.fullmatch(text):
        return None
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    ipv4 = network.network_address.ipv4_mapped if isinstance(network, ipaddress.IPv6Network) else None
    return ipaddress.IPv4Network((ipv4, network.prefixlen - 96)) if ipv4 and network.prefixlen >= 96 else network


def _ascii(domain: str) -> str:
    """A domain as it stands in a certificate: in Punycode."""
    if domain.isascii():
        return domain
    with suppress(ValueError):
        dot = "." if domain.startswith(".") else ""
        return f"{dot}{URL.build(scheme='http', host=domain.lstrip('.')).raw_host}"
    return domain
