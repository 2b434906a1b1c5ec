"""A namespace with jobs that list their replicas: of mlkube.io, or of kubeflow.org/v1alpha1."""

from dataclasses import dataclass

from support.jobs.job_namespace import PATIENCE, JobNamespace
from support.operators.operator_process import OperatorProcess
from support.resources import Json
from support.settle import eventually


@dataclass(frozen=True)
class ListedJobs(JobNamespace):
    """Jobs at a path, and the operator that runs them."""

    process: OperatorProcess | None
    path: str

    async def create(self, body: Json) -> Json:
        return await self.admin.create(self.path, body)

    async def get(self, name: str) -> Json:
        return await self.admin.get(f"{self.path}/{name}")

    async def wait_shown(self, name: str, **fields: object) -> Json:
        """Wait until fields of the status have these values; the status."""

        async def check() -> Json:
            status: Json = (await self.get(name)).get("status") or {}
            assert {field: status.get(field) for field in fields} == fields, f"{status}"
            return status

        return await eventually(check, within=PATIENCE)

    async def pod(self, replica: str, *, other_than: Json | None = None) -> Json:
        """Wait for the one pod of a replica, such as ``j-master-76no-0``; it may be asked for another one."""

        async def check() -> Json:
            pods = [pod for name, pod in (await self.pods()).items() if name.startswith(f"{replica}-")]
            there = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            assert len(there) == 1, f"{replica}: {sorted(await self.pods())}"
            assert other_than is None or there[0]["metadata"]["uid"] != other_than["metadata"]["uid"]
            return there[0]

        return await eventually(check, within=PATIENCE)

    async def run_replica(self, replica: str, *, other_than: Json | None = None) -> str:
        """Have the pod of a replica run; its name."""
        name: str = (await self.pod(replica, other_than=other_than))["metadata"]["name"]
        await self.run(name)
        return name
