"""Own writes, case by case. What holds for every order of events is in test/simulation."""

import pytest

from support.fake_clock import FakeClock
from tf_operator.machinery.cache.consistency import CacheState, Freshness, OwnerKey, PendingWrites
from tf_operator.machinery.cache.store import Store
from tf_operator.meta import ObjectKey

KEY = ObjectKey("team", "mnist")
JOB = OwnerKey(KEY, "job-1")
CAUGHT_UP, BEHIND, READ_LIVE = Freshness


class Cache:
    """A cache of one resource that does what it is told."""

    def __init__(self, resource_version="100"):
        self.resource_version = resource_version
        self.versions = {}

    def resource_version_in(self, namespace):
        return self.resource_version

    def version_of(self, uid):
        return self.versions.get(uid)

    def shows(self, uid, version):
        """An event of a watch: an object appeared or changed."""
        self.versions[uid] = version
        self.resource_version = version

    def loses(self, uid, version):
        """An event of a watch: an object is gone."""
        del self.versions[uid]
        self.resource_version = version


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def pods():
    return Cache()


@pytest.fixture
def jobs():
    return Cache()


@pytest.fixture
def writes(pods, jobs, clock):
    return PendingWrites({"pods": pods, "tfjobs": jobs}, clock, limit=15)


def freshness(writes, owner=JOB):
    return writes.cache_state(owner).freshness


# --- writes and their events ------------------------------------------------------------------------------


def test_a_write_is_awaited_at_its_latest_version(writes, jobs):
    """client-go: TestOwnerRecord_WroteAt, TestOwnerRecord_IsReady."""
    for version in ("105", "110", "108"):
        writes.wrote(JOB, "tfjobs", uid="job-1", version=version)

    jobs.shows("job-1", "109")
    assert freshness(writes) is BEHIND

    jobs.shows("job-1", "110")
    assert freshness(writes) is CAUGHT_UP


def test_versions_are_compared_as_numbers_and_not_as_text(writes, pods):
    pods.resource_version = "99"
    writes.wrote(JOB, "pods", uid="p", version="100")
    assert freshness(writes) is BEHIND

    pods.shows("p", "1000")
    assert freshness(writes) is CAUGHT_UP


def test_the_object_itself_is_enough_while_the_cache_as_a_whole_lags(writes, pods):
    writes.wrote(JOB, "pods", uid="p", version="101")

    pods.versions["p"] = "101"

    assert pods.resource_version == "100"
    assert freshness(writes) is CAUGHT_UP


def test_a_namespace_that_cannot_be_watched_does_not_make_the_others_read_live(clock):
    pods = Store()
    pods.set_resource_version("team", "100")
    pods.set_resource_version("forbidden", "3")
    writes = PendingWrites({"pods": pods}, clock)
    writes.outcome_unknown(JOB, "pods")
    assert freshness(writes) is READ_LIVE
    writes.read_live(JOB, "pods", version="130")

    pods.set_resource_version("team", "131")

    assert freshness(writes) is CAUGHT_UP


def test_versions_of_one_resource_say_nothing_about_another(writes, pods, jobs):
    """client-go: TestConsistencyStore_IsReady."""
    writes.wrote(JOB, "pods", uid="p", version="101")
    writes.wrote(JOB, "tfjobs", uid="job-1", version="102")

    pods.shows("p", "500")
    assert writes.cache_state(JOB).behind == ("tfjobs",)
    jobs.shows("job-1", "102")
    assert freshness(writes) is CAUGHT_UP


def test_recording_a_resource_that_has_no_cache_is_an_error(writes):
    with pytest.raises(KeyError):
        writes.wrote(JOB, "secrets", uid="s", version="1")


# --- deletions --------------------------------------------------------------------------------------------


def test_an_object_that_terminates_is_awaited_only_until_it_is_seen_to(writes, pods):
    """A pod's grace period must not hold up its job."""
    pods.shows("p", "101")
    writes.deleted(JOB, "pods", uid="p", version="105")
    assert freshness(writes) is BEHIND

    pods.shows("p", "105")

    assert freshness(writes) is CAUGHT_UP


@pytest.mark.parametrize("deleted_by", ["reply with a version", "reply without one"])
def test_a_created_and_deleted_object_is_not_taken_for_gone_while_another_write_is_awaited(writes, pods, deleted_by):
    writes.wrote(JOB, "pods", uid="p", version="101")
    writes.deleted(JOB, "pods", uid="p", version="102" if "with a" in deleted_by else "")
    writes.wrote(JOB, "pods", uid="q", version="103")

    pods.shows("p", "101")
    assert freshness(writes) is BEHIND
    pods.loses("p", "102")
    assert freshness(writes) is BEHIND
    pods.shows("q", "103")
    assert freshness(writes) is CAUGHT_UP


# --- the time limit ---------------------------------------------------------------------------------------


