"""Processes of containers, for the event loop: a request to the spawner, and a callback for what becomes of it.

Nothing here waits: ``start`` and ``signal`` are plain functions, and the spawner's replies arrive as calls of the
watcher that was given. Output is read in bounded pieces with a pause after a full one, so that a program that floods
its output is slowed down, and nobody else.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import msgspec

from tf_operator.local.node.processes import spawner
from tf_operator.machinery.log import Logger

_log = Logger(__name__)

_PIECE = 16 * 1024
_PAUSE = 0.004
"""After a full piece: 4 MiB of output in a second from each container, at most."""
_CLOSED_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Launch:
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    visible: Callable[[str], str] = str
    """What a word of another command in the same container becomes: a probe's, a hook's."""
    group: str = ""
    """The folder of its control group, if it has one."""
    network: tuple[str, ...] = ()
    """The paths of the namespaces that it runs in; empty for the network of the machine."""


class ProcessWatcher(Protocol):
    """Is called with what becomes of one process. Plain functions."""

    def on_started(self, pid: int) -> None:
        """The program runs."""

    def on_failed(self, problem: str) -> None:
        """The program could not be started."""

    def on_output(self, data: bytes) -> None:
        """It has written this to its standard output or error."""

    def on_ended(self, status: int) -> None:
        """It has ended, and all of its group: the exit code, or minus the signal. All output came before."""


class SpawnerProcess(NamedTuple):
    """A spawner that is starting."""

    folder: Path
    process: "subprocess.Popen[bytes]"
    replies: socket.socket


def start_spawner(folder: Path) -> SpawnerProcess:
    """Start it, without waiting for it. It ends with this process, or when its standard input is closed."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", spawner.__file__, str(theirs.fileno()), str(folder)]
    with theirs:
        process = subprocess.Popen(  # noqa: S603 (our own program)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # a Ctrl-C at the terminal is for the supervisor alone
        )
    os.set_blocking(ours.fileno(), False)
    assert process.stdin is not None  # noqa: S101 (asked for above)
    os.set_blocking(process.stdin.fileno(), False)
    return SpawnerProcess(folder, process, ours)


