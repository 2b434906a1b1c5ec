"""The near end of a keeper: start it, give it commands, let it end.

Used by control_plane only. As long as this process lives and has not detached, the pipe to the keeper is
what keeps the plane up: whatever ends this process, an exception or SIGKILL, ends the plane.
"""

import contextlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Self

from support.plane_directory import DirectoryRefusedError
from support.plane_process import ProcessId

_TEST_ROOT = Path(__file__).resolve().parents[1]
# It removes the files of its plane, and a cluster may have gigabytes of images.
_END_SECONDS = 120.0


class KeeperLostError(Exception):
    """The keeper is gone, and the servers with it, although nobody asked it to end."""


class KeeperLink:
    """Commands to one keeper that this process started.

    *has_swept* says that it met, and removed, what a killed plane had left in the directory.
    """

    def __init__(self, pid: int, commands: int, answers: int) -> None:
        self.keeper = ProcessId.of(pid)
        self._commands: int | None = commands
        self._answers = os.fdopen(answers, "rb")
        self._turn = threading.Lock()
        self.has_swept = False

    @classmethod
    def start(cls, root: Path, owner: int | None) -> Self:
        """Start a keeper and have it claim *root*.

        Raise DirectoryRefusedError when the directory is not free.
        """
        link = cls(*_spawn_keeper(root, owner))
        try:
            claimed = link._read()
            if "error" in claimed:
                raise DirectoryRefusedError(claimed["error"])
            link.has_swept = claimed["cleared"]
        except BaseException:
            link.end()
            raise
        return link

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Send one command and return its answer; OSError when the keeper could not do it."""
        if self._commands is None:
            raise KeeperLostError("this plane has been taken down")
        with self._turn:
            try:
                os.write(self._commands, json.dumps({"do": do} | arguments).encode() + b"\n")
            except BrokenPipeError as error:
                raise self._lost() from error
            answer = self._read()
        if "error" in answer:
            raise OSError(f"keeper: {do}: {answer['error']}")
        return answer

    def detach(self) -> None:
        """Let the plane outlive this process: only its owner's death or `down` end it from now on."""
        self.ask("detach")
        self._close()

    def end(self) -> None:
        """End the plane, unless it is detached, and wait until keeper, servers and files are gone."""
        self._close()
        self.keeper.wait_gone(_END_SECONDS)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.keeper.pid, os.WNOHANG)

    def _close(self) -> None:
        if self._commands is not None:
            os.close(self._commands)
            self._commands = None
        self._answers.close()

    def _read(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise self._lost()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _lost(self) -> KeeperLostError:
        return KeeperLostError(f"the keeper (pid {self.keeper.pid}) is gone, and its servers with it")


def _spawn_keeper(root: Path, owner: int | None) -> tuple[int, int, int]:
    """Return pid, descriptor for commands, descriptor for answers.

    posix_spawn and not subprocess, because a detached keeper outlives this process on purpose and a Popen
    object complains about that.
    """
    # -S: it needs nothing that is installed, and starts three times as fast without looking.
    argv = [sys.executable, "-P", "-S", "-m", "support.keeper", "--dir", str(root)]
    argv += [] if owner is None else ["--owner", str(owner)]
    keeper_input, commands = os.pipe()
    answers, keeper_output = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            argv,
            os.environ | {"PYTHONPATH": str(_TEST_ROOT)},
            # From its first moment out of reach of a Ctrl-C in our terminal: it ends when we do, in good order.
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, keeper_input, 0),
                (os.POSIX_SPAWN_DUP2, keeper_output, 1),
            ],
        )
    except BaseException:
        os.close(commands)
        os.close(answers)
        raise
    finally:
        os.close(keeper_input)
        os.close(keeper_output)
    return pid, commands, answers
