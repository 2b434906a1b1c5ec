"""Own writes that the caches must have caught up with before the next reconcile for the same owner.

A reconcile decides from caches, and a cache lags behind the apiserver. A reconcile that does not see the pods of
the one before it would create them again, or count a failure twice. So every write is recorded here with the version
of its reply, and the next reconcile asks for its ``CacheState`` first. Waiting has a limit, and what cannot be known
is read from the apiserver, never guessed.

The idea is KEP-5647 (kubernetes ``pkg/controller/util/consistency``), which calls ready what it cannot compare,
knows neither lost replies nor a history that went back, and waits without a limit. client-go's older expectations
count events, and one lost or foreign event makes the count wrong.

A resource version that is no integer proves nothing unless it is the very same text.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import msgspec

from tf_operator.machinery.cache import resource_version
from tf_operator.machinery.clock import Clock
from tf_operator.meta import ObjectKey


class CacheView(Protocol):
    """What is asked of a cache. Both answers change in the same tick as the content of the cache."""

    def resource_version_in(self, namespace: str) -> str:
        """Every change in this namespace up to this version is in the cache: moved on by events, lists and bookmarks.

        Namespaces may be watched apart from each other, so one that cannot be read says nothing about the others.
        """

    def version_of(self, uid: str) -> str | None:
        """The resource version of the object with this UID, ``None`` when the cache holds none."""


class OwnerKey(msgspec.Struct, frozen=True):
    """Whose writes. The UID is part of it: a job created again under an old name shares nothing."""

    key: ObjectKey
    uid: str


class Freshness(Enum):
    """What the next reconcile may rely on."""

    CAUGHT_UP = "caught up"
    """The caches hold every recorded write."""
    BEHIND = "behind"
    """A watch event is on its way, and wakes the owner when it comes. Until then, or the limit, do nothing."""
    READ_LIVE = "read live"
    """Waiting does not help: read from the apiserver, call ``read_live``, reconcile from what was read."""


class CacheState(msgspec.Struct, frozen=True):
    """The freshness, the resources it is about, and in how many seconds ``BEHIND`` becomes ``READ_LIVE``."""

    freshness: Freshness
    behind: tuple[str, ...] = ()
    seconds_left: float = 0.0


class PendingWrites:
    """This process's writes that the caches may not show yet, by owner. All methods are atomic.

    ``caches`` has a view of every resource that is recorded, and ``uncached`` names those that are written, but never
    read from a cache: such writes are not waited for. Memory is bounded by what living owners wrote in their last
    reconcile: an entry goes when the cache shows it, when a live read has replaced it, and by ``forget``.
    """

    def __init__(
        self,
        caches: Mapping[str, CacheView],
        clock: Clock,
        *,
        uncached: Collection[str] = (),
        limit: float = 15.0,
    ) -> None:
        """``limit`` is how many seconds after its last write an owner waits for the caches."""
        self._caches = caches
        self._uncached = frozenset(uncached)
        self._clock = clock
        self._limit = limit
        self._records: dict[ObjectKey, dict[str, _Record]] = {}

    def wrote(self, owner: OwnerKey, resource: str, *, uid: str, version: str) -> None:
        """An object was created or changed, and the reply carried this UID and version.

        The reply may come after the event: then nothing is awaited.
        """
        if writes := self._record_of(owner, resource):
            writes.change(uid, version)

    def deleted(self, owner: OwnerKey, resource: str, *, uid: str, version: str = "") -> None:
        """An object was deleted or began to terminate; also when the reply was 404, gone already.

        ``version`` comes from the reply, which carries that of the deletion, or of the change that began it.
        A reply without one is fine (``Status``): then the object has to vanish from the cache.
        """
        if writes := self._record_of(owner, resource):
            writes.deletions[uid] = resource_version.parse(version)

    def outcome_unknown(self, owner: OwnerKey, resource: str) -> None:
        """The outcome of a write is unknown (the reply was lost), or contradicts the cache (AlreadyExists).

        The next reconcile reads live. A write that the apiserver carries out later still is not seen by that either;
        deterministic names and preconditions must make it harmless.
        """
        if writes := self._record_of(owner, resource):
            writes.in_doubt = True

    def read_live(self, owner: OwnerKey, resource: str, *, version: str, uid: str | None = None) -> None:
        """The resource was read from the apiserver, consistently, after ``cache_state`` asked for it.

        ``version`` is that of the list, or of the object when only one was read, which ``uid`` then names.
        It replaces all that was awaited of this resource, so call this before the reconcile writes. Until the cache
        has come as far, the next reconciles read live too instead of waiting.
        """
        record = self._records.get(owner.key, {}).get(owner.uid)
        if record is not None and resource in record.writes:
            record.writes[resource].replace(version, uid)

    def cache_state(self, owner: OwnerKey) -> CacheState:
        """What a reconcile for this owner may rely on. Ask before anything is read, live or from a cache."""
        records = self._records.get(owner.key, {})
        for uid in [uid for uid, record in records.items() if record.is_settled()]:
            del records[uid]
        if not records:
            self._records.pop(owner.key, None)
        if owner.uid not in records:
            return CacheState(Freshness.CAUGHT_UP)
        record = records[owner.uid]
        now = self._clock.monotonic()
        if any(writes.in_doubt for writes in record.writes.values()):
            record.deadline = now
        if now < record.deadline:
            return CacheState(Freshness.BEHIND, tuple(record.writes), record.deadline - now)
        for writes in record.writes.values():
            writes.note_position()
        return CacheState(Freshness.READ_LIVE, tuple(record.writes))

    def forget(self, key: ObjectKey, *, except_uid: str = "") -> None:
        """No object has this key any more, or one of this UID: nothing will be decided for another UID."""
        records = self._records.pop(key, {})
        if except_uid in records:
            self._records[key] = {except_uid: records[except_uid]}

    @property
    def owners(self) -> int:
        """How many owners have a record: what was written and not been asked about since, or is behind."""
        return sum(len(records) for records in self._records.values())

    def _record_of(self, owner: OwnerKey, resource: str) -> "_ResourceWrites | None":
        """Where a write is recorded, if it is. The time starts again with each one, unless it has already run out."""
        if resource in self._uncached:
            return None
        now = self._clock.monotonic()
        records = self._records.setdefault(owner.key, {})
        record = records.get(owner.uid)
        if record is None:
            record = records[owner.uid] = _Record(deadline=now + self._limit, writes={})
        elif now < record.deadline:
            record.deadline = now + self._limit
        writes = record.writes.get(resource)
        if writes is None:
            writes = record.writes[resource] = _ResourceWrites(self._caches[resource], owner.key.namespace)
        return writes


@dataclass(slots=True)
class _Record:
    """What one owner awaits. A deadline that has passed stays so until everything is settled.

    Otherwise a dead watch would delay each reconcile by the whole limit.
    """

    deadline: float
    writes: dict[str, "_ResourceWrites"]

    def is_settled(self) -> bool:
        """Drop what the caches show by now; whether nothing is left."""
        self.writes = {name: writes for name, writes in self.writes.items() if not writes.is_settled()}
        return not self.writes


class _ResourceWrites:
    """What one owner awaits of one cache, in its namespace.

    Versions only grow, unless etcd is restored from a snapshot (fault 40) and gives some a second time. Then:

    - The cache is relisted, and a write of the old history has a version that is not reached for long. The time
      limit ends the wait, and the live read replaces what was awaited. Should the new history come to that
      version first, "caught up" is no lie: a relisted cache shows what is so, and the write is undone.
    - The cache still shows the old history, far ahead of a new write. In one history, a cache that has passed a
      version has shown the object. Not here: in doubt, so a live read. (The same when somebody else deleted the
      object before our reply came in. It costs one read.)
    - In one history a live list is newer than the cache was before it; even in a quiet cluster leases see to
      that. Here it is not: doubt stays, and every reconcile reads live, until the reflector has relisted.

    Open until that relist: an object whose version in the old history is above that of our write to it in the
    new one. Numbers cannot tell, but a write guarded by ``resourceVersion`` is refused there.
    """

    def __init__(self, cache: CacheView, namespace: str) -> None:
        self._cache = cache
        self._namespace = namespace
        self.in_doubt = False
        """Only a live read can show it."""
        self.deletions: dict[str, int | None] = {}
        """UIDs that must vanish, or reach the version of the change that began their end."""
        self._changes: dict[str, int] = {}
        """UIDs and their versions, each ahead of the cache when it was recorded."""
        self._list_version = 0
        """How far a live list was; 0 when there was none."""
        self._position = self._position_now()
        """How far the cache was when a live read was last asked for, or at first."""

    def change(self, uid: str, version: str) -> None:
        """Await this version of the object, unless the cache shows it, or cannot be trusted to."""
        number = resource_version.parse(version)
        if self._cache.version_of(uid) == version or (number is not None and self._shows(uid, number)):
            return
        if number is None or number <= self._position_now():
            self.in_doubt = True
        else:
            self._changes[uid] = max(number, self._changes.get(uid, number))

    def replace(self, version: str, uid: str | None) -> None:
        """Await what a live read has shown, and nothing from before it."""
        self._changes.clear()
        self.deletions.clear()
        number = resource_version.parse(version)
        if uid is None:
            self.in_doubt = number is None or number <= self._position
            self._list_version = number or 0
        else:
            # The cache may be ahead of the reply by an event; the next live read will show it.
            self.in_doubt = number is not None and self._shows(uid, number + 1)
            self.change(uid, version)

    def note_position(self) -> None:
        """Remember how far the cache is: a live list that is read from now on must be further."""
        self._position = self._position_now()

    def is_settled(self) -> bool:
        """Drop what the cache shows by now; whether nothing is left."""
        position = self._position_now()
        self._changes = {
            uid: number for uid, number in self._changes.items() if number > position and not self._shows(uid, number)
        }
        if self.in_doubt or self._changes or self._list_version > position:
            # A deletion is not looked at yet: an object that the cache does not show may be one to come.
            return False
        self.deletions = {uid: number for uid, number in self.deletions.items() if not self._is_gone(uid, number)}
        return not self.deletions

    def _position_now(self) -> int:
        return resource_version.parse(self._cache.resource_version_in(self._namespace)) or 0

    def _shows(self, uid: str, number: int) -> bool:
        version = resource_version.parse(self._cache.version_of(uid) or "")
        return version is not None and version >= number

    def _is_gone(self, uid: str, number: int | None) -> bool:
        return self._cache.version_of(uid) is None or (number is not None and self._shows(uid, number))
