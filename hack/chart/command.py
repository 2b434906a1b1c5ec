"""The command lines of ``hack/update-chart`` and ``hack/verify-chart``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chart import outputs, readme
from crd import command as twins

UPDATE: Final = """\
Writes what is generated in charts/tf-operator: the CRD and the rules of all roles, from manifests/, and the README, by
helm-docs from values.yaml."""
VERIFY: Final = "Fails when a file that hack/update-chart writes is not what its source says."


def update(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/update-chart``; the exit status."""
    argparse.ArgumentParser(prog="hack/update-chart", description=UPDATE).parse_args(arguments)
    for path, text in render(root).items():
        if twins.read(root / path) != text:
            (root / path).write_text(text, encoding="utf-8")
            print(f"hack/update-chart: wrote {path}", file=sys.stderr)
    return 0


def verify(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/verify-chart``; the exit status."""
    argparse.ArgumentParser(prog="hack/verify-chart", description=VERIFY).parse_args(arguments)
    stale = {path: text for path, text in render(root).items() if twins.read(root / path) != text}
    for path, text in stale.items():
        for line in twins.differences(path, twins.read(root / path), text)[: twins.DIFFERENCES_SHOWN]:
            print(line, file=sys.stderr)
        print(f"hack/verify-chart: {path} is not what its source says: run hack/update-chart", file=sys.stderr)
    return 1 if stale else 0


def render(root: Path) -> dict[Path, str]:
    """All generated files, by their paths in the repository."""
    return {**outputs.render(root), readme.README: readme.render(root)}
