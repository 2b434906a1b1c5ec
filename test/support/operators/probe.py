"""The operator with a window, as a process: a test sees its caches, and disturbs its clock, its loop or its code.

Everything is the operator's own (``app.run``), with its own flags. ``Disturbance`` says what is wrong with it; SIGUSR1
prints what its caches hold, SIGUSR2 strikes. ``operator_process`` starts it and reads its output.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn

from tf_operator.app import clients, run, wiring
from tf_operator.app.options import options
from tf_operator.controller.controller import Controller
from tf_operator.controller.metrics_hooks import ReconcileInstruments
from tf_operator.controller.reconciler import Reconciler
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.store import Item
from tf_operator.machinery.clock import Clock, SystemClock, Timer
from tf_operator.machinery.election.fence import LeaseClock


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What is wrong with the process."""

    speed: float = 1.0
    """How many times as fast as the world its clock and its timers run."""
    wall_jumps: float = 0.0
    """By how many seconds its wall clock jumps back and forth, every second."""
    wall_speed: float = 1.0
    block: float = 0.0
    """For how many seconds SIGUSR2 blocks the event loop; with 0, it makes a worker die."""
    computes: bool = False
    """Whether a blocked loop computes, so that it competes with the other threads, or waits."""


class WrongWall(LeaseClock):
    """A clock whose wall is wrong."""

    disturbance = Disturbance()
    _began = time.monotonic()

    def now(self) -> datetime:
        jumps = timedelta(seconds=self.disturbance.wall_jumps)
        ahead = timedelta(seconds=(self.disturbance.wall_speed - 1) * (time.monotonic() - self._began))
        return super().now() + ahead + (jumps if int(time.monotonic()) % 2 else -jumps)


class FastClock(WrongWall):
    """A clock whose durations pass faster than those of the world; the wall clock does not."""

    def monotonic(self) -> float:
        return time.monotonic() * self.disturbance.speed

    def call_at(self, when: float, callback: Any) -> Timer:  # noqa: ANN401
        seconds = max(0.0, when - self.monotonic()) / self.disturbance.speed
        return asyncio.get_running_loop().call_later(seconds, callback)

    timeout = Clock.timeout


class DyingWorker(ReconcileInstruments):
    """Measures of the workers, with a bug that one call brings out."""

    is_struck = False

    def began(self) -> None:
        if self.is_struck:
            raise ZeroDivisionError("a bug in a worker")


class Deletions:
    """A handler that counts what informers report as deleted."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()

    def on_add(self, item: Item) -> None:
        """Not counted."""

    def on_update(self, old: Item, new: Item) -> None:
        """Not counted."""

    def on_delete(self, last: Item, *, final_state_known: bool) -> None:
        self.names[last.metadata.name] += 1


class Window:
    def __init__(self, disturbance: Disturbance) -> None:
        self._disturbance = disturbance
        self._dying = DyingWorker()
        self._deletions = Deletions()

    def make_controller(self, context: wiring.ControllerContext, api: ServedAPI) -> Controller:
        controller = wiring.make_controller(context, api)
        self._controller = controller if self._disturbance.block else replace(controller, instruments=self._dying)
        assert isinstance(controller.reconciler, Reconciler)
        self._reconciler = controller.reconciler
        self._caches = self._reconciler.observer.caches
        for informer in (self._caches.jobs, self._caches.pods, self._caches.services):
            informer.add_handler(self._deletions)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._show)
        loop.add_signal_handler(signal.SIGUSR2, self._strike)
        _say("started")
        return self._controller

    def _show(self) -> None:
        caches = {name: getattr(self._caches, name) for name in ("jobs", "pods", "services")}
        _say(
            "caches",
            tasks=len(asyncio.all_tasks()),
            owners=self._reconciler.pending_writes.owners,
            deleted=self._deletions.names,
            synced={name: informer.has_synced for name, informer in caches.items()},
            **{name: _versions(informer.store) for name, informer in caches.items()},
        )

    def _strike(self) -> None:
        self._dying.is_struck = True
        if not self._disturbance.block:
            return
        _say("blocked")
        end = time.monotonic() + self._disturbance.block
        while time.monotonic() < end:
            if not self._disturbance.computes:
                time.sleep(self._disturbance.block)
        _say("unblocked")


def _versions(items: Iterable[Item]) -> dict[str, tuple[str, str]]:
    return {item.metadata.name: (item.metadata.uid, item.metadata.resource_version) for item in items}


def _say(message: str, **more: object) -> None:
    print(json.dumps({"message": message, "level": "info", **more}), flush=True)  # noqa: T201


def main(disturbed: str, *arguments: str) -> NoReturn:
    """Run with a ``Disturbance`` as JSON, and the arguments of ``tf-operator run``."""
    disturbance = Disturbance(**json.loads(disturbed))
    WrongWall.disturbance = disturbance
    clocks: type[SystemClock] = FastClock if disturbance.speed != 1 else WrongWall
    run.SystemClock = clocks  # type: ignore[attr-defined]
    clients.LeaseClock = WrongWall  # type: ignore[attr-defined]
    sys.exit(run.run(options.parse(arguments, os.environ), make_controller=Window(disturbance).make_controller))


if __name__ == "__main__":
    main(*sys.argv[1:])
