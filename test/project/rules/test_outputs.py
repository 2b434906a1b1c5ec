"""What is installed of the alerts follows from one file, and nothing is written of one that is wrong."""

import shutil
from pathlib import Path

import pytest
import yaml

from rules import command, outputs

ROOT = Path(__file__).resolve().parents[3]
GOOD = (ROOT / outputs.SOURCE).read_text()


@pytest.fixture
def tree(tmp_path):
    """A repository with nothing but the source, and the scripts."""
    (tmp_path / "hack").symlink_to(ROOT / "hack")
    (tmp_path / outputs.SOURCE).parent.mkdir(parents=True)
    shutil.copy(ROOT / outputs.SOURCE, tmp_path / outputs.SOURCE)
    return tmp_path


def test_the_chart_and_the_overlay_have_the_same_rules_as_the_source():
    rendered = outputs.render(ROOT)
    wanted = yaml.safe_load(GOOD)

    assert yaml.safe_load(rendered[outputs.CHART]) == wanted
    assert yaml.safe_load(rendered[outputs.OVERLAY])["spec"] == wanted
    assert all(text.startswith("# Generated from manifests/monitoring/rules.yaml") for text in rendered.values())


def test_a_source_without_groups_is_refused():
    with pytest.raises(outputs.UnlikeExpectedError, match="groups"):
        outputs.groups_of("rules: []\n")


def test_what_was_written_is_what_is_verified_and_an_edit_of_it_is_noticed(tree, capsys):
    assert command.verify(tree, []) == 1
    assert command.update(tree, []) == 0
    assert command.verify(tree, []) == 0

    path = tree / outputs.CHART
    path.write_text(path.read_text().replace("severity: critical", "severity: info", 1))
    capsys.readouterr()

    assert command.verify(tree, []) == 1
    said = capsys.readouterr().err
    assert "-          severity: info" in said
    assert "run hack/update-rules" in said


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("sum by (namespace, name)", "sum by (namespace, name", "parse error"),
        ("        for: 5m", "        for: soon", "not a valid duration"),
        ("{{ with $labels.namespace }}", "{{ with $label.namespace }}", "undefined variable"),
        ("      - alert: TFOperatorTwoLeaders", "      - alert: TFOperatorNoLeader", ""),
    ],
    ids=["expression", "duration", "template", "name"],
)
def test_a_broken_rule_is_refused_and_nothing_is_written(tree, capsys, old, new, complaint):
    (tree / outputs.SOURCE).write_text(GOOD.replace(old, new, 1))

    if complaint:
        assert command.update(tree, []) == 1
        assert complaint in capsys.readouterr().err
        assert not (tree / outputs.CHART).exists()
    assert command.verify(tree, []) == 1
