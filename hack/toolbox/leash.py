"""Run a long child that cannot outlive us, not even when we are killed with SIGKILL.

Between us and the child stands a small guard process (this very file, run as a script). It holds the read end
of a pipe whose write end only we have: however we end, the pipe is closed, and the guard kills the whole group
of the child (a compiler has many children of its own) and removes the folder they were writing to. The guard
also inherits the lock, so nobody else starts before the last of them is gone.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    scratch: Path,
    lock: int,
    on_line: Callable[[str], None],
) -> int:
    """Run the command, hand each line it prints to ``on_line``, and return its exit status.

    If we are interrupted, by an exception or by a signal that cannot be caught, the command and all its children
    are killed and ``scratch`` is removed; nothing of it is running any more when this returns or raises.
    """
    read_end, write_end = os.pipe()
    try:
        guard = subprocess.Popen(
            [sys.executable, "-I", __file__, str(read_end), str(scratch), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            pass_fds=(read_end, lock),
            # Ctrl-C reaches the whole foreground group; the guard must live a moment longer than we do.
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    with guard:
        try:
            for line in guard.stdout or ():
                on_line(line.rstrip("\n"))
            return guard.wait()
        finally:
            os.close(write_end)


def guard(leash: int, scratch: str, command: Sequence[str]) -> int:
    """Run the command in a group of its own until it ends, or until the other end of the leash is let go."""
    child = subprocess.Popen(command, process_group=0)
    threading.Thread(target=kill_when_let_go, args=(leash, child), daemon=True).start()
    status = child.wait()
    if status == -signal.SIGKILL:
        shutil.rmtree(scratch, ignore_errors=True)
    return status if status >= 0 else 128 - status


def kill_when_let_go(leash: int, child: "subprocess.Popen[bytes]") -> None:
    """Wait until whoever holds the other end is gone, then kill the child's group."""
    os.read(leash, 1)
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(guard(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
