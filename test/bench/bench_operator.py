"""What jobs cost: the operator with its default flags, beside a bare client that makes only the writes it must.

    .venv/bin/python test/bench/bench_operator.py [--jobs 200] [--workers 1000] [--rounds 1]

Two kinds of work, each on a real control plane with a fake kubelet: many small jobs at once (a chief, two workers, a
parameter server), and one large one. Told are the time until all have succeeded, requests and writes for each job
from the audit log, CPU, and the peak of memory. Only the ratios within one run mean anything.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from support import builders
from support.api import Api
from support.audit import AuditLog
from support.control_plane import ControlPlane
from support.resources import TFJOBS, Json

HERE = Path(__file__).parent
OPERATOR, FLOOR = "the operator", "the floor"
LONGEST = 600.0


@dataclass(frozen=True, slots=True)
class Work:
    """Jobs that are created at once, and for how many seconds their pods run."""

    name: str
    jobs: int
    workers: int
    seconds: float


def main() -> int:
    """Run everything, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--only", choices=["many", "large"])
    options = parser.parse_args()
    works = [Work("many", options.jobs, 2, 0.5), Work("large", 1, options.workers, 5.0)]
    for work in works:
        if options.only in {None, work.name}:
            results = {who: asyncio.run(measured(work, who)) for who in (FLOOR, OPERATOR)}
            say(f"\n{work.jobs} job(s) of 1 chief, {work.workers} workers, 1 PS\n{table(results)}")
    return 0


async def measured(work: Work, who: str) -> dict[str, float]:
    """One contender's work, on a control plane of its own."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plane = stack.enter_context(ControlPlane.up(directory / "plane", {"audit", "controller-manager"}))
        namespace = plane.make_namespace(work.name)
        kubelet = [str(HERE / "fake_kubelet.py"), str(plane.kubeconfig("kubelet")), namespace, str(work.seconds)]
        stack.enter_context(running(kubelet))
        process = stack.enter_context(running(command(who, plane, namespace)))
        before, mark = cpu_of(process), AuditLog(plane.audit_log).mark()
        async with Api(plane.kubeconfig("admin")) as api:
            began = time.monotonic()
            await asyncio.gather(*(create(api, namespace, work, index) for index in range(work.jobs)))
            wall = await until_succeeded(api, namespace, work.jobs) - began
        await asyncio.sleep(2)  # what is cleaned up belongs to the work
        requests = AuditLog(plane.audit_log).since(mark)
        told = Counter(f"{found.verb} {found.resource}" for found in requests.writes())
        say(f"{who}: " + ", ".join(f"{count} {name}" for name, count in told.most_common()))
        return {
            "wall s": wall,
            "jobs/s": work.jobs / wall,
            "requests/job": len(requests) / work.jobs,
            "writes/job": len(requests.writes()) / work.jobs,
            "CPU ms/job": 1000 * (cpu_of(process) - before) / work.jobs,
            "peak MB": peak_of(process),
        }


def command(who: str, plane: ControlPlane, namespace: str) -> list[str]:
    """How a contender is started."""
    if who == FLOOR:
        # Under the operator's name: the audit log is kept for that one.
        return [str(HERE / "contender_floor.py"), str(plane.kubeconfig("operator")), namespace]
    ports = ("--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0")
    config = str(plane.kubeconfig("operator"))
    return ["-m", "tf_operator", "run", "--kubeconfig", config, *ports, "--leader-elect=false"]


class running:  # noqa: N801 (reads as what it does)
    """A Python process that says ``working`` when it is ready, and ends with the block; if it ended before, loudly."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments

    def __enter__(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(HERE.parent)])}
        self._log = tempfile.NamedTemporaryFile()
        arguments = [sys.executable, *self._arguments]
        self._process = subprocess.Popen(arguments, stdout=self._log, stderr=subprocess.STDOUT, env=environment)
        while b"working" not in self._said():
            self._check()
            time.sleep(0.05)
        return self._process

    def __exit__(self, *_: object) -> None:
        try:
            self._check()
        finally:
            self._process.kill()
            self._process.wait()
            self._log.close()

    def _said(self) -> bytes:
        return Path(self._log.name).read_bytes()

    def _check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._arguments} ended: {self._said()[-2000:].decode()}")


async def create(api: Api, namespace: str, work: Work, index: int) -> None:
    job = builders.tfjob(f"j{index}").chief().workers(work.workers).parameter_servers(1).clean_pods("Running")
    await api.create(TFJOBS.path(namespace), job.body())


async def until_succeeded(api: Api, namespace: str, jobs: int, *, longest: float = LONGEST) -> float:
    """When the last job had succeeded. Read from a watch: asking again and again would load the apiserver."""
    done: set[str] = set()
    async with asyncio.timeout(longest), api.watch(TFJOBS.path(namespace), timeoutSeconds=str(int(longest))) as events:
        async for event in events:
            if has_succeeded(event.body):
                done.add(event.body["metadata"]["uid"])
            if len(done) == jobs:
                return time.monotonic()
    raise RuntimeError("the watch ended")


def has_succeeded(job: Json) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any(entry["type"] == "Succeeded" and entry["status"] == "True" for entry in conditions)


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    """Seconds of CPU that the process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_of(process: subprocess.Popen[bytes]) -> float:
    """The most memory that the process has had, in MB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1000


def table(results: dict[str, dict[str, float]]) -> str:
    """A row for each figure: both contenders, and the operator in terms of the floor."""
    rows = [f"{'':14}" + "".join(f"{who:>14}" for who in results) + f"{'ratio':>8}"]
    for figure, floor in results[FLOOR].items():
        ours = results[OPERATOR][figure]
        rows.append(f"{figure:14}{floor:14.1f}{ours:14.1f}{ours / floor if floor else 0:8.2f}")
    return "\n".join(rows)


def say(text: str) -> None:
    """To the one who runs it."""
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
