"""TensorBoards, and the Deployments and Services that run them.

TensorBoards are watched without a selector: users create them, too. Their CRD bounds what is kept of one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec

from tf_operator.controller.projections.children import NOBODY, Child, ChildMeta, Owner, owner_reader
from tf_operator.controller.projections.jobs import FieldManager
from tf_operator.controller.projections.json_parts import EMPTY, as_object
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.interning import Interned, InternedLabels, decoder
from tf_operator.meta import text_of
from tf_operator.planning import tensorboards
from tf_operator.planning.snapshot import TensorBoardObject
from tf_operator.text import LONGEST_MESSAGE, one_line


class _TensorBoardMeta(ChildMeta, frozen=True, rename="camel"):
    annotations: InternedLabels = InternedLabels()
    generation: int = 0
    managed_fields: tuple[FieldManager, ...] = ()


class _RawTensorBoard(msgspec.Struct, frozen=True):
    metadata: _TensorBoardMeta
    spec: msgspec.Raw = EMPTY
    status: msgspec.Raw = EMPTY


class _ChildMeta(ChildMeta, frozen=True, rename="camel"):
    annotations: InternedLabels = InternedLabels()
    generation: int = 0


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: Interned[str] = ""
    status: Interned[str] = ""
    message: str = ""


class _ChildStatus(msgspec.Struct, frozen=True, rename="camel"):
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[_Condition, ...] = ()


class _RawChild(msgspec.Struct, frozen=True):
    metadata: _ChildMeta
    status: _ChildStatus = _ChildStatus()


@dataclass(frozen=True, slots=True)
class CachedTensorBoard(Child):
    """An object of kind TensorBoard; ``owner`` is the job that has made it."""

    generation: int
    digest: str
    spec: msgspec.Raw
    status: msgspec.Raw
    status_managers: tuple[FieldManager, ...]
    is_terminating: bool

    def as_planned(self) -> TensorBoardObject:
        """As the plan of its job sees it."""
        status = as_object(self.status)
        return TensorBoardObject(
            self.metadata.name,
            self.metadata.uid,
            as_object(self.spec),
            self.digest,
            is_ready=status.get("phase") == "Running",
            message=one_line(text_of(status, "message"), most=LONGEST_MESSAGE),
            is_terminating=self.is_terminating,
        )


@dataclass(frozen=True, slots=True)
class CachedChild(Child):
    """A Deployment or a Service; ``owner`` is whatever controls it."""

    child: tensorboards.TensorBoardChild


_READ_TENSORBOARD: Final = decoder(_RawTensorBoard, keeps=tensorboards.DIGEST.__eq__)
_READ_CHILD: Final = decoder(_RawChild, keeps=tensorboards.DIGEST.__eq__)


@cache
def tensorboard_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedTensorBoard]:
    """Reads TensorBoards, and finds which job of these APIs has made one."""
    owner_of = owner_reader(apis, is_labelled=False)

    def read(raw: msgspec.Raw | bytes) -> CachedTensorBoard:
        raw_board = _READ_TENSORBOARD(raw)
        metadata = raw_board.metadata
        return CachedTensorBoard(
            metadata.core(),
            owner_of(metadata).uid,
            metadata.generation,
            metadata.annotations.get(tensorboards.DIGEST, ""),
            raw_board.spec,
            raw_board.status,
            tuple(manager for manager in metadata.managed_fields if manager.subresource == "status"),
            metadata.deletion_timestamp is not None,
        )

    return read


def read_child(raw: msgspec.Raw | bytes) -> CachedChild:
    """Read a Deployment or a Service."""
    raw_child = _READ_CHILD(raw)
    metadata, status = raw_child.metadata, raw_child.status
    owner: Owner = next((entry for entry in metadata.owner_references if entry.controller), NOBODY)
    is_current = status.observed_generation >= metadata.generation
    trouble = (entry.message for entry in status.conditions if (entry.type, entry.status) == ("ReplicaFailure", "True"))
    child = tensorboards.TensorBoardChild(
        metadata.name,
        metadata.uid,
        metadata.annotations.get(tensorboards.DIGEST, ""),
        is_terminating=metadata.deletion_timestamp is not None,
        is_available=is_current and status.available_replicas > 0,
        message=one_line(next(trouble, ""), most=LONGEST_MESSAGE),
    )
    return CachedChild(metadata.core(), owner.uid, child)
