"""kubectl does and says the same against the embedded API server as against kube-apiserver: also an old one.

Both get one list of commands, in order, as a person might type them. Exit codes and output are compared, but for what
no two servers have in common: UIDs, versions, times and addresses. Neither has a node: pods stay as they are created
until a command changes their status. Logs need a node: ``local/test_local.py``.
"""

import asyncio
import json
import os
import re
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lab.control_plane.plane import ControlPlane
from lab.tools.get import programs
from support.settle import eventually
from tf_operator.app import local
from tf_operator.cli.main import main
from tf_operator.dialects import registry
from tf_operator.local import endpoint
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.state import StateFolder
from tf_operator.machinery.clock import SystemClock

# In what a command reads: the namespace that it is run in.
HERE = "this-namespace"


def manifest(kind, name, /, *, api="v1", **fields):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name} | fields.pop("metadata", {}), **fields}


def config(name="a", metadata=None, **data):
    return manifest("ConfigMap", name, data=data, metadata=metadata or {})


def pod(name, **metadata):
    containers = [
        {"name": "tensorflow", "image": "training:1", "ports": [{"name": "tfjob-port", "containerPort": 2222}]}
    ]
    spec = {"containers": containers, "automountServiceAccountToken": False, "restartPolicy": "Never"}
    return manifest("Pod", name, metadata=metadata, spec=spec)


def job(name="job", replicas=2, **spec):
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "training:1"}]}}
    workers = {"replicas": replicas, "restartPolicy": "Never", "template": template}
    return manifest("TFJob", name, api="kubeflow.org/v1", spec={"tfReplicaSpecs": {"Worker": workers}} | spec)


def event(name, reason, message):
    about = {"kind": "Pod", "name": "p", "namespace": HERE, "apiVersion": "v1"}
    times = dict.fromkeys(("firstTimestamp", "lastTimestamp"), "2026-01-01T00:00:00Z")
    more = {"type": "Normal", "count": 2, "source": {"component": "tf-operator"}}
    return manifest("Event", name, involvedObject=about, reason=reason, message=message, **times, **more)


RUNNING = json.dumps(
    {"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}}
)
SUCCEEDED = json.dumps(
    {"status": {"conditions": [{"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded"}]}}
)


def owned(uid):
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    return manifest("ConfigMap", "owned", metadata={"ownerReferences": [owner]})


HEADLESS = {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 2222}]}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


