"""Imports in a hurry: a command has to answer at once."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Imports leave no garbage, and looking for it takes a sixth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
