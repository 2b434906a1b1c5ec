"""Nothing is made of alerts that promtool finds something wrong with."""

from pathlib import Path

import pytest

import generate

SOURCE = Path("manifests/monitoring/alerts.yaml")


def test_a_broken_alert_is_refused_with_the_words_of_promtool(tmp_path, promtool):
    good = (generate.ROOT / SOURCE).read_text()
    (tmp_path / SOURCE).parent.mkdir(parents=True)
    (tmp_path / SOURCE).write_text(good.replace("        for: 5m", "        for: soon", 1))

    with pytest.raises(generate.NotGeneratedError, match="not a valid duration"):
        generate.rules(tmp_path)
