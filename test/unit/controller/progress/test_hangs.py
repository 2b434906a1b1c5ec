"""Days of a training that is paused, pulled, suspended and taken over: it never hangs before it does, and then soon.

The controller is real, and so is all that takes reports. Time is virtual; a test plays the kubelet and the program.
"""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from support.embedded.pod_events import everything_runs, is_deleted, restarts_in_place, resume, suspend
from support.embedded.progress import LISTENING, intake_of
from support.embedded.simulator import Simulator, simulate
from support.jobs.builders import tfjob
from tf_operator.controller.controller import Controller
from tf_operator.controller.metrics_hooks import ReconcileInstruments
from tf_operator.controller.progress.intake import TokenOwner
from tf_operator.controller.result import Result
from tf_operator.job.progress import Progress
from tf_operator.meta import ObjectKey

DEADLINE = 120
FOUND_WITHIN = DEADLINE + 10
STEP = 5.0
JOB = tfjob().chief(restart="OnFailure").workers(1, restart="OnFailure").progress_deadline(DEADLINE)


@dataclass
class Synced:
    """The reconciler of an operator whose caches have caught up."""

    simulator: Simulator

    async def reconcile(self, key: ObjectKey) -> Result:
        self.simulator.operator.sync()
        result: Result = await self.simulator.operator.reconciler.reconcile(key)
        return result


@dataclass
class Life:
    """One job, its operator and its program."""

    dice: random.Random
    simulator: Simulator = field(default_factory=lambda: simulate(JOB, LISTENING))
    operator: "asyncio.Task[None] | None" = None
    step: int = 0
    reported_at: float = 0.0
    silent_until: float = 0.0
    """The program begins, evaluates, or waits for its worker."""
    hangs_since: float | None = None
    """When the program hung, or an operator could hear again that it does."""
    starts_at: float = 0.0
    """When the kubelet has pulled the images of pods that wait."""
    hangs: int = 0
    noticed: int = 0
    late: int = 0
    false: int = 0

    @property
    def now(self) -> float:
        return self.simulator.clock.monotonic()

    @property
    def is_hung(self) -> bool:
        return bool(self.simulator.status.get("hung"))

    def lead(self) -> None:
        """Another operator leads from now on."""
        operator = self.simulator.operator
        controller = Controller(
            queue=operator.queue,
            jobs=operator.jobs,
            reconciler=Synced(self.simulator),
            notes=operator.notes,
            clock=self.simulator.clock,
            instruments=ReconcileInstruments(),
            workers=1,
        )
        operator.sync()
        self.operator = asyncio.create_task(controller.run())

    async def stop_leading(self) -> None:
        if self.operator:
            self.operator.cancel()
            with suppress(asyncio.CancelledError):
                await self.operator
        self.simulator.restart()
        self.simulator.operator.queue.pause()

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self._play()
            self.simulator.operator.sync()
            self.simulator.operator.queue.add(self.simulator.key)
            await self.simulator.clock.advance(STEP)
            is_late = self.hangs_since is not None and self.now - self.hangs_since > FOUND_WITHIN + STEP
            self.late += is_late and not self.is_hung
            self.false += self.is_hung and self.hangs_since is None

    def _play(self) -> None:
        """The kubelet and the program go on."""
        self.simulator.reap()
        pods = self.simulator.pods.values()
        if any(pod.phase == "Pending" for pod in pods) and self.now >= self.starts_at:
            everything_runs(self.simulator)
            self.silent_for(DEADLINE - 2 * STEP)
        runs = len(pods) == 2 and all(pod.phase == "Running" for pod in pods)
        is_due = self.now - self.reported_at > 3 * STEP or self.dice.random() < 0.3
        if runs and self.hangs_since is None and self.now >= self.silent_until and is_due:
            self.step += 1
            self.report()

    def report(self) -> None:
        """It may be lost: nobody may lead."""
        self.reported_at = self.now
        report = Progress(self.step // 1000 % 100, step=self.step, time=self.simulator.now)
        intake_of(self.simulator.operator).take(self.simulator.key, TokenOwner(self.simulator.job.uid), report)

    def silent_for(self, most: float) -> None:
        if self.reported_at >= self.silent_until:  # two pauses would be longer than one may be
            self.silent_until = self.now + self.dice.uniform(0, most)

    def pull(self) -> None:
        self.starts_at = self.now + self.dice.uniform(0, 1200)

    async def suffer(self) -> None:
        """Something happens that is no hang."""
        match self.dice.randrange(7):
            case 0:
                self.silent_for(DEADLINE - 5 * STEP)
            case 1:
                is_deleted("worker-0")(self.simulator)
                self.pull()
            case 2:
                is_deleted("chief-0")(self.simulator)
                self.pull()
            case 3:
                restarts_in_place("chief-0")(self.simulator)
                self.silent_until = self.now + self.dice.uniform(0, 900)
            case 4:
                suspend(self.simulator)
                await self.pass_time(self.dice.uniform(0, 1200))
                resume(self.simulator)
                self.pull()
            case 5:
                await self.stop_leading()
                self.lead()
            case _:
                await self.stop_leading()
                await self.pass_time(self.dice.uniform(0, 600))
                self.lead()

    async def hang(self) -> None:
        """The program hangs, until somebody helps it."""
        await self.pass_time(3 * DEADLINE + max(0.0, self.starts_at - self.now, self.silent_until - self.now))
        self.report()
        self.hangs, self.hangs_since = self.hangs + 1, self.now
        if self.dice.random() < 0.3:
            await self.pass_time(self.dice.uniform(0, DEADLINE))
            await self.stop_leading()
            self.lead()
            self.hangs_since = self.now
        repeats = self.dice.random() < 0.3
        for _ in range(round(2 * DEADLINE / STEP)):
            if repeats:
                self.report()
            await self.pass_time(STEP)
        self.noticed += self.is_hung
        self.hangs_since = None
        self.step += 1
        self.report()
        await self.simulator.clock.advance(1)


async def lived(seed: int, *, hours: int, hangs: int) -> Life:
    life = Life(random.Random(seed))
    life.lead()
    begin, pause = life.now, hours * 3600 / max(hangs, 1)
    while life.now < begin + hours * 3600:
        for _ in range(3):
            await life.suffer()
            await life.pass_time(life.dice.expovariate(1 / 600))
        if life.hangs < hangs and life.now - begin >= pause * life.hangs:
            await life.hang()
    await life.stop_leading()
    return life


@pytest.mark.parametrize(
    ("hours", "hangs"),
    [(6, 5), pytest.param(100, 50, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])],
    ids=["an evening", "four days"],
)
async def test_a_training_hangs_only_when_it_does_and_then_within_its_deadline(hours, hangs):
    life = await lived(1, hours=hours, hangs=hangs)

    assert (life.false, life.late, life.noticed, life.hangs) == (0, 0, hangs, hangs)
