"""One namespace with TFJobs in it, as a test sees it and acts in it.

``operator_fixture`` has the operator that works there. Everything is read from the apiserver, through the tests'
own client. Waits say what they saw last. The kubelet is the test: pods move only when the test (or an autopilot) moves
them.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lab.control_plane.access import OPERATOR
from lab.control_plane.plane import ControlPlane
from support.api import Api
from support.audit import BEGINNING, AuditLog, Mark, Requests, Tally
from support.jobs.builders import TFJobBuilder
from support.pods.kubelet import Kubelet
from support.resources import EVENTS, PODS, SERVICES, TFJOBS, Json
from support.settle import eventually, settle

PATIENCE = 30.0
"""Seconds for what takes one on an idle machine."""


@dataclass(frozen=True, slots=True)
class JobNamespace:
    plane: ControlPlane
    admin: Api
    kubelet: Kubelet
    namespace: str

    async def submit(self, job: TFJobBuilder | Json) -> Json:
        body = job if isinstance(job, dict) else job.body()
        return await self.admin.create(TFJOBS.path(self.namespace), body)

    async def begin(self, job: TFJobBuilder) -> Json:
        stored = await self.submit(job)
        await self.wait_pods(*pod_names(stored))
        return stored

    async def begin_running(self, job: TFJobBuilder) -> Json:
        stored = await self.begin(job)
        await self.run(*pod_names(stored))
        await self.wait(stored["metadata"]["name"], "Running")
        return stored

    async def job(self, name: str = "j") -> Json:
        return await self.admin.get(TFJOBS.path(self.namespace, name))

    async def edit(self, patch: Json, name: str = "j") -> Json:
        return await self.admin.patch(TFJOBS.path(self.namespace, name), patch)

    async def edit_policy(self, name: str = "j", /, **fields: Any) -> Json:  # noqa: ANN401
        return await self.edit({"spec": {"runPolicy": fields}}, name)

    async def delete_job(self, name: str = "j", **options: Any) -> None:  # noqa: ANN401
        """Delete the job, in the background unless ``propagation`` says otherwise."""
        await self.admin.delete(TFJOBS.path(self.namespace, name), **options)

    async def wait(self, name: str, kind: str, *, reason: str = "", text: str = "", within: float = PATIENCE) -> Json:
        """Wait until a condition is True, has this reason and contains this text; the job."""

        def check(job: Json) -> None:
            condition = conditions(job).get(kind, {})
            assert condition.get("status") == "True", f"no {kind}: {job.get('status')}"
            assert reason in {"", condition["reason"]}, f"{condition}"
            assert text in condition["message"], f"{condition}"

        return await self._wait_job(name, check, within=within)

    async def wait_status(self, name: str = "j", *, within: float = PATIENCE, **fields: Any) -> Json:  # noqa: ANN401

        def check(job: Json) -> None:
            values = {field: job.get("status", {}).get(field) for field in fields}
            assert values == fields, f"{job.get('status')}"

        return await self._wait_job(name, check, within=within)

    async def wait_counts(self, kind: str, name: str = "j", **counts: int) -> Json:
        """Wait until the counts of a replica type are these; one that is not there is 0."""

        def check(job: Json) -> None:
            actual = job.get("status", {}).get("replicaStatuses", {}).get(kind, {})
            assert {count: actual.get(count, 0) for count in counts} == counts, f"{job.get('status')}"

        return await self._wait_job(name, check)

    async def _wait_job(self, name: str, check: Callable[[Json], None], *, within: float = PATIENCE) -> Json:
        async def checked() -> Json:
            job = await self.job(name)
            check(job)
            return job

        return await eventually(checked, within=within)

    async def wait_job_gone(self, name: str = "j", *, within: float = PATIENCE) -> datetime:
        """Wait until there is no such job; when that was seen."""

        async def check() -> bool:
            job = await self.admin.find(TFJOBS.path(self.namespace, name))
            assert job is None, f"{job.get('status')}"
            return True

        await eventually(check, within=within)
        return datetime.now(UTC)

    async def pods(self) -> dict[str, Json]:
        """The pods by name, also terminating ones."""
        return {pod["metadata"]["name"]: pod for pod in await self.admin.list(PODS.path(self.namespace))}

    async def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in (await self.pods()).items()}

    async def services(self) -> set[str]:
        return {service["metadata"]["name"] for service in await self.admin.list(SERVICES.path(self.namespace))}

    async def wait_pods(self, *names: str, within: float = PATIENCE) -> dict[str, Json]:
        """Wait until there are exactly these pods, none of them terminating."""

        async def check() -> dict[str, Json]:
            pods = await self.pods()
            if not names:
                assert not pods, f"there are {sorted(pods)}"
                return {"": {}}
            staying = {name for name, pod in pods.items() if "deletionTimestamp" not in pod["metadata"]}
            assert (staying, set(pods)) == (set(names), set(names)), f"there are {sorted(pods)}, not {sorted(names)}"
            return pods

        return await eventually(check, within=within)

    async def wait_services(self, *names: str, within: float = PATIENCE) -> None:
        async def check() -> bool:
            services = await self.services()
            assert services == set(names), f"there are {sorted(services)}, not {sorted(names)}"
            return True

        await eventually(check, within=within)

    async def wait_replaced(self, *pods: Json, within: float = PATIENCE) -> list[Json]:
        """Wait until other pods have these pods' names; the new ones."""

        async def check() -> list[Json]:
            current = await self.pods()
            fresh = []
            for pod in pods:
                name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
                now = current.get(name)
                assert now is not None, f"there is no {name}"
                assert now["metadata"]["uid"] != uid, f"{name} is the same: {now['status']}"
                fresh.append(now)
            return fresh

        return await eventually(check, within=within)

    async def wait_terminating(self, name: str) -> Json:
        async def check() -> Json:
            pod = (await self.pods())[name]
            assert "deletionTimestamp" in pod["metadata"], f"{name} stays"
            return pod

        return await eventually(check, within=PATIENCE)

    async def run(self, *names: str) -> None:
        await asyncio.gather(*(self.kubelet.run(name) for name in names))

    async def succeed(self, *names: str) -> None:
        await asyncio.gather(*(self.kubelet.succeed(name) for name in names))

    async def delete_pod(self, name: str) -> Json:
        """Somebody deletes a pod; the pod as it was."""
        pod = await self.kubelet.pod(name)
        await self.admin.delete(PODS.path(self.namespace, name))
        return pod

    async def events(self, reason: str = "") -> list[Json]:
        all_events = await self.admin.list(EVENTS.path(self.namespace))
        ours = [event for event in all_events if event["involvedObject"]["kind"] == "TFJob"]
        return [event for event in ours if reason in {"", event["reason"]}]

    async def wait_event(self, reason: str, text: str = "") -> Json:
        async def check() -> Json:
            events = await self.events()
            fitting = [event for event in events if event["reason"] == reason and text in event["message"]]
            assert fitting, f"{[(event['reason'], event['message']) for event in events]}"
            return fitting[0]

        return await eventually(check, within=PATIENCE)

    def mark(self) -> Mark:
        return AuditLog(self.plane.audit_log).mark()

    def sent(self, since: Mark = BEGINNING) -> Requests:
        return AuditLog(self.plane.audit_log).since(since).by(user=OPERATOR.login, namespace=self.namespace)

    def created_pods(self, since: Mark = BEGINNING) -> int:
        return self.sent(since).tally()[Tally("create", "pods", 201)]

    async def quiet(self, seconds: float = 1.2, *, within: float = 60.0) -> None:
        """Wait until nothing was written here for a while, events apart.

        A pass takes milliseconds and progress is collected for half a second, so that more than a second without a
        write, and without anything that is due later, means that nothing follows.
        """
        await settle(self.plane.store(), quiet_for=seconds, within=within, namespace=self.namespace, with_events=False)


def conditions(job: Json) -> dict[str, Json]:
    return {entry["type"]: entry for entry in job.get("status", {}).get("conditions", ())}


def states(job: Json) -> list[str]:
    """The conditions in their order; those that are False with a ``!``."""
    return [("" if entry["status"] == "True" else "!") + kind for kind, entry in conditions(job).items()]


def pod_names(job: Json) -> list[str]:
    specs: Mapping[str, Json] = job["spec"]["tfReplicaSpecs"]
    return [
        f"{job['metadata']['name']}-{kind.lower()}-{index}"
        for kind, spec in specs.items()
        for index in range(spec.get("replicas", 1))
    ]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def names(pods: Sequence[Json]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]
