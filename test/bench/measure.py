"""What a contender of the informer benchmark is measured by: wall time, CPU, memory, stalls of its event loop."""

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path

TICK = 0.001
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "worst": 1.0}
_PROCESS = Path("/proc/self")


class Ticker:
    """Measures how late the event loop comes to a task that wants to run every millisecond."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.held: list[float] = []

    async def run(self) -> None:
        while True:
            began, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK)
            self.late.append(time.perf_counter() - began - TICK)
            self.held.append(time.process_time() - used)

    def percentiles(self) -> dict[str, float]:
        """In milliseconds: of the time, and of the CPU that this process used meanwhile."""
        return {
            f"{name} {title}": 1000 * durations[min(len(durations) - 1, int(len(durations) * share))]
            for name, durations in (("late", sorted(self.late)), ("held", sorted(self.held)))
            for title, share in SHARES.items()
        }


class Measure:
    """``async with`` around the work, then ``tell`` while the cache is still there."""

    def __init__(self) -> None:
        self.result: dict[str, float] = {}
        self._ticker = Ticker()

    async def __aenter__(self) -> None:
        gc.collect()
        _reset_peak()
        self._rss = _memory("VmRSS")
        self._task = asyncio.ensure_future(self._ticker.run())
        await asyncio.sleep(0.05)
        self._ticker.late.clear()
        self._ticker.held.clear()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    async def __aexit__(self, *_: object) -> None:
        self.result["wall"] = time.perf_counter() - self._wall
        self.result["cpu"] = time.process_time() - self._cpu
        await asyncio.sleep(0.01)
        self._task.cancel()
        self.result |= self._ticker.percentiles()
        self.result["peak"] = _memory("VmHWM") - self._rss
        gc.collect()
        self.result["growth"] = _memory("VmRSS") - self._rss

    def tell(self, pods: int) -> None:
        """Print what was measured, and end the process, whatever threads it still has."""
        print(json.dumps(self.result | {"pods": pods}), flush=True)  # noqa: T201 (for whoever started the process)
        sys.stdout.flush()
        os._exit(0)


def _reset_peak() -> None:
    (_PROCESS / "clear_refs").write_text("5")


def _memory(field: str) -> float:
    """``VmRSS`` or ``VmHWM`` of this process, in MB."""
    lines = (_PROCESS / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1000
