"""A long life under random faults: ``make soak`` (10 minutes; SOAK_SECONDS, SOAK_SEED).

The operator runs as a process behind the proxy. Jobs come, grow, shrink and go, users delete pods, and one in twenty
of all requests and lines of watches is struck by a fault of any kind; every now and then a connection dies, hangs or
cannot be made. In the end the faults stop, and everything has to be in order: the apiserver holds what the jobs want,
the caches equal the apiserver, nothing was ever found to exist without a reason to look for it, and the process has
grown neither in memory nor in tasks nor in file descriptors.

Not among the faults: what no network does to TLS. A line that is dropped from the middle of a stream, or a bookmark
that lies about its version, would deceive any client. No test of the gate: pytest does not collect it by itself.
"""

import asyncio
import os
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support import oracle
from support.api import RefusedError
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.trigger import anything, opening, watch, write
from support.settle import eventually

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
SEED = int(os.environ.get("SOAK_SEED", "0"))
SHARE = 0.05
JOBS = 12
MOST_GROWTH = 10_000_000
MOST_REQUESTS = 100
"""A second, on the average: what the changes of a busy day take, but no tight loop."""

REQUESTS = [
    faults.fail(500, 502, 503),
    faults.throttle("1"),
    faults.throttle(None),
    faults.html(),
    faults.plain_404(),
    faults.redirect("https://127.0.0.1:1"),
    faults.lose_reply(),
    faults.reset(),
    faults.reset(faults.FIN),
    faults.truncate(),
    faults.cut_body(),
    faults.unended_chunk(),
    faults.bad_gzip(),
    faults.delay(1),
]
WRITES = [faults.late_write(seconds=5)]
OPENINGS = [faults.gone(), faults.empty_watch(), faults.trickle(100_000)]
LINES = [
    faults.delay(0.5),
    faults.duplicate(),
    faults.replay(),
    faults.split(),
    faults.unknown_event(),
    faults.error_event(500, "etcdserver: no leader"),
    faults.gone_event(),
    faults.cut(),
    faults.cut(faults.FIN, where="within"),
    faults.cut(faults.RST, where="within"),
    faults.cut(faults.RST, where="after"),
]
BOOKMARKS = [faults.drop()]
ORDINARY = watch(event="BOOKMARK", where=lambda body: "annotations" not in body["metadata"])
STRUCK = [
    (anything(), SHARE, REQUESTS),
    (write(), SHARE, WRITES),
    (watch(), SHARE, LINES),
    # These are so rare that one in twenty would be none.
    (opening(), 5 * SHARE, OPENINGS),
    (ORDINARY, 10 * SHARE, BOOKMARKS),
]


@pytest.fixture
def proxy(control_plane):
    """A proxy whose chances come from the seed."""
    with FaultProxy(control_plane.kubeconfig("operator"), seed=SEED) as running:
        yield running


@dataclass
class Users:
    """Whoever has jobs, at random."""

    field: object
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    acts: Counter = field(default_factory=Counter)
    lives: Counter = field(default_factory=Counter)
    """How often each job was deleted: the next one gets another name, as the old one's pods may still be there."""

    async def live(self, end):
        """Change something several times a second."""
        while time.monotonic() < end:
            act = self.chance.choices([self.want, self.drop, self.take_away], weights=[8, 1, 1])[0]
            self.acts[act.__name__] += 1
            try:
                await act(self.chance.randrange(JOBS))
            except RefusedError as refused:
                if refused.status != 404:
                    raise
            await asyncio.sleep(self.chance.uniform(0.05, 0.4))

    def name(self, number):
        return f"w{number}-{self.lives[number]}"

    async def want(self, number):
        await self.field.want(self.name(number), self.chance.randrange(6))

    async def drop(self, number):
        await self.field.delete_job(self.name(number))
        self.lives[number] += 1

    async def take_away(self, number):
        await self.field.delete_pod(self.name(number), 0)


async def break_connections(proxy, apiserver, end):
    """Every half minute something happens to connections as a whole."""
    for turn in range(int(SECONDS)):
        await asyncio.sleep(30)
        if time.monotonic() > end:
            return
        with suppress(AssertionError):  # that nobody felt it: there was no connection just then
            if turn % 3 == 0:
                with proxy.refusing():
                    await asyncio.sleep(2)
            elif turn % 3 == 1:
                apiserver.pause()
                await asyncio.sleep(3)
                apiserver.resume()
            else:
                proxy.now(watch(), do=faults.half_open())


@dataclass(frozen=True)
class Size:
    """What a process takes."""

    memory: int
    files: int

    @classmethod
    def of(cls, pid):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.timeout(SECONDS + 400)
async def test_a_long_life_under_random_faults_ends_in_order(proxy, field, start):
    field.waived |= {"pods of the spec"}  # a late write is of the spec of seconds ago
    users = Users(field)
    operator = await start()
    rules = [
        proxy.on(trigger, do=fault, chance=share / len(kinds), at_least=0)
        for trigger, share, kinds in STRUCK
        for fault in kinds
    ]
    end = time.monotonic() + SECONDS
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(users.live(end))
        tasks.create_task(break_connections(proxy, field.plane.servers["kube-apiserver"], end))
        await asyncio.sleep(SECONDS / 5)
        early = Size.of(operator.pid)
    requests = proxy.count()
    for rule in rules:
        rule.off()
    stopped = time.monotonic()
    await eventually(lambda: oracle.in_order(operator, field.admin, field.namespace), within=240, every=1)
    healed = time.monotonic() - stopped
    late = Size.of(operator.pid)
    alive = (await operator.caches())["tasks"]

    struck = sum(rule.fired for rule in rules)
    report = [
        f"{SECONDS:g} s, seed {SEED}: {sum(users.acts.values())} acts of users {dict(users.acts)}",
        f"{requests} requests, {struck} faults struck; in order {healed:.1f} s after they ended",
        f"memory {early.memory / 1e6:.1f} MB after a fifth of the time, {late.memory / 1e6:.1f} MB at the end",
        f"files {early.files} and {late.files}; {alive} tasks at the end",
        *[f"{rule.fired:6d} of {rule.matched} x {rule.fault}" for rule in rules],
    ]
    print("", *report, sep="\n")  # noqa: T201
    assert struck >= requests / 50, "that was no hard life"
    assert late.memory - early.memory <= MOST_GROWTH
    assert late.files <= 80
    assert alive <= 60
    assert requests / SECONDS <= MOST_REQUESTS
    assert oracle.blind_repeats(proxy) == []
    assert oracle.unexplained(proxy) == []
