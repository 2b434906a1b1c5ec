"""The networks of isolated jobs: all pods of such a job share one, in which nobody else is.

It is made for the first pod and closed with the last one. Nothing leads out of it but one port of this machine, to
which connections are passed on.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tf_operator.job.constants import NETWORK_ANNOTATION
from tf_operator.job.training_job import NetworkPolicyMode
from tf_operator.local.node.addresses import LOOPBACK
from tf_operator.local.node.pod import LocalPod
from tf_operator.local.node.processes import network_requests
from tf_operator.local.node.processes.network_requests import Network

_MOST_CONNECTIONS: Final = 16
"""That are passed on at a time; others wait."""
_PIECE: Final = 1 << 16


def is_isolated(pod: LocalPod) -> bool:
    """Whether the pod is for a network of its job."""
    return pod.metadata.annotations.get(NETWORK_ANNOTATION) == NetworkPolicyMode.JOB


@dataclass(slots=True)
class _JobNetwork:
    network: Network
    server: asyncio.Server | None
    pods: set[str] = field(default_factory=set)

    def close(self) -> None:
        if self.server:
            self.server.close()
        self.network.close()


class JobNetworks:
    """``shared_port``: the port that all of them reach, if any."""

    def __init__(self, shared_port: int | None) -> None:
        self._shared_port = shared_port
        self._by_job: dict[str, _JobNetwork] = {}
        self._making = asyncio.Lock()

    async def join(self, pod: LocalPod) -> tuple[str, ...]:
        """The paths of the network in which the pod runs until it is released; ``NetworkError`` if there can be none.

        Empty for a pod that is not isolated.
        """
        if not is_isolated(pod):
            return ()
        async with self._making:
            job = _job_of(pod)
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
            server = await asyncio.start_server(_Passage(self._shared_port).serve, sock=inner)
        except BaseException:
            inner.close()
            network.close()
            raise
        return _JobNetwork(network, server)


class _Passage:
    """Passes connections on to the same port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._room = asyncio.Semaphore(_MOST_CONNECTIONS)
        self._running = set[asyncio.Task[None] | None]()
        """A loop does not keep the task of a connection that is closed on one side."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._running.add(task)
        try:
            async with self._room:
                await self._pass(reader, writer)
        finally:
            self._running.discard(task)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # who has connected reports again
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._port)
            try:
                await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
            finally:
                far_writer.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # who hangs up ends it
        while piece := await source.read(_PIECE):
            target.write(piece)
            await target.drain()
        target.write_eof()


def _job_of(pod: LocalPod) -> str:
    return pod.owner.uid if pod.owner else pod.uid
