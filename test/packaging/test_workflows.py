"""What workflows do with permissions, read as text: `make lint` has what actionlint and zizmor find."""

import re
from pathlib import Path

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).resolve().parents[2] / ".github" / "workflows").glob("*.yaml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_what_runs_as_root_is_built_from_pinned_sources(workflow):
    """With CI set, hack/tool downloads no program; sudo drops the variable unless it is named."""
    commands = re.findall(r"sudo env [^\n]*?(?:make|\.ci/run)", workflow.read_text())
    for command in commands:
        assert "CI=true" in command or command.endswith(".ci/run"), command


def test_nothing_is_built_for_a_release_before_its_commit_has_passed_on_main():
    jobs = yaml.safe_load(next(path for path in WORKFLOWS if path.name == "release.yaml").read_text())["jobs"]
    first = [name for name, job in jobs.items() if "needs" not in job]

    assert first == ["checked"]
    (step,) = jobs["checked"]["steps"]
    assert "--workflow check.yaml --branch main" in step["run"]


def test_a_release_is_built_on_a_base_that_cannot_change():
    text = next(path for path in WORKFLOWS if path.name == "release.yaml").read_text()

    assert re.search(r"skopeo inspect --format '\{\{\.Digest\}\}'", text)
    assert 'BASE="$BASE"' in text
