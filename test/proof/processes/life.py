"""One life of three operators that contend for a Lease, with a few jobs, in virtual time: all of it from one seed.

    PYTHONPATH=hack:test .venv/bin/python -m proof.processes.life 17        # prints what happened, and what is wrong

First there are faults: an operator is stopped and continued, killed, replaced, cut off; requests, replies and lines of
watches are late, lost, refused or cut. Then they end, everything has to come to rest, and the whole history of the
store is held against the invariants. At last the jobs are deleted and the operators end: nothing may be left.
"""

import argparse
import asyncio
import gc
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import count

import structlog  # noqa: F401 (with the first record it would be imported during a life, and draw from its chance)

from proof.processes import jobs
from proof.processes.cluster import NAMESPACE, NAMESPACES, Cluster, Kubelets, People
from proof.processes.record import Record
from proof.processes.weather import Network
from support.embedded.embedded_api import kinds
from support.fake_clock import FakeClock
from support.pods.pod_groups import pod_group_crd
from support.processes.operator import Operator
from support.processes.virtual_loop import VirtualLoop
from support.resources import Resource
from tf_operator.app.options.options import Options
from tf_operator.controller.resources import PODS, SERVICES
from tf_operator.dialects import registry
from tf_operator.local.apiserver.definitions import custom_kinds
from tf_operator.local.apiserver.in_process import collect_soon
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import HISTORY
from tf_operator.machinery.election.lease import LEASES
from tf_operator.machinery.transport import errors, requests

OPTIONS = Options(apis=registry.SERVED)
OPERATORS = 3
FAULTS = 45.0
"""Seconds for which there are some."""
HEALS_WITHIN = 600.0
CATCHES_UP_WITHIN = 90.0
"""The longest that a cache may take, by docs/faults.md, after what was half-open."""
QUIET = 12.0
"""Seconds without a change after which everything counts as resting."""
SLOWEST, FASTEST = 0.9, 1.1


