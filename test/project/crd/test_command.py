"""Writing and checking, in a copy of the few files that matter."""

import json
import shutil
from pathlib import Path

import pytest

from crd import command, outputs

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tree(tmp_path):
    for path in (outputs.SOURCE, outputs.CORE, outputs.MANIFEST, outputs.PACKAGED, outputs.REFERENCE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / path)
    return tmp_path


def test_what_is_committed_follows_from_its_source(tree, capsys):
    assert command.verify(tree, []) == 0
    assert capsys.readouterr().err == ""


def test_outputs_that_were_edited_or_lost_are_named_and_written_again(tree, capsys):
    good = {path: (tree / path).read_text() for path in (outputs.PACKAGED, outputs.REFERENCE)}
    for path, text in good.items():
        (tree / path).write_text(text.replace("Cannot change.", "Can change."))
    (tree / outputs.MANIFEST).unlink()

    assert command.verify(tree, []) == 1
    told = capsys.readouterr().err
    for path in (*good, outputs.MANIFEST):
        assert f"{path} does not follow from hack/crd/tfjob.yaml: run hack/update-crd" in told
    assert command.update(tree, []) == 0
    assert {path: (tree / path).read_text() for path in good} == good
    assert command.verify(tree, []) == 0


def test_differences_are_shown_in_lines_that_a_person_can_read():
    lines = command.differences(Path("f"), "x" * 1000, "y")

    assert lines[:2] == ["--- f", "+++ as generated"]
    assert max(map(len, lines)) < 210


def test_a_refresh_takes_what_the_api_server_says(tree, monkeypatch):
    monkeypatch.setattr(command, "ask_apiserver", lambda root: {"components": {"schemas": described()}})

    command.update(tree, ["--refresh"])

    template = json.loads((tree / outputs.PACKAGED).read_text())
    assert "aFieldOfTheFuture" in json.dumps(template)


def described():
    """What the last release said, and one field more."""
    found = json.loads((ROOT / outputs.CORE).read_text())
    found["io.k8s.api.core.v1.Container"]["properties"]["aFieldOfTheFuture"] = {"type": "string"}
    return found
