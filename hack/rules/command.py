"""The command lines of ``hack/update-rules`` and ``hack/verify-rules``."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from crd import command as twins
from rules import outputs

UPDATE: Final = """\
Writes the alerts of the Helm chart and of manifests/overlays/monitoring from manifests/monitoring/rules.yaml, after
promtool has found nothing wrong with it."""
VERIFY: Final = """\
Fails when promtool finds something wrong with manifests/monitoring/rules.yaml, or a file that hack/update-rules writes
is not what it says."""


def update(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/update-rules``; the exit status."""
    argparse.ArgumentParser(prog="hack/update-rules", description=UPDATE).parse_args(arguments)
    if complaint := complaint_of(root):
        print(f"hack/update-rules: nothing is written: {complaint}", file=sys.stderr)
        return 1
    for path, text in outputs.render(root).items():
        if twins.read(root / path) != text:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
            print(f"hack/update-rules: wrote {path}", file=sys.stderr)
    return 0


def verify(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/verify-rules``; the exit status."""
    argparse.ArgumentParser(prog="hack/verify-rules", description=VERIFY).parse_args(arguments)
    if complaint := complaint_of(root):
        print(f"hack/verify-rules: {complaint}", file=sys.stderr)
        return 1
    stale = {path: text for path, text in outputs.render(root).items() if twins.read(root / path) != text}
    for path, text in stale.items():
        for line in twins.differences(path, twins.read(root / path), text)[: twins.DIFFERENCES_SHOWN]:
            print(line, file=sys.stderr)
        print(f"hack/verify-rules: {path} is not what {outputs.SOURCE} says: run hack/update-rules", file=sys.stderr)
    return 1 if stale else 0


def complaint_of(root: Path) -> str:
    """What promtool finds wrong with the source; nothing if it is well."""
    tool = subprocess.run([root / "hack/tool", "promtool"], stdout=subprocess.PIPE, text=True, check=False)
    if tool.returncode != 0:
        return "promtool cannot be had"  # hack/tool has said why
    command = [tool.stdout.strip(), "check", "rules", "--lint=all", "--lint-fatal", str(outputs.SOURCE)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip()
