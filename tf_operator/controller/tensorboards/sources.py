"""The objects that ask for a TensorBoard to be run, and where it is reported how that one stands.

An object of kind TensorBoard has a status. A job has none for it: there, an event says what is wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from tf_operator.controller.debounce import SHORTEST
from tf_operator.controller.reporter import Recorder
from tf_operator.controller.writing.writes import Writer
from tf_operator.dialects import merge_patch
from tf_operator.dialects.served import ServedAPI
from tf_operator.dialects.tensorboard import v1beta1
from tf_operator.job.report import EventKind
from tf_operator.job.tensorboard import RESOURCE, TensorBoard
from tf_operator.machinery.cache.consistency import OwnerKey
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.cache.store import Item
from tf_operator.machinery.events.event_object import reference_to
from tf_operator.machinery.log import Logger
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.meta import ObjectKey, OwnerRef
from tf_operator.planning.tensorboards import TensorBoardPlan
from tf_operator.projections.extras import CachedExtra
from tf_operator.projections.jobs import StoredJob, job_of
from tf_operator.projections.json_parts import as_object
from tf_operator.projections.tensorboards import CachedChild

_log = Logger(__name__)

OURS: Final = "tf-operator"
"""The field manager of this operator's writes."""

T = TypeVar("T", bound=Item)


@dataclass(frozen=True, slots=True)
class BoardRequest:
    """What an object asks for."""

    owner: OwnerRef
    board: TensorBoard | None
    """``None``: nothing."""
    has_ended: bool = False
    """A job that has: nothing is created for it any more."""


class Source(Protocol[T]):
    """Objects of one resource that may ask for a TensorBoard."""

    @property
    def informer(self) -> Informer[T]:
        """The objects."""

    def may_ask(self, item: T) -> bool:
        """Whether it is worth reading, which is cheap to say."""

    def has_changed(self, old: T, new: T) -> bool:
        """Whether it may ask for something else now."""

    def read(self, item: T) -> BoardRequest | None:
        """What it asks for; ``None`` when it is not ours, or is about to go."""

    async def report(self, item: T, plan: TensorBoardPlan, writer: Writer) -> None:
        """Say how the TensorBoard stands, if that is news."""

    def forget(self, uid: str) -> None:
        """The object is gone."""

    def begin_term(self) -> None:
        """What was reported in an earlier term is not known any more."""


@dataclass(frozen=True, slots=True)
class TensorBoardObjects:
    """Objects of kind TensorBoard. One that another controller changes, too, is left to it."""

    informer: Informer[CachedExtra]
    contested: set[str] = field(default_factory=set)
    """The UIDs of those."""

    def may_ask(self, item: CachedExtra) -> bool:
        return item.metadata.uid not in self.contested

    def has_changed(self, old: CachedExtra, new: CachedExtra) -> bool:
        """Whether its spec has changed. Another controller shows by its write to the status, while this one watches."""
        earlier = set(old.status_managers)
        others = [manager.name for manager in new.status_managers if manager not in earlier and _is_other(manager.name)]
        if others and new.metadata.uid not in self.contested:
            self.contested.add(new.metadata.uid)
            _log.warning("another controller serves this TensorBoard", tensorboard=str(new.metadata.key), who=others[0])
        return old.generation != new.generation

    def read(self, item: CachedExtra) -> BoardRequest | None:
        if item.is_terminating or not self.may_ask(item):
            return None
        name, uid = item.metadata.name, item.metadata.uid
        owner = OwnerRef(RESOURCE.api_version, RESOURCE.kind, name, uid, controller=True, block_owner_deletion=True)
        return BoardRequest(owner, v1beta1.read(name, as_object(item.spec)))

    async def report(self, item: CachedExtra, plan: TensorBoardPlan, writer: Writer) -> None:
        """Write the status, if it says anything new."""
        stored = as_object(item.status)
        status = v1beta1.status(plan.phase, url=plan.url, message=plan.message, stored_status=stored)
        change = merge_patch.difference(stored, status)
        if change:
            owner = OwnerKey(item.metadata.key, item.metadata.uid)
            body = {"metadata": {"uid": owner.uid}, "status": change}
            await writer.patch(owner, RESOURCE, owner.key.name, body=body, subresource="status")

    def forget(self, uid: str) -> None:
        self.contested.discard(uid)

    def begin_term(self) -> None:
        """Another controller is noticed again."""
        self.contested.clear()


