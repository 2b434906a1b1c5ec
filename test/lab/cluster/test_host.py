"""What hack/cluster says on a machine that cannot have a cluster, and how it gets what is missing."""

import os
import sys

import pytest

from lab.cluster import cli as cluster_cli
from lab.cluster import host as cluster_host
from lab.cluster.host import UnfitHostError

APT = """#!/bin/sh
PATH=/usr/bin:/bin
echo "apt-get $*" >> "$SEEN"
[ "$1" = install ] && [ -e "$LISTS" ] && { touch "$BIN/runc"; chmod +x "$BIN/runc"; exit 0; }
[ "$1" = update ] && { touch "$LISTS"; exit 0; }
exit 100
"""


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine whose only folder of programs is ours, and that needs nothing but runc."""
    monkeypatch.setattr(cluster_host, "PATH", str(tmp_path))
    monkeypatch.setattr(cluster_host, "_PACKAGES", {"runc": ("runc",)})
    for name, value in (("SEEN", "seen"), ("LISTS", "lists"), ("BIN", ".")):
        monkeypatch.setenv(name, str(tmp_path / value))
    return tmp_path


def make_program(path, text="#!/bin/sh\n"):
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("root", "platform", "reason"),
    [(False, "linux", "needs root, for network, mounts and control groups"), (True, "darwin", "needs Linux")],
    ids=["no root", "no Linux"],
)
def test_up_says_what_a_cluster_needs_in_one_line(*, monkeypatch, tmp_path, capsys, root, platform, reason):
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(sys, "platform", platform)
    assert cluster_cli.main(["up", "--dir", str(tmp_path / "d")]) == 2
    assert capsys.readouterr() == ("", f"hack/cluster: a cluster without Docker {reason}\n")
    assert not (tmp_path / "d").exists()


def test_nothing_is_installed_when_nothing_is_missing(machine):
    make_program(machine / "runc")
    make_program(machine / "apt-get", APT)
    cluster_host.provide(pytest.fail)
    assert not (machine / "seen").exists()


def test_what_is_missing_is_installed_after_a_look_at_the_lists_when_they_are_too_old(machine):
    make_program(machine / "apt-get", APT)
    lines = []
    cluster_host.provide(lines.append)
    assert lines == ["installing with apt-get: runc (missing: runc)"]
    install = "apt-get install --yes --quiet --no-install-recommends runc"
    assert (machine / "seen").read_text().splitlines() == [install, "apt-get update", install]


def test_what_cannot_be_installed_is_named(machine):
    with pytest.raises(UnfitHostError, match=r"no apt-get to install them with: runc$"):
        cluster_host.provide(pytest.fail)
    make_program(machine / "apt-get", "#!/bin/sh\nexit 100\n")
    with pytest.raises(UnfitHostError, match="apt-get could not install runc; see above"):
        cluster_host.provide(lambda _: None)


@pytest.mark.parametrize("count", ["0", "33", "two"])
def test_a_number_of_nodes_that_there_cannot_be_is_refused(count, capsys):
    with pytest.raises(SystemExit, match="2"):
        cluster_cli.main(["up", "--dir", "d", f"--nodes={count}"])
    assert f"between 1 and 32 nodes, not {count}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "down"])
def test_a_folder_that_is_not_a_clusters_is_left_alone(command, tmp_path, capsys):
    (tmp_path / "mine").touch()
    assert cluster_cli.main([command, "--dir", str(tmp_path)]) == 1
    complaint = f"hack/cluster: {tmp_path} is not empty and not a cluster's: choose another directory\n"
    assert capsys.readouterr().err == complaint
    assert (tmp_path / "mine").exists()


def test_there_is_nothing_to_load_where_no_file_is(tmp_path, capsys):
    assert cluster_cli.main(["load", "--dir", str(tmp_path), str(tmp_path / "x.tar")]) == 1
    assert capsys.readouterr().err == f"hack/cluster: there is no file {tmp_path}/x.tar\n"
