"""A small cluster's day in half a minute: jobs of every fate, driven to their ends in one namespace.

What becomes of a job is in its name: ten succeed, three fail, and one each runs on, waits for a node that never
comes, is suspended, and is deleted when its time is over. So every counter and every phase of the operator's metrics
has been seen, and more jobs succeed than fail.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from lab.control_plane.plane import ControlPlane
from support.api import Api
from support.jobs import builders
from support.jobs.builders import TFJobBuilder
from support.jobs.job_namespace import conditions
from support.pods.autopilot import autopilot
from support.pods.kubelet import Kubelet
from support.pods.pod_scripts import Script, evicted, failing, restarting, running, succeeding, unschedulable
from support.pods.pod_status import Exit, killed_by
from support.resources import TFJOBS
from support.settle import eventually

_PATIENCE: Final = 90.0

SCRIPT: Final = (
    Script()
    .on("flaky-*-worker-0", [running(), failing(killed_by(9), after=0.3)], [running(), succeeding(after=0.3)])
    .on("broken-*-worker-0", [running(), failing(Exit(1, message="no such file: train.csv"), after=0.3)])
    .on("hopeless-worker-0", [running(), failing(killed_by(15), after=0.2)])
    .on(
        "hungry-worker-0",
        [running(), failing(Exit(137, reason="OOMKilled"), after=0.3)],
        [running(), succeeding(after=0.3)],
    )
    .on("evicted-worker-0", [running(), evicted(after=0.3)], [running(), succeeding(after=0.3)])
    .on("in-place-worker-0", [running(), restarting(Exit(1), after=0.3), succeeding(after=0.3)])
    .on("*-ps-*", [running()])
    .on("endless-*", [running()])
    .on("overdue-*", [running()])
    .on("stuck-*", [unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")])
    .otherwise([running(after=0.2), succeeding(after=0.5)])
)
"""What becomes of each pod."""


def jobs() -> Mapping[str, tuple[TFJobBuilder, str]]:
    """Every job, by name, with the condition that it is going to have."""
    two = {f"plain-{number}": builders.tfjob().workers(2) for number in (0, 1, 2)}
    others = {
        "full-0": builders.tfjob().chief().workers(2).parameter_servers().clean_pods("Running"),
        "full-1": builders.tfjob().chief().workers(1).parameter_servers().evaluators().clean_pods("All"),
        "flaky-0": builders.tfjob().workers(2, restart="ExitCode"),
        "hungry": builders.tfjob().workers(1, restart="ExitCode").oom_policy("Worker", "1Gi", limit="64Mi"),
        "evicted": builders.tfjob().workers(2, restart="OnFailure"),
        "in-place": builders.tfjob().workers(1, restart="OnFailure"),
        "fleeting": builders.tfjob().workers(1).ttl(0),
        "broken-0": builders.tfjob().workers(1, restart="Never"),
        "hopeless": builders.tfjob().workers(1, restart="ExitCode").backoff_limit(1),
        "overdue": builders.tfjob().workers(1).deadline(2),
        "endless": builders.tfjob().chief().workers(2),
        "stuck": builders.tfjob().workers(1),
        "later": builders.tfjob().workers(2).suspended(),
    }
    ends = {"broken-0": "Failed", "hopeless": "Failed", "overdue": "Failed", "endless": "Running", "stuck": "Created"}
    ends |= {"later": "Suspended", "fleeting": ""}
    return {name: (job.named(name), ends.get(name, "Succeeded")) for name, job in {**two, **others}.items()}


@dataclass(frozen=True, slots=True)
class Workload:
    admin: Api
    namespace: str

    async def submit(self) -> None:
        for job, _ in jobs().values():
            await self.admin.create(TFJOBS.path(self.namespace), job.body())

    async def wait_settled(self) -> None:
        await eventually(self._is_settled, within=_PATIENCE, every=0.2)

    async def _is_settled(self) -> bool:
        by_name = {job["metadata"]["name"]: job for job in await self.admin.list(TFJOBS.path(self.namespace))}
        for name, (_, end) in jobs().items():
            if not end:
                assert name not in by_name, f"{name} is not deleted yet"
                continue
            state = conditions(by_name[name]).get(end, {}).get("status")
            assert state == "True", f"{name} is not {end} yet: {by_name[name].get('status')}"
        return True


@asynccontextmanager
async def busy(plane: ControlPlane, namespace: str) -> AsyncIterator[Workload]:
    """Create the jobs, and drive their pods while the body runs; an operator has to be there, or to come."""
    async with Api(plane.kubeconfig("admin")) as admin, Api(plane.kubeconfig("kubelet")) as nodes:
        work = Workload(admin, namespace)
        async with autopilot(Kubelet(nodes, namespace), SCRIPT):
            await work.submit()
            yield work
