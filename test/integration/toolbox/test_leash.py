"""The guard between us and a long child: whatever happens to us, the child and its children end."""

import os
import signal
import subprocess
import sys

RUN = """
import os, sys
from pathlib import Path
sys.path.insert(0, {hack!r})
from toolbox import leash
lock = os.open({scratch!r} + "/lock", os.O_CREAT | os.O_RDWR)
command = ["sh", "-c", "echo $$; sleep 600 & echo $!; wait"]
status = leash.run(command, env=os.environ, cwd=Path("/"), scratch=Path({scratch!r}) / "work", lock=lock,
                   on_line=lambda line: print(line, flush=True))
"""


def state(pid):
    done = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_the_grandchildren_of_a_killed_process_are_killed_and_its_scratch_folder_goes(bench):
    scratch = bench.root / "scratch"
    (scratch / "work" / "half-made").mkdir(parents=True)
    code = RUN.format(hack=str(bench.hack), scratch=str(scratch))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        pids = [process.stdout.readline().strip() for _ in range(2)]
        assert all(state(pid) for pid in pids)

        os.kill(process.pid, signal.SIGKILL)

    for pid in pids:
        bench.wait_until(lambda pid=pid: state(pid) in ("", "Z"), seconds=5)
    bench.wait_until(lambda: not (scratch / "work").exists(), seconds=5)
