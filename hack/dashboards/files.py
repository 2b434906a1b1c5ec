"""The Grafana dashboards as files, as texts by their paths."""

import json
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import internals, job, overview

FOLDER: Final = Path("charts/tf-operator/dashboards")
MAKERS: Final = {"overview": overview.make, "job": job.make, "internals": internals.make}


def render() -> dict[Path, str]:
    return {FOLDER / f"{name}.json": written(make()) for name, make in MAKERS.items()}


def written(dashboard: Dashboard) -> str:
    """The JSON that Grafana takes, the same each time."""
    return json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
