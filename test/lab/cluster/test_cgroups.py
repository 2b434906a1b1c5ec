"""Control groups in the three forms in which machines have them: version 1, version 2, and both side by side."""

import pytest

from lab.cluster.cgroups import Hierarchies, NoCgroupsError

FIRST = ("cpu", "memory", "systemd")


def table(*mounts):
    """The kernel's table of mounts, with something else in it too."""
    lines = [f"{20 + at} 1 0:{at} / {path} rw shared:{at} - {kind} {kind} rw" for at, (path, kind) in enumerate(mounts)]
    return "\n".join(["19 1 8:1 / / rw - ext4 /dev/sda1 rw", *lines])


def second_version(folder, *, available="cpuset cpu io memory pids", handed=""):
    if not folder.exists():
        folder.mkdir()
    (folder / "cgroup.controllers").write_text(available)
    (folder / "cgroup.subtree_control").write_text(handed)
    return Hierarchies((), (folder,))


@pytest.mark.parametrize(
    ("mounts", "paths", "name"),
    [
        ([("/cg/cpu", "cgroup"), ("/cg/memory", "cgroup")], ["/cg/cpu/c", "/cg/memory/c"], "version 1"),
        ([("/cg", "cgroup2")], ["/cg/c"], "version 2"),
        ([("/cg/cpu", "cgroup"), ("/cg/two", "cgroup2")], ["/cg/cpu/c", "/cg/two/c"], "version 1 and version 2"),
    ],
)
def test_hierarchies_are_read_from_the_table_of_mounts(mounts, paths, name):
    hierarchies = Hierarchies.read(table(*mounts))
    assert ([str(path) for path in hierarchies.paths("c")], str(hierarchies)) == (paths, name)


def test_every_hierarchy_of_version_one_gets_a_root_for_each_node(tmp_path):
    mounts = [tmp_path / name for name in FIRST]
    for mount in mounts:
        mount.mkdir()
    Hierarchies(tuple(mounts), (tmp_path / "unified",)).make("c", ["node-1", "node-2"])
    folders = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("node-*"))
    assert folders == [f"{name}/c/node-{number}" for name in FIRST for number in (1, 2)]
    assert not (tmp_path / "unified").exists()


def test_version_two_without_a_controller_that_kubelet_needs_is_refused_with_its_name(tmp_path):
    hierarchies = second_version(tmp_path / "top", available="cpuset cpu io pids")
    with pytest.raises(NoCgroupsError, match=r"top has not got the controllers memory$"):
        hierarchies.make("c", ["node-1"])


def test_what_version_two_hands_down_already_is_not_handed_down_again(tmp_path, monkeypatch):
    top = tmp_path / "top"
    hierarchies = second_version(top, handed="cpu memory pids cpuset")
    # In a real one, the files of a child are there as soon as the child is.
    make_folder = type(top).mkdir

    def mkdir(path, *arguments, **options):
        make_folder(path, *arguments, **options)
        if path.name == "c":
            second_version(path, handed="cpu memory")

    monkeypatch.setattr(type(top), "mkdir", mkdir)
    hierarchies.make("c", ["node-1"])
    assert (top / "cgroup.subtree_control").read_text() == "cpu memory pids cpuset"
    assert (top / "c" / "cgroup.subtree_control").read_text() == "+pids"
    assert (top / "c" / "node-1").is_dir()


def test_a_hierarchy_that_cannot_be_written_to_is_named(tmp_path):
    with pytest.raises(NoCgroupsError, match=r"/cpu takes no new control group: No such file or directory$"):
        Hierarchies((tmp_path / "cpu",), ()).make("c", ["node-1"])
