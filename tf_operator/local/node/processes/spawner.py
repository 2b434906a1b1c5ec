"""The process that starts all containers' processes: one thread, the standard library, and nothing of this package.

    python -I -S spawner.py REPLIES FOLDER      requests on standard input, replies on the socket REPLIES

A fork of the supervisor would copy a process with threads, and run Python between fork and exec; here it is safe, and
takes a millisecond. And all processes have one parent that outlives none of them:

- when the supervisor dies, however it dies, standard input ends: every process gets SIGTERM, and its output is read
  here so that nothing it prints can fail; what is left after a second is killed, then this one ends;
- when this one is killed, Linux kills its children (PR_SET_PDEATHSIG), and the next node those that are left, by the
  files in FOLDER: one for each process group, named by its number, with the start time of its leader;
- each container has a session and a process group of its own. When its main process ends, the rest of the group is
  killed, as when the first process of a container ends. On Linux this process is the reaper of its descendants
  (PR_SET_CHILD_SUBREAPER): those that have left their group are killed by the mark in their environment.

A request is one line of JSON: ``{"start": id, "argv": [...], "env": {...}, "cwd": path, "group": path, "network":
[path, ...]}`` (its control group and its namespaces, if any) or ``{"signal": id, "number": n}``. Replies are
``{"started": id, "pid": n}``, with the read end of the process's output as a file descriptor,
``{"failed": id, "problem": text}`` and ``{"ended": id, "status": n}``, where status is the exit code, or minus the
signal.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

MARK = "TF_OPERATOR_CONTAINER"
"""The environment variable that tells the processes of one container from those of others."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_ENDED_WITHIN = 1.0
"""Seconds that programs have when the supervisor is dead. One that ends in order has ended them before."""
_IS_LINUX = sys.platform == "linux"