async def test_an_overdue_owner_reads_live_in_each_pass_and_never_waits_again_until_caught_up(writes, pods, clock):
    """With a dead watch every pass would else wait out the limit for its own writes."""
    writes.wrote(JOB, "pods", uid="p", version="101")
    await clock.advance(15)
    assert freshness(writes) is READ_LIVE
    writes.read_live(JOB, "pods", version="130")
    writes.wrote(JOB, "pods", uid="q", version="131")
    writes.deleted(JOB, "pods", uid="p")

    assert freshness(writes) is READ_LIVE
    pods.shows("q", "131")
    assert freshness(writes) is CAUGHT_UP

    writes.wrote(JOB, "pods", uid="r", version="140")
    assert writes.cache_state(JOB) == CacheState(BEHIND, ("pods",), 15)


# --- live reads and doubt ---------------------------------------------------------------------------------


async def test_a_deletion_after_a_live_list_is_not_believed_before_the_cache_has_come_as_far(writes, pods):
    """The cache may not have heard of the object yet that the list showed, and that was then deleted."""
    writes.outcome_unknown(JOB, "pods")
    assert freshness(writes) is READ_LIVE
    writes.read_live(JOB, "pods", version="130")
    writes.deleted(JOB, "pods", uid="p")

    assert freshness(writes) is READ_LIVE
    pods.shows("p", "120")
    assert freshness(writes) is READ_LIVE
    pods.resource_version = "130"
    assert freshness(writes) is READ_LIVE  # there it is, and not deleted yet
    pods.loses("p", "131")
    assert freshness(writes) is CAUGHT_UP


async def test_after_one_object_was_read_live_the_cache_must_show_it_at_that_version(writes, jobs, clock):
    jobs.shows("job-1", "90")
    jobs.resource_version = "100"
    writes.wrote(JOB, "tfjobs", uid="job-1", version="101")
    await clock.advance(15)
    assert freshness(writes) is READ_LIVE

    writes.read_live(JOB, "tfjobs", uid="job-1", version="105")
    assert freshness(writes) is READ_LIVE
    jobs.shows("job-1", "105")
    assert freshness(writes) is CAUGHT_UP


def test_an_object_read_live_that_the_cache_shows_as_it_is_settles_the_matter(writes, jobs):
    jobs.shows("job-1", "90")
    jobs.resource_version = "100"
    writes.outcome_unknown(JOB, "tfjobs")  # the status patch whose reply was lost did not arrive
    assert freshness(writes) is READ_LIVE

    writes.read_live(JOB, "tfjobs", uid="job-1", version="90")

    assert freshness(writes) is CAUGHT_UP


def test_a_live_read_that_nobody_needed_changes_nothing(writes, pods):
    writes.read_live(JOB, "pods", version="130")
    assert (freshness(writes), writes.owners) == (CAUGHT_UP, 0)

    writes.wrote(JOB, "pods", uid="p", version="101")
    writes.read_live(JOB, "tfjobs", version="130")
    assert writes.cache_state(JOB) == CacheState(BEHIND, ("pods",), 15)


def test_a_lost_reply_does_not_wait_for_the_other_writes_of_the_pass(writes):
    writes.wrote(JOB, "tfjobs", uid="job-1", version="101")
    writes.outcome_unknown(JOB, "pods")
    writes.wrote(JOB, "pods", uid="q", version="103")

    assert writes.cache_state(JOB) == CacheState(READ_LIVE, ("tfjobs", "pods"))


@pytest.mark.parametrize("version", ["", "0", "-5", "1e3", "0101", "٣", "abc", "9" * 20, "9" * 5000])
def test_a_version_that_is_no_number_forces_a_live_read(writes, pods, version):
    pods.versions["q"] = "50"
    writes.wrote(JOB, "pods", uid="p", version=version)
    assert freshness(writes) is READ_LIVE
    writes.forget(KEY)
    writes.wrote(JOB, "pods", uid="q", version=version)

    pods.resource_version = "500"

    assert freshness(writes) is READ_LIVE


def test_the_very_same_text_is_proof_also_when_it_is_no_number(writes, pods):
    pods.shows("p", "v1-abc")

    writes.wrote(JOB, "pods", uid="p", version="v1-abc")

    assert freshness(writes) is CAUGHT_UP


@pytest.mark.parametrize("uid", [None, "p"], ids=["list", "object"])
def test_a_live_read_without_a_comparable_version_proves_nothing(writes, pods, uid):
    pods.shows("p", "101")
    writes.outcome_unknown(JOB, "pods")

    writes.read_live(JOB, "pods", version="abc", uid=uid)

    assert freshness(writes) is READ_LIVE


@pytest.mark.parametrize("resource_version", ["", "0", "abc"])
async def test_a_cache_without_a_comparable_version_proves_nothing(writes, pods, clock, resource_version):
    pods.resource_version = resource_version
    writes.wrote(JOB, "pods", uid="p", version="101")

    assert freshness(writes) is BEHIND
    await clock.advance(15)
    assert freshness(writes) is READ_LIVE


