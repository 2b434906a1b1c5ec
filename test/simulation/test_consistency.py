"""Own writes against a small world: an apiserver with a history, a cache that lags, replies that come late.

The one promise that must never break: when ``cache_state`` says "caught up", the cache has every write of that
owner that is still part of history. Told with numbers only, while the world may lose replies and events, delete
our objects, relist, and restore etcd from a snapshot, so that versions are given twice.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from support.fake_clock import FakeClock
from tf_operator.machinery.cache.consistency import Freshness, OwnerKey, PendingWrites
from tf_operator.meta import ObjectKey

LIMIT = 15
OWNERS = [
    OwnerKey(ObjectKey("team", "mnist"), "u1"),
    OwnerKey(ObjectKey("team", "mnist"), "u2"),
    OwnerKey(ObjectKey("x", "y"), "u3"),
]
EITHER_OWNER = st.sampled_from(OWNERS)
REPLY = st.sampled_from(["at once", "late", "late", "lost"])


@dataclass
class Server:
    """One resource. A history is the time between two restores."""

    history: int = 0
    version: int = 100
    objects: dict[str, int] = field(default_factory=dict)
    log: list[tuple[int, str, bool]] = field(default_factory=list)

    def commit(self, uid, *, gone=False):
        self.version += 1
        if gone:
            del self.objects[uid]
        else:
            self.objects[uid] = self.version
        self.log.append((self.version, uid, gone))
        return self.version


@dataclass
class Cache:
    """What a watch makes of it. ``version`` is the truth, ``resource_version`` what it tells."""

    lags: bool
    history: int = 0
    version: int = 100
    told: int = 100
    objects: dict[str, int] = field(default_factory=dict)

    def resource_version_in(self, namespace):
        return str(self.told)

    def version_of(self, uid):
        return str(self.objects[uid]) if uid in self.objects else None

    def apply(self, version, uid, gone):
        self.version = version
        if gone:
            self.objects.pop(uid, None)
        else:
            self.objects[uid] = version
        if not self.lags:
            self.told = version

    def bookmark(self, version):
        self.version = self.told = version

    def relist(self, server):
        self.history, self.objects = server.history, dict(server.objects)
        self.bookmark(server.version)


@dataclass
class Write:
    owner: OwnerKey
    history: int
    version: int


class OwnWritesMachine(RuleBasedStateMachine):
    """A process that writes, a world that answers as it likes."""

    @initialize(lags=st.booleans())
    def begin(self, lags):
        self.clock = FakeClock()
        self.server, self.cache = Server(), Cache(lags)
        self.snapshot = (self.server.version, {})
        self.own = PendingWrites({"pods": self.cache}, self.clock, limit=LIMIT)
        self.writes = []
        self.replies = []
        self.uids = iter(f"uid-{number}" for number in range(10_000))
        self.last_recorded = dict.fromkeys(OWNERS, float("-inf"))
        self.unsettled, self.overdue, self.may_write = set(), set(), set(OWNERS)
        self.has_had_trouble = False

    def record(self, owner, call):
        """A reply comes in."""
        call()
        now = self.clock.monotonic()
        if owner in self.unsettled and now - self.last_recorded[owner] >= LIMIT:
            self.overdue.add(owner)
        self.unsettled.add(owner)
        self.last_recorded[owner] = now

    def answer(self, owner, reply, call):
        if reply == "lost":
            self.has_had_trouble = True
            self.own.outcome_unknown(owner, "pods")
        elif reply == "late":
            self.replies.append((owner, call))
        else:
            self.record(owner, call)

    def commit(self, owner, uid, *, gone=False):
        version = self.server.commit(uid, gone=gone)
        self.writes.append(Write(owner, self.server.history, version))
        return version

    def uid_at(self, position):
        """An object that the process may write to: guarded by the version that the cache shows."""
        same = [uid for uid in sorted(self.cache.objects) if self.server.objects.get(uid) == self.cache.objects[uid]]
        return same[position % len(same)] if same else None

    @rule(owner=EITHER_OWNER, reply=REPLY)
    def create(self, owner, reply):
        if owner not in self.may_write:
            return
        uid = next(self.uids)
        version = self.commit(owner, uid)
        self.answer(owner, reply, lambda: self.own.wrote(owner, "pods", uid=uid, version=str(version)))

    @rule(owner=EITHER_OWNER, position=st.integers(0, 9), reply=REPLY)
    def patch(self, owner, position, reply):
        if owner in self.may_write and (uid := self.uid_at(position)):
            version = self.commit(owner, uid)
            self.answer(owner, reply, lambda: self.own.wrote(owner, "pods", uid=uid, version=str(version)))

    @rule(owner=EITHER_OWNER, position=st.integers(0, 9), reply=REPLY, tells=st.booleans(), stays=st.booleans())
    def delete(self, owner, position, reply, tells, stays):
        """Gone at once, or terminating for a while; the reply carries the object or only a Status."""
        if owner in self.may_write and (uid := self.uid_at(position)):
            self.has_had_trouble |= bool(self.replies)  # perhaps deleted before its own creation was answered
            version = str(self.commit(owner, uid, gone=not stays))
            tells = tells or stays
            call = lambda: self.own.deleted(owner, "pods", uid=uid, version=version if tells else "")  # noqa: E731
            self.answer(owner, reply, call)

    @rule(owner=EITHER_OWNER)
    def create_and_delete(self, owner):
        """Before the cache has heard of it; as after a live read."""
        if owner not in self.may_write:
            return
        uid = next(self.uids)
        created, _ = self.commit(owner, uid), self.commit(owner, uid, gone=True)
        self.record(owner, lambda: self.own.wrote(owner, "pods", uid=uid, version=str(created)))
        self.record(owner, lambda: self.own.deleted(owner, "pods", uid=uid))

    @precondition(lambda self: self.replies)
    @rule(position=st.integers(0, 9))
    def a_late_reply_comes(self, position):
        self.record(*self.replies.pop(position % len(self.replies)))

    @precondition(lambda self: not self.replies)
    @rule(owner=EITHER_OWNER, deliveries=st.integers(0, 2), after=st.integers(0, 2))
    def begin_a_pass(self, owner, deliveries, after):
        """The one before is over. Events come at any time, also while a live read is under way."""
        cache_state = self.own.cache_state(owner)
        self.check(owner, cache_state)
        if cache_state.freshness is Freshness.READ_LIVE:
            self.deliver(deliveries)
            version = str(self.server.version)
            self.deliver(after)
            self.own.read_live(owner, "pods", version=version)
        if cache_state.freshness is Freshness.BEHIND:
            self.may_write.discard(owner)
        else:
            self.may_write.add(owner)

    @rule(position=st.integers(0, 9), gone=st.booleans())
    def somebody_else_writes(self, position, gone):
        if uids := sorted(self.server.objects):
            self.has_had_trouble |= gone
            self.server.commit(uids[position % len(uids)], gone=gone)

    @rule()
    def another_resource_is_written(self):
        self.server.version += 1

    @rule(count=st.integers(1, 5))
    def deliver(self, count):
        if self.cache.history == self.server.history:
            new = [event for event in self.server.log if event[0] > self.cache.version]
            for event in new[:count]:
                self.cache.apply(*event)

    @rule()
    def bookmark(self):
        if self.cache.history == self.server.history:
            self.deliver(10_000)
            self.cache.bookmark(self.server.version)

    @rule()
    def relist(self):
        self.cache.relist(self.server)

    @rule()
    def take_a_snapshot(self):
        self.snapshot = (self.server.version, dict(self.server.objects))

    @precondition(lambda self: self.writes)
    @rule()
    def restore_etcd(self):
        self.has_had_trouble = True
        self.replies.clear()
        version, objects = self.snapshot
        self.server = Server(self.server.history + 1, version, dict(objects))

    @rule(seconds=st.sampled_from([1, 5, 14, 20]))
    def time_passes(self, seconds):
        self.clock._monotonic += seconds

    def check(self, owner, cache_state):
        mine = [write for write in self.writes if write.owner == owner and write.history == self.server.history]
        has_all = all(self.cache.history == write.history and self.cache.version >= write.version for write in mine)
        waited = self.clock.monotonic() - self.last_recorded[owner]
        match cache_state.freshness:
            case Freshness.CAUGHT_UP:
                assert has_all, "never a blind guess"
                self.unsettled.discard(owner)
                self.overdue.discard(owner)
            case Freshness.BEHIND:
                assert waited < LIMIT, "nobody is held up for longer than the limit"
                assert cache_state.seconds_left == LIMIT - waited
            case Freshness.READ_LIVE:
                if waited >= LIMIT:
                    self.overdue.add(owner)
                assert self.has_had_trouble or owner in self.overdue, "no live read without a reason"
        if not self.has_had_trouble and self.cache.told == self.server.version:
            assert cache_state.freshness is Freshness.CAUGHT_UP, "a cache that has everything is enough"

    def teardown(self):
        """When the world behaves again, every owner is caught up after at most one live read."""
        for reply in self.replies:
            self.record(*reply)
        self.cache.relist(self.server)
        self.clock._monotonic += LIMIT
        for owner in OWNERS:
            cache_state = self.own.cache_state(owner)
            self.check(owner, cache_state)
            self.server.version += 1  # a lease was renewed
            self.own.read_live(owner, "pods", version=str(self.server.version))
            self.cache.bookmark(self.server.version)
            assert self.own.cache_state(owner).freshness is Freshness.CAUGHT_UP
        assert (self.own.owners, self.own._records) == (0, {})


TestOwnWritesMachine = OwnWritesMachine.TestCase
TestOwnWritesMachine.settings = settings(max_examples=40, stateful_step_count=30, derandomize=True, database=None)
