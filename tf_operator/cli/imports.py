"""Imports in a hurry: a command has to answer at once."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_AUTHORITIES: Final = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}


@contextmanager
def without_collection() -> Iterator[None]:
    """Imports leave no garbage, and looking for it takes a sixth of their time; nor is it looked for there later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def http() -> None:
    """Import what connects.

    When it is imported, aiohttp reads the certificates of the system twice, for contexts that nothing here uses
    (``make_tls`` makes ours): a third of what it takes. OpenSSL finds none as long as the environment says so.
    """
    old_values = {name: os.environ.get(name) for name in _AUTHORITIES}
    with without_collection():
        os.environ.update(_AUTHORITIES)
        try:
            import tf_operator.machinery.transport.connection  # noqa: F401, PLC0415 (the caller waits for it anyway)
        finally:
            for name, value in old_values.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
