"""What reports of progress cost the operator, and what 10,000 connections that say nothing change.

    PYTHONPATH=test:hack .venv/bin/python test/bench/bench_progress.py [--jobs 1000] [--silent 10000] [--seconds 60]

Each job has one pod, whose program reports every five seconds from an address of its own, with a token that the API
server knows: over a new connection for each report, as urllib does, transformers' callback and the example of the
how-to page; then over one that it keeps, as Kubeflow's SDK does. The certificate is ECDSA, as Helm makes it. CPU is the
process time of the operator, so what else runs on the machine is not in it. Targets: 15 % of a core for 1,000 jobs that
keep their connections, and 10 writes a second; silent connections keep no report out, and reconciles take 1.1 times as
long at most, over several rounds with and without them. The last two lines compare with these; the second one only
means something on a machine that does nothing else.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import resource
import select
import socket
import ssl
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

import trustme
import yaml
from prometheus_client.parser import text_string_to_metric_families

from lab.control_plane.plane import ControlPlane
from support.jobs.builders import tfjob
from support.operators.operator_process import ROOT, OperatorProcess, operator
from support.pods import pod_status
from tf_operator.meta import rfc3339
from tf_operator.planning.bodies.progress_reporting import AUDIENCE

EVERY = 5.0
START = 30.0
WARM_SHARE = 0.99
"""Of the programs whose token the operator has to know before anything is measured: it asks for eight in a second."""
RECONCILES = "controller_runtime_reconcile_time_seconds"
REQUESTS = "rest_client_requests"
WRITES = frozenset({"PATCH", "PUT"})
"""A TokenReview is a POST."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REPORTS = {"spec": {"runPolicy": {"progressPolicy": {"reports": True}}}}
TICKS = os.sysconf("SC_CLK_TCK")
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Figures:
    share: float
    """CPU, of a core."""
    writes: float
    """In a second."""
    reconciles: Counter[float]
    """How many took so many seconds at most."""


@dataclass(slots=True)
class Program:
    """What runs in the pod of a job: it reports a step more each time."""

    path: str
    token: str
    source: str
    """The address that it connects from."""
    codes: Counter[int] = field(default_factory=Counter)

    async def run(self, address: Address, tls: ssl.SSLContext, *, offset: float, keeps: bool) -> None:
        await asyncio.sleep(offset)
        steps, source = count(), (self.source, 0)
        while True:
            # A connection that broke is made again with the next report.
            try:
                reader, writer = await asyncio.open_connection(*address, ssl=tls, local_addr=source)
                try:
                    self.codes[await self._report(reader, writer, next(steps), keeps=keeps)] += 1
                    while keeps:
                        await asyncio.sleep(EVERY)
                        self.codes[await self._report(reader, writer, next(steps), keeps=keeps)] += 1
                finally:
                    writer.transport.abort()
            except (OSError, asyncio.IncompleteReadError, ValueError):
                self.codes[0] += 1
            await asyncio.sleep(EVERY)

    async def _report(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, step: int, *, keeps: bool
    ) -> int:
        """The status of the reply."""
        status = {"progressPercentage": step % 100, "step": step, "metrics": [{"name": "loss", "value": "0.2"}]}
        body = json.dumps({"trainerStatus": status}).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: operator\r\nAuthorization: Bearer {self.token}\r\n"
        head += f"Connection: {'keep-alive' if keeps else 'close'}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        reply = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in reply.lower().splitlines() if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        return int(reply.split()[1])


async def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--silent", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=5, help="with and without silent connections, in turn")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="tf-operator-progress-") as folder:
        address, tls, arguments = listening(Path(folder))
        with ControlPlane.up(Path(folder) / "plane") as plane:
            namespace = plane.make_namespace("progress")
            submit(plane, namespace, options.jobs)
            async with operator(plane, arguments=arguments) as process:
                say(f"{options.jobs} jobs; CPU in percent of a core, reports in a second, by the status of their reply")
                programs = await made_programs(plane, namespace, options.jobs)
                await measure("no reports", process, [], options.seconds)
                async with running(programs, address, tls, keeps=False):
                    await wait_for_reports(programs)
                    short = await measure("a connection for each report", process, programs, options.seconds)
                kept, beside = list[Figures](), list[Figures]()
                async with running(programs, address, tls, keeps=True):
                    await asyncio.sleep(START)
                    for _ in range(options.rounds):
                        kept.append(await measure("kept connections", process, programs, options.seconds))
                        with silent_connections(address, options.silent):
                            title = f"and {options.silent} silent connections"
                            beside.append(await measure(title, process, programs, options.seconds))
    share, writes = (median(getattr(it, name) for it in kept) for name in ("share", "writes"))
    say(
        f"{options.jobs} jobs take {100 * share:.1f} % of a core (target: 15 %), {100 * short.share:.1f} % with a "
        f"connection for each report, and {writes:.1f} writes a second (10)"
    )
    slow, slow_beside = (percentile(sum((it.reconciles for it in each), Counter())) for each in (kept, beside))
    say(f"{options.silent} silent connections: reconciles take {slow_beside / slow:.2f} times as long (1.1)")


