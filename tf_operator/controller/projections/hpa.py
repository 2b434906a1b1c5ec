"""HorizontalPodAutoscalers of jobs: whether they are there, and what they were made from. Their status is not kept."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec

from tf_operator.controller.projections.children import Child, ChildMeta, owner_reader
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.interning import InternedLabels, decoder
from tf_operator.planning.snapshot import HPA
from tf_operator.planning.tensorboards import DIGEST


class _HPAMeta(ChildMeta, frozen=True, rename="camel"):
    annotations: InternedLabels = InternedLabels()


class _RawHPA(msgspec.Struct, frozen=True):
    metadata: _HPAMeta


@dataclass(frozen=True, slots=True)
class CachedHPA(Child):
    """A HorizontalPodAutoscaler."""

    hpa: HPA


_READ: Final = decoder(_RawHPA, keeps=DIGEST.__eq__)


@cache
def hpa_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedHPA]:
    """Reads those of the jobs of these APIs."""
    owner_of = owner_reader(apis)

    def read(raw: msgspec.Raw | bytes) -> CachedHPA:
        metadata = _READ(raw).metadata
        core, digest = metadata.core(), metadata.annotations.get(DIGEST, "")
        hpa = HPA(core.name, core.uid, digest, metadata.deletion_timestamp is not None)
        return CachedHPA(core, owner_of(metadata).uid, hpa)

    return read
