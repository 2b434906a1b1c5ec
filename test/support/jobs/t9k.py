"""TensorFlowTrainingJobs for tests: the documented manifests, and a namespace in which such jobs run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.api import Api
from support.crds import apply_rights, create_crd
from support.jobs.job_namespace import PATIENCE, JobNamespace
from support.resources import TRAINING_JOBS, Json
from support.settle import eventually

ROOT = Path(__file__).resolve().parents[3]
CRD = ROOT / "manifests/crd/t9k/tensorflowtrainingjobs.yaml"
RIGHTS = ROOT / "manifests/rbac/t9k"
PHASES = ("creating", "pending", "running", "succeeded", "failed", "unknown", "deleted")
MAIN = ("Initialized", "Running", "Failed", "Completed", "ReplicaFailure")


def documented(name: str) -> Json:
    """A file of manifests/examples/t9k, as the manual prints it."""
    body: Json = yaml.safe_load((ROOT / f"manifests/examples/t9k/{name}.yaml").read_text())
    return body


def over(base: Any, change: Any) -> Any:  # noqa: ANN401 (any piece of a manifest)
    """A manifest with a fragment laid over it: items of a list are the same if their type, or name, is the same.

    An item with neither, as the manual has some, is laid over the first one.
    """
    if isinstance(base, Mapping) and isinstance(change, Mapping):
        return {**base, **{name: over(base.get(name), value) for name, value in change.items()}}
    if not isinstance(base, list) or not all(isinstance(item, Mapping) for item in change):
        return change
    laid = list(base)
    for item in change:
        place = next((index for index, entry in enumerate(laid) if _is_same(entry, item)), len(laid))
        laid[place : place + 1] = [over(laid[place] if place < len(laid) else None, item)]
    return laid


def _is_same(old: Json, item: Json) -> bool:
    return all(old.get(key) == item[key] for key in ("type", "name") if key in item)


def job(name: str = "t", *types: Json, **spec: Any) -> Json:  # noqa: ANN401
    """A job with these types, or with two workers."""
    specs = list(types) or [replicas("worker", 2)]
    head = {"apiVersion": TRAINING_JOBS.api_version, "kind": "TensorFlowTrainingJob", "metadata": {"name": name}}
    return {**head, "spec": {"replicaSpecs": specs, **spec}}


def replicas(kind: str, count: int = 1, policy: str = "", **pod: Any) -> Json:  # noqa: ANN401
    """The item of one type; ``pod`` are fields of its pod."""
    container = {"name": "tensorflow", "image": "i", "command": ["train"], "args": ["--fast"]}
    template = {"spec": {"containers": [container], **pod}}
    return {"type": kind, "replicas": count, "template": template} | ({"restartPolicy": policy} if policy else {})


async def serve(admin: Api) -> None:
    """Serve the kind."""
    await create_crd(admin, yaml.load(CRD.read_text(), yaml.CSafeLoader))


async def prepare(admin: Api) -> None:
    """Serve the kind, and let the operator work for it, as manifests/overlays/t9k does."""
    await serve(admin)
    await apply_rights(admin, RIGHTS.glob("c*.yaml"))


@dataclass(frozen=True, slots=True)
class T9kNamespace(JobNamespace):
    """A namespace in which TensorFlowTrainingJobs run."""

    @classmethod
    def of(cls, namespace: JobNamespace) -> "T9kNamespace":
        return cls(namespace.plane, namespace.admin, namespace.kubelet, namespace.namespace)

    async def submit(self, job: Any) -> Json:  # noqa: ANN401
        return await self.admin.create(TRAINING_JOBS.path(self.namespace), job)

    async def begin_running(self, job: Json) -> Json:  # type: ignore[override]
        """Create a job, have all its pods run, and wait until it says so."""
        await self.submit(job)
        name = job["metadata"]["name"]
        names = [f"{name}-{s['type']}-{i}" for s in job["spec"]["replicaSpecs"] for i in range(s.get("replicas", 1))]

        async def are_made() -> bool:
            assert set(names) <= set(await self.pods())
            return True

        assert await eventually(are_made, within=PATIENCE)
        await self.run(*names)
        return await self.says(name, phase="Running", flags="TTFFF", running=len(names))

    async def job(self, name: str = "t") -> Json:
        return await self.admin.get(TRAINING_JOBS.path(self.namespace, name))

    async def edit(self, patch: Json, name: str = "t") -> Json:
        return await self.admin.patch(TRAINING_JOBS.path(self.namespace, name), patch)

    async def says(self, name: str = "t", *, phase: str = "", flags: str = "", **counts: int) -> Json:
        """Wait until the status has this phase, these conditions in their order, and these counts; the status."""

        async def check() -> Json:
            status: Json = (await self.job(name)).get("status", {})
            letters = "".join(entry["status"][0] for entry in status.get("conditions", []))
            assert phase in {"", status.get("phase")}, f"{status}"
            assert letters.startswith(flags), f"{flags}: {status.get('conditions')}"
            if counts:
                aggregate = {name: count for name, count in status.get("aggregate", {}).items() if count}
                assert aggregate == counts, f"{status.get('aggregate')}"
            return status

        return await eventually(check, within=PATIENCE)


def condition(status: Json, kind: str) -> Json:
    """One condition."""
    return next(entry for entry in status["conditions"] if entry["type"] == kind)