def listening(folder: Path) -> tuple[Address, ssl.SSLContext, tuple[str, ...]]:
    """Where the operator takes reports, how programs trust it, and its flags."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    issued = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    issued.private_key_pem.write_to_path(folder / "tls.key")
    issued.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    authority.cert_pem.write_to_path(folder / "ca.crt")
    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
    where = f"--progress-bind-address={host}:{port}", f"--progress-url=https://{host}:{port}"
    tls = ssl.create_default_context(cafile=folder / "ca.crt")
    return (host, port), tls, ("--leader-elect=false", *where, f"--progress-cert-path={folder}")


def submit(plane: ControlPlane, namespace: str, jobs: int) -> None:
    for plural, name in (("clusterroles", "cluster-role"), ("clusterrolebindings", "cluster-role-binding")):
        text = (ROOT / f"manifests/rbac/progress/{name}.yaml").read_text()
        plane.admin.create(f"{RBAC}/{plural}", yaml.safe_load(text))
    plane.admin.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "trainer"}})
    account = {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"serviceAccountName": "trainer"}}}}}}
    for number in range(jobs):
        body = tfjob(f"job-{number}").workers(1).merged(REPORTS).merged(account).body()
        plane.admin.create(f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs", body)


async def made_programs(plane: ControlPlane, namespace: str, jobs: int) -> list[Program]:
    """Those of all jobs, once their pods run, each with the token of its pod."""

    def pods() -> list[Any]:
        items: list[Any] = plane.admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return items

    while len(await asyncio.to_thread(pods)) < jobs:
        await asyncio.sleep(1)

    def program(number: int, pod: Any) -> Program:
        about = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec = {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": about}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/trainer/token"
        token = plane.admin.create(path, {"spec": spec})["status"]["token"]
        # A pod that does not run is reported after two minutes, which is a write.
        status = {"status": pod_status.running(pod, rfc3339(datetime.now(UTC)))}
        plane.admin.patch(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status", status)
        url = f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/{pod['metadata']['name'][:-9]}/status"
        return Program(url, token, f"127.1.{number // 250}.{number % 250 + 1}")

    def make() -> list[Program]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(program, range(jobs), pods()))

    return await asyncio.to_thread(make)


@asynccontextmanager
async def at_work(coroutines: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """They run until the block ends."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def running(
    programs: list[Program], address: Address, tls: ssl.SSLContext, *, keeps: bool
) -> AsyncIterator[None]:
    """They begin one after the other, which spreads their reports evenly."""
    offsets = [START * number / len(programs) for number in range(len(programs))]
    pairs = zip(programs, offsets, strict=True)
    async with at_work(program.run(address, tls, offset=offset, keeps=keeps) for program, offset in pairs):
        yield


async def wait_for_reports(programs: list[Program]) -> None:
    while sum(program.codes[200] > 0 for program in programs) < WARM_SHARE * len(programs):
        await asyncio.sleep(1)


@contextmanager
def silent_connections(address: Address, connections: int) -> Iterator[None]:
    """So many connections from ten addresses that send nothing; one that is closed is made again."""
    process = multiprocessing.get_context("spawn").Process(target=stay_silent, args=(address, connections))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def stay_silent(address: Address, connections: int) -> None:
    """In a process that gets what others leave of the processors: clients have some of their own."""
    os.setsid()
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")
    os.nice(19)
    poll, sockets = select.epoll(), dict[int, tuple[socket.socket, int]]()
    waiting = deque((0.0, number) for number in range(connections))
    while True:
        while waiting and waiting[0][0] <= time.monotonic():
            number = waiting.popleft()[1]
            client = socket.socket()
            client.setblocking(False)
            client.bind((f"127.2.0.{number % 10 + 1}", 0))
            client.connect_ex(address)
            poll.register(client, select.EPOLLIN)
            sockets[client.fileno()] = client, number
        for descriptor, _ in poll.poll(0.05):
            client, number = sockets.pop(descriptor)
            client.close()
            waiting.append((time.monotonic() + 1, number))


async def measure(title: str, process: OperatorProcess, programs: list[Program], seconds: float) -> Figures:
    took, written = await counted(process)
    before, began, used = replies(programs), time.monotonic(), cpu(process)
    await asyncio.sleep(seconds)
    passed, share = time.monotonic() - began, cpu(process) - used
    codes = {code: f"{total / passed:.1f}" for code, total in sorted((replies(programs) - before).items())}
    reconciles, writes = await counted(process)
    figures = Figures(share / passed, (writes - written) / passed, reconciles - took)
    line = f"  {title:<36} {100 * figures.share:6.1f} %  {resident(process):5.0f} MB  {figures.writes:4.1f} writes"
    pace = (reconciles - took)[math.inf] / passed
    say(f"{line}  {pace:4.1f} reconciles, 99 % within {1000 * percentile(figures.reconciles):.1f} ms  {codes}")
    return figures


async def counted(process: OperatorProcess) -> tuple[Counter[float], float]:
    """How many reconciles have taken so long at most, by the bounds of the histogram; and how often it has written."""
    with await asyncio.to_thread(urlopen, f"{await process.address()}/metrics") as reply:
        text = reply.read().decode()
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    buckets = [sample for sample in families[RECONCILES] if "le" in sample.labels]
    reconciles = sum((Counter({float(it.labels["le"]): int(it.value)}) for it in buckets), Counter[float]())
    return reconciles, sum(it.value for it in families[REQUESTS] if it.labels["method"] in WRITES)


def percentile(buckets: Counter[float], share: float = 0.99) -> float:
    """Linear within a bucket, as Prometheus does it."""
    below, least = 0, 0.0
    for bound, number in sorted(buckets.items()):
        if number >= share * buckets[math.inf] > 0:
            return least + (bound - least) * (share * buckets[math.inf] - below) / (number - below)
        below, least = number, bound
    return math.nan


def replies(programs: list[Program]) -> Counter[int]:
    """By their status; 0 is a connection that broke."""
    return sum((program.codes for program in programs), Counter[int]())


def cpu(process: OperatorProcess) -> float:
    """Seconds, of all its threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(process: OperatorProcess) -> float:
    """In MB."""
    lines: Iterator[str] = iter(Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1000


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
