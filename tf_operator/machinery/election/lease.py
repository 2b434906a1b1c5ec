"""The Lease as a value, and the calls that read and write it.

What a Lease says is read without being believed: anybody with the right to may have written nonsense into it, and an
elector that trips over it would leave the cluster without a leader. ``read_lease`` turns whatever there is into a
``LeaseRecord``. The times in it are for people: no decision here or in ``leaderelection`` compares them with a clock,
because they were read off somebody else's (``Observation`` counts from what we saw change, on our own clock).

Writes replace the whole object and are guarded by its resourceVersion *and* UID. The UID matters: Leases may be
created by an update, and the apiserver takes an update of a Lease that was deleted meanwhile for one of those, unless
a UID contradicts it. What we do not know (labels, annotations, further fields of the spec) is sent back as it came.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import structs

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.metrics_hooks import ClientInstruments
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource
from tf_operator.machinery.transport.transport import Transport
from tf_operator.meta import (
    MAPPINGS,
    Body,
    ObjectKey,
    mapping_of,
    metadata_of,
    micro_time,
    parse_time,
    resource_version_of,
    text_of,
    uid_of,
)

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LONGEST_LEASE = 3600
"""``ElectionConfig`` allows no more, so the holder is not an elector: 2**31 s would be 68 years."""

_MOST_TRANSITIONS = 2**31 - 2
_QPS, _BURST = 2.0, 10
"""An elector needs one request every retry period, and three when something is wrong."""
_NO_ANNOTATIONS: Mapping[str, str] = {}


class LeaseRecord(msgspec.Struct, frozen=True):
    """What an elector reads from a Lease and writes into it."""

    holder: str = ""
    """Empty: nobody's."""
    seconds: int | None = None
    """How long the holder may be silent; ``None`` when there is nothing to be believed."""
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    transitions: int = 0

    def held(self, identity: str, *, seconds: int, now: datetime) -> "LeaseRecord":
        """The record that says that ``identity`` holds the Lease: from now on, or still."""
        is_renewal = self.holder == identity
        return LeaseRecord(
            holder=identity,
            seconds=seconds,
            acquire_time=self.acquire_time if is_renewal and self.acquire_time else now,
            renew_time=now,
            transitions=self.transitions + (not is_renewal),
        )

    def released(self, now: datetime) -> "LeaseRecord":
        """The record that says that it is free for anybody at once; as client-go writes it."""
        return structs.replace(self, holder="", seconds=1, acquire_time=now, renew_time=now)

    def spec(self) -> dict[str, Any]:
        """The record as the ``spec`` of a Lease. Six digits always: Go refuses a MicroTime without a fraction."""
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.seconds,
            "acquireTime": micro_time(self.acquire_time) if self.acquire_time else None,
            "renewTime": micro_time(self.renew_time) if self.renew_time else None,
            "leaseTransitions": self.transitions,
        }


class Lease(msgspec.Struct, frozen=True):
    """A Lease as it was read: what it says, and the object for the next update to start from."""

    record: LeaseRecord
    body: Body = {}

    @property
    def spec(self) -> Body:
        """The raw ``spec``, whatever is in it."""
        value = self.body.get("spec")
        return value if isinstance(value, MAPPINGS) else {}

    def annotation(self, name: str) -> str:
        """An annotation; empty if it is none, or no text."""
        return text_of(mapping_of(metadata_of(self.body).get("annotations")), name)

    @property
    def version(self) -> str:
        return resource_version_of(self.body)


def read_lease(body: Body) -> Lease:
    """Read a Lease. Never raises: what is invalid counts as missing."""
    spec = Lease(LeaseRecord(), body).spec
    return Lease(
        LeaseRecord(
            holder=text_of(spec, "holderIdentity"),
            seconds=_number(spec, "leaseDurationSeconds", least=1, most=LONGEST_LEASE),
            acquire_time=parse_time(spec.get("acquireTime")),
            renew_time=parse_time(spec.get("renewTime")),
            transitions=_number(spec, "leaseTransitions", least=0, most=_MOST_TRANSITIONS) or 0,
        ),
        body,
    )