class Life:
    """The operators, their network and the cluster."""

    def __init__(self, seed: int) -> None:
        self.clock = FakeClock()
        self.complaints: list[str] = []
        self._chance = random.Random(seed)
        self._numbers = count(1)
        history = self._chance.choice([HISTORY, HISTORY, 20])
        self.server = ApiServer(self.clock, kinds=_served(), history=history, uids=lambda: f"uid-{next(self._numbers)}")
        self.record = Record(self.server, self.clock)
        self._cluster = Cluster(self.server, self.clock, self._chance)
        self._kubelets = Kubelets(self._cluster)
        self._people = People(self._cluster)
        self._operators: dict[Operator, Network] = {}
        self._past: list[Operator] = []

    async def play(self) -> None:
        """All of it."""
        collect_soon(self.server)
        for name in (NAMESPACE, "tf-operator"):
            self._cluster.send(requests.create(NAMESPACES, "", {"metadata": {"name": name}}))
        for _ in range(OPERATORS):
            self._cluster.later(10.0, self._start)
        self._people.begin(FAULTS)
        await self._let_faults_happen()
        self._end_faults()
        await self._wait("one leads, and the jobs end", self._unfinished, HEALS_WITHIN)
        await self._wait("caches are as the store", self._differences, CATCHES_UP_WITHIN)
        self.complaints += self.record.complaints()
        self._people.delete_all()
        await self._wait("everything is deleted", self._left, HEALS_WITHIN)
        await self._wait("caches are empty", self._differences, CATCHES_UP_WITHIN)
        await self._wait("nothing is kept", self._kept, HEALS_WITHIN)
        await self._end()

    # --- Faults

    async def _let_faults_happen(self) -> None:
        ends_at = self.clock.monotonic() + FAULTS
        while (left := ends_at - self.clock.monotonic()) > 0:
            await self.clock.sleep(min(self._chance.uniform(1.0, 12.0), left))
            if self._operators:
                operator = self._chance.choice([self._leader(), *self._operators])
                self._chance.choice(
                    [self._stop, self._kill, self._terminate, self._strike_at_a_write, *[self._disturb] * 4, self._cut]
                )(operator)

    def _leader(self) -> Operator:
        leading = [operator for operator in self._operators if operator.election.fence.is_open]
        return leading[0] if leading else next(iter(self._operators))

    def _stop(self, operator: Operator) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        if operator not in self._operators:
            return
        self.record.note(f"{operator.name} is stopped")
        network = self._operators[operator]
        operator.clock.is_stopped = True
        network.stop()
        self._cluster.later(40.0, partial(self._go_on, operator, network))

    def _go_on(self, operator: Operator, network: Network) -> None:
        if operator.clock.is_stopped:
            self.record.note(f"{operator.name} goes on")
            network.go_on()
            operator.clock.go_on()

    def _disturb(self, operator: Operator) -> None:
        """Its network is bad for a while: slow, unreliable, or silent."""
        network = self._operators[operator]
        network.trouble = self._chance.choice([0.0, 0.05, 0.3])
        network.slowness = self._chance.choice([0.0, 0.0, 0.3, 3.0, 15.0])
        network.lag = self._chance.choice([0.0, 0.0, 5.0, 30.0])
        how = self._chance.choice(["", "", "is silent", "refuses"])
        delays = f"{network.slowness} s slow, watches {network.lag} s late"
        self.record.note(f"the network of {operator.name} {how}: {network.trouble} trouble, {delays}")
        if how == "is silent":
            network.stop()
        network.refuses = how == "refuses"
        self._cluster.later(30.0, lambda: None if operator.clock.is_stopped else network.calm_down())

    def _cut(self, operator: Operator) -> None:
        """All its watches end in this moment; some cleanly."""
        self.record.note(f"the watches of {operator.name} are cut")
        for watch in operator.transport.watches:
            watch.cut(None if self._chance.random() < 0.3 else errors.ReplyLost("cut"))

    def _strike_at_a_write(self, operator: Operator) -> None:
        """Stop or kill it when it is about to send a write soon, or when the server has just carried that out."""
        network = self._operators[operator]
        network.act = partial(self._chance.choice([self._stop, self._kill]), operator)
        network.acts_in = self._chance.randint(1, 12)

    def _kill(self, operator: Operator) -> None:
        """SIGKILL; another one is started."""
        if operator not in self._operators:
            return
        self.record.note(f"{operator.name} is killed")
        network = self._operators.pop(operator)
        network.calm_down()
        network.refuses = True  # what still runs of it is heard by nobody
        operator.clock.go_on()
        operator.running.cancel()
        self._replace(operator)

    def _terminate(self, operator: Operator) -> None:
        """SIGTERM; another one is started, perhaps before it has ended."""
        self.record.note(f"{operator.name} is terminated")
        network = self._operators.pop(operator)
        self._go_on(operator, network)
        operator.terminate()
        self._replace(operator)

    def _replace(self, operator: Operator) -> None:
        self._past.append(operator)
        self._cluster.later(10.0, self._start)

    def _start(self) -> None:
        number = len(self._operators) + len(self._past)
        name = f"operator-{number}"
        self.record.note(f"{name} is started")
        network = Network(self.clock, self._chance, on_answer=partial(self.record.on_answer, name))
        operator = Operator(
            name,
            OPTIONS,
            self.server,
            world=self.clock,
            edge=network,
            rate=self._chance.choice([SLOWEST, 1.0, FASTEST]),
            seed=self._chance.getrandbits(32),
        )
        self._operators[operator] = network

    def _end_faults(self) -> None:
        self.record.note("the faults end")
        self._kubelets.is_calm = True
        for operator, network in self._operators.items():
            network.calm_down()
            self._go_on(operator, network)
        self._people.calm_down()

    # --- What has to be so afterwards

    async def _wait(self, what: str, unfinished: Callable[[], Iterable[str]], within: float) -> None:
        """Wait until it is so, and nothing changes any more."""
        ends_at = self.clock.monotonic() + within
        while self.clock.monotonic() < ends_at:
            if self.record.quiet_seconds() >= QUIET and not any(unfinished()):
                return
            await self.clock.sleep(QUIET / 4)
        self.complaints.append(f"{what}: not within {within:g} s: {', '.join(unfinished())}")

    def _unfinished(self) -> Iterator[str]:
        leaders = [operator.name for operator in self._operators if operator.election.fence.is_open]
        if len(leaders) != 1:
            yield f"{leaders} lead"
        for kind in jobs.KINDS:
            for body in self._cluster.of(kind.resource):
                if not jobs.has_ended(body, kind):
                    yield body["metadata"]["name"]

    def _left(self) -> Iterator[str]:
        for resource in (*(kind.resource for kind in jobs.KINDS), PODS, SERVICES):
            yield from (f"{resource} {body['metadata']['name']}" for body in self._cluster.of(resource))

    def _differences(self) -> Iterator[str]:
        """Of what operators have cached, and what is stored."""
        for operator in self._operators:
            for name, entry in operator.informers._entries.items():
                cached = {item.metadata.key.name: item.metadata.resource_version for item in entry.informer.store}
                stored = {
                    body["metadata"]["name"]: body["metadata"]["resourceVersion"]
                    for body in self._cluster.of(entry.informer.resource)
                }
                if cached != stored:
                    yield f"{operator.name} has {cached} in its cache of {name}, stored are {stored}"

    def _kept(self) -> Iterator[str]:
        """What operators keep although there are no jobs."""
        for operator in self._operators:
            for part, size in operator.sizes():
                if size:
                    yield f"{operator.name} keeps {size} {part}"

    async def _end(self) -> None:
        """The operators end. Nothing is left of them, nor is the Lease anybody's."""
        everybody = [*self._past, *self._operators]
        for operator in self._operators:
            operator.terminate()
        await asyncio.wait([operator.running for operator in everybody])
        self._cluster.end()
        for operator in everybody:
            self.complaints += _remains(operator)
        holders = [lease["spec"].get("holderIdentity") for lease in self._cluster.of(LEASES)]
        if any(holders):
            self.complaints.append(f"the Lease is still that of {holders}")
        if tasks := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
            self.complaints.append(f"tasks are left: {tasks}")
        if self.clock.pending:
            self.complaints.append(f"{self.clock.pending} timers are left")


