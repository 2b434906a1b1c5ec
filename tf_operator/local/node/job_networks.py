"""The networks of isolated jobs: all pods of such a job share one, in which nobody else is.

It is made for the first pod and closed with the last one. Nothing leads out of it but one port of this machine, to
which connections are passed on.
"""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tf_operator.job.constants import NETWORK_ANNOTATION
from tf_operator.job.training_job import NetworkPolicyMode
from tf_operator.local.node.addresses import LOOPBACK
from tf_operator.local.node.pod import LocalPod
from tf_operator.local.node.processes import network_requests
from tf_operator.local.node.processes.network_requests import Network
from tf_operator.machinery import sockets
from tf_operator.machinery.clock import Clock

MOST_CONNECTIONS: Final = 16
"""Of a job that are passed on at a time. Others are not even accepted: each would take a descriptor of this process."""
_PAUSE: Final = 0.1
"""Seconds after which a connection is accepted again when the process has no descriptor left."""
_PIECE: Final = 1 << 16


def is_isolated(pod: LocalPod) -> bool:
    """Whether the pod is for a network of its job."""
    return pod.metadata.annotations.get(NETWORK_ANNOTATION) == NetworkPolicyMode.JOB


@dataclass(slots=True)
class _JobNetwork:
    network: Network
    passing: asyncio.Task[None] | None
    pods: set[str] = field(default_factory=set)

    def close(self) -> None:
        if self.passing:
            self.passing.cancel()
        self.network.close()


class JobNetworks:
    """``shared_port``: the port that all of them reach, if any, while ``run`` runs."""

    def __init__(self, shared_port: int | None, clock: Clock) -> None:
        self._shared_port = shared_port
        self._clock = clock
        self._by_job: dict[str, _JobNetwork] = {}
        self._making = asyncio.Lock()
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Pass connections on until cancelled."""
        async with self._tasks:
            await asyncio.get_running_loop().create_future()

    async def join(self, pod: LocalPod) -> tuple[str, ...]:
        """The paths of the network in which the pod runs until it is released; ``NetworkError`` if there can be none.

        Empty for a pod that is not isolated. One that was stays so, whatever becomes of its mark.
        """
        job = _job_of(pod)
        if not is_isolated(pod) and not (job in self._by_job and pod.uid in self._by_job[job].pods):
            return ()
        async with self._making:
            if job not in self._by_job:
                self._by_job[job] = await self._make()
            self._by_job[job].pods.add(pod.uid)
            return self._by_job[job].network.paths

    def release(self, pod: LocalPod) -> None:
        """No program of the pod runs any more."""
        job = self._by_job.get(_job_of(pod))
        if job and pod.uid in job.pods:
            job.pods.remove(pod.uid)
            if not job.pods:
                self._by_job.pop(_job_of(pod)).close()

    async def _make(self) -> _JobNetwork:
        network, inner = await network_requests.make()
        if self._shared_port is None:
            inner.close()
            return _JobNetwork(network, None)
        try:
            inner.bind((LOOPBACK, self._shared_port))
            inner.listen(MOST_CONNECTIONS)
        except BaseException:
            inner.close()
            network.close()
            raise
        passing = self._tasks.create_task(_Passage(self._shared_port, self._clock).run(inner))
        passing.add_done_callback(lambda _: inner.close())  # not by itself: cancelled before it begins, it never runs
        return _JobNetwork(network, passing)


class _Passage:
    """Passes connections on to the same port of this machine."""

    def __init__(self, port: int, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)

    async def run(self, listener: socket.socket) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._room.acquire()
                sock = await self._accept(listener)
                passing = tasks.create_task(self._pass(sock))
                passing.add_done_callback(partial(self._end, sock))

    async def _accept(self, listener: socket.socket) -> socket.socket:
        while True:
            await self._clock.sleep(0)  # where many wait, ``accept`` does not: everything else needs a turn
            try:
                return await sockets.accept(listener)
            except OSError:
                await self._clock.sleep(_PAUSE)

    def _end(self, sock: socket.socket, _task: asyncio.Task[None]) -> None:
        sock.close()
        self._room.release()

    async def _pass(self, sock: socket.socket) -> None:
        """Until the machine's side has sent everything: who keeps a connection after that keeps others waiting."""
        with suppress(OSError):  # who has connected reports again
            reader, writer = await asyncio.open_connection(sock=sock)
            try:
                far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._port)
                try:
                    async with asyncio.TaskGroup() as tasks:
                        requests = tasks.create_task(_pass_on(reader, far_writer))
                        await _pass_on(far_reader, writer)
                        requests.cancel()
                finally:
                    sockets.abort(far_writer.transport)
            finally:
                sockets.abort(writer.transport)


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    target.transport.set_write_buffer_limits(0)  # ``drain`` waits until everything is sent
    with suppress(OSError):  # who hangs up ends it
        while piece := await source.read(_PIECE):
            target.write(piece)
            await target.drain()
        target.write_eof()


def _job_of(pod: LocalPod) -> str:
    return pod.owner.uid if pod.owner else pod.uid
