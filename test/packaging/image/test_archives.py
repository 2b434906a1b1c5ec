"""Archives of images are named after what goes into them, and built once."""

import pytest

from lab.cluster import image_archives
from lab.cluster.image_archives import Recipe


@pytest.fixture
def built(monkeypatch, tmp_path):
    """A cache of our own, a recipe of one file, and a list of what was run; the image is what the file says."""
    runs = []
    cache = tmp_path / "cache"
    (tmp_path / "tree").mkdir()
    source = tmp_path / "tree" / "source"
    source.write_text("one")
    monkeypatch.setenv("TF_OPERATOR_CACHE", str(cache))
    monkeypatch.setattr(image_archives, "_REPOSITORY", tmp_path / "tree")
    monkeypatch.setattr(image_archives, "RECIPES", {"toy": Recipe("build-toy", "localhost/toy:1", ("source",))})
    monkeypatch.setattr(image_archives, "_provide", lambda say: None)
    monkeypatch.setattr(image_archives, "_has_base", lambda name: True)
    monkeypatch.setattr(image_archives, "_run", lambda *command: runs.append(command[0]))

    def export(name, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.read_text())

    monkeypatch.setattr(image_archives, "_export", export)
    return source, runs


def test_an_image_is_built_once_when_nothing_changes(built):
    _, runs = built

    first, second = image_archives.archive("toy"), image_archives.archive("toy")

    assert first == second
    assert runs == ["build-toy"]


def test_an_image_is_built_again_when_a_file_that_goes_into_it_changes(built):
    source, runs = built
    first = image_archives.archive("toy")

    source.write_text("two")
    second = image_archives.archive("toy")

    assert (first.read_text(), second.read_text()) == ("one", "two")
    assert len(runs) == 2


def test_only_the_latest_archives_of_an_image_are_kept(built):
    source, _ = built
    paths = []
    for text in ("one", "two", "three"):
        source.write_text(text)
        paths.append(image_archives.archive("toy"))

    assert [path.exists() for path in paths] == [False, True, True]