def _remains(operator: Operator) -> Iterator[str]:
    """What is wrong with an operator that has ended."""
    if not operator.running.cancelled() and (error := operator.running.exception()):
        yield f"{operator.name} has failed: {error!r}"
    if operator.panics.counted:
        yield f"{operator.name} has panicked"
    if operator.transport.watches:
        yield f"{operator.name} has left watches open"


@cache
def _served() -> tuple[Kind, ...]:
    """With the PodGroups of T9k: else every operator would ask for them all the time."""
    return (
        *kinds(),
        *custom_kinds.defined(pod_group_crd(Resource("scheduler.tensorstack.dev", "v1beta1", "podgroups"))),
    )


def play(seed: int) -> Life:
    """A life from its first moment to its last."""
    state = random.getstate()
    random.seed(seed)  # tenacity draws its pauses from it
    gc.disable()  # what it ends of generators, it would end at any moment
    life = Life(seed)
    try:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(life.clock)) as runner:
            runner.run(life.play())
    finally:
        random.setstate(state)
        gc.enable()
    return life


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m proof.processes.life", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("seed", type=int)
    life = play(parser.parse_args(arguments).seed)
    print(*life.record.lines(), *life.complaints or ["holds"], sep="\n")  # noqa: T201
    return 1 if life.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
