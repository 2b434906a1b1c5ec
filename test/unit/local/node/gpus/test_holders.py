"""Which processes still hold the GPUs of a pod."""

import os
import subprocess
import sys

from tf_operator.local.node.gpus import holders
from tf_operator.local.node.processes.spawner import MARK


def test_a_process_belongs_to_the_pod_whose_mark_it_has():
    program = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(
        program, env={MARK: "uid-1/main/1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert list(holders.processes_of("uid-1")) == [process.pid]
        assert holders.has_any("uid-1", ())
        assert not holders.has_any("uid", ())
        process.communicate(b"\n")
    assert not holders.has_any("uid-1", [process.pid])


def test_a_process_that_is_ending_belongs_to_its_session_and_a_zombie_to_nobody(tmp_path, monkeypatch):
    """The kernel lets nobody look at this moment for long, so its files are written by hand."""
    monkeypatch.setattr(holders, "_PROC", tmp_path)

    def process(pid, *, state, session, flags, threads=1):
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        fields = [state, "1", "1", str(session), "0", "0", str(flags), *["0"] * 10, str(threads)]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(fields)} 0\n")

    exiting = 0x404
    process(5, state="D", session=5, flags=exiting)
    assert holders.has_any("uid-1", [5])
    assert not holders.has_any("uid-1", [6])
    process(5, state="Z", session=5, flags=exiting, threads=2)
    assert holders.has_any("uid-1", [5])
    process(5, state="Z", session=5, flags=exiting)
    assert not holders.has_any("uid-1", [5])
    process(5, state="S", session=5, flags=0x400)
    assert not holders.has_any("uid-1", [5])


def test_the_fields_are_those_of_this_kernel():
    child = os.fork()
    if not child:
        os.setsid()  # so that nothing else of its session ends
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        assert not holders.has_any("uid-1", [child])  # a zombie, whose flags say that it is ending
    finally:
        os.waitpid(child, 0)
