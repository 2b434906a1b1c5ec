"""The near end of a supervisor: start it, give it commands, let it end.

Used by control_plane only. As long as this process lives and has not detached, the pipe to the supervisor is
what keeps the plane up: whatever ends this process, an exception or SIGKILL, ends the plane.
"""

import contextlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Self

from lab.control_plane.directory import DirectoryRefusedError
from lab.control_plane.process import ProcessId

_HACK = Path(__file__).resolve().parents[2]
# It removes the files of its plane, and a cluster may have gigabytes of images.
_END_SECONDS = 120.0


class SupervisorLostError(Exception):
    """The supervisor is gone, and the servers with it, although nobody asked it to end."""


class SupervisorLink:
    """Commands to one supervisor that this process started.

    *has_swept* says that it met, and removed, what a killed plane had left in the directory.
    """

    def __init__(self, pid: int, commands: int, answers: int) -> None:
        self.supervisor = ProcessId.of(pid)
        self._commands: int | None = commands
        self._answers = os.fdopen(answers, "rb")
        self._turn = threading.Lock()
        self.has_swept = False

    @classmethod
    def start(cls, root: Path, owner: int | None) -> Self:
        """Start a supervisor and have it claim *root*.

        Raise DirectoryRefusedError when the directory is not free.
        """
        link = cls(*_spawn_supervisor(root, owner))
        try:
            reply = link._read()
            if "error" in reply:
                raise DirectoryRefusedError(reply["error"])
            link.has_swept = reply["cleared"]
        except BaseException:
            link.end()
            raise
        return link

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Send one command and return its answer; OSError when the supervisor could not do it."""
        if self._commands is None:
            raise SupervisorLostError("this plane has been taken down")
        with self._turn:
            try:
                os.write(self._commands, json.dumps({"do": do} | arguments).encode() + b"\n")
            except BrokenPipeError as error:
                raise self._lost() from error
            answer = self._read()
        if "error" in answer:
            raise OSError(f"supervisor: {do}: {answer['error']}")
        return answer

    def detach(self) -> None:
        """Let the plane outlive this process: only its owner's death or `down` end it from now on."""
        self.ask("detach")
        self._close()

    def end(self) -> None:
        """End the plane, unless it is detached, and wait until supervisor, servers and files are gone."""
        self._close()
        self.supervisor.wait_gone(_END_SECONDS)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.supervisor.pid, os.WNOHANG)

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

    def _lost(self) -> SupervisorLostError:
        return SupervisorLostError(f"the supervisor (pid {self.supervisor.pid}) is gone, and its servers with it")


def _spawn_supervisor(root: Path, owner: int | None) -> tuple[int, int, int]:
    """Return pid, descriptor for commands, descriptor for answers.

    posix_spawn and not subprocess, because a detached supervisor outlives this process on purpose and a Popen
    object complains about that.
    """
    # -S: it needs nothing that is installed, and starts three times as fast without looking.
    argv = [sys.executable, "-P", "-S", "-m", "lab.control_plane.supervisor", "--dir", str(root)]
    argv += [] if owner is None else ["--owner", str(owner)]
    supervisor_input, commands = os.pipe()
    answers, supervisor_output = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            argv,
            os.environ | {"PYTHONPATH": str(_HACK)},
            # From its first moment out of reach of a Ctrl-C in our terminal: it ends when we do, in good order.
            setsid=True,
            file_actions=[(os.POSIX_SPAWN_DUP2, supervisor_input, 0), (os.POSIX_SPAWN_DUP2, supervisor_output, 1)],
        )
    except BaseException:
        os.close(commands)
        os.close(answers)
        raise
    finally:
        os.close(supervisor_input)
        os.close(supervisor_output)
    return pid, commands, answers
