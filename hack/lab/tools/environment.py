"""The command ``hack/environment NAME``: prints the Python of the venv that hack/requirements/NAME.txt describes.

Programs whose dependencies nothing else needs (checkov, mkdocs) have a venv of their own in the user's cache, made
once for each lock.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from lab.tools.build import REQUIREMENTS
from lab.tools.get import cache_root


def python_of(name: str, requirements: Path = REQUIREMENTS.parent) -> Path:
    """Return the venv's Python, installed if need be; raises CalledProcessError."""
    lock = requirements / f"{name}.txt"
    venv = cache_root(os.environ) / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    whole, python = venv / ".whole", venv / "bin" / "python"
    venv.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{venv}.lock"):
        if not whole.exists():
            print(f"hack/environment: making {venv} (a minute)", file=sys.stderr)
            shutil.rmtree(venv, ignore_errors=True)
            install = ["install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(lock)]
            for command in ([sys.executable, "-m", "venv", str(venv)], [str(python), "-m", "pip", *install]):
                subprocess.run(command, stdout=sys.stderr, check=True)
            whole.touch()
    return python


if __name__ == "__main__":
    print(python_of(sys.argv[1]))
