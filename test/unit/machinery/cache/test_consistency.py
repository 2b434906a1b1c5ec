"""Pending writes, case by case. What holds for every order of events is in test/simulation."""

import pytest

from support.fake_clock import FakeClock
from tf_operator.machinery.cache.consistency import CacheState, Freshness, OwnerKey, PendingWrites
from tf_operator.machinery.cache.store import Store
from tf_operator.meta import ObjectKey

KEY = ObjectKey("team", "mnist")
JOB = OwnerKey(KEY, "job-1")
AGAIN = OwnerKey(KEY, "job-2")
CAUGHT_UP, BEHIND, READ_LIVE = Freshness


class Cache:
    """A cache of one resource, at version 100."""

    def __init__(self):
        self.resource_version = "100"
        self.versions = {}

    def resource_version_in(self, namespace):
        return self.resource_version

    def version_of(self, uid):
        return self.versions.get(uid)


class World:
    """Pending writes, and the caches of pods and jobs."""

    def __init__(self):
        self.clock = FakeClock()
        self.of = {"pods": Cache(), "tfjobs": Cache()}
        self.writes = PendingWrites(self.of, self.clock)

    def freshness(self, owner=JOB):
        return self.writes.cache_state(owner).freshness


@pytest.fixture
def world():
    return World()


# The steps of a history: what the operator did, and what the caches show.


def wrote(uid, version, *, resource="pods"):
    return lambda world: world.writes.wrote(JOB, resource, uid=uid, version=version)


def deleted(uid, version=""):
    return lambda world: world.writes.deleted(JOB, "pods", uid=uid, version=version)


def lost(resource="pods"):
    """A reply was lost."""
    return lambda world: world.writes.outcome_unknown(JOB, resource)


def read(version, *, resource="pods", uid=None):
    """A live read of a list, or of an object."""
    return lambda world: world.writes.read_live(JOB, resource, version=version, uid=uid)


def shows(uid, version, *, at=None, resource="pods"):
    """The cache has an object, at this or another version of the whole."""

    def step(world):
        world.of[resource].versions[uid] = version
        world.of[resource].resource_version = at or version

    return step


def loses(uid, version):
    """The cache has a deletion."""

    def step(world):
        del world.of["pods"].versions[uid]
        world.of["pods"].resource_version = version

    return step


def reaches(version, *, resource="pods"):
    """The cache is at this version."""
    return lambda world: setattr(world.of[resource], "resource_version", version)


def passes(seconds):
    return lambda world: setattr(world.clock, "_monotonic", world.clock.monotonic() + seconds)


