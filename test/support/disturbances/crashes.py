"""After which writes an operator is killed: after each one of them nightly, after some of them in `make test`."""

import os
import zlib

_STEP = 1 if os.environ.get("CRASHES") == "all" else 5


def crash_points(writes: int, seed: str) -> range:
    """Numbers of writes from 1 on; other ones for another seed, so that many lives together have all kinds."""
    return range(1 + zlib.crc32(seed.encode()) % _STEP, writes + 1, _STEP)
