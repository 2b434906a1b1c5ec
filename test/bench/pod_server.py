"""An apiserver that has pods and nothing else: lists, pages and streams them as a real one does, over TLS.

A process of its own, so that its work does not count as the client's. All bytes are made before the first request:
what it takes from the machine is the sending. A real apiserver cannot be given ten thousand pods of 10 kB in the time
that a benchmark may take; that the same clients read a real one is what the integration tests show.

    python test/bench/pod_server.py --pods 10000 DIRECTORY        prints the port; DIRECTORY gets ca.pem

Below ``/paged`` it refuses to stream pictures, as older apiservers do.
"""

import argparse
import asyncio
import json
import random
import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path

import trustme
from aiohttp import web

VERSION = 1_000_000
PODS_OF_A_JOB = 100
LABEL = "training.kubeflow.org/"
STARTED = ("2026-11-20T00:{:02}:{:02}Z".format(*divmod(second, 60)) for second in range(3600))


def make_pod(number: int, chance: random.Random, started: str) -> dict[str, object]:
    """A pod of a training job, about 10 kB: TF_CONFIG and managed fields are most of it."""
    job, index = f"mnist-{number // PODS_OF_A_JOB:04}", number % PODS_OF_A_JOB
    owner = str(uuid.uuid5(uuid.NAMESPACE_DNS, job))
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"{job}-worker-{index}",
            "namespace": f"team-{number // PODS_OF_A_JOB % 10}",
            "uid": str(uuid.UUID(int=chance.getrandbits(128))),
            "resourceVersion": str(VERSION - chance.randrange(500_000)),
            "creationTimestamp": started,
            "labels": {
                f"{LABEL}job-name": job,
                f"{LABEL}operator-name": "tfjob-controller",
                f"{LABEL}replica-index": str(index),
                f"{LABEL}replica-type": "worker",
            },
            "ownerReferences": [
                {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "TFJob",
                    "name": job,
                    "uid": owner,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_managed("tf-operator", owner), _managed("kubelet", owner)],
        },
        "spec": _spec(job, index, number),
        "status": _status(number, chance, started),
    }


def _managed(manager: str, owner: str) -> dict[str, object]:
    labels = {f"f:{LABEL}{name}": {} for name in ("job-name", "operator-name", "replica-index", "replica-type")}
    container = {
        f"f:{name}": {}
        for name in ("args", "env", "image", "imagePullPolicy", "name", "ports", "resources", "volumeMounts")
    }
    spec = {f"f:{name}": {} for name in ("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName")}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-20T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {
                "f:labels": {".": {}, **labels},
                "f:ownerReferences": {".": {}, f'k:{{"uid":"{owner}"}}': {}},
            },
            "f:spec": {"f:containers": {'k:{"name":"tensorflow"}': {".": {}, **container}}, **spec},
        },
    }


def _spec(job: str, index: int, number: int) -> dict[str, object]:
    hosts = [f"{job}-worker-{peer}.team-{number // PODS_OF_A_JOB % 10}.svc:2222" for peer in range(PODS_OF_A_JOB)]
    cluster = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}, "environment": "cloud"}
    plain = [{"name": f"SETTING_{setting}", "value": f"value of setting {setting} of {job}"} for setting in range(20)]
    return {
        "containers": [
            {
                "name": "tensorflow",
                "image": "registry.example.com/team/train:1.2.3",
                "args": ["python", "/opt/train.py", "--steps=100000"],
                "env": [{"name": "TF_CONFIG", "value": json.dumps(cluster)}, *plain],
                "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                "terminationMessagePath": "/dev/termination-log",
            }
        ],
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable", "memory-pressure", "disk-pressure")
        ],
        "nodeName": f"node-{number % 500:03}",
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
    }


def _status(number: int, chance: random.Random, started: str) -> dict[str, object]:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": started} for kind in kinds]
    return {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": f"10.0.{number % 500 // 250}.{number % 250}",
        "podIP": f"10.{1 + number // 62_500}.{number // 250 % 250}.{number % 250}",
        "startTime": started,
        "containerStatuses": [
            {
                "name": "tensorflow",
                "state": {"running": {"startedAt": started}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": "registry.example.com/team/train:1.2.3",
                "imageID": f"registry.example.com/team/train@sha256:{'0123456789abcdef' * 4}",
                "containerID": f"containerd://{chance.getrandbits(256):064x}",
                "started": True,
            }
        ],
        "qosClass": "Burstable",
    }


def make_pods(count: int, annotation: int = 0) -> list[bytes]:
    """As many pods, always the same; ``annotation``: bytes that each has more."""
    chance = random.Random(1)
    moments = list(STARTED)
    pods = []
    for number in range(count):
        pod = make_pod(number, chance, moments[number // 20 % 3600])
        if annotation:
            pod["metadata"]["annotations"] = {"example.org/notes": "x" * annotation}
        pods.append(json.dumps(pod, separators=(",", ":")).encode())
    return pods


class PodServer:
    """Answers for ``/api/v1/pods``."""

    def __init__(self, pods: list[bytes]) -> None:
        self._pods = pods
        mark = {"resourceVersion": str(VERSION), "annotations": {"k8s.io/initial-events-end": "true"}}
        self._mark = json.dumps({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": mark}}).encode() + b"\n"
        self._lines = [b'{"type":"ADDED","object":%s}\n' % pod for pod in pods]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """A page, a streamed picture, or a watch in which nothing happens."""
        if request.query.get("watch", "").lower() != "true":
            return self._page(int(request.query.get("limit", "0")), int(request.query.get("continue", "0")))
        is_picture = "sendInitialEvents" in request.query
        if is_picture and request.path.startswith("/paged/"):
            status = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "sendInitialEvents is forbidden"}
            return web.json_response(status, status=422)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if is_picture:
            for chunk in self._chunks():
                await response.write(chunk)
        await asyncio.Event().wait()
        return response

    def _chunks(self) -> Iterator[bytes]:
        """An apiserver flushes as it goes: some lines at a time."""
        for start in range(0, len(self._lines), 4):
            yield b"".join(self._lines[start : start + 4])
        yield self._mark

    def _page(self, limit: int, start: int) -> web.Response:
        end = start + limit if limit else len(self._pods)
        token = str(end) if end < len(self._pods) else ""
        head = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(VERSION), "continue": token}}
        items = b",".join(self._pods[start:end])
        body = json.dumps(head).encode()[:-1] + b',"items":[' + items + b"]}"
        return web.Response(body=body, content_type="application/json")


async def serve(pods: list[bytes], directory: Path) -> None:
    """Serve until killed."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(trust)
    server = PodServer(pods)
    app = web.Application()
    app.add_routes([web.get(f"{prefix}/api/v1/pods", server.answer) for prefix in ("", "/paged")])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust)
    await site.start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201 (for whoever started the process)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--annotation", type=int, default=0, metavar="BYTES")
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    asyncio.run(serve(make_pods(options.pods, options.annotation), options.directory))