# A command, and what it reads from standard input.
COMMANDS = [
    ("version", None),
    ("api-resources --api-group=kubeflow.org", None),
    ("api-resources --api-group=coordination.k8s.io", None),
    # ConfigMaps: everything that kubectl can do to an object without a meaning.
    ("create configmap a --from-literal=k=v", None),
    ("create configmap a --from-literal=k=v", None),
    ("get configmap a", None),
    ("get cm/a -o yaml", None),
    ("get cm a -o jsonpath={.data.k}", None),
    ("get cm a b", None),
    ("get cm a -n nowhere", None),
    ("get configmaps --field-selector=metadata.name=a", None),
    ("get configmaps --field-selector=spec.x=a", None),
    ("get configmaps -l app=x", None),
    ("get configmaps -l app=(", None),
    ("label cm a app=x", None),
    ("label cm a app=y", None),
    ("label cm a app=y --overwrite", None),
    ("get configmaps -l app in (x,y) -o name", None),
    ("annotate cm a note=hello", None),
    ("apply -f -", config("b", k="1")),
    ("apply -f -", config("b", k="1")),
    ("apply -f -", config("b", k="2", more="x")),
    ("apply -f -", config("b", more="x")),
    ("get cm b -o yaml", None),
    ("diff -f -", config("b", more="other")),
    ("apply -f - --dry-run=server", config("c", k="1")),
    ("get cm c", None),
    ("apply -f - --server-side", config("applied", k="1")),
    ("apply -f - --server-side", config("applied", k="2")),
    ("apply -f - --server-side --force-conflicts", config("applied", k="3")),
    ("get cm applied -o yaml", None),
    ("delete cm applied", None),
    ("apply -f -", config("Not A Name")),
    ("apply -f -", config("x") | {"data": {"k": {}}}),
    ("apply -f -", config("x") | {"unknown": 1}),
    ("replace -f -", config("b", k="3")),
    ("replace -f -", config("none", k="3")),
    ("patch cm b --type=merge -p {\"data\":{\"k\":null}}", None),
    ("patch cm b --type=json -p [{\"op\":\"test\",\"path\":\"/data\",\"value\":1}]", None),
    ("patch cm b --type=json -p [{\"op\":\"add\",\"path\":\"/data\",\"value\":{\"z\":\"1\"}}]", None),
    ("describe cm b", None),  # with one key: kubectl 1.33 prints several in a random order
    ("patch cm b -p {\"data\":{\"y\":\"1\"}}", None),
    ("patch cm b -p {", None),
    ("edit cm b", None),
    ("get cm b -o jsonpath={.data}", None),
    # Lists, and what is not on the list any more.
    ("apply -f -", {"apiVersion": "v1", "kind": "List", "items": [config("b", x="1"), config("b2")]}),
    ("apply -f -", manifest("Nothing", "x")),
    ("apply -f -", manifest("Nothing", "x", api="nowhere.io/v1")),
    ("apply --prune -f - -l app=pruned", config("kept", metadata={"labels": {"app": "pruned"}})),
    ("diff --prune -f - -l app=pruned", config("other", metadata={"labels": {"app": "pruned"}})),
    ("apply --prune -f - -l app=pruned", config("other", metadata={"labels": {"app": "pruned"}})),
    ("delete cm b2 other", None),
    ("delete cm b", None),
    ("delete cm b", None),
    ("delete cm b --ignore-not-found", None),
    ("get cm b", None),
    ("wait --for=delete cm/b --timeout=5s", None),
    # The other kinds that a training needs.
    ("create secret generic s --from-literal=password=x", None),
    ("get secret s", None),
    ("describe secret s", None),
    ("apply -f -", manifest("Service", "svc", spec=HEADLESS)),
    ("get svc", None),
    ("get svc -o wide", None),
    ("get svc svc -o yaml", None),
    ("apply -f -", manifest("Service", "bad", spec={"ports": [{"port": 0}]})),
    # Elsewhere: without a volume for it, a cluster's controllers write events.
    ("create namespace claims", None),
    ("apply -n claims -f -", manifest("PersistentVolumeClaim", "data", spec=CLAIM)),
    ("get pvc -n claims", None),
    ("delete namespace claims --timeout=60s", None),
    ("apply -f -", manifest("Lease", "lease", api="coordination.k8s.io/v1", spec={"holderIdentity": "me"})),
    ("get lease", None),
    ("create priorityclass high --value=10", None),
    ("get priorityclass high", None),
    ("delete priorityclass high", None),
    ("create quota q --hard=pods=5", None),
    ("wait --for=jsonpath={.status.used.pods}=0 quota/q --timeout=60s", None),
    ("create serviceaccount robot", None),
    ("get sa robot", None),
    ("get nothing", None),
    ("explain configmap.data", None),
    ("explain pod.spec.restartPolicy", None),
    # Pods.
    ("apply -f -", pod("p", labels={"app": "x"})),
    ("get pods", None),
    ("get pods -o wide", None),
    ("get pod p -o yaml", None),
    ("get pods --field-selector=status.phase=Pending -o name", None),
    ("get pods --field-selector=status.phase!=Pending", None),
    ("get pods --field-selector=spec.nodeName=x", None),
    ("describe pod p", None),
    ("logs p", None),
    ("logs p -c other", None),
    ("logs none", None),
    ("wait --for=condition=Ready pod/p --timeout=1s", None),
    (f"patch pod p --subresource=status --type=merge -p {RUNNING}", None),
    ("wait --for=condition=Ready pod/p --timeout=5s", None),
    ("wait --for=jsonpath={.status.phase}=Running pod/p --timeout=5s", None),
    ("get pods", None),
    ("get pods -w --request-timeout=2s", None),
    ("get pods -w --output-watch-events -o name --request-timeout=2s", None),
    ("patch pod p -p {\"spec\":{\"restartPolicy\":\"Always\"}}", None),
    ("apply -f -", manifest("Pod", "bad", spec={"containers": [{"name": "A"}]})),
    ("apply -f -", manifest("Pod", "empty", spec={"containers": []})),
    ("delete pod p --grace-period=0 --force", None),
    ("get pods", None),
    # Events.
    ("apply -f -", event("e1", "Started", "It runs.")),
    ("events", None),
    ("events --for=pod/p", None),
    ("get events", None),
    ("get events --field-selector=involvedObject.name=p -o name", None),
    # TFJobs.
    ("explain tfjob.spec.runPolicy.cleanPodPolicy", None),
    ("get tfjobs", None),
    ("create -f - --validate=strict", job(unknown=1)),
    ("create -f -", job(replicas=-1)),
    ("create -f - --validate=strict", job()),
    ("get tfjobs", None),
    ("get tfjob job -o yaml", None),
    ("describe tfjob job", None),
    ("apply -f -", job("applied", replicas=3)),
    ("apply -f -", job("applied", replicas=4)),
    ("patch tfjob job --type=merge -p {\"spec\":{\"runPolicy\":{\"suspend\":\"x\"}}}", None),
    ("patch tfjob job -p {\"spec\":{}}", None),
    ("scale tfjob job --replicas=5", None),
    ("wait --for=condition=Succeeded tfjob/job --timeout=1s", None),
    (f"patch tfjob job --subresource=status --type=merge -p {SUCCEEDED}", None),
    ("wait --for=condition=Succeeded tfjob/job --timeout=5s", None),
    ("get tfj job -o jsonpath={.metadata.generation}", None),
    ("get tfjobs.v1.kubeflow.org -o name", None),
    ("delete tfjob job applied", None),
    # Owners, and how they are deleted.
    ("create configmap owner", None),
    ("apply -f -", owned),
    ("delete cm owner --cascade=orphan", None),
    ("get cm owned -o jsonpath={.metadata.ownerReferences}", None),
    ("delete cm owned", None),
    ("create configmap owner", None),
    ("apply -f -", owned),
    ("delete cm owner --cascade=foreground", None),
    ("wait --for=delete cm/owned --timeout=60s", None),
    ("create configmap owner", None),
    ("apply -f -", owned),
    ("delete cm owner", None),
    ("wait --for=delete cm/owned --timeout=60s", None),
    # Namespaces.
    ("create namespace other", None),
    ("get namespace other", None),
    ("create configmap inside -n other", None),
    ("create configmap inside -n nowhere", None),
    ("delete namespace other --timeout=60s", None),
    ("get namespace other", None),
    ("delete cm -l app=y -o name", None),
]  # fmt: skip

