"""Resource versions as numbers: the one place that reads them.

Within one resource they are compared as integers, which Kubernetes allows since KEP-5504, and never across resources.
"""

import re
from functools import lru_cache

_COMPARABLE = re.compile(r"[1-9][0-9]{0,18}")
"""What etcd gives: a positive int64. ``0`` is the version of no object, and ``int()`` refuses a very long text."""


@lru_cache(maxsize=1024)  # each is compared with the one before it, with the one after it, and with own writes
def parse(version: str) -> int | None:
    """The version as an integer; ``None`` when it cannot be compared."""
    return int(version) if _COMPARABLE.fullmatch(version) else None
