"""PersistentVolumeClaims: each is a folder of the node's state, which goes with the claim, and not before its last pod.

This is what a provisioner and the controller of volumes do in a cluster: a claim is bound as soon as it is there, and
its data is deleted with it. A folder is named by the UID, so that a claim never has the data of an earlier one. A file
beside it says that the claim was deleted, for the case that the node ends before the folder can go. Without that file
no data is deleted: whoever has lost the journal has not lost what his programs have written.
"""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tf_operator.local.node import cached_objects
from tf_operator.local.node.cached_objects import CachedObject
from tf_operator.local.node.node_parts import NodeParts
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey

CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
_DELETED: Final = ".deleted"
_log = Logger(__name__)


class ClaimKeeper:
    """Binds claims, and removes the data of those that are gone. ``is_used``: whether a pod here has the claim."""

    def __init__(self, parts: NodeParts, *, is_used: Callable[[ObjectKey], bool]) -> None:
        self._parts = parts
        self._is_used = is_used
        self._claims = Informer(CLAIMS, client=parts.client, clock=parts.clock, decode=cached_objects.read)
        self._claims.add_handler(self)
        self._unbound: dict[str, CachedObject] = {}
        self._uids: set[str] = set()
        self._deleted: dict[str, ObjectKey] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._claims.run(), name="claims of the node")
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._bind_all()
                await self._remove_all()

    async def wait_synced(self) -> None:
        """Return once claims are known, and nothing is left of those that were deleted under an earlier node."""
        await self._claims.wait_synced()
        for mark in (self._parts.settings.folder / "claims").glob(f"*/*/*{_DELETED}"):
            _remove(mark.with_suffix(""))

    def on_add(self, item: CachedObject) -> None:
        if item.metadata.uid not in self._uids:  # once: a controller of volumes may be of another mind
            self._uids.add(item.metadata.uid)
            if item.status.get("phase") != "Bound":
                self._unbound[item.metadata.uid] = item
                self._changed.set()

    def on_update(self, old: CachedObject, new: CachedObject) -> None:
        """A claim has changed."""

    def on_delete(self, last: CachedObject, *, final_state_known: bool) -> None:  # noqa: ARG002 (the handler's form)
        self._uids.discard(last.metadata.uid)
        self._unbound.pop(last.metadata.uid, None)
        self._deleted[last.metadata.uid] = last.metadata.key
        with suppress(OSError):  # no program has used it, or the disk is full
            _mark(self._parts.settings.claim_folder(last.metadata.key, last.metadata.uid)).touch()
        self._changed.set()

    def on_pod_ended(self) -> None:
        if self._deleted:
            self._changed.set()

    async def _bind_all(self) -> None:
        while self._unbound:
            uid, item = self._unbound.popitem()
            patch = {"metadata": {"uid": uid}, "status": bound(item)}
            try:
                await self._parts.client.merge_patch(CLAIMS, item.metadata.key, patch, subresource="status")
            except (errors.NotFound, errors.Conflict):
                continue  # it is gone
            except errors.ApiError as error:
                _log.warning("a claim cannot be bound; its pods run", claim=str(item.metadata.key), error=str(error))

    async def _remove_all(self) -> None:
        for uid, key in list(self._deleted.items()):
            if not self._is_used(key):
                del self._deleted[uid]
                await asyncio.to_thread(_remove, self._parts.settings.claim_folder(key, uid))


def bound(claim: CachedObject) -> dict[str, Any]:
    """The status of a claim that has its volume, which is as large as was asked for."""
    spec = claim.spec
    return {"phase": "Bound", "accessModes": list(spec.access_modes), "capacity": spec.resources.requests}


def _mark(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_DELETED}")


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        _mark(folder).unlink(missing_ok=True)
    for empty in (folder.parent, folder.parent.parent):
        with suppress(OSError):  # other claims have folders there
            empty.rmdir()
