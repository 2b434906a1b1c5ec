"""Pictures that are older than what they show are found."""

import pytest

from demonstration import freshness
from support.doc_pages import ROOT


@pytest.fixture
def copy(tmp_path):
    for source in {source for sources in freshness.SOURCES.values() for source in sources}:
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).write_bytes((ROOT / source).read_bytes())
    (tmp_path / freshness.FOLDER).mkdir(parents=True)
    return tmp_path


def test_a_picture_is_older_than_what_it_shows_from_the_first_change_on(copy):
    freshness.record(copy, freshness.SOURCES)
    assert [*freshness.stale(copy)] == []

    changed = copy / "tf_operator/cli/run/live_table.py"
    changed.write_text(changed.read_text().replace("RESTARTS", "AGAIN"))

    sentence = "docs/images/demo.svg is older than what it shows: hack/pictures demo draws it again"
    assert [*freshness.stale(copy)] == [sentence]
    freshness.record(copy, ["demo.svg"])
    assert [*freshness.stale(copy)] == []


def test_a_picture_that_nobody_has_recorded_is_too_old(copy):
    assert len([*freshness.stale(copy)]) == len(freshness.SOURCES)


def test_the_pictures_of_this_repository_show_what_there_is():
    assert [*freshness.stale(ROOT)] == []
    assert [name for name in freshness.SOURCES if not (ROOT / freshness.FOLDER / name).is_file()] == []
