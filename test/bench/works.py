"""Kinds of work, and what they cost a contender.

Each run has a real control plane of its own, a fake kubelet, and one contender; figures by name. Jobs are created by
32 clients at once, as a queue of jobs would, and what happens is read from watches, which cost the apiserver least.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml
from contenders import ALL_KINDS, FLOOR, HERE, command, running

from lab.control_plane.plane import ControlPlane
from support.api import Api
from support.audit import AuditLog, Requests
from support.crds import apply_rights, create_crd
from support.embedded.embedded_plane import EmbeddedPlane
from support.jobs import builders
from support.resources import TFJOBS, Json

MANIFESTS = Path(__file__).parents[2] / "manifests"
LONGEST = 900.0
AT_ONCE = 32
CALM_SECONDS, QUIET_SECONDS = 5.0, 30.0

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Work:
    """Jobs that are created at once; ``ends`` is how their pods end, in the words of ``fake_kubelet``."""

    name: str
    jobs: int
    workers: int
    ends: str
    mode: str = "Replica"
    """Of Services."""
    is_embedded: bool = False
    """Whether it has the embedded API server."""

    @property
    def pods(self) -> int:
        """Of all jobs."""
        return self.jobs * (self.workers + 2)

    def __str__(self) -> str:
        return f"{self.jobs} job{'s' if self.jobs > 1 else ''} of 1 chief, {self.workers} workers, 1 parameter server"

    def bodies(self) -> Iterator[Json]:
        """The jobs."""
        for index in range(self.jobs):
            job = builders.tfjob(f"j{index}").chief().workers(self.workers).parameter_servers(1)
            yield job.clean_pods("Running").service_mode(self.mode).body()


def measured(work: Work, who: str) -> tuple[Figures, list[str]]:
    """One contender's work: its figures, and in words which writes it made, of a single job also when."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plane = stack.enter_context(_plane(work, directory / "plane"))
        namespace = plane.make_namespace(work.name)
        if who == ALL_KINDS:
            asyncio.run(_serve_all_kinds(plane))
        # It gives up before the namespace is left alone for good; so does everybody else in it.
        arguments = [str(plane.kubeconfig("kubelet")), namespace, str(work.pods), work.ends]
        kubelet = stack.enter_context(running([str(HERE / "fake_kubelet.py"), *arguments]))
        contender = stack.enter_context(running(command(who, plane, namespace)))
        log = AuditLog(plane.audit_log)
        cpu, mark = contender.cpu, log.mark()
        figures = asyncio.run(_lived(work, plane, namespace, kubelet))
        wait_calm(log)
        requests = log.since(mark)
        figures |= {
            "requests": len(requests) / work.jobs,
            "writes": len(requests.writes()) / work.jobs,
            "CPU": contender.cpu - cpu,
            "CPU per job": 1000 * (contender.cpu - cpu) / work.jobs,
            "resident": contender.resident,
            "peak": contender.peak,
        }
        if work.ends == "never" and who != FLOOR:
            figures |= quiet(contender, log)
        tally = Counter(f"{request.verb} {request.resource}" for request in requests.writes())
        told = [", ".join(f"{count} {name}" for name, count in tally.most_common())]
        return figures, told + (list(time_line(requests.writes())) if work.jobs == 1 else [])


def _plane(work: Work, directory: Path) -> AbstractContextManager[ControlPlane]:
    if work.is_embedded:
        return EmbeddedPlane.start(directory, collects=True)
    return ControlPlane.up(directory, {"audit", "controller-manager"})


def time_line(writes: Requests) -> Iterator[str]:
    """One life: when the first and the last of each kind of write reached the apiserver, in ms since the very first."""
    moments: dict[str, list[float]] = {}
    for request in writes:
        at = datetime.fromisoformat(request.at).timestamp()
        moments.setdefault(f"{request.verb} {request.resource}", []).append(at)
    began = min((times[0] for times in moments.values()), default=0.0)
    for name, times in moments.items():
        first, last = (round(1000 * (moment - began)) for moment in (times[0], times[-1]))
        yield f"{first:8} ms to {last:6} ms  {len(times):5} {name}"


async def _serve_all_kinds(plane: ControlPlane) -> None:
    """Install the CRDs of the other kinds, and give the operator its rights on them, as the overlays do."""
    async with Api(plane.kubeconfig("admin")) as admin:
        for file in (MANIFESTS / "crd").glob("*/*s.yaml"):
            await create_crd(admin, yaml.load(file.read_text(), yaml.CSafeLoader))
        await apply_rights(admin, (MANIFESTS / "rbac").glob("*/c*.yaml"))


async def _lived(work: Work, plane: ControlPlane, namespace: str, kubelet: running) -> Figures:
    """Create the jobs, and see them to where the work ends."""
    async with Api(plane.kubeconfig("admin")) as api:
        began = time.monotonic()
        bodies = work.bodies()
        await asyncio.gather(*(_create(api, namespace, bodies) for _ in range(AT_ONCE)))
        figures = {}
        if work.ends != "never":
            succeeded = await _until_succeeded(api, namespace, work.jobs)
            figures = {"to Succeeded": succeeded - began, "jobs a second": work.jobs / (succeeded - began)}
        if work.ends == "alone":  # a worker of a job that succeeds early may never have run
            return figures
        told = await asyncio.to_thread(kubelet.wait_said, "all have run at", longest=LONGEST)
        return figures | {"to Running": float(told.split()[-1]) - began}


async def _create(api: Api, namespace: str, bodies: Iterator[Json]) -> None:
    for body in bodies:
        await api.create(TFJOBS.path(namespace), body)


async def _until_succeeded(api: Api, namespace: str, jobs: int) -> float:
    """When the last job had succeeded. Each watch begins with all jobs; a busy apiserver may end one early."""
    done: set[str] = set()
    async with asyncio.timeout(LONGEST):
        while True:
            async with api.watch(TFJOBS.path(namespace), timeoutSeconds=str(int(LONGEST))) as events:
                async for event in events:
                    if event.type == "ERROR":
                        break
                    if _has_succeeded(event.body):
                        done.add(event.body["metadata"]["uid"])
                    if len(done) == jobs:
                        return time.monotonic()


def _has_succeeded(job: Json) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any(entry["type"] == "Succeeded" and entry["status"] == "True" for entry in conditions)


def wait_calm(log: AuditLog) -> None:
    """Wait until nothing has been written for a while: what is cleaned up or told late belongs to the work."""
    calm_since = time.monotonic()
    mark = log.mark()
    while time.monotonic() - calm_since < CALM_SECONDS:
        time.sleep(0.5)
        if log.since(mark).writes():
            calm_since, mark = time.monotonic(), log.mark()


def quiet(contender: running, log: AuditLog) -> Figures:
    """The cost of idling."""
    cpu, mark = contender.cpu, log.mark()
    time.sleep(QUIET_SECONDS)
    share = 100 * (contender.cpu - cpu) / QUIET_SECONDS
    return {"quiet writes": len(log.since(mark).writes()), "quiet CPU": share}
