"""The command lines of ``hack/update-dashboards`` and ``hack/verify-dashboards``."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from crd import command as twins
from dashboards import internals, job, overview

FOLDER: Final = Path("charts/tf-operator/dashboards")
UPDATE: Final = "Writes the Grafana dashboards in charts/tf-operator/dashboards from hack/dashboards."
VERIFY: Final = "Fails when a dashboard is not what hack/dashboards says; offline."
MAKERS: Final = {"overview": overview.make, "job": job.make, "internals": internals.make}


def update(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/update-dashboards``; the exit status."""
    argparse.ArgumentParser(prog="hack/update-dashboards", description=UPDATE).parse_args(arguments)
    for path, text in render().items():
        if twins.read(root / path) != text:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
            print(f"hack/update-dashboards: wrote {path}", file=sys.stderr)
    return 0


def verify(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/verify-dashboards``; the exit status."""
    argparse.ArgumentParser(prog="hack/verify-dashboards", description=VERIFY).parse_args(arguments)
    wanted = render()
    stale = {path: text for path, text in wanted.items() if twins.read(root / path) != text}
    for path, text in stale.items():
        for line in twins.differences(path, twins.read(root / path), text)[: twins.DIFFERENCES_SHOWN]:
            print(line, file=sys.stderr)
        print(
            f"hack/verify-dashboards: {path} is not what hack/dashboards says: run hack/update-dashboards",
            file=sys.stderr,
        )
    strangers = {path.relative_to(root) for path in (root / FOLDER).glob("*.json")} - wanted.keys()
    for path in sorted(strangers):
        print(f"hack/verify-dashboards: {path} is made by nothing in hack/dashboards: delete it", file=sys.stderr)
    return 1 if stale or strangers else 0


def render() -> dict[Path, str]:
    """All dashboards as texts, by their paths in the repository."""
    return {FOLDER / f"{name}.json": written(make()) for name, make in MAKERS.items()}


def written(dashboard: Dashboard) -> str:
    """The JSON that Grafana takes, the same each time."""
    return json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
