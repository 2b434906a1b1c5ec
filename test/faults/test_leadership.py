"""Operators contend for a Lease and are killed, stopped, blocked, robbed.

Each has an entrance of its own to the fault proxy, and all of them have work to do the whole time: a few jobs more than
there are pods for. Whatever the test is about, in the end no write was sent outside the writer's lease, which is held
against the Lease's history and the log of the proxy; all pods are there, none was created twice, and no process has
logged a bug. Durations are short where the rule allows it.
"""

import asyncio
import signal
import time
from itertools import count

import pytest_asyncio

from support import oracle
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.trigger import anything, opening, watch, write
from support.history import Recorder
from support.leases.lease_history import LEASE, LeaseHistory, is_work
from support.operators import operator_process
from support.resources import LEASES
from support.settle import eventually
from support.stopwatch import Stopwatch

SHORT = {"lease-duration": 4, "renew-deadline": 3, "retry-period": 0.5}
LONG = {"lease-duration": 8, "renew-deadline": 6.5, "retry-period": 0.5}
"""For tests in which no term may end: a machine that is busy with other tests may be late by seconds."""
LONGEST_RETRY = 1.2 * SHORT["retry-period"]
UNDONE = 3
TAKE_OVER = SHORT["lease-duration"] + SHORT["retry-period"] + 3
OVER, WORKING = "lost leadership", "workers started"


class Replica:
    """One operator, seen by the test."""

    def __init__(self, name, process):
        self.name = name
        self.process = process

    def send(self, number):
        """Send a signal; the moment."""
        sent_at = time.monotonic()  # before: what answers may be faster than this process
        self.process.signal(number)
        return sent_at

    def when(self, message, *, since=0.0):
        """The moments at which it logged something."""
        return [record["read_at"] for record in self.process.records_of(message, since=since)]

    async def logged(self, message, *, since=0.0):
        """Wait until it logs something; the moment of the first time."""
        return (await self.process.wait_for(message, since=since))["read_at"]


class Stage:
    """The replicas, their Lease, and the evidence."""

    def __init__(self, field, proxy, recorder, tmp_path):
        self.replicas = []
        self.jobs = 0
        self._field = field
        self._proxy = proxy
        self._recorder = recorder
        self._tmp_path = tmp_path
        self._durations = SHORT
        self._path = LEASES.path(field.namespace)

    async def start(self, name, *, durations=SHORT, **disturbed):
        self._durations = durations
        # The operator's role allows one Lease, which only one test at a time could have.
        token = self._field.plane.token("admin")
        process = await operator_process.start(
            self._field.plane,
            namespaces=[self._field.namespace],
            arguments=[
                f"--leader-election-namespace={self._field.namespace}",
                *(f"--leader-election-{flag}={seconds}s" for flag, seconds in durations.items()),
            ],
            kubeconfig=self._proxy.kubeconfig(self._tmp_path / name, client=name, token=token),
            environment={"MY_POD_NAME": name},
            probe=disturbed,
        )
        self.replicas.append(Replica(name, process))
        return self.replicas[-1]

    async def leader_and_standby(self, **options):
        """Two replicas, of which the first works, and the second has seen that."""
        return await self.sorted_out(*[await self.start(name, **options) for name in ("a", "b")])

    async def sorted_out(self, *replicas):
        """Wait until one of them works, and the others stand by; it is the first of the result."""
        await self.works(*replicas, within=60)
        for replica in replicas:
            await replica.logged("caches synced")
        await self.is_renewed(times=2)
        (leader,) = [replica for replica in replicas if replica.when(WORKING)]
        return leader, *[replica for replica in replicas if replica is not leader]

    async def keep_asking(self):
        """Have something to write all the time, but no more than a busy machine can do."""
        for self.jobs in count(1):
            await self._field.want(f"w{self.jobs}", 2)
            await asyncio.sleep(0.3)
            while len(oracle.pods_created(self._proxy)) < 2 * (self.jobs - UNDONE):
                await asyncio.sleep(0.1)

    async def works(self, *replicas, since=0.0, within=30.0):
        """Wait until one of these replicas writes; the moment in which the proxy read it."""
        names = {replica.name for replica in replicas}

        def wrote():
            calls = [call.at for call in self._proxy.calls() if call.client in names and is_work(call)]
            late = [at for at in calls if at >= since]
            assert late, f"{[(replica.name, replica.process.records[-3:]) for replica in replicas]}"
            return min(late)

        return await eventually(wrote, within=within)

    async def end(self):
        for replica in self.replicas:
            if replica.process.exit_code is None:
                await replica.process.kill()

    def evidence(self):
        return LeaseHistory.of(
            self._recorder.history(),
            self._proxy.calls(),
            namespace=self._field.namespace,
            renew_deadline=self._durations["renew-deadline"],
        )

    async def lease(self):
        return (await self._field.admin.get(f"{self._path}/{LEASE}"))["spec"]

    async def put(self, **spec):
        await self._field.admin.patch(f"{self._path}/{LEASE}", {"spec": spec})

    async def delete(self):
        await self._field.admin.delete(f"{self._path}/{LEASE}")

    async def is_renewed(self, *, times):
        """Wait for so many renewals from now on, of whoever it is that renews."""
        since = time.monotonic()

        def is_done():
            calls = self._proxy.calls(write("leases", namespace=self._field.namespace))
            return sum(call.at > since and call.code in {200, 201} for call in calls) >= times

        await self._proxy.until(is_done, within=15)


