"""One elector on one Lease: each attempt, each way a term ends, each kind of failure; then two that compete.

client-go's own scenarios are here under our names. TestCheckMethodRace, which needs threads, is in
test_election_thread. That there is never more than one leader is in test/simulation.
"""

import asyncio
import math
from datetime import UTC, datetime, timedelta

import pytest

from support.leases.lease_model import FAILS, FINE, HANGS, KEY, REPLY_LOST, Fate, LeaseApi, LeaseStore, conflict
from tf_operator.machinery.election.fence import Fence
from tf_operator.machinery.election.heartbeat import Heartbeat
from tf_operator.machinery.election.leaderelection import ElectionConfig, LeaderElector, LossReason
from tf_operator.machinery.election.lease import LeaseLock, LeaseRecord
from tf_operator.machinery.metrics_hooks import ElectionInstruments
from tf_operator.machinery.transport import errors

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Counted(ElectionInstruments):
    def __init__(self):
        self.reported = []
        self.attempts = []

    def attempted(self, outcome):
        self.attempts.append(outcome)

    def leading(self, is_leader):
        self.reported.append("leading" if is_leader else "not leading")

    def slow_path(self):
        self.reported.append("slow path")

    def transition(self):
        self.reported.append("transition")


class Candidate:
    """An elector with all that it touches."""

    def __init__(self, store, clock, identity, *, chance=0.5):
        self.clock = clock
        self.api = LeaseApi(store, clock)
        self.fence = Fence(clock)
        self.heartbeat = Heartbeat(clock)
        self.instruments = Counted()
        self.elector = LeaderElector(
            LeaseLock(self.api, KEY),
            identity=identity,
            clock=clock,
            fence=self.fence,
            heartbeat=self.heartbeat,
            instruments=self.instruments,
            chance=lambda: chance,
        )
        self.led_at = []
        self.task = None

    async def stand(self):
        self.task = asyncio.ensure_future(self.elector.serve(lambda: self.led_at.append(self.clock.monotonic())))
        await self.clock.idle()
        return self

    async def resign(self):
        self.task.cancel()
        await self.clock.idle()

    async def freeze(self, seconds):
        """Stop this process as SIGSTOP does: time passes, and nothing of it runs."""
        timers = self.clock._timers
        self.clock._timers = [timer for timer in timers if not timer[2].is_live]
        await self.clock.advance(seconds)
        self.clock._timers = timers
        await self.clock.advance(0)


@pytest.fixture
def store():
    return LeaseStore()


@pytest.fixture
async def candidates(store, clock):
    """Makes candidates whose work is alive; all have ended, and left no timer, after the test."""
    entries = []

    def make(identity="me", **options):
        candidate = Candidate(store, clock, identity, **options)
        beating = candidate.heartbeat.beating()
        beating.__enter__()
        entries.append((candidate, beating))
        return candidate

    yield make
    for candidate, beating in entries:
        beating.__exit__(None, None, None)
        if candidate.task:
            candidate.task.cancel()
    await clock.advance(30)
    assert all(candidate.task is None or candidate.task.done() for candidate, _ in entries)
    assert clock.pending == 0


def record(holder, *, seconds=15, transitions=0, moment=LONG_AGO):
    return LeaseRecord(holder, seconds=seconds, acquire_time=moment, renew_time=moment, transitions=transitions).spec()


@pytest.fixture
async def me(candidates):
    """A leader."""
    return await candidates().stand()


# Attempts. client-go: TestTryAcquireOrRenewLeases.


async def test_a_candidate_creates_the_lease_when_there_is_none(me, store):
    assert (store.holder, store.spec["leaseTransitions"]) == ("me", 0)
    assert me.api.calls == ["get", "create"]
    assert me.led_at == [1000.0]


