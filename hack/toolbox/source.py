"""The source code of a tool: for the files that only its module has, such as a CRD."""

import json
import subprocess
from pathlib import Path

from toolbox import build
from toolbox.catalogue import Tool
from toolbox.golang import Compilers
from toolbox.progress import Progress


def folder(tool: Tool, sources: Path, compilers: Compilers, progress: Progress) -> Path:
    """Return the module's folder in Go's module cache, downloaded if need be and read-only; raises a ToolError."""
    go = compilers.find(progress)
    done = subprocess.run(
        [go.program, "mod", "download", "-json", tool.module],
        cwd=build.module_folder(tool, sources),
        env=compilers.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise build.reason(f"{tool}: the source", done.returncode, [done.stdout, done.stderr])
    return Path(json.loads(done.stdout)["Dir"])
