"""The supervisor, with `sleep` in the place of servers: every reason to end ends everything."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.control_plane import directory as plane_directory
from lab.control_plane import supervisor
from lab.control_plane.directory import DirectoryRefusedError, Layout
from lab.control_plane.link import SupervisorLink, SupervisorLostError
from lab.control_plane.process import ProcessId

SLEEP = ["sleep", "600"]
GONE_SECONDS = 5.0


@pytest.fixture
def root(tmp_path):
    return tmp_path / "plane"


@pytest.fixture
def link(root):
    link = SupervisorLink.start(root, None)
    yield link
    link.supervisor.send(signal.SIGTERM)
    link.end()


def spawn(link, root, name="server", argv=SLEEP):
    answer = link.ask("spawn", name=name, argv=argv, log=str(Layout(root).log(name)))
    return ProcessId.of(answer["pid"])


def assert_over(link, root, *servers):
    for process in (*servers, link.supervisor):
        assert process.wait_gone(GONE_SECONDS)
    assert not root.exists()


def test_the_end_of_a_server_is_noticed_and_it_can_be_started_again(link, root):
    first = spawn(link, root)
    first.send(signal.SIGTERM)
    assert first.wait_gone(GONE_SECONDS)
    assert link.ask("exited", name="server") == {"code": -signal.SIGTERM}
    while plane_directory.read_state(root)["servers"]["server"]["code"] is None:
        os.sched_yield()
    second = spawn(link, root)
    assert second != first
    assert plane_directory.read_state(root)["servers"]["server"]["code"] is None


def test_a_command_that_cannot_be_done_is_answered_with_the_reason_and_nothing_ends(link, root):
    server = spawn(link, root, "running")
    with pytest.raises(OSError, match="No such file"):
        spawn(link, root, argv=["/no/such/program"])
    with pytest.raises(OSError, match="running is running"):
        spawn(link, root, "running")
    assert not server.is_gone()


def test_the_end_of_its_input_ends_everything(link, root):
    servers = [spawn(link, root, name) for name in ("one", "two")]
    link.end()
    assert_over(link, root, *servers)
    with pytest.raises(SupervisorLostError, match="taken down"):
        link.ask("exited", name="one")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_everything_also_after_detaching(link, root, number):
    server = spawn(link, root)
    link.detach()
    assert not server.is_gone()
    link.supervisor.send(number)
    assert_over(link, root, server)


def test_a_servers_own_children_end_with_it(link, root):
    server = spawn(link, root, argv=["sh", "-c", "sleep 600 & echo $!; wait"])
    while not Layout(root).log("server").read_text().endswith("\n"):
        os.sched_yield()
    grandchild = ProcessId.of(int(Layout(root).log("server").read_text()))
    link.end()
    assert_over(link, root, server, grandchild)


def test_the_death_of_the_owner_ends_a_detached_plane(root):
    owner = subprocess.Popen(SLEEP)
    link = SupervisorLink.start(root, owner.pid)
    server = spawn(link, root)
    link.detach()
    owner.kill()
    assert_over(link, root, server)
    owner.wait()
    link.end()


def test_the_removal_of_its_directory_ends_everything(link, root):
    server = spawn(link, root)
    Layout(root).state.unlink()
    assert_over(link, root, server)


def test_a_killed_supervisor_takes_its_servers_along_and_the_next_one_removes_the_remains(link, root):
    server = spawn(link, root)
    assert link.has_swept is False
    link.supervisor.send(signal.SIGKILL)
    assert server.wait_gone(GONE_SECONDS)
    with pytest.raises(SupervisorLostError, match="is gone, and its servers with it"):
        link.ask("exited", name="server")
    assert Layout(root).log("server").exists()

    successor = SupervisorLink.start(root, None)
    assert successor.has_swept is True
    assert not Layout(root).log("server").exists()
    successor.end()
    assert not root.exists()


def test_a_sweep_ends_servers_that_outlived_their_supervisor(root):
    """Where the kernel has no parent-death signal they do."""
    root.mkdir()
    orphan = subprocess.Popen(SLEEP)
    record = {"pid": orphan.pid, "born": ProcessId.of(orphan.pid).born}
    plane_directory.write_state(root, {"servers": {"server": record}})
    assert supervisor.sweep(root) == []
    assert orphan.wait(GONE_SECONDS) == -signal.SIGKILL
    assert not root.exists()


def test_a_second_supervisor_is_refused(link, root):
    with pytest.raises(DirectoryRefusedError, match=r"a control plane is running in .* already"):
        SupervisorLink.start(root, None)
    assert plane_directory.is_claimed(root)


def test_a_supervisor_holds_nothing_open_of_whoever_started_it(root):
    """A script that holds a lock by a descriptor, or waits for the end of a pipe, is not held up by a daemon."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    program = "import sys;from pathlib import Path;from lab.control_plane.link import SupervisorLink;"
    program += "SupervisorLink.start(Path(sys.argv[1]),None).detach()"
    subprocess.run(
        [sys.executable, "-c", program, root],
        pass_fds=[writing],
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(supervisor.__file__).parents[2])},
        stderr=writing,
    )
    os.close(writing)
    try:
        assert select.select([reading], [], [], GONE_SECONDS)[0], "somebody holds the other end"
        assert os.read(reading, 1) == b""
        assert plane_directory.is_claimed(root)
    finally:
        os.close(reading)
        os.kill(json.loads(Layout(root).state.read_text())["supervisor"]["pid"], signal.SIGTERM)
