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
    service: Service


_READ_SERVICE: Final = decoder(_RawService)


@cache
def service_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedService]:
    owner_of = owner_reader(apis)

    def read_service(raw: msgspec.Raw | bytes) -> CachedService:
        metadata = _READ_SERVICE(raw).metadata
        core = metadata.core()
        service = Service(core.name, core.uid, metadata.deletion_timestamp is not None, metadata.labels.job_uid)
        return CachedService(core, owner_of(metadata).uid, service)

    return read_service
