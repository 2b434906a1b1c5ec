"""The files of a release, for tests that otherwise build or take what is in the tree: RELEASE names their folder.

`make release-try` sets it.
"""

import os
from pathlib import Path


def find(pattern: str) -> Path | None:
    """The only file of the release with such a name; nothing without a release."""
    if not os.environ.get("RELEASE"):
        return None
    folder = Path(os.environ["RELEASE"])
    (file,) = folder.glob(pattern)
    return file.resolve()
