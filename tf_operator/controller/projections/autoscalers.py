"""HorizontalPodAutoscalers of jobs: whether they are there, and what they were made from. Their status is not kept."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec

from tf_operator.controller.projections.children import Child, ChildMeta, owner_reader
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.interning import InternedLabels, decoder
from tf_operator.planning.snapshot import Autoscaler
from tf_operator.planning.tensorboards import DIGEST


class _AutoscalerMeta(ChildMeta, frozen=True, rename="camel"):
    annotations: InternedLabels = InternedLabels()


class _RawAutoscaler(msgspec.Struct, frozen=True):
    metadata: _AutoscalerMeta


@dataclass(frozen=True, slots=True)
class CachedAutoscaler(Child):
    """A HorizontalPodAutoscaler."""

    autoscaler: Autoscaler


_READ: Final = decoder(_RawAutoscaler, keeps=DIGEST.__eq__)


@cache
def autoscaler_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedAutoscaler]:
    """Reads those of the jobs of these APIs."""
    owner_of = owner_reader(apis)

    def read(raw: msgspec.Raw | bytes) -> CachedAutoscaler:
        metadata = _READ(raw).metadata
        core, digest = metadata.core(), metadata.annotations.get(DIGEST, "")
        autoscaler = Autoscaler(core.name, core.uid, digest, metadata.deletion_timestamp is not None)
        return CachedAutoscaler(core, owner_of(metadata).uid, autoscaler)

    return read
