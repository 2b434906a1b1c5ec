"""hack/release: what is uploaded on the day of a release."""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile

import pytest

import krew
import release
from release import ROOT, ReleaseError

CHANGELOG = """\
# Changelog

## [Unreleased]

Soon.

## [0.2.0] - 2030-01-02

### Added

- Much.

## [0.1.0] - 2029-01-02

Little.

[0.1.0]: https://example.com
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "charts" / "tf-operator").mkdir(parents=True)
    (tmp_path / "setup.cfg").write_text("[metadata]\nversion = 0.2.0\n")
    (tmp_path / "charts" / "tf-operator" / "Chart.yaml").write_text('version: 0.2.0\nappVersion: "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


@pytest.mark.parametrize(
    ("version", "text"),
    [("Unreleased", "Soon.\n"), ("0.2.0", "### Added\n\n- Much.\n"), ("0.1.0", "Little.\n")],
)
def test_the_notes_of_a_release_are_its_section_of_the_changelog(tree, version, text):
    assert release.notes(tree, version) == text


@pytest.mark.parametrize(
    ("file", "edit", "tag", "rule"),
    [
        ("charts/tf-operator/Chart.yaml", ("version: 0.2.0", "version: 0.1.9"), "", "version is not 0.2.0"),
        ("charts/tf-operator/Chart.yaml", ('"0.2.0"', '"0.1.9"'), "", "appVersion is not 0.2.0"),
        ("CHANGELOG.md", ("[0.2.0]", "[0.3.0]"), "v0.2.0", r"CHANGELOG.md has no section \[0.2.0\]"),
        ("CHANGELOG.md", ("", ""), "v0.2.1", "the tag v0.2.1 is not v0.2.0, the version in setup.cfg"),
    ],
)
def test_a_release_has_one_version_number_that_the_changelog_knows(tree, file, edit, tag, rule):
    release.check(tree, "v0.2.0")
    path = tree / file
    path.write_text(path.read_text().replace(*edit, 1))

    with pytest.raises(ReleaseError, match=rule):
        release.check(tree, tag)


def packed(path, names, *, mtime):
    with gzip.GzipFile(path, "wb", mtime=mtime) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.size, entry.uname, entry.uid = mtime, 3, f"user{mtime}", mtime
            archive.addfile(entry, io.BytesIO(b"abc"))


def test_when_and_by_whom_an_archive_was_packed_cannot_be_seen(tmp_path):
    packed(tmp_path / "one.tgz", ["b", "a"], mtime=1)
    packed(tmp_path / "two.tgz", ["a", "b"], mtime=2)

    for name in ("one", "two"):
        release.repack(tmp_path / f"{name}.tgz", 1_900_000_000)

    assert (tmp_path / "one.tgz").read_bytes() == (tmp_path / "two.tgz").read_bytes()
    with tarfile.open(tmp_path / "one.tgz") as archive:
        assert [(entry.name, entry.mtime) for entry in archive] == [("a", 1_900_000_000), ("b", 1_900_000_000)]


def test_those_who_load_an_image_find_it_under_its_name(tmp_path):
    index = json.dumps({"manifests": [{"digest": "sha256:abc"}]}).encode()
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        entry = tarfile.TarInfo("index.json")
        entry.size = len(index)
        archive.addfile(entry, io.BytesIO(index))

    release.repack(tmp_path / "image.tar", 1_900_000_000, image_name="localhost/op:1.2")

    with tarfile.open(tmp_path / "image.tar") as archive:
        (manifest,) = json.load(archive.extractfile("index.json"))["manifests"]
    names = {"io.containerd.image.name": "localhost/op:1.2", "org.opencontainers.image.ref.name": "1.2"}
    assert manifest == {"digest": "sha256:abc", "annotations": names}


@pytest.mark.nightly
def test_two_builds_of_one_commit_are_the_same_files(tmp_path):
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "tree"], check=True)
    shutil.copytree(ROOT / ".venv", tmp_path / "tree" / ".venv", symlinks=True)

    release.dry_run(tmp_path / "tree", tmp_path / "release")

    sums = dict(reversed(line.split()) for line in (tmp_path / "release" / "SHA256SUMS").read_text().splitlines())
    files = {file.name for file in (tmp_path / "release").iterdir()} - {"SHA256SUMS"}
    assert sums.keys() == files
    assert {name.removeprefix(f"tf-operator-{krew.version_of(ROOT)}") for name in files if "-crd" in name} == {
        "-crd.yaml"
    }
    assert all(hashlib.sha256((tmp_path / "release" / name).read_bytes()).hexdigest() == sums[name] for name in files)