@pytest.mark.parametrize(
    ("spec", "transitions"),
    [
        pytest.param({}, 1, id="without a record"),
        pytest.param(record("", seconds=1, transitions=6), 7, id="released"),
        pytest.param(None, 1, id="without a spec"),
        pytest.param(record("me", transitions=4), 4, id="its own"),
    ],
)
async def test_a_candidate_takes_a_lease_of_nobody_or_its_own_at_once(candidates, store, spec, transitions):
    store.put(spec)

    me = await candidates().stand()

    assert (store.holder, store.spec["leaseTransitions"]) == ("me", transitions)
    assert me.api.calls == ["get", "update"]
    assert me.fence.remaining() == pytest.approx(10)


async def test_a_candidate_that_takes_its_own_lease_keeps_the_time_of_its_acquisition(candidates, store):
    store.put(record("me"))

    await candidates().stand()

    assert store.spec["acquireTime"] == "2020-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param(record("other", seconds=3), 15, id="shorter than ours"),
        pytest.param(record("other", seconds=40), 40, id="longer than ours"),
        pytest.param({"holderIdentity": "other"}, 15, id="without a duration"),
        pytest.param(record("other") | {"renewTime": "2099-01-01T00:00:00.000000Z"}, 15, id="renewed in 2099"),
        pytest.param(record("other") | {"renewTime": 5, "leaseTransitions": "x"}, 15, id="with garbage"),
    ],
)
async def test_a_candidate_takes_a_held_lease_once_it_has_not_changed_for_its_duration(
    candidates, clock, store, spec, seconds
):
    store.put(spec)
    me = await candidates().stand()

    await clock.advance(seconds - 0.1)
    assert store.holder == "other"
    assert not me.fence.is_open
    await clock.advance(0.2)

    assert store.holder == "me"
    assert me.fence.is_open


async def test_a_candidate_waits_as_long_as_the_lease_changes(candidates, clock, store):
    store.put(record("other"))
    me = await candidates().stand()

    for second in range(100):
        store.put(record("other", moment=LONG_AGO + timedelta(seconds=second)))
        await clock.advance(1)

    assert not me.led_at
    assert store.holder == "other"


async def test_a_candidate_whose_work_is_stuck_does_not_try(candidates, clock, store):
    store.put(record("other"))
    me = await candidates().stand()
    me.heartbeat._cancel()
    await clock.advance(14)
    calls = len(me.api.calls)

    await clock.advance(60)
    assert len(me.api.calls) - calls <= 1
    me.heartbeat.beat()
    await clock.advance(3)

    assert store.holder == "me"


async def test_a_candidate_that_is_confirmed_too_late_does_not_lead_before_it_has_renewed(candidates, clock, store):
    me = candidates()
    me.api.fates["create"] += [Fate(after=0.5)]
    await me.stand()
    await me.freeze(20)
    assert store.holder == "me"
    assert not me.led_at

    await clock.advance(3)

    assert me.led_at
    assert me.fence.is_open


async def test_a_reply_with_another_holder_is_no_confirmation(candidates, store):
    me = candidates()
    store.create = lambda body: {"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": record("other")}

    await me.stand()

    assert not me.led_at
    assert not me.fence.is_open


async def test_a_failure_is_logged_once_and_again_after_a_success(candidates, clock, capsys):
    me = candidates()
    me.api.usual = lambda: FAILS
    await me.stand()

    await clock.advance(60)

    assert capsys.readouterr().out.count("could not be read or written") == 1
    me.api.usual = lambda: FINE
    await clock.advance(3)
    me.api.usual = lambda: FAILS
    await clock.advance(5)
    assert capsys.readouterr().out.count("could not be read or written") == 1


# Renewals. client-go: TestFastPathLeaderElection.


async def test_a_leader_renews_with_one_update_every_retry_period(me, clock, store):
    await clock.advance(22.1)

    assert me.api.calls == ["get", "create", *["update"] * 10]
    assert me.api.sent_at[2:] == pytest.approx([1000 + 2.2 * turn for turn in range(1, 11)])
    assert store.spec["renewTime"].startswith("2026-01-01T00:00:2")
    assert store.spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert me.instruments.reported == ["leading"]


