"""The chart's README: helm-docs fills README.md.gotmpl with the table of values.

``outputs`` makes the templates. helm-docs writes into the folder that it reads, so it is given a copy.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from chart import outputs
from lab.tools.get import programs

README: Final = outputs.CHART / "README.md"
SOURCES: Final = ("Chart.yaml", "values.yaml", "README.md.gotmpl")


def render(root: Path) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / outputs.CHART.name
        copy.mkdir()
        for name in SOURCES:
            shutil.copy(root / outputs.CHART / name, copy)
        command = [programs("helm-docs")["helm-docs"], "--chart-search-root", scratch, "--sort-values-order", "file"]
        subprocess.run([*command, "--log-level", "warning"], check=True, cwd=scratch)
        return (copy / README.name).read_text(encoding="utf-8")
