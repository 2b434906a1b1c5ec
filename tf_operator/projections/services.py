"""Services: whether they are there, and whether one request may delete all of a job."""

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from tf_operator.dialects.served import ServedAPI
from tf_operator.job.profile import JOB_UID_LABEL
from tf_operator.machinery.cache.interning import Interned, decoder
from tf_operator.planning.snapshot import Service
from tf_operator.projections.children import Child, ChildLabels, ChildMeta, owner_reader


class _ServiceLabels(ChildLabels, frozen=True, gc=False):
    job_uid: Interned[str] = msgspec.field(name=JOB_UID_LABEL, default="")


class _ServiceMeta(ChildMeta, frozen=True, rename="camel"):
    labels: _ServiceLabels = _ServiceLabels()


class _RawService(msgspec.Struct, frozen=True):
    metadata: _ServiceMeta


class CachedService(Child, frozen=True):
    is_terminating: bool
    job_uid_label: str

    @property
    def service(self) -> Service:
        """As planning sees it; made when it is asked for, because there may be very many."""
        return Service(self.name, self.uid, self.is_terminating, self.job_uid_label)


_READ_SERVICE: Final = decoder(_RawService)


@cache
def service_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedService]:
    owner_of = owner_reader(apis)

    def read_service(raw: msgspec.Raw | bytes) -> CachedService:
        metadata = _READ_SERVICE(raw).metadata
        is_terminating = metadata.deletion_timestamp is not None
        return CachedService(*metadata.core(), owner_of(metadata).uid, is_terminating, metadata.labels.job_uid)

    return read_service