# Only the exit codes of these are the same; docs/local-apiserver.md has the reasons.
DIFFERENCES = {
    "diff --prune -f - -l app=pruned": "who manages an object is recorded from its first server-side apply on",
    "patch cm b -p {": "the wording of Go's JSON decoder",
    "explain configmap.data": "descriptions of built-in kinds are left out",
    "explain pod.spec.restartPolicy": "descriptions of built-in kinds are left out",
    'patch pod p -p {"spec":{"restartPolicy":"Always"}}': "a diff of Go's structures",
}

_NOISE = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"(resourceVersion: |Resource Version: *)\"?\d+\"?", r"\1VERSION"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"https://127\.0\.0\.1:\d+", "SERVER"),
    (r"\b\d+(\.\d+)?(ms|s|m|h|d)\d*[smh]?\b", "AGE"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \+0000", "TIME"),
    (r"/tmp/[\w./-]+", "FILE"),
    (r"kubectl-edit-[\w.]+", "FILE"),
    (r"^W\d{4} \S+ +\d+ ", "LOG "),
    (r"(?<=\S) {2,}", "  "),
    (r" +$", ""),
)


@dataclass(frozen=True)
class Said:
    code: int | None
    out: str
    err: str

    @classmethod
    def of(cls, code, *raw):
        texts = []
        for text in raw:
            normal = text
            for pattern, word in _NOISE:
                normal = re.sub(pattern, word, normal, flags=re.MULTILINE)
            texts.append(normal)
        return cls(code, *texts)


