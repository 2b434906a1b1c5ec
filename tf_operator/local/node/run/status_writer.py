"""Writes the latest status of one pod, whenever it differs from what is stored; a slow server delays only itself."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tf_operator.local.node.node_parts import PODS, NodeParts
from tf_operator.local.node.pod import LocalPod, pod_of
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors

_log = Logger(__name__)
_PAUSE = 1.0
"""After a failure."""

MakeStatus = Callable[[LocalPod], Mapping[str, Any]]
"""From the pod as it is stored to the status that it should have: conditions of others are kept."""


class PodStatusWriter:
    def __init__(self, parts: NodeParts, pod: LocalPod) -> None:
        self._parts = parts
        self._pod = pod
        self._make: MakeStatus | None = None
        self._requested = asyncio.Event()
        self._written = asyncio.Event()

    def is_newest(self, pod: LocalPod) -> None:
        """The pod was seen in this version."""
        if _version(pod) > _version(self._pod):
            self._pod = pod

    def want(self, make: MakeStatus) -> None:
        """Write this status, and no earlier one."""
        self._make = make
        self._written.clear()
        self._requested.set()

    async def wait_written(self) -> None:
        await self._written.wait()

    async def run(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                try:
                    await self._write()
                except errors.Conflict:
                    await self._read_again()
            except errors.NotFound:
                self._written.set()  # as far as it can be
            except errors.ApiError as error:
                _log.warning("the status of a pod cannot be written", pod=str(self._pod.key), error=str(error))
                await self._parts.clock.sleep(_PAUSE)
                self._requested.set()

    async def _write(self) -> None:
        make = self._make
        if make is None:
            return
        status, old = make(self._pod), self._pod.status
        patch_fields: dict[str, Any] = {name: value for name, value in status.items() if old.get(name) != value}
        patch_fields |= {name: None for name in ("reason", "message") if name in old and name not in status}
        if patch_fields:
            # With the version: the list of conditions is replaced, and others add theirs.
            metadata = {"uid": self._pod.uid, "resourceVersion": self._pod.metadata.resource_version}
            patch = {"metadata": metadata, "status": patch_fields}
            body = await self._parts.client.merge_patch(PODS, self._pod.key, patch, subresource="status")
            self.is_newest(pod_of(body))
        if make is self._make:
            self._written.set()

    async def _read_again(self) -> None:
        pod = pod_of(await self._parts.client.get(PODS, self._pod.key))
        if pod.uid != self._pod.uid:
            self._written.set()
            return
        self.is_newest(pod)
        self._requested.set()


def _version(pod: LocalPod) -> int:
    text = pod.metadata.resource_version
    return int(text) if text.isdecimal() else 0