@pytest.mark.parametrize(("chance", "period"), [(0.0, 2.0), (0.999, 2.3998)])
async def test_the_retry_period_is_jittered_by_a_fifth_at_most(candidates, clock, chance, period):
    me = await candidates(chance=chance).stand()

    await clock.advance(period * 3.01)

    assert [sent - 1000 for sent in me.api.sent_at[2:]] == pytest.approx([period, 2 * period, 3 * period], rel=1e-3)


async def test_a_leader_reads_the_lease_when_an_update_conflicts(me, clock, store):
    store.put(store.spec, labels={"team": "ml"})

    await clock.advance(4.5)

    assert me.api.calls == ["get", "create", "update", "get", "update", "update"]
    assert me.instruments.reported == ["leading", "slow path"]
    assert me.instruments.attempts == ["ours", "ours", "ours"]
    assert store.body["metadata"]["labels"] == {"team": "ml"}


async def test_the_deadline_counts_from_before_the_renewal_was_sent(me, clock):
    me.api.fates["update"] += [Fate(delay=2, after=2.5), HANGS]
    await clock.advance(2.2)

    await clock.advance(4.5)

    assert me.fence.remaining() == pytest.approx(10 - 4.5)


async def test_a_renewal_that_hangs_leaves_time_for_another_one(me, clock):
    me.api.fates["update"] += [HANGS]

    await clock.advance(2.2 + 5)

    assert me.api.calls == ["get", "create", "update", "update"]
    assert me.fence.remaining() == pytest.approx(10)


# The end of a term.


async def test_a_leader_stops_at_once_when_somebody_else_holds_the_lease(me, clock, store):
    store.put(record("thief", transitions=1))

    await clock.advance(2.2)

    assert me.task.result() is LossReason.TAKEN
    assert not me.fence.is_open
    assert me.instruments.reported == ["leading", "slow path", "transition", "not leading"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(FAILS.error, id="500"),
        pytest.param(None, id="no reply"),
        pytest.param(errors.Unreachable("refused"), id="refused"),
        pytest.param(errors.Garbled("<html>"), id="HTML"),
        pytest.param(errors.Forbidden(403, errors.Status(reason="Forbidden")), id="403"),
        pytest.param(conflict(), id="409s"),
    ],
)
async def test_a_leader_stops_at_the_renew_deadline_when_no_renewal_is_confirmed(me, clock, error):
    await clock.advance(2.2)
    me.api.usual = lambda: Fate(is_carried_out=False, error=error) if error else HANGS

    await clock.advance(9.9)
    assert not me.task.done()
    me.fence.check()
    await clock.advance(0.2)

    assert me.task.result() is LossReason.DEADLINE
    assert not me.fence.is_open
    assert me.instruments.reported[-1] == "not leading"


async def test_a_leader_stops_renewing_when_its_work_is_stuck(me, clock, store):
    me.heartbeat._cancel()  # the main loop hangs

    await clock.advance(14.9)
    assert me.fence.is_open
    await clock.advance(2.2)

    assert me.task.result() is LossReason.STALLED
    assert not me.fence.is_open
    assert store.holder == "me"  # not released: somebody else takes over when it runs out


async def test_a_bug_ends_the_term_with_the_fence_closed(me, clock, store):
    store.update = lambda body: 1 / 0

    await clock.advance(2.2)

    assert isinstance(me.task.exception(), ZeroDivisionError)
    assert not me.fence.is_open


# The release. client-go: TestReleaseLeaseLeases, TestReleaseOnCancellation_Leases.


async def test_resigning_closes_the_fence_and_then_releases_the_lease_with_one_update(me, clock, store):
    was_open = []
    update = store.update
    store.update = lambda body: was_open.append(me.fence.is_open) or update(body)
    await clock.advance(1)

    await me.resign()

    assert me.task.cancelled()
    assert was_open == [False]
    assert me.api.calls == ["get", "create", "update"]
    assert (store.holder, store.spec["leaseDurationSeconds"], store.spec["leaseTransitions"]) == ("", 1, 0)
    assert me.instruments.reported == ["leading", "not leading"]


NO_REPLY = Fate(after=math.inf)


