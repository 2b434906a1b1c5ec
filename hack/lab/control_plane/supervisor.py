"""The supervisor: one process per control plane that starts its servers and sees to it that none outlives it.

Run as `python -m lab.control_plane.supervisor --dir D [--owner PID]`, by link.py alone; standard library only. It takes
one JSON command a line on standard input (`spawn`, `exited`, `publish`, `detach`) and answers each with one line.

It kills everything, and removes what the plane made in D, when it gets SIGTERM or SIGINT, when the owner dies, or when
its input ends without a `detach` before: so an `up` that is interrupted or killed half-way leaves nothing. If the
supervisor itself is killed, the kernel kills its servers (see process.die_with).
"""

import argparse
import contextlib
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from lab.control_plane import directory as plane_directory
from lab.control_plane import remains as plane_remains
from lab.control_plane.process import ProcessId, die_with

# How often it looks for its owner and its directory.
_LOOK_SECONDS: Final = 0.5
_KILL_SECONDS: Final = 10.0

Message = dict[str, Any]
Command = Callable[[Message], Message]


class Supervisor:
    """The servers of one plane, and the reasons to end them."""

    def __init__(self, root: Path, owner: int | None) -> None:
        self._root = root
        self._owner = None if owner is None else ProcessId.of(owner)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._state: dict[str, Any] = {"phase": "starting", "supervisor": _identity(os.getpid()), "servers": {}}
        self._selector = selectors.DefaultSelector()
        self._unread = b""
        self._is_detached = False
        self._end_reason = ""
        self._watch_signals()  # before anything exists that a signal's default action would leave behind
        self._commands: dict[str, Command] = {
            "spawn": self._spawn,
            "exited": self._exited,
            "publish": self._publish,
            "detach": self._detach,
        }

    def claim(self) -> Message:
        """Take the directory, after removing what a killed supervisor may have left in it."""
        had_remains = plane_directory.read_state(self._root) is not None
        sweep(self._root)
        self._lock = plane_directory.claim(self._root)
        self._save()
        return {"claimed": True, "cleared": had_remains}

    def serve(self) -> str:
        """Obey until there is a reason to end; return it."""
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._on_input)
        while not self._end_reason:
            for key, _ in self._selector.select(_LOOK_SECONDS):
                key.data()
            if self._owner is not None and self._owner.is_gone():
                self._end_reason = "the owner is gone"
            if not plane_directory.Layout(self._root).state.exists():
                self._end_reason = "somebody removed the directory"
        return self._end_reason

    def end(self) -> None:
        """Kill the servers, the last started first, wait for them, and remove what the plane made."""
        running = [child for child in reversed(self._children.values()) if child.poll() is None]
        for child in running:
            os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        for child in running:
            child.wait(_KILL_SECONDS)
        plane_remains.remove(self._state)
        plane_directory.clear(self._root)

    def _on_input(self) -> None:
        data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            self._selector.unregister(sys.stdin.fileno())
            if not self._is_detached:
                self._end_reason = "the process that started this plane is gone"
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            reply(self._obey(json.loads(line)))

    def _obey(self, command: Message) -> Message:
        try:
            return self._commands[command.pop("do")](command)
        except (OSError, KeyError, ValueError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _spawn(self, command: Message) -> Message:
        name, argv, log = command["name"], command["argv"], Path(command["log"])
        if name in self._children and self._children[name].poll() is None:
            raise ValueError(f"{name} is running")
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            # A session of its own: a Ctrl-C in the terminal reaches the process that started us, never a server first.
            child = subprocess.Popen(
                argv,
                env=environment_of_servers(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 - one thread
            )
        self._children[name] = child
        self._state["servers"][name] = command | _identity(child.pid) | {"code": None}
        self._save()
        return {"pid": child.pid}

    def _exited(self, command: Message) -> Message:
        return {"code": self._children[command["name"]].poll()}

    def _publish(self, command: Message) -> Message:
        self._state |= command["facts"]
        self._save()
        return {}

    def _detach(self, _command: Message) -> Message:
        self._is_detached = True
        return {}

    def _watch_signals(self) -> None:
        """Turn signals into events of the loop: no handler ever runs in the middle of something else."""
        receiving, sending = os.pipe()
        os.set_blocking(receiving, False)
        os.set_blocking(sending, False)
        signal.set_wakeup_fd(sending)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, _ignore)
        self._selector.register(receiving, selectors.EVENT_READ, functools.partial(self._on_signals, receiving))

    def _on_signals(self, receiving: int) -> None:
        numbers = set(os.read(receiving, 4096))
        if numbers & {signal.SIGTERM, signal.SIGINT}:
            self._end_reason = "asked to end"
        for name, child in self._children.items():
            self._state["servers"][name]["code"] = child.poll()
        self._save()

    def _save(self) -> None:
        plane_directory.write_state(self._root, self._state)


def environment_of_servers(environ: Mapping[str, str]) -> dict[str, str]:
    """They talk among themselves, and not all by addresses that no proxy is ever asked for.

    They live for minutes, in which Go would spend a sixth of their processor time to keep memory small.
    """
    without_proxies = {name: value for name, value in environ.items() if not name.lower().endswith("_proxy")}
    return {"GOGC": "400", **without_proxies}


def sweep(root: Path) -> list[str]:
    """End and remove what a plane has left whose supervisor is gone; return the names of what is not a plane's.

    Raise DirectoryRefusedError when the supervisor lives, or when *root* is not a plane's.
    """
    lock = plane_directory.claim(root)
    try:
        state = plane_directory.read_state(root) or {"servers": {}}
        _end_servers(state)
        plane_remains.remove(state)
        return plane_directory.clear(root)
    finally:
        os.close(lock)


def _end_servers(state: dict[str, Any]) -> None:
    """End the servers of a supervisor that is gone; on Linux the kernel has done that already."""
    servers = [ProcessId(server["pid"], server["born"]) for server in state["servers"].values()]
    for server in servers:
        server.send(signal.SIGKILL)
    for server in servers:
        server.wait_gone(_KILL_SECONDS)


def reply(message: Message) -> None:
    """Answer on standard output; nobody need be listening any more."""
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


def main() -> int:
    """Keep one plane from its first command to its end."""
    parser = argparse.ArgumentParser(prog="supervisor", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--owner", type=int)
    arguments = parser.parse_args()
    os.chdir("/")
    # The process that starts a daemon may hold a lock or a pipe by a descriptor: it must not stay open in here.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    supervisor = Supervisor(arguments.dir, arguments.owner)
    try:
        reply(supervisor.claim())
    except (plane_directory.DirectoryRefusedError, OSError) as error:
        reply({"error": str(error)})
        return 1
    try:
        _complain_to(plane_directory.Layout(arguments.dir).log("supervisor"))
        sys.stderr.write(f"ending: {supervisor.serve()}\n")
    finally:
        supervisor.end()
    return 0


def _complain_to(log: Path) -> None:
    """A detached supervisor that held the caller's stderr would keep its pipe open, say of `up 2>&1 | tee`."""
    log.parent.mkdir()
    with log.open("ab") as output:
        os.dup2(output.fileno(), sys.stderr.fileno())


def _identity(pid: int) -> dict[str, Any]:
    return {"pid": pid, "born": ProcessId.of(pid).born}


def _ignore(*_: object) -> None:
    """Let the wake-up descriptor speak for the signal."""


if __name__ == "__main__":
    sys.exit(main())
