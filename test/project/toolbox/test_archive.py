"""Only the one program is taken out of an archive, whatever else is in there."""

import io
import tarfile
import zipfile

import pytest

from toolbox import archive
from toolbox.errors import ToolError


def make_tar(path, **files):
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))


def make_zip(path, **files):
    with zipfile.ZipFile(path, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name, text)


@pytest.mark.parametrize(("name", "make"), [("a.tar.gz", make_tar), ("a.tgz", make_tar), ("a.zip", make_zip)])
def test_the_named_member_is_written_and_nothing_else(tmp_path, name, make):
    make(tmp_path / name, **{"../evil": "harm", "dir/alpha": "wanted"})

    archive.extract(tmp_path / name, "dir/alpha", tmp_path / "out")

    assert (tmp_path / "out").read_text() == "wanted"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "out"])


def test_a_tar_may_write_its_names_with_a_leading_dot(tmp_path):
    make_tar(tmp_path / "a.tgz", **{"./alpha": "wanted"})

    archive.extract(tmp_path / "a.tgz", "alpha", tmp_path / "out")

    assert (tmp_path / "out").read_text() == "wanted"


def test_without_a_member_the_file_is_the_program(tmp_path):
    (tmp_path / "alpha-linux-amd64").write_text("wanted")

    archive.extract(tmp_path / "alpha-linux-amd64", "", tmp_path / "out")

    assert (tmp_path / "out").read_text() == "wanted"


@pytest.mark.parametrize(("name", "make"), [("a.tgz", make_tar), ("a.zip", make_zip)])
def test_a_missing_member_is_an_error_that_names_both(tmp_path, name, make):
    make(tmp_path / name, other="x")

    with pytest.raises(ToolError, match=f"there is no alpha in {name}"):
        archive.extract(tmp_path / name, "alpha", tmp_path / "out")


def test_what_is_no_archive_is_an_error_in_words(tmp_path):
    (tmp_path / "a.tgz").write_text("<html>")

    with pytest.raises(ToolError, match=r"there is no alpha in a\.tgz"):
        archive.extract(tmp_path / "a.tgz", "alpha", tmp_path / "out")
