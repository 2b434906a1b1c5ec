"""The Grafana dashboards as files, as texts by their paths.

In the sources, a word in capitals stands for what ``names`` says, so that no query forgets which series its dashboard
is about. Rates are taken over ``$__rate_interval``, which Grafana makes long enough for the scrape interval; numbers
for all of the time shown over ``$__range``.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import frame, panels
from tf_operator.dialects import registry

FOLDER: Final = Path("charts/tf-operator/dashboards")
NAMES: Final = ("overview", "job", "internals")
_SOURCES: Final = Path(__file__).parent
_MAKERS: Final[Mapping[str, Callable[..., panels.AnyPanel]]] = {
    "lines": panels.lines,
    "number": panels.number,
    "bars": panels.bars,
    "heat": panels.heat,
    "rows": panels.rows,
}
_OF_APIS: Final = {
    "KINDS": "|".join(api.resource.kind for api in registry.SERVED),
    "FRAMEWORKS": "; ".join(f"{api.framework}: {api.resource.kind}" for api in registry.SERVED),
}


def render() -> dict[Path, str]:
    return {FOLDER / f"{name}.json": written(read(_SOURCES / f"{name}.yaml")) for name in NAMES}


def read(source: Path) -> Dashboard:
    content = yaml.safe_load(source.read_text(encoding="utf-8"))
    names = dict(_OF_APIS)
    for name, text in content["names"].items():
        names[name] = _filled(text, names)
    makers = ((frame.typed if "value" in entry else frame.choice, entry) for entry in content["variables"])
    variables = [make(**_each_filled(entry, names)) for make, entry in makers]
    rows = {title: [_panel(entry, names) for entry in entries] for title, entries in content["rows"].items()}
    return frame.make(uid=content["uid"], title=content["title"], text=content["text"], variables=variables, rows=rows)


def written(dashboard: Dashboard) -> str:
    """The JSON that Grafana takes, the same each time."""
    return json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _panel(entry: Mapping[str, Any], names: Mapping[str, str]) -> panels.AnyPanel:
    """Its first field is its kind, with its title; ``queries`` are by what their series are called."""
    (kind, title), *options = entry.items()
    looks = {name: value for name, value in options if name != "queries"}
    return _MAKERS[kind](title, queries=_each_filled(entry["queries"], names), **looks)


def _each_filled(entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {name: _filled(text, names) if isinstance(text, str) else text for name, text in entry.items()}


def _filled(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b[A-Z]+\b", lambda word: names.get(word[0], word[0]), text)
