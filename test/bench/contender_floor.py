"""The floor: a bare client that makes only the writes that the result needs, and checks and recovers nothing.

It watches jobs and pods of one namespace. For a new job it creates a Service and a pod for each replica, or a pod for
each after one Service, with the
TF_CONFIG that lets them find each other, which is most of what goes over the wire for a large job; when the
chief runs it writes Running, when the chief has succeeded Succeeded, and deletes what is to go then: pods that still
run, and all Services. No operator can ask the apiserver for less; how close ours comes is what the benchmark tells.

    python contender_floor.py KUBECONFIG NAMESPACE
"""

import asyncio
import contextlib
import sys
from pathlib import Path

import aiohttp
import msgspec

from support.kubeconfigs import access_from

AT_ONCE = 32
JOBS = "/apis/kubeflow.org/v1/namespaces/{}/tfjobs"
PODS = "/api/v1/namespaces/{}/pods"
SERVICES = "/api/v1/namespaces/{}/services"
TYPES = ("Chief", "Worker", "PS")
MERGE = {"Content-Type": "application/merge-patch+json"}


class Floor:
    def __init__(self, session: aiohttp.ClientSession, namespace: str) -> None:
        self.session = session
        self.namespace = namespace
        self.jobs: dict[str, dict] = {}
        self.clusters: dict[str, str] = {}
        self.told: dict[str, list[str]] = {}
        self.tasks: set[asyncio.Task] = set()

    def soon(self, work) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def ask(self, method: str, path: str, body: object = None, headers: dict | None = None) -> None:
        data = None if body is None else msgspec.json.encode(body)
        headers = headers or {"Content-Type": "application/json"}
        async with self.session.request(method, path, data=data, headers=headers) as reply:
            await reply.read()

    async def watch(self, path: str, on_event) -> None:
        """An apiserver ends the watch of a client that is too busy to read it: then on from where it was."""
        version: dict[str, str] = {}
        while True:
            async with self.session.get(path, params={"watch": "true"} | version) as reply:
                rest = b""
                async for chunk in reply.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = msgspec.json.decode(line)
                        version["resourceVersion"] = event["object"]["metadata"]["resourceVersion"]
                        on_event(event["type"], event["object"])

    def on_job(self, kind: str, job: dict) -> None:
        uid = job["metadata"]["uid"]
        if kind == "ADDED" and uid not in self.jobs:
            self.jobs[uid] = job
            self.clusters[uid] = cluster_of(job)
            self.soon(self.begin(job))

    def on_pod(self, _: str, pod: dict) -> None:
        owner = pod["metadata"]["ownerReferences"][0]["uid"]
        if owner not in self.jobs or pod["metadata"]["labels"]["t"] != self.leader(self.jobs[owner]):
            return
        phase = pod.get("status", {}).get("phase")
        told = self.told.setdefault(owner, [])
        if phase in {"Running", "Succeeded"} and phase not in told:
            told.append(phase)
            if len(told) == 1:
                self.soon(self.tell(self.jobs[owner], told))

    @staticmethod
    def leader(job: dict) -> str:
        return "chief" if "Chief" in job["spec"]["tfReplicaSpecs"] else "worker"

    async def begin(self, job: dict) -> None:
        if has_one_service(job):
            await self.create_service(job, job["metadata"]["name"], {"job": job["metadata"]["name"]})
        for name, spec in job["spec"]["tfReplicaSpecs"].items():
            for index in range(spec.get("replicas", 1)):
                self.soon(self.create(job, name, index))

    async def create_service(self, job: dict, name: str, labels: dict) -> None:
        spec = {"clusterIP": "None", "selector": labels, "ports": [{"name": "p", "port": 2222}]}
        await self.ask("POST", SERVICES.format(self.namespace), {"metadata": head_of(job, name, labels), "spec": spec})

    async def create(self, job: dict, kind: str, index: int) -> None:
        metadata = job["metadata"]
        name = f"{metadata['name']}-{kind.lower()}-{index}"
        labels = {"job": metadata["name"], "t": kind.lower()}
        head, hosts = head_of(job, name, labels), {"hostname": name, "subdomain": metadata["name"]}
        if not has_one_service(job):
            hosts = {}
            await self.create_service(job, name, labels)
        spec = job["spec"]["tfReplicaSpecs"][kind]["template"]["spec"] | hosts
        task = f'{{"type":"{kind.lower()}","index":{index}}}'
        config = f'{{"cluster":{self.clusters[metadata["uid"]]},"task":{task},"environment":"cloud"}}'
        container = spec["containers"][0] | {"env": [{"name": "TF_CONFIG", "value": config}]}
        await self.ask(
            "POST", PODS.format(self.namespace), {"metadata": head, "spec": spec | {"containers": [container]}}
        )

    async def tell(self, job: dict, phases: list[str]) -> None:
        """Write each phase, one after the other; the last one is the end."""
        name = job["metadata"]["name"]
        written = 0
        while "Succeeded" not in phases[:written]:
            while written == len(phases):
                await asyncio.sleep(0.05)
            status = {"conditions": [{"type": phases[written], "status": "True"}]}
            await self.ask("PATCH", f"{JOBS.format(self.namespace)}/{name}/status", {"status": status}, MERGE)
            written += 1
        if "PS" in job["spec"]["tfReplicaSpecs"]:
            await self.ask("DELETE", f"{PODS.format(self.namespace)}/{name}-ps-0")
        which = f"/{name}" if has_one_service(job) else f"?labelSelector=job%3D{name}"
        await self.ask("DELETE", f"{SERVICES.format(self.namespace)}{which}")


def has_one_service(job: dict) -> bool:
    return job["spec"].get("serviceMode") == "Job"


def head_of(job: dict, name: str, labels: dict) -> dict:
    metadata = job["metadata"]
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": metadata["name"], "uid": metadata["uid"]}
    return {"name": name, "labels": labels, "ownerReferences": [owner | {"controller": True}]}


def cluster_of(job: dict) -> str:
    """Every replica's address, as JSON; rendered once for a job."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    counts = {kind.lower(): spec.get("replicas", 1) for kind, spec in job["spec"]["tfReplicaSpecs"].items()}
    place = f"{name}.{namespace}" if has_one_service(job) else namespace
    addresses = {kind: [f"{name}-{kind}-{at}.{place}.svc:2222" for at in range(counts[kind])] for kind in counts}
    return msgspec.json.encode(addresses).decode()


async def main(kubeconfig: str, namespace: str) -> None:
    access = access_from(Path(kubeconfig))
    headers = {"Authorization": f"Bearer {access.token}", "User-Agent": "floor"}
    connector = aiohttp.TCPConnector(ssl=access.trust(), limit=AT_ONCE + 4)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(access.server, headers=headers, connector=connector, timeout=timeout) as session:
        floor = Floor(session, namespace)
        print("workers started", flush=True)  # noqa: T201 (whoever started it waits for this)
        await asyncio.gather(
            floor.watch(JOBS.format(namespace), floor.on_job), floor.watch(PODS.format(namespace), floor.on_pod)
        )


if __name__ == "__main__":
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    asyncio.run(main(*sys.argv[1:]))