class Spawner:
    """Starts, signals and reaps. ``children`` are the main processes of containers, by pid."""

    def __init__(self, replies: socket.socket, folder: Path) -> None:
        self._replies = replies
        self._folder = folder
        self._pid = os.getpid()
        self._children: dict[int, str] = {}
        self._outputs: dict[int, int] = {}
        """What the supervisor reads from each of them, by pid."""
        self._poll = selectors.DefaultSelector()
        self._received = bytearray()
        self._libc = _libc() if _IS_LINUX else None
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def serve(self) -> None:
        """Answer requests until standard input ends, then kill everything."""
        wake, wake_writer = _pipe()
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the supervisor decides when this ends
        self._poll.register(0, selectors.EVENT_READ)
        self._poll.register(wake, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in self._poll.select()}
            if wake in ready:
                os.read(wake, 4096)
                self._reap()
            if 0 in ready and not self._read_requests():
                break
        self._poll.unregister(0)
        self._ask_to_end()
        self._kill_everything()

    def _ask_to_end(self) -> None:
        """Let programs save what they have: a second after SIGTERM, no more."""
        for output in self._outputs.values():
            os.set_blocking(output, False)
            self._poll.register(output, selectors.EVENT_READ)
        for pid in self._children:
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _ENDED_WITHIN  # noqa: TID251 (nothing of this package is imported here)
        while self._children and (seconds := until - time.monotonic()) > 0:  # noqa: TID251 (as above)
            for key, _ in self._poll.select(seconds):
                with suppress(BlockingIOError):
                    if not os.read(key.fd, 1 << 16):
                        self._poll.unregister(key.fd)
            self._reap()

    def _read_requests(self) -> bool:
        """Carry out what has arrived; whether there can be more."""
        chunk = os.read(0, 1 << 16)
        self._received += chunk
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        for line in lines:
            self._carry_out(json.loads(line))
        return bool(chunk)

    def _carry_out(self, request: Mapping[str, Any]) -> None:
        if "start" in request:
            try:
                self._start(request)
            except (OSError, ValueError) as error:
                self._reply({"failed": request["start"], "problem": str(error)})
            return
        for pid, container in self._children.items():
            if container == request["signal"]:
                with suppress(ProcessLookupError):
                    (os.killpg if request["number"] == signal.SIGKILL else os.kill)(pid, request["number"])

    def _start(self, request: Mapping[str, Any]) -> None:
        output, output_end = os.pipe()
        problem, problem_end = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                self._become(request, output_end, problem_end)
            os.close(output_end)
            os.close(problem_end)
            output_end = problem_end = -1
            self._remember_or_kill(pid)
            if text := os.read(problem, 4096):  # nothing once exec has closed the other end
                os.waitpid(pid, 0)
                self._forget(pid)
                self._reply({"failed": request["start"], "problem": text.decode(errors="replace")})
                return
            self._children[pid] = request["start"]
            self._reply({"started": request["start"], "pid": pid}, output)
            self._outputs[pid], output = output, -1
        finally:
            for end in (output, output_end, problem, problem_end):
                if end >= 0:
                    os.close(end)

    def _become(self, request: Mapping[str, Any], output: int, problem: int) -> NoReturn:
        """In the child: become the program, or say why not."""
        where = ""
        try:
            os.setsid()
            where = request["group"]
            if where:
                (Path(where) / "cgroup.procs").write_text("0")  # this very process
            where = "the network of its job"
            self._enter(request["network"])
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self._pid:
                os._exit(127)  # it died before the line above
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            empty = os.open(os.devnull, os.O_RDONLY)
            os.dup2(empty, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            where = request["cwd"]
            os.chdir(where)
            where = request["argv"][0]
            os.execvpe(request["argv"][0], request["argv"], {**request["env"], MARK: request["start"]})  # noqa: S606
        except BaseException as error:  # noqa: BLE001 (whatever it is, this copy of the process may not go on)
            text = getattr(error, "strerror", None) or str(error)
            os.write(problem, f'exec: "{where}": {text}'.encode(errors="replace")[:4000])
        os._exit(127)

    def _enter(self, paths: list[str]) -> None:
        """Enter namespaces. All are opened first: from within a user namespace, none could be."""
        for descriptor in [os.open(path, os.O_RDONLY) for path in paths]:
            if self._libc is None or self._libc.setns(descriptor, 0):
                raise OSError(0, "cannot be entered")

    def _reap(self) -> None:
        """Reap every process that has ended; the rest of its group is killed while the number is still its own."""
        while end := _ended():
            pid, status = end
            container = self._children.pop(pid, None)
            self._kill_strays()
            if container:
                self._forget(pid)
                self._close_output(pid)
                self._reply({"ended": container, "status": os.waitstatus_to_exitcode(status)})

    def _kill_strays(self) -> None:
        """Kill those that have left the group of a container that has ended: by now they are children of this process.

        Their own children are, once they are dead, which is another call of this. Who has overwritten the mark, as
        programs do that set their title, is left alone until no container runs: it may be one's of those.
        """
        running = {f"{MARK}={container}".encode() for container in self._children.values()}
        for pid in _children() - self._children.keys():
            with suppress(OSError):
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                marks = {variable for variable in variables if variable.startswith(f"{MARK}=".encode())}
                if running.isdisjoint(marks) if marks else not running:
                    os.kill(pid, signal.SIGKILL)

    def _kill_everything(self) -> None:
        """Kill all children until there are none: on Linux a killed one's own children become ours."""
        while True:
            for pid in self._children:
                _kill_group(pid)
            for pid in _children():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            try:
                pid, _ = os.wait()
            except ChildProcessError:
                return
            if self._children.pop(pid, None):
                self._forget(pid)

    def _remember_or_kill(self, pid: int) -> None:
        """Note a child; one that cannot be noted ends before it is reported as failed (no space left, for example)."""
        try:
            file = os.open(self._folder / str(pid), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "w") as stream:
                stream.write(start_time_of(pid))
        except OSError:
            os.kill(pid, signal.SIGKILL)  # it may have no group yet
            _kill_group(pid)
            os.waitpid(pid, 0)
            with suppress(OSError):
                self._forget(pid)
            raise

    def _close_output(self, pid: int) -> None:
        output = self._outputs.pop(pid)
        with suppress(KeyError):
            self._poll.unregister(output)
        os.close(output)

    def _forget(self, pid: int) -> None:
        (self._folder / str(pid)).unlink(missing_ok=True)

    def _reply(self, message: Mapping[str, Any], *descriptors: int) -> None:
        line = json.dumps(message).encode() + b"\n"
        with suppress(OSError):  # the supervisor is dead: standard input ends, too
            if descriptors:
                socket.send_fds(self._replies, [line], descriptors)
            else:
                self._replies.sendall(line)

    def _prctl(self, option: int, value: int) -> None:
        if self._libc:
            self._libc.prctl(option, value, 0, 0, 0)


def start_time_of(pid: int) -> str:
    """What tells a process from a later one with its number; ``""`` when there is none, or nobody knows.

    A zombie has its start time, too: the number is still its own, and others of its group may run.
    """
    if not _IS_LINUX:
        with os.popen(f"ps -o lstart= -p {pid:d}") as output:  # noqa: S605 (a number)
            return output.read().strip()
    try:
        # The name in parentheses may hold anything; the 20th field after it is the start time.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def kill_left_over(folder: Path) -> list[int]:
    """Kill the process groups that an earlier spawner has left, and forget them; those that were there."""
    groups = []
    for file in (file for file in folder.glob("[0-9]*") if file.name.isdecimal()):
        pid = int(file.name)
        with suppress(FileNotFoundError):  # that spawner is still at its own end, and has just forgotten the group
            start_time = file.read_text(errors="replace")
            if start_time and start_time_of(pid) == start_time:
                _kill_group(pid)
                groups.append(pid)
            file.unlink()
    return groups


def _ended() -> tuple[int, int] | None:
    """Reap a child that has ended, and kill its group: its pid and its status."""
    try:
        if hasattr(os, "waitid"):  # not on macOS before Python 3.13
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if child is None:
                return None
            _kill_group(child.si_pid)
            return os.waitpid(child.si_pid, 0)
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    _kill_group(pid)
    return (pid, status) if pid else None


def _kill_group(pid: int) -> None:
    if pid > 0:
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


def _children() -> set[int]:
    """The children of this process, where the system says so (Linux)."""
    try:
        return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
    except OSError:
        return set()


def _libc() -> Any:  # noqa: ANN401 (its functions have no types)
    import ctypes  # noqa: PLC0415 (the supervisor imports this module, too, and has no use for it)

    return ctypes.CDLL(None, use_errno=True)


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


if __name__ == "__main__":
    os.set_inheritable(int(sys.argv[1]), False)  # noqa: FBT003 (the signature of os)
    Spawner(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])).serve()