@pytest_asyncio.fixture(loop_scope="module")
async def stage(field, proxy, control_plane, tmp_path):
    """A stage whose evidence is judged in the end."""
    async with Recorder(control_plane.store()) as recorder:
        stage = Stage(field, proxy, recorder, tmp_path)
        asking = asyncio.ensure_future(stage.keep_asking())
        try:
            yield stage
            if asking.done():
                asking.result()
            asking.cancel()
            await asyncio.wait([asking])
            await eventually(lambda: oracle.store_in_order(field.admin, field.namespace), within=60)
        finally:
            asking.cancel()
            await stage.end()
        await recorder.stop()
        evidence = stage.evidence()
    assert evidence.strays() == []
    assert len(evidence.work) >= 3 * stage.jobs > 0
    oracle.nothing_twice(proxy)
    assert [record for replica in stage.replicas for record in replica.process.unexpected()] == []


async def test_a_new_leader_finds_what_its_predecessor_wrote_before_it_writes(stage, proxy):
    """Its watch of the pods is dead, so its cache lacks those that were created meanwhile."""
    leader, standby = await stage.leader_and_standby()
    proxy.now(watch("pods", client=standby.name), do=faults.half_open())
    pods_so_far = len(oracle.pods_created(proxy))
    await eventually(lambda: len(oracle.pods_created(proxy)) >= pods_so_far + 4)

    killed = leader.send(signal.SIGKILL)
    worked = await stage.works(standby, since=killed)

    relists = [call.at for call in proxy.calls(opening("pods", client=standby.name)) if call.at > killed]
    assert killed < relists[0] < worked


async def test_a_stopped_leader_that_is_continued_writes_nothing_before_it_leads_again(stage):
    """It wakes up in the middle of its work, after somebody else has taken over."""
    leader, standby = await stage.leader_and_standby()

    for _ in range(2):
        stopped = leader.send(signal.SIGSTOP)
        await stage.works(standby, since=stopped)
        continued = leader.send(signal.SIGCONT)
        await leader.logged(OVER, since=continued)
        await stage.is_renewed(times=2)
        assert not leader.when(WORKING, since=continued)
        leader, standby = standby, leader


async def test_a_leader_that_was_stopped_for_less_than_the_lease_leads_on(stage):
    """Nobody was in its place, and it has to ask before it goes on."""
    leader, standby = await stage.leader_and_standby(durations=SHORT | {"lease-duration": 10})

    leader.send(signal.SIGSTOP)
    await asyncio.sleep(SHORT["renew-deadline"] + 0.3)
    continued = leader.send(signal.SIGCONT)

    await leader.logged(OVER, since=continued)
    await leader.logged(WORKING, since=continued)
    await stage.works(leader, since=continued)
    assert not standby.when(WORKING)


