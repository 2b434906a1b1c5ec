"""The options of reports of progress: where they are taken, and with which certificate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tf_operator.app.options.errors import OptionError
from tf_operator.app.options.flag_types import Address


@dataclass(frozen=True, slots=True)
class ProgressOptions:
    """Where programs report their progress, and with which certificate."""

    address: Address
    url: str
    """By which pods reach it."""
    folder: str
    own_address: Address | None = None
    """By which other replicas reach it; ``None`` if that is not known."""


def read(values: Mapping[str, Any], environment: Mapping[str, str]) -> ProgressOptions | None:
    address, url, folder = (values[f"progress-{name}"] for name in ("bind-address", "url", "cert-path"))
    if address is None:
        return None
    if not url.startswith("https://") or not folder:
        rule = "needs --progress-url, which begins with https://, and --progress-cert-path"
        raise OptionError(f"--progress-bind-address: {rule}")
    host = environment.get("MY_POD_IP") or address.host
    return ProgressOptions(address, url.rstrip("/"), folder, Address(host, address.port) if host else None)
