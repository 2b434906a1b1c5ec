"""hack/generate writes what differs from its source, and removes what has none; ``make verify`` shows it to git."""

from pathlib import Path

import pytest

import generate
from generate import Files


def test_only_what_differs_is_written(tmp_path):
    files = Files({Path("a/one"): "1\n", Path("two"): "2\n"})
    (tmp_path / "two").write_text("old")

    assert files.write(tmp_path) == ["wrote a/one", "wrote two"]
    assert (tmp_path / "two").read_text() == "2\n"
    assert files.write(tmp_path) == []


def test_what_nothing_makes_any_more_is_removed_and_nothing_beside_it(tmp_path):
    for name in ("gone.json", "kept.json", "page.md"):
        (tmp_path / name).write_text("x")

    assert Files({Path("kept.json"): "x"}, owned="*.json").write(tmp_path) == ["removed gone.json, which nothing makes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.json", "page.md"]


@pytest.mark.parametrize("name", ["commands", "crd", "dashboards", "golden", "installed", "reference"])
def test_what_is_committed_follows_from_its_source(name):
    files = generate.GENERATORS[name](generate.ROOT)

    assert all((generate.ROOT / path).read_text(encoding="utf-8") == text for path, text in files.texts.items())