@dataclass(frozen=True)
class Kubectl:
    """A kubectl at a server, in a namespace that has its name: two of them do not meet on one server."""

    kubeconfig: Path
    cache: Path
    program: str = "kubectl"

    @property
    def namespace(self):
        return self.program.replace(".", "-")

    async def __call__(self, arguments, body=None):
        """Exit code and what it prints; with a *body*, it reads that."""
        program = programs(self.program)[self.program]
        scope = [f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.cache}", f"--namespace={self.namespace}"]
        environment = os.environ | {"KUBE_EDITOR": "sed -i s/z:/zz:/", "TMPDIR": str(self.cache)}
        process = await asyncio.create_subprocess_exec(
            program, *scope, *arguments, env=environment,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        stdin = yaml.safe_dump(body).replace(HERE, self.namespace) if body else ""
        async with asyncio.timeout(90):
            out, err = await process.communicate(stdin.encode())
        return process.returncode, out.decode(), err.decode()

    async def make_namespace(self):
        self.cache.mkdir()
        code, _, error = await self(["create", "namespace", self.namespace])
        assert code == 0, error


def split(command):
    """Words of a command; what comes after ``-p`` or ``-l`` is one, whatever is in it."""
    head, flag, value = next(
        (
            (head, flag.strip(), value)
            for flag in (" -p ", " -l ")
            for head, separator, value in [command.partition(flag)]
            if separator
        ),
        (command, "", ""),
    )
    if flag == "-l" and " -o " in value:
        value, _, output = value.partition(" -o ")
        return [*head.split(), flag, value, "-o", output]
    return [*head.split(), *([flag, value] if flag else [])]


async def played(kubectl):
    """What each command says in a new namespace."""
    await kubectl.make_namespace()
    outcomes = []
    for command, stdin in COMMANDS:
        if callable(stdin):
            _, uid, _ = await kubectl(["get", "cm", "owner", "-o", "jsonpath={.metadata.uid}"])
            body = stdin(uid)
        else:
            body = stdin
        outcomes.append(Said.of(*await kubectl(split(command), body)))
    return outcomes


class NoLogs:
    async def read(self, *_, **__):
        yield b""


async def embedded(folder: StateFolder, stack: AsyncExitStack) -> Path:
    """The kubeconfig of an embedded server without operator and node."""
    clock = SystemClock()
    server = ApiServer(clock, kinds=catalog.KINDS)
    for body in (*local.FIRST, *(api.crd.load(*api.conversion.versions) for api in registry.SERVED)):
        local.install(server, body)
    stack.enter_context(folder.owned())
    collecting = await stack.enter_async_context(asyncio.TaskGroup())
    task = collecting.create_task(local._collect(server, clock))
    stack.callback(task.cancel)
    await stack.enter_async_context(endpoint.published(folder, server.handle, logs=NoLogs(), clock=clock))
    return folder.kubeconfig


@pytest.mark.real_server("what is compared with")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("kubectl", marks=pytest.mark.programs("kubectl")),
        pytest.param("kubectl-1.33", marks=[pytest.mark.nightly, pytest.mark.programs("kubectl-1.33")]),
    ],
)
@pytest.mark.timeout(600)  # 130 commands, twice
async def test_kubectl_does_and_says_the_same(control_plane: ControlPlane, tmp_path: Path, program: str) -> None:
    async with AsyncExitStack() as stack:
        kubeconfig = await embedded(StateFolder(tmp_path / "state"), stack)
        sessions = await asyncio.gather(
            played(Kubectl(control_plane.kubeconfig("admin"), tmp_path / "real", program)),
            played(Kubectl(kubeconfig, tmp_path / "embedded", program)),
        )
    problems = []
    for (command, _), real, own in zip(COMMANDS, *sessions, strict=True):
        if real.code != own.code or (real == own) is (command in DIFFERENCES):
            problems.append(f"kubectl {command}\n  real:     {real}\n  embedded: {own}")
    assert not problems, f"{len(problems)} of {len(COMMANDS)}:\n" + "\n".join(problems)


LOUD = "import time\nfor n in range(4): print('line', n, flush=True); time.sleep(0.2)\nraise SystemExit(3)"


@pytest.mark.programs("kubectl")
async def test_kubectl_reads_what_processes_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))  # whoever runs tests remembers no server of theirs
    folder = StateFolder(tmp_path / "state")
    kubectl = Kubectl(folder.kubeconfig, tmp_path / "cache")
    spec = {
        "containers": [{"name": "a", "image": "any", "command": [sys.executable, "-c", LOUD]}],
        "restartPolicy": "OnFailure",
    }

    async def logs(*arguments):
        code, out, error = await kubectl(["logs", "p", *arguments])
        assert code == 0, error
        return out

    async def restarted():
        path = ["get", "pod", "p", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"]
        return int((await kubectl(path))[1] or 0) >= 1

    try:
        assert main(["local", "up", f"--state-dir={folder.path}"]) == 0
        await kubectl.make_namespace()
        code, _, error = await kubectl(["apply", "-f", "-"], manifest("Pod", "p", spec=spec))
        assert code == 0, error
        await kubectl(["wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=20s"])

        assert await logs("-f") == "line 0\nline 1\nline 2\nline 3\n"
        await eventually(restarted, within=30)
        assert await logs("--previous", "--tail=1") == "line 3\n"
        assert re.fullmatch(r"\d{4}-\S+Z line 2\n\d{4}-\S+Z line 3\n", await logs("-p", "--timestamps", "--tail=2"))
        assert await logs("--previous", "--limit-bytes=6") == "line 0"
    finally:
        assert main(["local", "down", "--purge", f"--state-dir={folder.path}"]) == 0