@dataclass(frozen=True, slots=True)
class TensorBoardsOfJobs:
    """Jobs of an API whose jobs run a TensorBoard themselves."""

    informer: Informer[StoredJob]
    api: ServedAPI
    recorder: Recorder
    reported: dict[str, str] = field(default_factory=dict)
    """What was reported last, by the UID of the job."""

    def may_ask(self, item: StoredJob) -> bool:
        """Most jobs have none, and are not read for it."""
        texts = item.metadata.annotations.values()
        return b"tensorboard" in bytes(item.spec) or any("tensorboard" in text for text in texts)

    def has_changed(self, old: StoredJob, new: StoredJob) -> bool:
        return (old.metadata.generation, old.metadata.annotations) != (
            new.metadata.generation,
            new.metadata.annotations,
        )

    def read(self, item: StoredJob) -> BoardRequest | None:
        """What the job says. One whose spec is invalid, or that somebody else manages, gets nothing."""
        job = job_of(item, self.api)
        if job.is_being_deleted or not job.is_ours:
            return None
        board = None if job.problems else job.tensorboard
        return BoardRequest(job.owner_reference, board, has_ended=job.record.is_finished)

    async def report(self, item: StoredJob, plan: TensorBoardPlan, writer: Writer) -> None:  # noqa: ARG002
        uid = item.metadata.uid
        if plan.message and self.reported.get(uid) != plan.message and self.informer.store.by_uid(uid):
            self.reported[uid] = plan.message
            regarding = reference_to(self.informer.resource, item.metadata.key, uid)
            reason = self.api.event_reason(EventKind.CREATE_FAILED)
            self.recorder.event(regarding, "Warning", reason=reason, message=f"The TensorBoard: {plan.message}")

    def forget(self, uid: str) -> None:
        self.reported.pop(uid, None)

    def begin_term(self) -> None:
        """Events are merged by what they say, so to repeat one does no harm."""
        self.reported.clear()


@dataclass(frozen=True, slots=True)
class Asking(Generic[T]):
    """Those objects of a source that may ask."""

    source: Source[T]

    def __iter__(self) -> Iterator[T]:
        return (item for item in self.source.informer.store if self._may_ask(item))

    def _may_ask(self, item: T) -> bool:
        try:
            return self.source.may_ask(item)
        except Exception:  # noqa: BLE001 (its reconcile fails then, and not the term of all)
            return True


@dataclass(frozen=True, slots=True)
class OnSource(Generic[T]):
    """A change of an object has it reconciled, if it may ask for something."""

    queue: RateLimitedQueue[ObjectKey]
    source: Source[T]

    def on_add(self, item: T) -> None:
        if self.source.may_ask(item):
            self.queue.add(item.metadata.key)

    def on_update(self, old: T, new: T) -> None:
        """Reconcile it in a moment; also when it asks no more."""
        if self.source.has_changed(old, new) and (self.source.may_ask(old) or self.source.may_ask(new)):
            self.queue.add_debounced(new.metadata.key, SHORTEST)

    def on_delete(self, last: T, *, final_state_known: bool) -> None:  # noqa: ARG002
        """Forget it: the garbage collector deletes its children."""
        self.source.forget(last.metadata.uid)
        self.queue.forget(last.metadata.key)


@dataclass(frozen=True, slots=True)
class OnTensorBoardChild:
    """A change of a Deployment or Service has the object reconciled that controls it."""

    queue: RateLimitedQueue[ObjectKey]
    find: Callable[[str], Item | None]
    """The object of this UID."""

    def on_add(self, item: CachedChild) -> None:
        owner = self.find(item.owner) if item.owner else None
        if owner and owner.metadata.namespace == item.metadata.namespace:
            self.queue.add_debounced(owner.metadata.key, SHORTEST)

    def on_update(self, old: CachedChild, new: CachedChild) -> None:
        """Reconcile the owner, unless nothing that matters has changed."""
        if (old.child, old.owner) != (new.child, new.owner):
            self.on_add(new)
            if old.owner != new.owner:
                self.on_add(old)

    def on_delete(self, last: CachedChild, *, final_state_known: bool) -> None:  # noqa: ARG002
        """Reconcile the owner, which needs another one."""
        self.on_add(last)


def _is_other(manager: str) -> bool:
    """Whether a writer of a status is another controller: neither this operator nor a person with kubectl."""
    return manager != OURS and not manager.startswith("kubectl")
