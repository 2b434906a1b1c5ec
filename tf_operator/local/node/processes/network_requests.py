"""What is asked of ``network``: a new network, and sockets in one."""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import DEVNULL
from typing import Final

from tf_operator.local.node.processes import network

_MOST_DESCRIPTORS: Final = 3
_LONGEST_REPLY: Final = 4096


class NetworkError(OSError):
    """The system refuses a network, or a socket in one; the message says why."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network that lasts until it is closed and the last program in it has ended."""

    descriptors: tuple[int, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """How other processes of this user enter it."""
        return tuple(f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in self.descriptors)

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


async def make() -> tuple[Network, socket.socket]:
    """A network, and a socket in it that is not bound; ``NetworkError`` where the system refuses it."""
    *namespaces, inner = await _ask(())
    return Network(tuple(namespaces)), _as_socket(inner)


async def refusal() -> str:
    """Why this machine gives its user no networks; empty if it does."""
    try:
        network, inner = await make()
    except NetworkError as error:
        return str(error)
    inner.close()
    network.close()
    return ""


async def connect(paths: Sequence[str], host: str, port: int) -> socket.socket:
    """A connection within the network that has these paths."""
    (descriptor,) = await _ask(paths)
    inner = _as_socket(descriptor)
    try:
        await asyncio.get_running_loop().sock_connect(inner, (host, port))
    except BaseException:
        inner.close()
        raise
    return inner


async def _ask(paths: Sequence[str]) -> list[int]:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            command = (sys.executable, "-I", "-S", network.__file__, str(theirs.fileno()), *paths)
            process = await asyncio.create_subprocess_exec(
                *command,
                pass_fds=[theirs.fileno()],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                start_new_session=True,  # a Ctrl-C at the terminal is for this process alone
            )
        try:
            await process.wait()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        reply, descriptors, _, _ = socket.recv_fds(ours, _LONGEST_REPLY, _MOST_DESCRIPTORS)
    if not descriptors:
        raise NetworkError(reply.decode(errors="replace") or "the program that makes it was killed")
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 (the signature of os)
    return descriptors


def _as_socket(descriptor: int) -> socket.socket:
    inner = socket.socket(fileno=descriptor)
    inner.settimeout(0)
    return inner