def _number(spec: Body, name: str, *, least: int, most: int) -> int | None:
    value = spec.get(name)
    return value if type(value) is int and least <= value <= most else None


class Observation(msgspec.Struct, frozen=True):
    """A Lease, and since when *on our clock* it has had its version: the only age that counts.

    The version and not, as in client-go, the spec: somebody may put a spec back that we have read before, after
    renewals that we missed. So an annotation counts as a sign of life, too, and delays a take-over.
    """

    lease: Lease
    at: float

    def followed_by(self, lease: Lease, at: float) -> "Observation":
        """The observation after reading the Lease again."""
        return Observation(lease, self.at if lease.version == self.lease.version else at)

    def expires_at(self, least_seconds: int) -> float:
        """When its holder has been silent for too long, by its measure and by ours: anybody may have written less."""
        return self.at + max(self.lease.record.seconds or 0, least_seconds)


class Lock(Protocol):
    """The calls by which electors contend; all of them raise ``errors.ApiError``."""

    async def read(self) -> Lease | None:
        """The Lease as it is now; ``None`` when there is none."""

    async def create(self, record: LeaseRecord) -> Lease:
        """Make the Lease; ``AlreadyExists`` when somebody was faster."""

    async def update(self, lease: Lease, record: LeaseRecord) -> Lease:
        """Change the Lease if it still is as it was seen; ``Conflict`` otherwise."""


class LeaseLock:
    """The Lock on a real apiserver."""

    def __init__(self, client: ApiClient, key: ObjectKey, annotations: Mapping[str, str] = _NO_ANNOTATIONS) -> None:
        """``annotations`` are written with each record, beside those of others."""
        self._client = client
        self._key = key
        self._annotations = annotations

    async def read(self) -> Lease | None:
        """Read the Lease; always a consistent read."""
        try:
            return _read_reply(await self._client.get(LEASES, self._key))
        except errors.NotFound as missing:
            if not missing.reason:  # a page of some proxy: nothing was said about our Lease
                raise
            return None

    async def create(self, record: LeaseRecord) -> Lease:
        metadata = {"namespace": self._key.namespace, "name": self._key.name}
        body = {"metadata": self._annotated(metadata), "spec": record.spec()}
        return _read_reply(await self._client.create(LEASES, self._key.namespace, body))

    async def update(self, lease: Lease, record: LeaseRecord) -> Lease:
        metadata = {name: value for name, value in metadata_of(lease.body).items() if name != "managedFields"}
        body = {"metadata": self._annotated(metadata), "spec": {**lease.spec, **record.spec()}}
        return _read_reply(await self._client.update(LEASES, self._key, body))

    def _annotated(self, metadata: Body) -> Body:
        if not self._annotations:
            return metadata
        return {**metadata, "annotations": {**mapping_of(metadata.get("annotations")), **self._annotations}}


@asynccontextmanager
async def open_lock(
    transport: AbstractAsyncContextManager[Transport],
    key: ObjectKey,
    *,
    clock: Clock,
    instruments: ClientInstruments | None = None,
    annotations: Mapping[str, str] = _NO_ANNOTATIONS,
) -> AsyncIterator[LeaseLock]:
    """A lock with a budget that nothing else uses, on a transport that it opens and nothing else should use either.

    A call is sent once: the elector has a pause of its own between tries.
    """
    async with transport as connection:
        budget = TokenBucket(clock, qps=_QPS, burst=_BURST)
        client = ApiClient(connection, clock=clock, budget=budget, instruments=instruments, attempts=1)
        yield LeaseLock(client, key, annotations)


def _read_reply(body: Body) -> Lease:
    """Take only what the next update can be guarded with; ``Garbled`` for everything else."""
    if not uid_of(body) or not resource_version_of(body):
        raise errors.Garbled("the reply is not a Lease: it has no UID or no resourceVersion")
    return read_lease(body)
