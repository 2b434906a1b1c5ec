"""Folders of users, as archives that go along with jobs."""

import io
import os
import random
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tf_operator.client import NotPossible
from tf_operator.client.upload import archive

NAMES = st.text("abcXYZ-_ .é", min_size=1, max_size=12).filter(lambda name: name.strip("."))
CONTENTS = st.tuples(st.binary(max_size=200).filter(lambda content: not content.startswith(b"#!")), st.booleans())
TREES = st.recursive(CONTENTS, lambda below: st.dictionaries(NAMES, below, max_size=4), max_leaves=12).filter(
    lambda tree: isinstance(tree, dict)
)


def write(folder, tree, *, moment=0):
    folder.mkdir()
    for name, entry in tree.items():
        path = folder / name
        if isinstance(entry, dict):
            write(path, entry, moment=moment)
            continue
        path.write_bytes(entry[0])
        path.chmod(0o700 if entry[1] else 0o600 + moment)
        os.utime(path, (moment, moment))


def read(folder):
    return {
        path.name: read(path) if path.is_dir() else (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in folder.iterdir()
    }


def number_of_files(tree):
    return sum(number_of_files(entry) if isinstance(entry, dict) else 1 for entry in tree.values())


def unpacked(packed, folder):
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        tar.extractall(folder / "unpacked")
    return folder / "unpacked"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TREES.filter(number_of_files))
def test_what_is_unpacked_is_what_was_packed_and_equal_folders_are_equal_archives(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("trees")
    write(folder / "one", tree)
    write(folder / "other", tree, moment=7)

    packed = archive.pack(folder / "one")

    assert read(unpacked(packed, folder)) == tree
    assert packed.files == number_of_files(tree)
    assert archive.pack(folder / "other") == packed


def test_another_content_is_another_digest(tmp_path):
    write(tmp_path / "one", {"train.py": (b"1", False)})
    write(tmp_path / "other", {"train.py": (b"2", False)})

    assert archive.pack(tmp_path / "one").digest != archive.pack(tmp_path / "other").digest


def noise(size):
    """What no compression makes smaller."""
    return random.Random(0).randbytes(size)


def test_a_program_goes_along_beside_data_that_is_ignored(tmp_path):
    write(tmp_path / "one", {"data": {"images": (noise(1_000_000), False)}, "train.py": (b"1", False)})
    with pytest.raises(NotPossible) as refused:
        archive.pack(tmp_path / "one")
    (tmp_path / "one" / ".tfjobignore").write_text("data/\n")

    assert str(refused.value) == (
        f"the files in {tmp_path}/one take 1.0 MB, and at most 900 kB go along with a job; the largest is"
        f" {tmp_path}/one/data/images, with 1.0 MB. Leave data out with a line in .tfjobignore, or put the files into"
        " an image: tfjob image push"
    )
    assert archive.pack(tmp_path / "one").files == 2


def test_a_folder_of_data_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "data").write_bytes(b"")
    os.truncate(tmp_path / "data", 10**12)

    with pytest.raises(NotPossible, match=r"take 1000000\.0 MB, .*the largest is .*/data,"):
        archive.pack(tmp_path)


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [({".gitignore": (b"*", False), "a": (b"", False)}, "all of them are ignored"), ({}, "there are no files in it")],
    ids=["ignored", "empty"],
)
def test_a_folder_without_files_is_refused(tmp_path, tree, sentence):
    write(tmp_path / "one", tree)

    with pytest.raises(NotPossible, match=sentence):
        archive.pack(tmp_path / "one")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotPossible, match=r"--upload .*/one: there is no such folder"):
        archive.pack(tmp_path / "one")


def names(folder):
    with tarfile.open(fileobj=io.BytesIO(archive.pack(folder).content)) as tar:
        return tar.getnames()


def test_what_the_repository_ignores_stays_here_also_from_a_folder_in_it(tmp_path, monkeypatch):
    train = {"train.py": (b"1", False), ".env": (b"TOKEN=1", False), "out": {"log": (b"1", False)}}
    write(tmp_path / "one", {".git": {}, ".gitignore": (b".env\n/jobs/train/out\n", False), "jobs": {"train": train}})
    (tmp_path / ".gitignore").write_text("train.py\n")  # of no repository
    monkeypatch.chdir(tmp_path / "one" / "jobs" / "train")

    assert names(Path()) == names(Path.cwd()) == ["train.py"]
    assert names(Path("out")) == ["log"]


def test_links_that_lead_to_themselves_go_along_as_they_are(tmp_path):
    write(tmp_path / "one", {"train.py": (b"1", False)})
    (tmp_path / "one" / "link").symlink_to("link")

    assert names(tmp_path / "one") == ["link", "train.py"]


def test_a_pipe_is_refused_and_not_read_whatever_its_name(tmp_path):
    write(tmp_path / "one", {"train.py": (b"1", False)})
    os.mkfifo(tmp_path / "one" / ".gitignore")

    with pytest.raises(NotPossible, match=r"\.gitignore is a device or a pipe, and cannot go along"):
        archive.pack(tmp_path / "one")


def test_names_that_are_no_text_go_along_byte_by_byte(tmp_path):
    write(tmp_path / "one", {"a\nb": (b"1", False), os.fsdecode(b"\xff.py"): (b"2", False)})

    files = unpacked(archive.pack(tmp_path / "one"), tmp_path).iterdir()
    assert {path.name for path in files} == {"a\nb", os.fsdecode(b"\xff.py")}