HISTORIES = {
    # writes and their events
    "the latest version is awaited": [
        *(wrote("job-1", version, resource="tfjobs") for version in ("105", "110", "108")),
        *(shows("job-1", "109", resource="tfjobs"), BEHIND),
        *(shows("job-1", "110", resource="tfjobs"), CAUGHT_UP),
    ],
    "versions are compared as numbers and not as text": [
        *(reaches("99"), wrote("p", "100"), BEHIND),
        *(shows("p", "1000"), CAUGHT_UP),
    ],
    "the object itself suffices while the cache as a whole is behind": [
        *(wrote("p", "101"), BEHIND),
        *(shows("p", "101", at="100"), CAUGHT_UP),
    ],
    "a pod that terminates is awaited only until the cache shows that": [
        *(shows("p", "101"), deleted("p", "105"), BEHIND),
        *(shows("p", "105"), CAUGHT_UP),
    ],
    "a created and deleted object is not taken for gone while another write is awaited": [
        *(wrote("p", "101"), deleted("p", "102"), wrote("q", "103")),
        *(shows("p", "101"), BEHIND),
        *(loses("p", "102"), BEHIND),
        *(shows("q", "103"), CAUGHT_UP),
    ],
    "nor if the reply to its deletion had no version": [
        *(wrote("p", "101"), deleted("p"), wrote("q", "103")),
        *(shows("p", "101"), BEHIND),
        *(loses("p", "102"), BEHIND),
        *(shows("q", "103"), CAUGHT_UP),
    ],
    # live reads
    "after fifteen seconds the owner reads live, until the cache has caught up": [
        *(wrote("p", "101"), passes(14.9), BEHIND),
        *(passes(0.1), READ_LIVE),
        *(read("130"), wrote("q", "131"), deleted("p"), READ_LIVE),
        *(shows("q", "131"), CAUGHT_UP),
        *(wrote("r", "140"), BEHIND),
    ],
    "a deletion after a live list is believed when the cache has come as far": [
        *(lost(), READ_LIVE),
        *(read("130"), deleted("p"), READ_LIVE),
        *(shows("p", "120"), READ_LIVE),
        *(reaches("130"), READ_LIVE),  # the object is there, and not deleted yet
        *(loses("p", "131"), CAUGHT_UP),
    ],
    "after an object was read live the cache must show it at that version": [
        shows("job-1", "90", at="100", resource="tfjobs"),
        *(wrote("job-1", "101", resource="tfjobs"), passes(15), READ_LIVE),
        *(read("105", uid="job-1", resource="tfjobs"), READ_LIVE),
        *(shows("job-1", "105", resource="tfjobs"), CAUGHT_UP),
    ],
    "a write that did not arrive is settled by an object that is as the cache shows it": [
        shows("job-1", "90", at="100", resource="tfjobs"),
        *(lost("tfjobs"), READ_LIVE),
        *(read("90", uid="job-1", resource="tfjobs"), CAUGHT_UP),
    ],
    "a live read without a pending write changes nothing": [
        *(read("130"), CAUGHT_UP),
        *(wrote("p", "101"), read("130", resource="tfjobs"), BEHIND),
    ],
    # versions that cannot be compared
    "the very same version is proof although it is no number": [
        *(shows("p", "v1-abc"), wrote("p", "v1-abc"), CAUGHT_UP)
    ],
    "a live list without a comparable version proves nothing": [*(shows("p", "101"), lost(), read("abc"), READ_LIVE)],
    "a live object without a comparable version proves nothing": [
        *(shows("p", "101"), lost(), read("abc", uid="p"), READ_LIVE)
    ],
    "a cache without a version proves nothing": [*(reaches(""), wrote("p", "101"), BEHIND), *(passes(15), READ_LIVE)],
    "a cache without a comparable version proves nothing": [
        *(reaches("abc"), wrote("p", "101"), BEHIND),
        *(passes(15), READ_LIVE),
    ],
    # a history that went back: the etcd was restored to 60, and the cache still shows the old history up to 100
    "a cache that is past a new write without showing it is not believed": [wrote("p", "61"), READ_LIVE],
    "nor if it is just as far": [wrote("p", "100"), READ_LIVE],
    "a cache that is ahead of a live read is not believed until it was relisted": [
        *(wrote("p", "61"), READ_LIVE),
        *(read("62"), READ_LIVE),
        *(read("63"), READ_LIVE),
        *(shows("p", "61", at="64"), READ_LIVE),  # relisted
        *(read("65"), READ_LIVE),
        *(reaches("65"), CAUGHT_UP),
    ],
    "a cache that is as far as a live list may be of another history": [
        *(wrote("p", "61"), READ_LIVE),
        *(read("100"), READ_LIVE),
    ],
    "a live list must be newer than the cache was": [
        *(lost(), read("62"), READ_LIVE),
        *(read("101"), reaches("101"), CAUGHT_UP),
    ],
    "an object read live that is older than the cache shows needs another read": [
        *(shows("job-1", "111", resource="tfjobs"), lost("tfjobs")),
        *(read("110", uid="job-1", resource="tfjobs"), READ_LIVE),
        *(read("111", uid="job-1", resource="tfjobs"), CAUGHT_UP),
    ],
}


@pytest.mark.parametrize("steps", HISTORIES.values(), ids=HISTORIES.keys())
def test_a_history_of_writes_and_events(world, steps):
    """client-go: TestOwnerRecord_WroteAt, TestOwnerRecord_IsReady."""
    for number, step in enumerate(steps):
        if isinstance(step, Freshness):
            assert world.freshness() is step, f"step {number}"
        else:
            step(world)