class Processes:
    def __init__(self, folder: Path, spawner_process: SpawnerProcess | None = None) -> None:
        """``folder`` remembers what runs, for the case that nobody is left to end it.

        A ``spawner_process`` that runs already has a folder of its own.
        """
        self._folder = spawner_process.folder if spawner_process else folder
        self._early = spawner_process
        self._watchers: dict[str, ProcessWatcher] = {}
        self._outputs: dict[str, _Output] = {}
        self._descriptors: deque[int] = deque()
        self._received = bytearray()
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: socket.socket | None = None
        self._unsent = bytearray()

    def open(self) -> None:
        """Kill what an earlier node has left, and start the spawner. Does not wait for it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if groups := spawner.kill_left_over(self._folder):
            _log.warning("killed processes that an earlier node has left", groups=groups)
        self._attach(self._early or start_spawner(self._folder))

    def _attach(self, process: SpawnerProcess) -> None:
        self._process, self._replies = process.process, process.replies
        asyncio.get_running_loop().add_reader(process.replies, self._read_replies)

    def close(self) -> None:
        if self._process and self._process.stdin:
            self._close_requests(self._process.stdin)
            try:
                self._process.wait(_CLOSED_WITHIN)
            except subprocess.TimeoutExpired:
                _log.error("a process cannot be killed")  # it waits for a device or a network file system
                self._process.kill()
                self._process.wait()
            self._detach()  # not before: what a program prints at its end must not fail

    def start(self, identity: str, launch: Launch, watcher: ProcessWatcher) -> None:
        self._watchers[identity] = watcher
        program = {"argv": launch.argv, "env": launch.env, "cwd": launch.cwd, "group": launch.group}
        self._ask({"start": identity, **program, "network": launch.network})

    def signal(self, identity: str, number: int) -> None:
        """Send a signal to the main process; SIGKILL to the whole group."""
        self._ask({"signal": identity, "number": number})

    def _close_requests(self, pipe: IO[bytes]) -> None:
        self._unsent.clear()
        asyncio.get_running_loop().remove_writer(pipe)
        with suppress(BrokenPipeError):
            pipe.close()

    def _detach(self) -> None:
        loop = asyncio.get_running_loop()
        if self._replies:
            loop.remove_reader(self._replies)
            self._replies.close()
            self._replies = None
        for output in self._outputs.values():
            output.close()
        self._outputs.clear()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _ask(self, request: Mapping[str, Any]) -> None:
        was_idle = not self._unsent
        # Not by msgspec: a variable that is no UTF-8 has lone surrogates, which are its bytes again in the spawner.
        self._unsent += json.dumps(request).encode() + b"\n"
        if was_idle:
            self._write_requests()

    def _write_requests(self) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            self._unsent.clear()
            return
        pipe, loop = self._process.stdin, asyncio.get_running_loop()
        try:
            size = os.write(pipe.fileno(), self._unsent)
        except BlockingIOError:
            size = 0
        except BrokenPipeError:
            self._unsent.clear()  # the spawner is dead, which its socket says, too
            return
        del self._unsent[:size]
        if self._unsent:
            loop.add_writer(pipe, self._write_requests)
        else:
            loop.remove_writer(pipe)

    def _read_replies(self) -> None:
        if self._replies is None:
            return
        try:
            data, descriptors, _, _ = socket.recv_fds(self._replies, 1 << 16, 64)
        except BlockingIOError:
            return
        except ConnectionError:
            data, descriptors = b"", []
        self._descriptors.extend(descriptors)
        self._received += data
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        for line in lines:
            try:
                self._on_reply(msgspec.json.decode(line))
            except Exception as error:  # noqa: BLE001 (what is wrong with one container must not cost the others their news)
                _log.error("a container missed what became of its process", error=repr(error))
        if not data:
            self._on_spawner_died()

    def _on_reply(self, reply: Mapping[str, Any]) -> None:
        if identity := reply.get("started"):
            watcher = self._watchers[identity]
            self._outputs[identity] = _Output(self._descriptors.popleft(), watcher)
            watcher.on_started(reply["pid"])
        elif identity := reply.get("failed"):
            self._watchers.pop(identity).on_failed(reply["problem"])
        else:
            self._on_ended(reply["ended"], reply["status"])

    def _on_ended(self, identity: str, status: int) -> None:
        if output := self._outputs.pop(identity, None):
            output.drain()
            output.close()
        self._watchers.pop(identity).on_ended(status)

    def _on_spawner_died(self) -> None:
        """Its children die with it. Start another one, and report the end of all processes."""
        _log.error("the spawner died, and all processes with it")
        watchers = dict(self._watchers)
        for identity in watchers:
            if output := self._outputs.get(identity):
                output.drain()
        self._detach()
        if self._process and self._process.stdin:
            self._close_requests(self._process.stdin)
            self._process.wait()
        self._watchers.clear()
        self._received.clear()
        spawner.kill_left_over(self._folder)
        self._attach(start_spawner(self._folder))
        for watcher in watchers.values():
            watcher.on_ended(-signal.SIGKILL)


class _Output:
    def __init__(self, descriptor: int, watcher: ProcessWatcher) -> None:
        self._descriptor = descriptor
        self._watcher = watcher
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Read what the pipe still holds: its writers are dead, or not of this container."""
        for _ in range(64):
            if not self._read_piece():
                return

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1

    def _read(self) -> None:
        size = self._read_piece()
        if size == _PIECE or size is None:
            self._loop.remove_reader(self._descriptor)
        if size == _PIECE:
            self._loop.call_later(_PAUSE, self._resume)

    def _read_piece(self) -> int | None:
        """Read one piece; its size, 0 if nothing is there yet, ``None`` at the end."""
        try:
            data = os.read(self._descriptor, _PIECE)
        except BlockingIOError:
            return 0
        if not data:
            return None
        self._watcher.on_output(data)
        return len(data)

    def _resume(self) -> None:
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._read)