@pytest.mark.parametrize(
    ("verb", "fates", "seconds"),
    [
        pytest.param("get", [NO_REPLY], 0, id="during the first read"),
        pytest.param("create", [NO_REPLY], 0, id="during a creation that is carried out"),
        pytest.param("update", [HANGS], 2.2, id="during a renewal that hangs"),
        pytest.param("update", [REPLY_LOST], 2.2, id="after a renewal whose reply was lost"),
        pytest.param("update", [NO_REPLY], 2.2, id="during a renewal that is carried out"),
        pytest.param("update", [FAILS, FAILS], 0, id="a release that fails at first"),
    ],
)
async def test_resigning_at_any_moment_releases_the_lease(candidates, store, verb, fates, seconds):
    me = candidates()
    me.api.fates[verb] += fates
    await me.stand()
    await me.clock.advance(seconds)

    await me.resign()
    await me.clock.advance(1)

    assert me.task.cancelled()
    assert store.holder == ""


async def test_a_release_is_given_up_after_half_the_renew_deadline(me, clock, store):
    me.api.usual = lambda: HANGS

    await me.resign()
    await clock.advance(4.9)
    assert not me.task.done()
    await clock.advance(0.1)

    assert me.task.cancelled()
    assert store.holder == "me"


@pytest.mark.parametrize("change", [lambda store: store.put(record("other")), LeaseStore.delete])
async def test_a_release_leaves_the_lease_of_another_holder_alone(me, clock, store, change):
    change(store)
    body = store.body

    await me.resign()
    await clock.advance(1)

    assert me.task.cancelled()
    assert store.body == body


# Two candidates.


async def test_a_standby_that_saw_the_leader_waits_when_the_lease_is_deleted(candidates, clock, store):
    leader = await candidates("a").stand()
    standby = await candidates("b", chance=0).stand()
    leader.api.usual = lambda: HANGS
    await clock.advance(2)
    store.delete()

    await clock.advance(8)
    assert leader.fence.remaining() <= 0
    assert store.body is None
    await clock.advance(9.1)

    assert store.holder == "b"
    assert standby.fence.is_open
    assert store.spec["leaseTransitions"] == 1


async def test_a_standby_that_last_saw_the_lease_free_waits_when_it_is_deleted(candidates, clock, store):
    store.put(record("", seconds=1))
    standby = candidates("b", chance=0)
    standby.api.fates["update"] += [FAILS]
    await standby.stand()
    leader = await candidates("a").stand()
    store.delete()

    await clock.advance(2.3)

    assert not standby.led_at
    assert store.holder == "a"
    assert leader.fence.is_open


async def test_a_standby_that_missed_renewals_leaves_a_lease_that_was_put_back_to_its_leader(candidates, clock, store):
    leader = await candidates("a").stand()
    standby = await candidates("b").stand()
    spec = store.spec
    standby.api.usual = lambda: HANGS
    await clock.advance(16)

    store.put(spec)
    standby.api.usual = lambda: FINE
    await clock.advance(1.3)

    assert standby.api.sent_at[-1] > 1016
    assert not standby.led_at
    assert leader.fence.is_open


# client-go: TestLeaderElectionConfigValidation.


@pytest.mark.parametrize(
    ("durations", "message"),
    [
        pytest.param((15, 15, 2), "longer than the renew deadline", id="lease not above deadline"),
        pytest.param((15, 10, 8.4), "longer than 1.2 retry periods", id="deadline not above jittered retry"),
        pytest.param((15, 10, 0), "longer than 1.2 retry periods", id="no retry period"),
        pytest.param((0, -1, -2), "must be 1 to 3600 s", id="no lease"),
        pytest.param((3601, 10, 2), "must be 1 to 3600 s", id="lease too long"),
    ],
)
def test_durations_that_do_not_work_together_are_refused(durations, message):
    lease, renew, retry = durations
    with pytest.raises(ValueError, match=message):
        ElectionConfig(lease_duration=lease, renew_deadline=renew, retry_period=retry)


def test_an_empty_identity_is_refused(store, clock):
    with pytest.raises(ValueError, match="identity must not be empty"):
        Candidate(store, clock, "")