@pytest.mark.parametrize("version", ["", "0", "-5", "1e3", "0101", "٣", "abc", "9" * 20, "9" * 5000])
@pytest.mark.parametrize("cached_version", [None, "50"], ids=["new", "known"])
def test_an_invalid_version_of_a_write_forces_a_live_read(world, version, cached_version):
    world.of["pods"].versions |= {"p": cached_version} if cached_version else {}
    wrote("p", version)(world)

    reaches("500")(world)

    assert world.freshness() is READ_LIVE


def test_a_namespace_that_cannot_be_watched_does_not_make_the_others_read_live():
    pods = Store()
    pods.set_resource_version("team", "100")
    pods.set_resource_version("forbidden", "3")
    writes = PendingWrites({"pods": pods}, FakeClock())
    writes.outcome_unknown(JOB, "pods")
    assert writes.cache_state(JOB).freshness is READ_LIVE
    writes.read_live(JOB, "pods", version="130")

    pods.set_resource_version("team", "131")

    assert writes.cache_state(JOB).freshness is CAUGHT_UP


def test_versions_of_one_resource_do_not_affect_another(world):
    """client-go: TestConsistencyStore_IsReady."""
    for step in (wrote("p", "101"), wrote("job-1", "102", resource="tfjobs"), shows("p", "500")):
        step(world)

    assert world.writes.cache_state(JOB) == CacheState(BEHIND, ("tfjobs",), 15)


def test_a_lost_reply_does_not_wait_for_the_other_writes_of_the_reconcile(world):
    for step in (wrote("job-1", "101", resource="tfjobs"), lost(), wrote("q", "103")):
        step(world)

    assert world.writes.cache_state(JOB) == CacheState(READ_LIVE, ("tfjobs", "pods"))


def test_a_write_of_a_resource_without_a_cache_is_an_error(world):
    with pytest.raises(KeyError):
        wrote("s", "1", resource="secrets")(world)


# --- Owners -----------------------------------------------------------------------------------------------


def test_a_job_created_again_under_the_same_name_shares_nothing(world):
    """client-go: TestConsistencyStore_EnsureWrittenRecord, TestImmediateJobRecreation."""
    wrote("p", "150")(world)
    assert world.freshness(AGAIN) is CAUGHT_UP

    world.writes.wrote(AGAIN, "pods", uid="q", version="101")
    wrote("r", "151")(world)  # a late reply for the old one
    assert world.freshness(AGAIN) is BEHIND
    shows("q", "101")(world)
    assert world.freshness(AGAIN) is CAUGHT_UP
    assert world.freshness(JOB) is BEHIND


def test_a_settled_record_of_an_earlier_job_is_dropped_when_the_current_one_is_looked_up(world):
    wrote("p", "150")(world)
    assert world.freshness(AGAIN) is CAUGHT_UP
    assert world.writes.owners == 1

    reaches("150")(world)

    assert world.freshness(AGAIN) is CAUGHT_UP
    assert (world.writes.owners, world.writes._records) == (0, {})


def test_a_forgotten_key_is_forgotten_under_every_uid_and_no_other_key_is(world):
    """client-go: TestConsistencyStore_Clear."""
    other = OwnerKey(ObjectKey("team", "other"), "job-3")
    for owner in (JOB, AGAIN, other):
        world.writes.wrote(owner, "pods", uid="p", version="101")
    assert world.writes.owners == 3

    world.writes.forget(KEY)
    world.writes.forget(ObjectKey("team", "unknown"))

    assert (world.writes.owners, world.freshness(), world.freshness(other)) == (1, CAUGHT_UP, BEHIND)


def test_a_write_of_what_is_in_no_cache_is_not_waited_for():
    writes = PendingWrites({}, FakeClock(), uncached={"configmaps"})
    writes.wrote(JOB, "configmaps", uid="u", version="7")
    writes.outcome_unknown(JOB, "configmaps")

    assert writes.cache_state(JOB).freshness is Freshness.CAUGHT_UP
