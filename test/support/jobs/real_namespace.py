"""A namespace of a real cluster, and the training jobs in it: what the end-to-end tests do and look at.

Waits poll kubectl, slowly, because the machine may have two cores for everything; when they expire they say how the
job and its pods are.
"""

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from support.partners.kubectl import Kubectl
from support.settle import eventually

Json = dict[str, Any]

OF_JOB: Final = "training.kubeflow.org/job-name"
_EXAMPLES: Final = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "training"
_POLL_SECONDS: Final = 1.0
# Generous: a process of TensorFlow takes seconds of processor time before it says its first word.
PATIENCE_SECONDS: Final = 480.0
# What ends a training as the kernel would; the name is in the command line, and this program's own is left out.
_KILL: Final = """
import os, pathlib
for place in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    pid = int(place.parent.name)
    if pid != os.getpid() and b"/training/" in place.read_bytes():
        os.kill(pid, 9)
"""


@dataclass(frozen=True, slots=True)
class Program:
    """What a pod that needs no TensorFlow runs: a few lines of Python in an image that has it."""

    image: str
    lines: str

    def container(self, name: str = "tensorflow") -> Json:
        command = ["python3", "-c", self.lines]
        return {"name": name, "image": self.image, "imagePullPolicy": "IfNotPresent", "command": command}


@dataclass(frozen=True, slots=True)
class RealNamespace:
    kubectl: Kubectl
    # Where claims find their volume: a folder that every node has, or, when it is empty, whatever the cluster provides.
    volumes: str = ""
    storage_class: str = ""
    made_volumes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.kubectl.namespace

    def job(self, name: str) -> Json:
        body = self.kubectl.get("tfjob", name)
        assert body is not None, f"there is no TFJob {self.name}/{name}"
        return body

    def state(self, name: str) -> str:
        conditions = self.job(name).get("status", {}).get("conditions") or [{"type": ""}]
        return str(conditions[-1]["type"])

    def pods(self, name: str) -> dict[str, Json]:
        """The job's pods by replica, such as worker-0."""
        bodies = self.kubectl.list("pods", selector=f"{OF_JOB}={name}")
        return {pod["metadata"]["name"].removeprefix(f"{name}-"): pod for pod in bodies}

    def uids(self, name: str) -> dict[str, str]:
        return {replica: pod["metadata"]["uid"] for replica, pod in self.pods(name).items()}

    def log(self, name: str, replica: str, *, container: str = "tensorflow") -> str:
        return self.kubectl.logs(f"{name}-{replica}", container=container)

    def kill(self, name: str, replica: str) -> None:
        """End a training as the kernel does when memory runs out; its pod must share its process namespace."""
        self.kubectl.run("exec", f"{name}-{replica}", "--container=tensorflow", "--", "python3", "-c", _KILL)

    async def wait_state(self, name: str, *states: str, within: float = PATIENCE_SECONDS) -> str:
        """Wait until the job is in one of these states; fail at once when it has ended in another one."""

        def is_there() -> bool:
            state = self.state(name)
            if state in {"Succeeded", "Failed"} and state not in states:
                raise JobEndedError(self.description(name))
            assert state in states, self.description(name)
            return True

        await eventually(is_there, within=within, every=_POLL_SECONDS)
        return self.state(name)

    async def wait_shown(self, kind: str, name: str, **fields: object) -> Json:
        """Wait until the status of a job of any kind has these fields; the job. Fail at once when it has failed."""

        def is_shown() -> Json:
            job: Json = self.kubectl.get(kind, name) or {}
            status = job.get("status", {})
            report = "\n".join([f"{kind} {self.name}/{name}: {json.dumps(status)}", *self._pod_lines(name)])
            if "Failed" in {status.get("state"), status.get("phase")}:
                raise JobEndedError(report)
            assert {field: status.get(field) for field in fields} == fields, report
            return job

        return await eventually(is_shown, within=PATIENCE_SECONDS, every=_POLL_SECONDS)

    def end(self, name: str, replica: str) -> None:
        """Let a program that waits for the file /tmp/end come to its end."""
        self.kubectl.run("exec", f"{name}-{replica}", "--container=tensorflow", "--", "touch", "/tmp/end")

    def events(self, name: str, *, reason: str) -> list[Json]:
        all_events = self.kubectl.list("events")
        return [it for it in all_events if it["involvedObject"]["name"] == name and it["reason"] == reason]

    async def wait_pods(self, name: str, *, only: AbstractSet[str], phase: str = "") -> None:
        """Wait until the job has these pods and no other, all of them in one phase if that matters."""

        def is_so() -> bool:
            pods = self.pods(name)
            phases = {pod["status"].get("phase") for pod in pods.values()}
            assert pods.keys() == only, self.description(name)
            assert not phase or phases == {phase}, self.description(name)
            return True

        await eventually(is_so, within=PATIENCE_SECONDS, every=_POLL_SECONDS)

    async def wait_condition_message(self, name: str, text: str, *, within: float = 90.0) -> str:
        def message() -> str:
            messages = [str(it["message"]) for it in self.job(name).get("status", {}).get("conditions") or ()]
            match = next((it for it in messages if text in it), "")
            assert match, f"no message has {text!r}\n{self.description(name)}"
            return match

        return await eventually(message, within=within, every=_POLL_SECONDS)

    async def wait_log(self, name: str, replica: str, text: str, *, within: float = PATIENCE_SECONDS) -> str:
        """Wait until a replica has said something; all that it has said. Fail at once when the job has failed."""

        def has_said() -> str:
            output = self.log(name, replica)
            if text not in output and self.state(name) == "Failed":
                raise JobEndedError(self.description(name))
            assert text in output, f"{replica} has not said {text!r} but:\n{output[-1500:]}\n{self.description(name)}"
            return output

        return await eventually(has_said, within=within, every=_POLL_SECONDS)

    def description(self, name: str) -> str:
        """How the job and its pods are, in a few lines."""
        status = self.job(name).get("status", {})
        lines = [f"TFJob {self.name}/{name}:"]
        lines += ["  {type}={status} {reason}: {message}".format(**it) for it in status.get("conditions") or ()]
        lines.append(f"  replicas: {json.dumps(status.get('replicaStatuses'))}")
        return "\n".join([*lines, *self._pod_lines(name)])

    def _pod_lines(self, name: str) -> list[str]:
        lines = []
        for replica, pod in self.pods(name).items():
            states = {it["name"]: it["state"] for it in pod["status"].get("containerStatuses", ())}
            lines.append(f"  {replica} on {pod['spec'].get('nodeName')}: {pod['status'].get('phase')} {states}")
        return lines

    def provide_volume(self, claim: str) -> None:
        """Make the claim of an example, or another one, and on a cluster of our own the volume for it."""
        body = next((it for it in _documents() if it["metadata"]["name"] == claim and it["kind"] != "TFJob"), None)
        body = body or _claim(claim)
        if self.volumes:
            volume = f"{self.name}-{claim}"
            self.made_volumes.append(volume)
            self.kubectl.create(_volume(volume, Path(self.volumes, volume), namespace=self.name, claim=claim))
        if self.storage_class:
            body["spec"]["storageClassName"] = self.storage_class
        self.kubectl.create(body)


