"""A namespace with a queue of Kueue, as a test sees it: jobs go in, and Workloads say what becomes of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.jobs import builders
from support.jobs.builders import TFJobBuilder
from support.jobs.job_namespace import JobNamespace
from support.jobs.templates import Template
from support.partners.kueue_process import KueueManager, conditions
from support.resources import Json
from support.settle import eventually

ROLES: Final = Path(__file__).parents[3] / "manifests/rbac/kueue"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
TOLERATION: Final = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
TEMPLATE: Final = Template().resources(requests={"cpu": "1"})
_LONG: Final = 60.0


@dataclass(frozen=True, slots=True)
class QueueNamespace:
    kueue: KueueManager
    jobs: JobNamespace
    is_external: bool
    """Whether the operator makes the Workloads, and not Kueue."""

    def make_queue(self, processors: int = 2) -> None:
        name = self.jobs.namespace
        self.kueue.create("resourceflavors", name, {"nodeLabels": {"pool": name}, "tolerations": [TOLERATION]})
        quota = {"name": name, "resources": [{"name": "cpu", "nominalQuota": str(processors)}]}
        self.kueue.create(
            "clusterqueues",
            name,
            {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
                "preemption": {"withinClusterQueue": "LowerPriority"},
            },
        )
        self.kueue.create("localqueues", "team", {"clusterQueue": name}, namespace=name)

    def job(self, name: str, workers: int = 2, *, priority: str = "") -> TFJobBuilder:
        """A job of so many processors in the queue."""
        labels = {QUEUE: "team"} | ({PRIORITY: priority} if priority else {})
        return builders.tfjob(name).workers(workers, template=TEMPLATE, restart="OnFailure").labels(labels)

    async def workload(self, job: str) -> Json | None:
        """The Workload that the job controls."""
        workloads = await self.jobs.admin.list(self.kueue.resource("workloads").path(self.jobs.namespace))
        return next((body for body in workloads if _owner(body) == job), None)

    async def wait_workload(self, job: str, *kinds: str) -> Json:
        """Wait until these conditions of its Workload are True."""

        async def check() -> Json:
            workload = await self.workload(job)
            assert workload is not None, "there is no Workload"
            assert set(kinds) <= conditions(workload).keys(), f"{workload.get('status')}"
            return workload

        return await eventually(check, within=_LONG)

    async def begin(self, job: TFJobBuilder, *pods: str) -> dict[str, Json]:
        """Submit a job that has room, and run its pods."""
        await self.jobs.submit(job)
        return await self.begin_admitted(*pods)

    async def begin_admitted(self, *pods: str) -> dict[str, Json]:
        pods_by_name = await self.wait_pods_of(*pods)
        await self.jobs.run(*pods_by_name)
        return pods_by_name

    async def wait_pods_of(self, *pods: str) -> dict[str, Json]:
        return await self.jobs.wait_pods(*pods, within=_LONG)


def _owner(body: Json) -> str:
    references = body["metadata"].get("ownerReferences", ())
    return next((entry["name"] for entry in references if entry.get("controller")), "")
