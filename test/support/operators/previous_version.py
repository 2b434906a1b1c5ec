"""The version before this one: built from this repository's history, as a wheel.

A checkout needs that history (`fetch-depth: 0` in a workflow).
"""

import subprocess
import sys
import zipfile
from pathlib import Path

BEFORE_THE_FIRST_RELEASE = "519a817d"
"""What counts as the version before until there are two releases."""
_ROOT = Path(__file__).resolve().parents[3]


def install(folder: Path) -> Path:
    """Where it is installed, without what it depends on: that is the same."""
    unpack = f"git archive {_commit()} | tar -x -C {folder}"
    subprocess.run(["bash", "-o", "pipefail", "-c", unpack], cwd=_ROOT, check=True)
    build = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "dist").iterdir()
    with zipfile.ZipFile(wheel) as zip_file:
        zip_file.extractall(folder / "installed")
    return folder / "installed"


def _commit() -> str:
    """The release before this one, as its tag; this commit may have one, too."""
    releases = "git tag --list 'v*' --merged HEAD --no-contains HEAD --sort=-version:refname"
    process = subprocess.run(["bash", "-c", releases], cwd=_ROOT, check=True, capture_output=True, text=True)
    return next(iter(process.stdout.split()), BEFORE_THE_FIRST_RELEASE)