class JobEndedError(Exception):
    """A job ended otherwise than it should have; the message is how it and its pods are."""


def training(name: str, *, steps: int, image: str, restart: str = "", pod: Mapping[str, Any] | None = None) -> Json:
    """One of the training examples, with as many steps; the rest as users have it, but for what a test says."""
    body = next(it for it in _documents() if it["metadata"]["name"] == name and it["kind"] == "TFJob")
    for replica in body["spec"]["tfReplicaSpecs"].values():
        spec = replica["template"]["spec"]
        (container,) = spec["containers"]
        container |= {"image": image, "args": ["--checkpoints=/checkpoints", f"--steps={steps}"]}
        spec |= pod or {}
        replica["restartPolicy"] = restart or replica["restartPolicy"]
    return body


def accuracy(log: str) -> float:
    """What a training has reported as its result, from 0 to 100."""
    (percent,) = re.findall(r"^Accuracy on 360 held-out digits: ([0-9.]+)%$", log, re.MULTILINE)
    return float(percent)


def resumed_step(log: str) -> int:
    """The step from which a training has gone on; 0 for the beginning."""
    steps = re.findall(r"^Going on from step (\d+)\.$", log, re.MULTILINE)
    return int(steps[-1]) if steps else 0


def small_job(name: str, program: Program, *, workers: int = 1, **run_policy: str | int) -> Json:
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [program.container()]}}
    worker = {"replicas": workers, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"successPolicy": "AllWorkers", "runPolicy": run_policy, "tfReplicaSpecs": {"Worker": worker}},
    }


def _documents() -> list[Json]:
    """All objects of the training examples, each call fresh ones, without aliases between their parts."""
    texts = [path.read_text() for path in sorted(_EXAMPLES.glob("*.yaml"))]
    bodies: list[Json] = [body for text in texts for body in yaml.load_all(text, Loader=yaml.CSafeLoader)]
    copies: list[Json] = json.loads(json.dumps(bodies))
    return copies


def _claim(name: str) -> Json:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def _volume(name: str, folder: Path, *, namespace: str, claim: str) -> Json:
    """A volume on this machine that every node of a one-machine cluster sees, for one claim and no other."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim},
        },
    }