async def test_a_leader_whose_event_loop_is_blocked_for_a_moment_keeps_its_lease(stage):
    """For longer than the renew deadline; the thread of the election goes on."""
    durations, block = LONG | {"lease-duration": 12}, LONG["renew-deadline"] + 0.3
    leader, standby = await stage.leader_and_standby(durations=durations, block=block, computes=True)

    leader.send(signal.SIGUSR2)
    unblocked = await leader.logged("unblocked")
    await stage.works(leader, since=unblocked)

    assert not leader.when(OVER)
    assert not standby.when(WORKING)


async def test_a_leader_whose_event_loop_is_blocked_for_long_gives_its_lease_up(stage):
    """A process that cannot work must not keep others from it."""
    leader, standby = await stage.leader_and_standby(block=14)

    blocked = leader.send(signal.SIGUSR2)
    await stage.works(standby, since=blocked)
    assert not leader.when("unblocked")
    unblocked = await leader.logged("unblocked")
    await leader.logged(OVER, since=unblocked)

    (over,) = leader.process.records_of(OVER)
    assert over["cause"] == "the work was stuck, so the Lease was no longer renewed"


async def test_wall_clocks_that_jump_and_run_at_other_speeds_change_nothing(stage, field):
    """By an hour, by a year, twice as fast; nothing is decided by the wall clock."""
    field.waived |= {"conditions"}  # what they write as times is what their clocks say
    years = await stage.start("years", durations=LONG, wall_jumps=366 * 86400)
    hours = await stage.start("hours", durations=LONG, wall_jumps=3600)
    twice = await stage.start("twice", durations=LONG, wall_speed=2)
    leader, standby, third = await stage.sorted_out(years, hours, twice)
    await stage.is_renewed(times=8)
    assert not leader.when(OVER)
    assert not standby.when(WORKING) + third.when(WORKING)

    async with Stopwatch() as passed:
        await stage.works(standby, third, since=leader.send(signal.SIGKILL))
        assert passed.seconds < LONG["lease-duration"] + LONGEST_RETRY + 3


async def test_a_leader_that_alone_is_cut_off_from_its_lease_stops_before_another_works(stage, proxy):
    """It can still write everything else, and must not."""
    leader, standby = await stage.leader_and_standby(durations=SHORT | {"lease-duration": 8})

    with proxy.on(anything("leases", client=leader.name), do=faults.half_open()):
        took_over = await standby.logged(WORKING)
        assert await leader.logged(OVER) < took_over
        await stage.is_renewed(times=2)
        assert len(leader.when(WORKING)) == 1


async def test_trouble_with_the_lease_that_is_longer_than_the_renew_deadline_ends_the_term(stage, proxy):
    """Nobody works while nobody can know who may, and somebody does soon after."""
    leader, standby = await stage.leader_and_standby()

    with proxy.on(anything("leases"), do=faults.fail(500)):
        began = time.monotonic()
        over = await leader.logged(OVER)
        assert over - began < SHORT["renew-deadline"] + 3
        await asyncio.sleep(2)
        assert len(leader.when(WORKING) + standby.when(WORKING)) == 1

    async with Stopwatch() as passed:
        await stage.works(leader, standby, since=time.monotonic())
        assert passed.seconds < TAKE_OVER


async def test_a_leader_makes_its_lease_again_or_repairs_it_and_goes_on(stage):
    """Deleted, or filled with garbage, as anybody may who has the right to."""
    leader, standby = await stage.leader_and_standby(durations=LONG)

    for garbage in (
        {"leaseDurationSeconds": 2**31 - 1},
        {"renewTime": "2099-01-01T00:00:00.000000Z"},
        {"leaseDurationSeconds": None, "renewTime": None, "acquireTime": None},
    ):
        await stage.put(**garbage)
        await stage.is_renewed(times=1)
    await stage.delete()
    await stage.is_renewed(times=3)
    lease = await stage.lease()

    assert (lease["holderIdentity"].partition("_")[0], lease["leaseDurationSeconds"]) == (leader.name, 8)
    assert "2099" not in lease["renewTime"]
    assert not leader.when(OVER)
    assert not standby.when(WORKING)
