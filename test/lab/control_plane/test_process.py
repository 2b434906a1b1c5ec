"""Processes by identity: running, paused, gone, and never another one with the same pid."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.control_plane import process as plane_process
from lab.control_plane.process import Condition, ProcessId


@pytest.fixture
def sleeper():
    child = subprocess.Popen(["sleep", "600"])
    yield child
    child.kill()
    child.wait()


def test_a_zombie_whose_threads_still_run_is_not_gone():
    """A server's ports are open until its last thread has ended, its first thread may be a zombie before."""
    script = "import ctypes,threading,time;threading.Thread(target=time.sleep,args=(600,)).start();"
    script += "print(flush=True);ctypes.CDLL(None).syscall(60, 0)"  # exit of this thread alone
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    with child, contextlib.ExitStack() as end:
        end.callback(child.kill)
        child.stdout.readline()
        process = ProcessId.of(child.pid)
        while ") Z " not in Path(f"/proc/{child.pid}/stat").read_text():
            os.sched_yield()
        assert process.condition() is not Condition.GONE
        child.kill()
        assert process.wait_gone(5)


def test_a_later_process_with_the_same_pid_is_not_taken_for_it_and_never_signalled(sleeper):
    earlier = ProcessId(sleeper.pid, "long ago")
    assert earlier.is_gone()
    assert earlier.send(signal.SIGKILL) is False
    assert sleeper.poll() is None


def test_a_child_whose_parent_died_before_the_kernel_knew_does_not_start():
    script = "import os,subprocess;from lab.control_plane import process;"
    script += "subprocess.run(['sleep','600'],preexec_fn=lambda:process.die_with(os.getppid() + 1))"
    environment = os.environ | {"PYTHONPATH": str(Path(plane_process.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=30)
