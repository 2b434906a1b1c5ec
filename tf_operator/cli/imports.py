"""Imports in a hurry: a command has to answer at once."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
    """Import what connects. aiohttp, which would take longer than all of it, is not needed for that."""
    with without_collection():
        # The caller waits for it anyway.
        import tf_operator.machinery.transport.connection  # noqa: PLC0415
        import tf_operator.machinery.transport.kubeconfig_files  # noqa: F401, PLC0415
