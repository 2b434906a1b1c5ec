"""What is installed of the alerts follows from one file."""

from pathlib import Path

import pytest
import yaml

from rules import outputs

ROOT = Path(__file__).resolve().parents[3]


def test_the_chart_and_the_overlay_have_the_same_rules_as_the_source():
    rendered = outputs.render(ROOT)
    source = yaml.safe_load((ROOT / outputs.SOURCE).read_text())

    assert yaml.safe_load(rendered[outputs.CHART]) == source
    assert yaml.safe_load(rendered[outputs.OVERLAY])["spec"] == source


def test_a_source_without_groups_is_refused():
    with pytest.raises(outputs.UnlikeExpectedError, match="groups"):
        outputs.groups_of("rules: []\n")
