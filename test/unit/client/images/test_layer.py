"""Folders of users, as layers."""

import io
import os
import socket
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from tf_operator.client.images import folder, layer
from tf_operator.client.job import NotPossible

APP = PurePosixPath("/app")


@pytest.fixture
def project(tmp_path):
    """A folder to fill."""
    path = tmp_path / "project"
    path.mkdir()
    return path


def write(project: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def names(project: Path) -> list[str]:
    return [str(entry.path.relative_to(APP)) for entry in folder.entries(project, APP)]


def test_ignored_files_and_what_is_of_no_use_elsewhere_stay(project):
    write(project, {".gitignore": "*.log\n/data/\n!keep.log\n", ".tfjobignore": "notes.txt\n"})
    write(project, {"a.log": "", "keep.log": "", "data/x": "", "sub/data/x": "", "notes.txt": "", "train.py": ""})
    write(project, {"sub/.gitignore": "!b.log\n", "sub/b.log": "", "sub/c.log": ""})
    write(project, {".git/config": "", "sub/__pycache__/x.pyc": "", "venv/pyvenv.cfg": "", "venv/bin/python": ""})

    assert names(project) == [
        ".gitignore",
        ".tfjobignore",
        "keep.log",
        "sub",
        "sub/.gitignore",
        "sub/b.log",
        "sub/data",
        "sub/data/x",
        "train.py",
    ]


def test_one_file_becomes_the_target(project):
    write(project, {"train.py": "1"})

    assert [entry.path for entry in folder.entries(project / "train.py", APP / "main.py")] == [APP / "main.py"]


def test_the_digest_depends_on_names_contents_and_who_may_execute(project, tmp_path):
    digests = []
    for number, (text, mode) in enumerate((("1", 0o600), ("1", 0o664), ("2", 0o644), ("1", 0o700))):
        copy = tmp_path / str(number)
        write(copy, {"sub/train.py": text})
        (copy / "sub").chmod(0o700 + number)
        (copy / "sub" / "train.py").chmod(mode)
        os.utime(copy / "sub" / "train.py", (number, number))
        with layer.packed(folder.entries(copy, APP)) as packed:
            digests.append(packed.digest)

    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


async def test_a_layer_contains_files_folders_and_links(project):
    write(project, {"bin/train": "#!/bin/sh\n", "name-" + "x" * 150: "long"})
    (project / "bin" / "train").chmod(0o755)
    (project / "link").symlink_to("bin/train")
    with layer.packed(folder.entries(project, APP)) as packed:
        content = b"".join([piece async for piece in packed.pieces()])
        again = b"".join([piece async for piece in packed.pieces()])

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        modes = {entry.name: (entry.mode, entry.linkname, entry.uid, entry.mtime) for entry in archive}
    assert modes == {
        "app/bin": (0o755, "", 0, 0),
        "app/bin/train": (0o755, "", 0, 0),
        "app/link": (0o644, "bin/train", 0, 0),
        "app/name-" + "x" * 150: (0o644, "", 0, 0),
    }
    assert (len(content), again, packed.files) == (packed.size, content, 3)


@pytest.mark.parametrize("link", ["/etc/passwd", "../other", "sub/../../other"])
def test_a_link_out_of_the_folder_is_refused(project, link):
    (project / "link").symlink_to(link)
    with pytest.raises(NotPossible, match=r"link is a link to .*, which is not in .*\.tfjobignore"):
        names(project)


def test_a_socket_is_refused_unless_it_is_ignored(project, monkeypatch):
    monkeypatch.chdir(project)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(NotPossible, match="is a socket"):
            names(project)
        write(project, {".tfjobignore": "socket\n"})
        assert names(project) == [".tfjobignore"]


def test_a_script_with_line_ends_of_windows_is_refused(project):
    write(project, {"train.sh": "#!/bin/sh\r\necho\r\n", "data.csv": "a,b\r\n"})
    with (
        pytest.raises(NotPossible, match=r"train\.sh has line ends of Windows"),
        layer.packed(folder.entries(project, APP)),
    ):
        pass


@pytest.mark.parametrize("size", [3, 100_000], ids=["shorter", "longer"])
def test_a_file_that_changes_while_it_is_read_is_refused(project, monkeypatch, size):
    write(project, {"train.py": "x" * 50_000})
    check = layer._check_first_line

    def change(file, source):
        check(file, source)
        source.write_bytes(b"y" * size)

    monkeypatch.setattr(layer, "_check_first_line", change)
    with (
        pytest.raises(NotPossible, match=r"train\.py changed while it was read"),
        layer.packed(folder.entries(project, APP)),
    ):
        pass


def test_a_file_that_cannot_be_read_is_named(project):
    with pytest.raises(NotPossible, match=r"there is no .*absent"):
        list(folder.entries(project / "absent", APP))


def test_a_full_disk_is_not_taken_for_a_file_that_changes(project, monkeypatch):
    write(project, {"train.py": "x"})
    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr(layer.tempfile, "TemporaryFile", lambda: full)

        with (
            pytest.raises(NotPossible, match="is full; TMPDIR may name a folder with more room"),
            layer.packed(folder.entries(project, APP)),
        ):
            pass
