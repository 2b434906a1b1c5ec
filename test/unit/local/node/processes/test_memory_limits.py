"""Where control groups are found, and what is read of them; the files of both versions, in a folder of the test."""

import pytest

from tf_operator.local.node.processes import memory_limits


@pytest.fixture(params=["v1", "v2"])
def system(request, tmp_path):
    own, mount, proc = ("2:memory:/a/b", "/v1"), tmp_path / "v1", tmp_path / "proc/self"
    line = f"1 1 0:1 / {mount} rw - cgroup cgroup rw,memory\n"
    if request.param == "v2":
        own, mount = ("0::/a/b", "/v2"), tmp_path / "v2"
        line = f"1 1 0:1 / {mount} rw - cgroup2 cgroup2 rw,nsdelegate\n"
    (mount / "a/b").mkdir(parents=True)
    (mount / "a/cgroup.subtree_control").write_text("cpu memory\n")
    proc.mkdir(parents=True)
    (proc / "mountinfo").write_text(f"1 1 0:2 / /proc rw - proc proc rw\n{line}")
    (proc / "cgroup").write_text(f"3:cpu:/\n{own[0]}\n")
    return request.param, mount


def test_a_group_is_made_with_its_limit_and_says_whether_it_was_exceeded(system, tmp_path):
    version, mount = system
    parent = mount / "a/b" if version == "v1" else mount / "a"
    for pid in ("1", "2"):
        (parent / f"tf-operator-{pid}").mkdir()
    (tmp_path / "proc/2").mkdir()
    limits = memory_limits.find(tmp_path / "proc")
    assert limits.root.parent == parent
    assert {path.name for path in parent.glob("tf-operator-*")} == {"tf-operator-2", limits.root.name}
    group = limits.make("x", 64)
    kills = group / ("memory.oom_control" if version == "v1" else "memory.events")
    assert (group / ("memory.limit_in_bytes" if version == "v1" else "memory.max")).read_text() == "64"
    for text, is_killed in (("oom 3\noom_kill 0\n", False), ("oom_kill 1\n", True)):
        kills.write_text(text)
        assert limits.has_killed(group) is is_killed


def test_a_system_without_groups_of_the_user_has_no_limits(system, tmp_path):
    _, mount = system
    (mount / "a/cgroup.subtree_control").write_text("cpu\n")
    for file in (tmp_path / "proc/self/cgroup", mount / "a/b"):
        file.rename(file.with_name("gone"))
    assert memory_limits.find(tmp_path / "proc") is None
