"""Single writes, each recorded so that the next reconcile waits for the caches to show it.

A write ends in one of three ways: its effect is certain, and the version is recorded; it was refused, and nothing
happened; or the outcome is unknown, and the next reconcile has to read live. Deletes carry the UID of the object. One
that is gone, or has been replaced by another of its name, counts as deleted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.machinery.cache.consistency import OwnerKey, PendingWrites
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import Body, ObjectKey, controller_of, labels_of, resource_version_of, uid_of


@dataclass(frozen=True, slots=True)
class Writer:
    client: ApiClient
    pending_writes: PendingWrites

    async def create(
        self, owner: OwnerKey, resource: Resource, body: Mapping[str, Any], *, is_watched: bool = False
    ) -> None:
        """Create a child. One of ours that is there already is fine; another's raises ``AlreadyExists``.

        No cache shows one of ours that has lost the label by which it is watched: it is not waited for. Where all that
        becomes of it has to be seen (``is_watched``), it raises ``AlreadyExists``, too.
        """
        try:
            metadata = await self._create(owner, resource, body)
        except errors.AlreadyExists:
            try:
                metadata, has_label = await self._existing(owner, resource, body)
            except errors.NotFound:  # it was deleted just now
                metadata, has_label = await self._create(owner, resource, body), True
            if not has_label:
                if is_watched:
                    raise _taken_error(
                        f"it is there, without the label {_watched_by(body)}; put the label back"
                    ) from None
                return
        self._wrote(owner, resource, metadata)

    async def delete(self, owner: OwnerKey, resource: Resource, *, name: str, uid: str, only_at: str = "") -> bool:
        """Delete this very object, with ``only_at`` at this version only; whether it is done.

        It is not when the object has changed: then the next reconcile reads live and decides again.
        """
        key = ObjectKey(owner.key.namespace, name)
        version = ""
        try:
            with self._record_outcome(owner, resource):
                left = await self.client.write(requests.delete(resource, key, uid=uid, version=only_at))
                version = left.resource_version if left.uid == uid else ""
        except errors.NotFound as refusal:
            if not refusal.is_about(name):
                raise
        except errors.Conflict:
            if only_at:
                self.pending_writes.outcome_unknown(owner, str(resource))
                return False
            # The name belongs to another by now.
        self.pending_writes.deleted(owner, str(resource), uid=uid, version=version)
        return True

    async def delete_all(self, owner: OwnerKey, resource: Resource, *, request: Request, uids: Sequence[str]) -> None:
        with self._record_outcome(owner, resource):
            await self.client.send(request)
        for uid in uids:
            self.pending_writes.deleted(owner, str(resource), uid=uid)

    async def patch(
        self, owner: OwnerKey, resource: Resource, name: str, *, body: Mapping[str, Any], subresource: str = ""
    ) -> None:
        """Change an object; guarded, if ``body`` has a resource version."""
        key = ObjectKey(owner.key.namespace, name)
        with self._record_outcome(owner, resource):
            metadata = await self.client.write(requests.merge_patch(resource, key, body, subresource=subresource))
        self._wrote(owner, resource, metadata)

    async def _create(self, owner: OwnerKey, resource: Resource, body: Mapping[str, Any]) -> ObjectMeta:
        with self._record_outcome(owner, resource):
            return await self.client.write(requests.create(resource, owner.key.namespace, body))

    async def _existing(self, owner: OwnerKey, resource: Resource, body: Body) -> tuple[ObjectMeta, bool]:
        """The object that has the name already, if it is the job's, and whether it has the label; ``AlreadyExists``."""
        with self._record_outcome(owner, resource):
            existing = await self.client.get(resource, ObjectKey(owner.key.namespace, str(body["metadata"]["name"])))
        controller = controller_of(existing)
        if controller is None or controller.uid != owner.uid:
            whose = f"{controller.kind} {controller.name}" if controller else "nobody"
            raise _taken_error(f"its name is taken by one that belongs to {whose}")
        metadata = ObjectMeta(uid=uid_of(existing), resource_version=resource_version_of(existing))
        return metadata, _watched_by(existing) == _watched_by(body)

    def _wrote(self, owner: OwnerKey, resource: Resource, metadata: ObjectMeta) -> None:
        self.pending_writes.wrote(owner, str(resource), uid=metadata.uid, version=metadata.resource_version)

    def _record_outcome(self, owner: OwnerKey, resource: Resource) -> "_OutcomeRecorder":
        return _OutcomeRecorder(self.pending_writes, owner, resource)


class _OutcomeRecorder:
    """Around a call: when its outcome stays unknown, the next reconcile reads live."""

    __slots__ = ("_owner", "_pending_writes", "_resource")

    def __init__(self, pending_writes: PendingWrites, owner: OwnerKey, resource: Resource) -> None:
        self._pending_writes = pending_writes
        self._owner = owner
        self._resource = resource

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and (not isinstance(error, errors.ApiError) or error.outcome_unknown):
            self._pending_writes.outcome_unknown(self._owner, str(self._resource))


def _watched_by(body: Body) -> str:
    return f"{OPERATOR_LABEL}={labels_of(body).get(OPERATOR_LABEL, '')}"


def _taken_error(message: str) -> errors.AlreadyExists:
    return errors.AlreadyExists(409, errors.Status(reason="AlreadyExists", message=message))
