"""``tfjob port-forward``: a port of a replica on this machine, under a number of one's own, as kubectl does it.

Replicas share a network, that of this machine or of their job, so each has ports of its own in place of those that its
manifest names.
"""

import argparse
import asyncio
import errno
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from tf_operator.cli import session, target
from tf_operator.cli.commands.replicas import process
from tf_operator.cli.commands.replicas.process import ReplicaProcess
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs, JobPod, NotPossible
from tf_operator.local.node.processes import network_requests

_LOOPBACK: Final = "127.0.0.1"
_HIGHEST: Final = 65535
_PIECE: Final = 1 << 16
_VARIABLE: Final = "TF_OPERATOR_PORT_"
"""Of a container on this machine, with the number of a port in the manifest: where it is."""


@dataclass(frozen=True, slots=True)
class _Ports:
    own: int
    """0: any that is free."""
    remote: int


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "port-forward",
        help="open a port of a replica on this machine",
        description="Opens a port on 127.0.0.1 that forwards to a port of a replica on this machine, until Ctrl-C. In a"
        " cluster, use kubectl port-forward. Needs Linux.",
        epilog="exit codes: 1 it cannot be opened, or the replica has ended; 130 Ctrl-C",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument(
        "ports",
        nargs="+",
        type=_ports,
        metavar="[LOCAL:]PORT",
        help="port in the manifest, and the one to open; default: the same; :PORT opens one that is free",
    )
    process.add_arguments(parser)
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=run)


def _ports(text: str) -> _Ports:
    own, colon, remote = text.rpartition(":")
    own = (own or "0") if colon else remote
    numbers = [int(part) for part in (own, remote) if part.isascii() and part.isdigit() and int(part) <= _HIGHEST]
    if len(numbers) < 2 or not numbers[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT, LOCAL:PORT or :PORT, from 1 to {_HIGHEST}")
    return _Ports(*numbers)


def run(arguments: argparse.Namespace) -> int:
    choice = target.choose(arguments)

    def kubectl(pod: JobPod, _container: str) -> list[str]:
        pairs = [f"{ports.own or ''}:{ports.remote}" for ports in arguments.ports]
        return ["kubectl", "port-forward", "-n", pod.namespace, pod.name, *pairs]

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        async def find() -> ReplicaProcess:
            return await process.find(jobs, arguments, choice, kubectl)

        replica = await find()
        for ports in arguments.ports:
            if not replica.network and _real_port(replica, ports.remote) == ports.own:
                raise NotPossible(
                    f"port {ports.remote} of {replica.replica} is {_LOOPBACK}:{ports.own} already: connect to that, or"
                    f" open another one with :{ports.remote}"
                )
        with ExitStack() as opened:
            ended = asyncio.get_running_loop().create_future()
            for ports in arguments.ports:
                forwarder = _Forwarder(ports, find, ended)
                server = await forwarder.listen()
                opened.callback(server.close)  # to wait until it is closed would be to wait for all who are connected
            await ended
        return 0

    return session.run(arguments, verb, choice=choice)


class _Forwarder:
    """One port, and the connections to it. ``ended`` gets the error when the replica is gone."""

    def __init__(
        self, ports: _Ports, find: Callable[[], Awaitable[ReplicaProcess]], ended: "asyncio.Future[None]"
    ) -> None:
        self._ports = ports
        self._find = find
        self._ended = ended
        self._connections = set[asyncio.Task[None] | None]()
        """A loop does not keep the task of a connection that is closed on one side."""

    async def listen(self) -> asyncio.Server:
        own, remote = self._ports.own, self._ports.remote
        try:
            server = await asyncio.start_server(self._serve, _LOOPBACK, own)
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            reason = "something listens there already" if is_taken else os.strerror(error.errno or 0)
            raise NotPossible(
                f"{_LOOPBACK}:{own} cannot be opened: {reason}; :{remote} opens one that is free"
            ) from error
        number = server.sockets[0].getsockname()[1]
        sys.stdout.write(f"Forwarding from {_LOOPBACK}:{number} -> {remote}\n")
        sys.stdout.flush()
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._connections.add(task)
        try:
            await self._connect(reader, writer)
        except Exception as error:  # noqa: BLE001 (raised where the command waits)
            if not self._ended.done():
                self._ended.set_exception(error)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replica = await self._find()  # each time: one that was replaced has other ports
        port = _real_port(replica, self._ports.remote)
        own = writer.get_extra_info("sockname")[1]
        try:
            if replica.network:
                inner = await network_requests.connect(replica.network, _LOOPBACK, port)
                far_reader, far_writer = await asyncio.open_connection(sock=inner)
            elif port == own:  # nobody else listens there
                raise ConnectionRefusedError
            else:
                far_reader, far_writer = await asyncio.open_connection(_LOOPBACK, port)
        except OSError:
            session.say(f"{replica.replica} does not listen on port {self._ports.remote}, which is {_LOOPBACK}:{port}")
            return
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.close()


def _real_port(replica: ReplicaProcess, port: int) -> int:
    """Where a port of the manifest is; one that it does not name is where the program opens it.

    A program may write into its variables what it likes.
    """
    text = replica.variables.get(f"{_VARIABLE}{port}", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _HIGHEST else port


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # whoever hangs up ends it
        while piece := await source.read(_PIECE):
            target.write(piece)
            await target.drain()
        target.write_eof()
