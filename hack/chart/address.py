"""The project's address, and the links that follow from it.

It is written in one place, ``url`` in the section ``metadata`` of setup.cfg. Without it there is no link, rather than
one that leads nowhere. Neighbours: ``outputs`` puts it into Chart.yaml and the README, ``rules.outputs`` into alerts.
"""

import re
from configparser import ConfigParser
from pathlib import Path
from typing import Final

SOURCE: Final = Path("setup.cfg")
_ADDRESS: Final = re.compile(r"https://[^\s/]+(/[^\s/]+)*")


class InvalidAddressError(Exception):
    """What setup.cfg has for the address is none."""


def read(root: Path) -> str:
    """The address, or nothing; raises InvalidAddressError."""
    config = ConfigParser(interpolation=None)
    config.read(root / SOURCE, encoding="utf-8")
    address = config.get("metadata", "url", fallback="")
    if address and not _ADDRESS.fullmatch(address):
        raise InvalidAddressError(f"{SOURCE}: metadata.url: {address!r} must begin with https:// and not end with /")
    return address


def page(address: str, path: str) -> str:
    return f"{address}/blob/main/{path}"