# --- history that went back (fault 40) --------------------------------------------------------------------


@pytest.mark.parametrize("version", ["61", "99", "100"])
def test_a_cache_that_is_as_far_as_a_new_write_without_showing_it_is_not_believed(writes, version):
    """The etcd was restored to 60, and the cache still shows the old history up to 100."""
    writes.wrote(JOB, "pods", uid="p", version=version)

    assert freshness(writes) is READ_LIVE


def test_a_cache_that_is_ahead_of_a_live_read_is_not_believed_until_it_was_relisted(writes, pods):
    writes.wrote(JOB, "pods", uid="p", version="61")
    assert freshness(writes) is READ_LIVE
    writes.read_live(JOB, "pods", version="62")
    assert freshness(writes) is READ_LIVE
    writes.read_live(JOB, "pods", version="63")
    assert freshness(writes) is READ_LIVE

    pods.shows("p", "61")
    pods.resource_version = "64"  # relisted
    assert freshness(writes) is READ_LIVE
    writes.read_live(JOB, "pods", version="65")
    assert freshness(writes) is READ_LIVE
    pods.resource_version = "65"
    assert freshness(writes) is CAUGHT_UP


def test_a_cache_that_is_as_far_as_a_live_list_may_be_of_another_history(writes, pods):
    """Both are at 100, and only in the new history was our pod created."""
    writes.wrote(JOB, "pods", uid="p", version="61")
    assert freshness(writes) is READ_LIVE

    writes.read_live(JOB, "pods", version="100")

    assert freshness(writes) is READ_LIVE


def test_a_live_list_that_nobody_asked_for_must_be_newer_than_the_cache_was_too(writes, pods):
    writes.outcome_unknown(JOB, "pods")
    writes.read_live(JOB, "pods", version="62")
    assert freshness(writes) is READ_LIVE

    writes.forget(KEY)
    writes.outcome_unknown(JOB, "pods")
    writes.read_live(JOB, "pods", version="101")
    pods.resource_version = "101"
    assert freshness(writes) is CAUGHT_UP


def test_an_object_read_live_that_is_older_than_the_cache_shows_needs_one_more_read(writes, jobs):
    """It may be of another history, or the event was faster than the reply."""
    jobs.shows("job-1", "111")
    writes.outcome_unknown(JOB, "tfjobs")
    writes.read_live(JOB, "tfjobs", uid="job-1", version="110")
    assert freshness(writes) is READ_LIVE

    writes.read_live(JOB, "tfjobs", uid="job-1", version="111")

    assert freshness(writes) is CAUGHT_UP


# --- owners come and go -----------------------------------------------------------------------------------


def test_a_job_created_again_under_the_same_name_shares_nothing(writes, pods):
    """client-go: TestConsistencyStore_EnsureWrittenRecord, TestImmediateJobRecreation."""
    again = OwnerKey(KEY, "job-2")
    writes.wrote(JOB, "pods", uid="p", version="150")
    assert freshness(writes, again) is CAUGHT_UP

    writes.wrote(again, "pods", uid="q", version="101")
    writes.wrote(JOB, "pods", uid="r", version="151")  # a late reply for the old one
    assert freshness(writes, again) is BEHIND
    pods.shows("q", "101")
    assert freshness(writes, again) is CAUGHT_UP
    assert freshness(writes, JOB) is BEHIND


def test_a_namesake_that_is_settled_is_dropped_when_the_living_job_is_asked_about(writes, pods):
    again = OwnerKey(KEY, "job-2")
    writes.wrote(JOB, "pods", uid="p", version="150")
    assert freshness(writes, again) is CAUGHT_UP
    assert writes.owners == 1

    pods.resource_version = "150"

    assert freshness(writes, again) is CAUGHT_UP
    assert (writes.owners, writes._records) == (0, {})


def test_a_forgotten_key_is_forgotten_under_every_uid_and_no_other_key_is(writes):
    """client-go: TestConsistencyStore_Clear."""
    other = OwnerKey(ObjectKey("team", "other"), "job-3")
    for owner in (JOB, OwnerKey(KEY, "job-2"), other):
        writes.wrote(owner, "pods", uid="p", version="101")
    assert writes.owners == 3

    writes.forget(KEY)
    writes.forget(ObjectKey("team", "unknown"))

    assert (writes.owners, freshness(writes), freshness(writes, other)) == (1, CAUGHT_UP, BEHIND)


def test_the_limit_is_fifteen_seconds_unless_told(pods, clock):
    writes = PendingWrites({"pods": pods}, clock)
    writes.wrote(JOB, "pods", uid="p", version="101")

    assert writes.cache_state(JOB).seconds_left == 15
