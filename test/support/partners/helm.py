"""Helm 3 and Helm 4 as the tests of the chart use them.

Each has a home of its own, so nothing that the person at this machine has told Helm changes a test. A session renders
the same values once.
"""

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from lab.control_plane.api import ApiRefusedError, BlockingApi
from lab.tools.get import programs
from support import release_files

CHART: Final = Path(__file__).resolve().parents[3] / "charts" / "tf-operator"
INSTALLED: Final = release_files.find("tf-operator-*.tgz") or CHART
"""What the tests of a release's life install: the release's own chart, if there is one."""
# Their names in hack/lab/tools/tools.toml.
PROGRAMS: Final = {"helm-3": "helm", "helm-4": "helm4"}

Json = dict[str, Any]

_rendered: dict[tuple[str, str, str], str] = {}


class Helm:
    """One Helm; on a cluster when it has been given a kubeconfig."""

    def __init__(self, name: str, home: Path, *, kubeconfig: Path | None = None) -> None:
        self.name = name
        self._program = programs(PROGRAMS[name])[PROGRAMS[name]]
        self._environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        self._access = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []

    def run(self, *arguments: str | Path, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        command = [self._program, *map(str, arguments), *self._access, *(() if values is None else ("--values", "-"))]
        text = yaml.safe_dump(dict(values or {}))
        return subprocess.run(
            command, input=text, env=self._environment, capture_output=True, text=True, check=False, timeout=240
        )

    def ok(self, *arguments: str | Path, values: Mapping[str, Any] | None = None) -> str:
        """What a command prints that has to succeed."""
        process = self.run(*arguments, values=values)
        assert process.returncode == 0, process.stderr
        return process.stdout

    def refusal(self, *arguments: str | Path, values: Mapping[str, Any] | None = None) -> str:
        """What a command complains about that has to fail."""
        process = self.run(*arguments, values=values)
        assert process.returncode != 0, process.stdout
        return process.stderr

    def render(self, values: Mapping[str, Any] | None = None, *, chart: Path = CHART) -> str:
        key = self.name, str(chart), json.dumps(values or {}, sort_keys=True)
        if key not in _rendered:
            _rendered[key] = self.ok("template", "tf", chart, "--namespace", "tf-operator", values=values or {})
        return _rendered[key]

    def objects(self, values: Mapping[str, Any] | None = None, *, chart: Path = CHART) -> list[Json]:
        return parsed(self.render(values, chart=chart))


def parsed(text: str) -> list[Json]:
    return [body for part in text.split("\n---\n") for body in _documents(part)]


@cache
def _documents(text: str) -> tuple[Json, ...]:
    """Parse one document. The CRD, which takes the longest, is the same in most texts."""
    return tuple(body for body in yaml.load_all(text, Loader=yaml.CSafeLoader) if body)


def one(objects: list[Json], kind: str, name: str = "") -> Json:
    (match,) = [body for body in objects if body["kind"] == kind and name in {"", body["metadata"]["name"]}]
    return match


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    return [body for body in objects if body["kind"] == kind]


def is_gone(admin: BlockingApi, path: str) -> bool:
    """Whether the API server has nothing at this path."""
    try:
        admin.get(path)
    except ApiRefusedError as refusal:
        return refusal.status == 404
    return False
