"""Pods as processes: what a kubelet does with them, on the embedded API server and a node of this machine."""

import asyncio
import math
import os
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from support.settle import eventually
from tf_operator.job.constants import NETWORK_ANNOTATION
from tf_operator.local import short_paths
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.in_process import Edge, InProcess
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.log_transport import LogTransport
from tf_operator.local.node import listeners, process_node
from tf_operator.local.node.addresses import RANGE
from tf_operator.local.node.claims import CLAIMS
from tf_operator.local.node.machine import Interpreter, machine_capacity
from tf_operator.local.node.node_parts import NODES, PODS, SERVICES, NodeSettings
from tf_operator.local.node.process_node import ProcessNode
from tf_operator.local.node.processes import network_requests
from tf_operator.local.node.run import pod_runner, status_writer
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.events.event_object import EVENTS
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Request, Resource, Scope
from tf_operator.meta import ObjectKey

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONFIG_MAPS, SECRETS = Resource("", "v1", "configmaps", "ConfigMap"), Resource("", "v1", "secrets", "Secret")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)


class Gate(Edge):
    """Holds requests for one path while it is closed, and fails some."""

    def __init__(self):
        self.held, self.opened, self.path = asyncio.Event(), asyncio.Event(), ""
        self.failures = {}
        """From the method and the end of the path to the errors that come first."""

    async def on_request(self, request):
        for (method, end), failures in self.failures.items():
            if request.method == method and request.path.endswith(end) and failures:
                raise failures.pop()
        if self.path and request.path.endswith(self.path):
            self.held.set()
            await self.opened.wait()


class Machine:
    """An API server and its node."""

    working_folder = ""
    """Where programs run that name none; empty: in a folder of their own."""

    def __init__(self, folder):
        self.clock, self.folder, self.gate = SystemClock(), folder, Gate()
        self.server = ApiServer(self.clock, kinds=catalog.KINDS)
        budget = TokenBucket(self.clock, qps=math.inf, burst=1)
        self.client = ApiClient(InProcess(self.server, self.clock, edge=self.gate), clock=self.clock, budget=budget)

    async def start(self, **options):
        python = Interpreter(sys.executable, dict(os.environ), self.working_folder)
        settings = NodeSettings(self.folder, python, machine_capacity(), first_backoff=0.2, **options)
        self.node = ProcessNode(self.client, clock=self.clock, settings=settings)
        self.has_limits = self.node._parts.limits is not None
        self.running = asyncio.get_running_loop().create_task(self.node.run())

    async def stop(self):
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running

    async def pod(
        self, name, script="", *, policy="Never", main=None, finalizers=(), labels=None, annotations=None, **spec
    ):
        main = {"name": "main", "image": "any", "command": ["sh", "-c", script], **(main or {})}
        metadata = {"name": name, "labels": {"pod": name} | (labels or {}), "finalizers": [*finalizers]}
        metadata["annotations"] = annotations or {}
        body = {"metadata": metadata, "spec": {"containers": [main], **spec}}
        body["spec"] |= {"restartPolicy": policy, "terminationGracePeriodSeconds": 1}
        return await self.client.create(PODS, "default", body)

    async def claim(self, name):
        """Make a claim; its folder."""
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = await self.client.create(CLAIMS, "default", {"metadata": {"name": name}, "spec": spec})
        return self.folder / "claims/default" / name / claim["metadata"]["uid"][-12:]

    async def delete_claim(self, key):
        claim = await self.client.get(CLAIMS, key)
        await self.client.delete(CLAIMS, key, uid=claim["metadata"]["uid"])

    async def get(self, name):
        return await self.client.get(PODS, ObjectKey("default", name))

    async def wait(self, name, is_so):
        async def check():
            pod = await self.get(name)
            assert is_so(pod), pod["status"]
            return pod

        return await eventually(check, every=0.01)

    async def phase(self, name, phase):
        return await self.wait(name, lambda pod: pod["status"]["phase"] == phase)

    async def gone(self, name):
        async def check():
            with suppress(errors.NotFound):
                return not await self.get(name)
            return True

        await eventually(check, every=0.01)

    async def delete(self, pod, grace=None):
        key = ObjectKey("default", pod["metadata"]["name"])
        await self.client.delete(PODS, key, uid=pod["metadata"]["uid"], grace_seconds=grace)

    async def log(self, name, container="main", **wish):
        return b"".join([line async for line in self.node.logs.read("default", name, container, **wish)]).decode()

    async def kubectl_log(self, name):
        """As the API server answers."""
        transport = LogTransport(InProcess(self.server, self.clock), self.node.logs, self.clock)
        path = requests.path_of(PODS, ObjectKey("default", name), "log")
        async with transport.send(Request("get", "GET", path)) as reply:
            assert reply.status == 200, await reply.read()
            return await reply.read()

    async def events(self, name):
        scope = Scope("default", field_selector=f"involvedObject.name={name}")
        raw = await self.client.send(requests.list_page(EVENTS, scope, limit=500))
        return {entry["reason"]: entry["message"] for entry in requests.msgspec.json.decode(raw)["items"]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def machine(tmp_path_factory):
    node = Machine(tmp_path_factory.mktemp("node") / ("as-deep-as-the-home-of-somebody-at-a-large-university" * 2))
    await node.client.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    await node.start()
    yield node
    await node.stop()
    assert not short_paths.link_to(node.folder).is_symlink()
    assert [file for file in node.folder.rglob("*") if file.is_file() and file.suffix != ".log"] == []


async def test_a_node_keeps_the_short_path_of_its_programs_new(tmp_path):
    machine = Machine(tmp_path / "node")
    link = short_paths.link_to(machine.folder)
    link.symlink_to(machine.folder)
    os.utime(link, (0, 0), follow_symlinks=False)
    await machine.start()
    await eventually(lambda: link.lstat().st_mtime > 0)
    await machine.stop()
    assert not link.is_symlink()


def state(pod):
    """The status of the main container; before there is one, a container that is not there yet."""
    (status,) = pod["status"].get("containerStatuses") or [{"ready": False, "restartCount": 0, "state": {}}]
    return status


async def test_a_pod_is_bound_and_run_and_ends_as_its_program_does(machine):
    await machine.pod("good", "echo hello; exit 0")
    await machine.pod("bad", "echo why > /dev/termination-log; exit 3")
    await machine.pod("killed", "sleep 0 & kill -9 $$$$")  # $$ is one dollar in a pod
    good, bad, killed = [
        await machine.phase(name, phase)
        for name, phase in (("good", "Succeeded"), ("bad", "Failed"), ("killed", "Failed"))
    ]
    assert good["spec"]["nodeName"] == "local"
    assert state(good)["state"]["terminated"]["reason"] == "Completed"
    assert await machine.log("good") == "hello\n"
    ended = state(bad)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "why\n")
    assert {"exitCode": 137, "signal": 9}.items() <= state(killed)["state"]["terminated"].items()
    await eventually(lambda: has_event(machine, "good", "ImageNotUsed"))
    node = await machine.client.get(NODES, ObjectKey("", "local"))
    assert {"type": "Ready", "status": "True"}.items() <= node["status"]["conditions"][0].items()


async def test_where_requests_count_a_new_node_counts_pods_that_have_their_place_before_those_that_wait(tmp_path):
    machine = Machine(tmp_path)
    await machine.client.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    everything = {"requests": {"cpu": machine_capacity().cpus}}
    await machine.pod("a-waits", "exit 0", resources=everything)
    await machine.pod("b-runs", "sleep 60", resources=everything, nodeName="local")
    await machine.start(enforces_requests=True)
    await machine.phase("b-runs", "Running")
    await eventually(lambda: has_event(machine, "a-waits", "FailedScheduling"))
    waits = await machine.get("a-waits")
    await machine.stop()

    assert waits["spec"].get("nodeName", "") == ""


async def test_more_requests_than_the_machine_has_are_ignored_and_told(machine):
    await machine.pod("asks-for-less", "exit 0", resources={"requests": {"cpu": "1m"}})
    await machine.pod("asks-for-more", "exit 0", resources={"requests": {"cpu": 9000}})
    await machine.phase("asks-for-less", "Succeeded")
    await machine.phase("asks-for-more", "Succeeded")
    await eventually(lambda: has_event(machine, "asks-for-more", "RequestsExceedMachine"))
    assert "RequestsExceedMachine" not in await machine.events("asks-for-less")


async def test_a_program_finds_its_environment_volumes_and_neighbours(machine):
    await machine.client.create(CONFIG_MAPS, "default", {"metadata": {"name": "c"}, "data": {"file": "content"}})
    await machine.client.create(SECRETS, "default", {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    volumes = [{"name": "config", "configMap": {"name": "c"}}, {"name": "scratch", "emptyDir": {}}]
    env = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
        {"name": "PEER", "value": "other.default.svc:2222"},
    ]
    mounts = [{"name": "config", "mountPath": "/etc/config"}, {"name": "scratch", "mountPath": "/scratch"}]
    main = {"env": env, "volumeMounts": mounts, "workingDir": "/scratch"}
    script = 'echo "$NAME $SECRET $PEER $(cat /etc/config/file)"; touch here; basename $(pwd); ls; python -c "print(1)"'
    await machine.pod("whole", script, main=main, volumes=volumes)
    await machine.phase("whole", "Succeeded")
    first, *rest = (await machine.log("whole")).splitlines()
    assert first.startswith("whole hidden 127.0.0.1:")
    assert first.endswith(" content")
    assert rest == ["scratch", "here", "1"]


async def test_a_program_can_make_sockets_for_temporary_use(machine):
    await machine.pod("managed", main={"command": ["python", "-c", "import multiprocessing as m; m.Manager()"]})
    await machine.phase("managed", "Succeeded")


async def test_pods_reach_each_other_by_the_names_of_their_services(machine):
    service = {"clusterIP": "None", "selector": {"pod": "server"}, "ports": [{"name": "web", "port": 2222}]}
    await machine.client.create(SERVICES, "default", {"metadata": {"name": "server"}, "spec": service})
    peers = {"name": "PEERS", "value": '{"ps": ["server.default.svc:2222"]}'}
    serve = "import json, os, http.server as h; a, p = json.loads(os.environ['PEERS'])['ps'][0].split(':')"
    command = ["python", "-c", f"{serve}\nh.HTTPServer((a, int(p)), h.SimpleHTTPRequestHandler).serve_forever()"]
    probe = {"httpGet": {"port": "web"}, "periodSeconds": 1}
    port = {"name": "web", "containerPort": 2222}
    server = await machine.pod(
        "server", main={"command": command, "env": [peers], "readinessProbe": probe, "ports": [port]}
    )
    await machine.wait("server", lambda pod: state(pod)["ready"])
    ask = "import urllib.request as u; print(u.urlopen('http://server.default:2222/').status)"
    await machine.pod("client", main={"command": ["python3", "-c", ask]})
    await machine.phase("client", "Succeeded")
    assert await machine.log("client") == "200\n"
    await machine.delete(server)
    await machine.gone("server")


async def test_pods_reach_each_other_as_hosts_in_one_service(machine):
    """Each has ports of its own, also where it names itself as all interfaces, for probes, and in another Service."""
    service = {"clusterIP": "None", "selector": {"of": "job"}, "ports": [{"name": "web", "port": 2222}]}
    for name in ("all", "job"):
        await machine.client.create(SERVICES, "default", {"metadata": {"name": name}, "spec": service})
    serve = (
        "import os, http.server as h, pathlib, tempfile; os.chdir(tempfile.mkdtemp())\n"
        "pathlib.Path('me').write_text(os.environ['ME']); a, p = os.environ['LISTENS'].split(':')\n"
        "h.HTTPServer((a, int(p)), h.SimpleHTTPRequestHandler).serve_forever()"
    )
    main = {
        "command": ["python", "-c", serve],
        "readinessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 1},
        "ports": [{"name": "web", "containerPort": 2222}],
    }
    servers = {"a": "a.job.default.svc:2222", "b": "0.0.0.0:2222"}
    for host, listens in servers.items():
        env = [{"name": "ME", "value": host}, {"name": "LISTENS", "value": listens}]
        labels = {"of": "job"}
        await machine.pod(f"server-{host}", main=main | {"env": env}, labels=labels, hostname=host, subdomain="job")
    for host in servers:
        await machine.wait(f"server-{host}", lambda pod: state(pod)["ready"])

    ask = (
        "import sys, urllib.request as u; print(*(u.urlopen(f'http://{it}/me').read().decode() for it in sys.argv[1:]))"
    )
    names = ["a.job:2222", "b.job.default.svc.cluster.local:2222"]
    await machine.pod("asks-hosts", main={"command": ["python3", "-c", ask, *names]})
    await machine.phase("asks-hosts", "Succeeded")
    assert await machine.log("asks-hosts") == "a b\n"
    for host in servers:
        await machine.delete(await machine.get(f"server-{host}"))
        await machine.gone(f"server-{host}")


async def test_init_containers_and_sidecars_run_in_their_order(machine):
    def container(name, script, **fields):
        return {"name": name, "image": "any", "command": ["sh", "-c", script], **fields}

    shared = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    inits = [
        container("first", "echo first >> /v/order", **shared),
        container(
            "side",
            "trap 'echo side-end >> /v/order; exit 0' TERM; echo side >> /v/order; while :; do sleep 0.02; done",
            restartPolicy="Always",
            startupProbe={"exec": {"command": ["grep", "side", "/v/order"]}, "periodSeconds": 1},
            **shared,
        ),
        container("second", "echo second >> /v/order", **shared),
    ]
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "order"}}
    claim = await machine.claim("order")
    await machine.pod("ordered", "echo main >> /v/order", main=shared, initContainers=inits, volumes=[volume])
    pod = await machine.phase("ordered", "Succeeded")
    order = claim / "order"
    assert order.read_text().split() == ["first", "side", "second", "main", "side-end"]
    order.unlink()
    assert [entry["ready"] for entry in pod["status"]["initContainerStatuses"]] == [True, False, True]


async def test_a_claim_is_bound_and_its_data_goes_with_it_and_not_before_its_last_pod(machine):
    key, first = ObjectKey("default", "data"), await machine.claim("data")

    async def is_bound():
        return (await machine.client.get(CLAIMS, key))["status"].get("phase") == "Bound"

    await eventually(is_bound)
    status = (await machine.client.get(CLAIMS, key))["status"]
    assert status == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    user = await machine.pod("user", "touch /v/here; exec sleep 100", main=mount, volumes=volumes)
    await eventually((first / "here").exists)
    await machine.delete_claim(key)
    second = await machine.claim("data")
    await machine.pod("successor", "ls -A /v; touch /v/there", main=mount, volumes=volumes)
    await machine.phase("successor", "Succeeded")
    assert (await machine.log("successor"), (first / "here").exists()) == ("", True)
    await machine.delete(await machine.get("successor"))
    await machine.delete(user)
    await eventually(lambda: not first.exists())
    assert (second / "there").exists()

    user = await machine.pod("user", "exec sleep 100", main=mount, volumes=volumes)
    await machine.phase("user", "Running")
    await machine.delete_claim(key)
    deleted = second.with_name(f"{second.name}.deleted")
    await eventually(deleted.exists)
    await machine.delete(user, 0)
    await machine.stop()
    second.mkdir(parents=True, exist_ok=True)
    deleted.touch()  # of a node that was killed
    other = second.with_name("0123456789ab")
    other.mkdir()  # of a journal that is lost
    await machine.start()
    await eventually(lambda: not (second.exists() or deleted.exists()))
    other.rmdir()


async def test_a_node_that_is_cordoned_takes_no_pods_until_it_is_not(machine):
    key = ObjectKey("", "local")
    await eventually(lambda: machine.node._nodes.store.get(key))
    await machine.client.merge_patch(NODES, key, {"spec": {"unschedulable": True}})
    await eventually(lambda: machine.node._nodes.store.get(key).spec.unschedulable)
    await machine.pod("waiting", "exit 0")
    pod = await machine.wait("waiting", lambda pod: pod["status"].get("conditions"))
    (condition,) = pod["status"]["conditions"]
    assert {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}.items() <= condition.items()
    assert condition["message"] == "0/1 nodes are available: 1 node(s) were unschedulable."
    assert await eventually(lambda: has_event(machine, "waiting", "FailedScheduling")) == condition["message"]
    assert "nodeName" not in pod["spec"]
    await machine.client.merge_patch(NODES, key, {"spec": {"unschedulable": None}})
    pod = await machine.phase("waiting", "Succeeded")
    assert {entry["type"]: entry["status"] for entry in pod["status"]["conditions"]}["PodScheduled"] == "True"


async def test_where_requests_count_pods_wait_until_there_is_room(machine, tmp_path):
    script = f"until [ -e {tmp_path}/end ]; do sleep 0.05; done"
    all_cpus = {"resources": {"requests": {"cpu": str(machine_capacity().cpus)}}}
    await machine.stop()
    await machine.start(enforces_requests=True)

    async def phases():
        return sorted([(await machine.get(name))["status"]["phase"] for name in ("a", "b")])

    try:
        await asyncio.gather(*(machine.pod(name, script, main=all_cpus) for name in ("a", "b")))
        await machine.pod("small", "exit 0")
        await machine.phase("small", "Succeeded")

        async def is_decided():
            assert await phases() == ["Pending", "Running"]
            return True

        await eventually(is_decided)
        (pending,) = [name for name in ("a", "b") if (await machine.get(name))["status"]["phase"] == "Pending"]
        pod = await machine.wait(pending, lambda pod: pod["status"].get("conditions"))
        assert pod["status"]["conditions"][0]["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        (tmp_path / "end").touch()
        await machine.phase(pending, "Succeeded")
    finally:
        await machine.stop()
        await machine.start()


async def test_a_failing_container_is_started_again_with_back_off(machine):
    pod = await machine.pod("restless", 'echo "run $TF_OPERATOR_CONTAINER"; exit 1', policy="OnFailure")
    await machine.wait("restless", lambda pod: "waiting" in state(pod)["state"])
    pod = await machine.wait("restless", lambda pod: state(pod)["restartCount"] >= 2)
    assert pod["status"]["phase"] == "Running"
    assert state(pod)["lastState"]["terminated"]["exitCode"] == 1
    assert await machine.log("restless", previous=True) != await machine.log("restless")
    await eventually(lambda: has_event(machine, "restless", "BackOff"))
    await machine.delete(pod)
    await machine.gone("restless")


async def test_rules_of_containers_come_before_the_policy_of_their_pod(machine):
    """Its program exits with 42, is started again alone; with 75, all begin again; and then it has done its work."""
    exits = [("Restart", 42), ("RestartAllContainers", 75)]
    rules = [{"action": action, "exitCodes": {"operator": "In", "values": [code]}} for action, code in exits]
    shared = {"image": "any", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    # A sidecar has started when its process has: what it writes may come later, so the program waits for that.
    wait = "until [ -e /v/up ]; do sleep 0.02; done"
    script = f"{wait}; echo main >> /v/order; case $(grep -c main /v/order) in 1) exit 42;; 2) exit 75;; esac"
    side = "echo side >> /v/order; touch /v/up; while :; do sleep 0.02; done"
    inits = [
        {"name": "first", "command": ["sh", "-c", "echo first >> /v/order; rm -f /v/up"], **shared},
        {"name": "side", "command": ["sh", "-c", side], "restartPolicy": "Always", **shared},
    ]
    main = {**shared, "restartPolicy": "Never", "restartPolicyRules": rules}

    folder = machine.folder / "shared"
    volume = {"name": "v", "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}}
    await machine.pod("ruled", script, main=main, initContainers=inits, volumes=[volume])

    pod = await machine.phase("ruled", "Succeeded")
    assert (folder / "order").read_text().split() == ["first", "side", "main", "main", "first", "side", "main"]
    for name in ("order", "up"):
        (folder / name).unlink()
    assert state(pod)["restartCount"] == 2
    assert [entry["restartCount"] for entry in pod["status"]["initContainerStatuses"]] == [1, 1]


async def has_event(machine, name, reason):
    return (await machine.events(name)).get(reason)


@pytest.mark.parametrize(
    ("script", "seconds"), [("trap 'echo bye; exit 0' TERM; :", 30), ("trap '' TERM; :", 1)], ids=["polite", "stubborn"]
)
async def test_a_deleted_pod_is_gone_when_its_processes_are(machine, script, seconds):
    name = f"deleted-{seconds}"
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /tmp-dir/hook"]}}}
    mounts = [{"name": "t", "mountPath": "/tmp-dir"}]
    (machine.folder.parent / name).mkdir()
    volumes = [{"name": "t", "hostPath": {"path": str(machine.folder.parent / name)}}]
    pod = await machine.pod(
        name,
        f"{script}; echo up; while :; do sleep 0.02; done",
        main={"lifecycle": hook, "volumeMounts": mounts},
        volumes=volumes,
    )
    following = asyncio.get_running_loop().create_task(follow(machine, name))
    await machine.phase(name, "Running")
    await eventually(lambda: log_has(machine, name, "up"))
    await machine.delete(pod, seconds)
    await machine.gone(name)
    assert (machine.folder.parent / name / "hook").read_text() == "hook\n"
    assert await following == ("up\nbye\n" if seconds == 30 else "up\n")


async def follow(machine, name):
    await machine.phase(name, "Running")
    return await machine.log(name, follow=True)


async def log_has(machine, name, text):
    return text in await machine.log(name)


async def is_let_go(machine, name):
    """The pod, if the node has made its last write: the delete without a grace period, after the last status."""
    pod = await machine.get(name)
    return pod if pod["metadata"].get("deletionGracePeriodSeconds") == 0 else None


async def test_a_deleted_pod_with_a_finalizer_stays_until_that_is_gone(machine):
    pod = await machine.pod("held", "exec sleep 100", finalizers=["example.org/hold"])
    await machine.phase("held", "Running")
    await machine.delete(pod)
    await machine.phase("held", "Failed")
    key, failed_pod = ObjectKey("default", "held"), await eventually(lambda: is_let_go(machine, "held"))
    await machine.clock.sleep(0.1)
    assert await machine.get("held") == failed_pod
    await machine.client.merge_patch(PODS, key, {"metadata": {"finalizers": None}})
    await machine.gone("held")
    await eventually(lambda: not machine.folder.joinpath("pods", pod["metadata"]["uid"][-12:]).exists())


async def test_a_pod_deleted_by_force_leaves_no_process(machine):
    pod = await machine.pod("forced", "trap '' TERM; echo $$$$; while :; do sleep 0.02; done")
    await eventually(lambda: running(machine, "forced"))
    await eventually(lambda: log_has(machine, "forced", "\n"))
    pid = int(await machine.log("forced"))
    await machine.delete(pod, 0)
    await eventually(lambda: not Path(f"/proc/{pid}").exists())


HOOKS = {"sleep": {"sleep": {"seconds": 60}}, "command": {"exec": {"command": ["sleep", "60"]}}}


@pytest.mark.parametrize("seconds", [0, 1], ids=["by force", "sooner"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_a_hook_does_not_outlive_its_container_or_its_grace_period(machine, hook, seconds):
    name = f"{hook}-{seconds}"
    main = {"lifecycle": {"preStop": HOOKS[hook]}}
    pod = await machine.pod(name, "exec sleep 60", main=main)
    await machine.phase(name, "Running")
    await machine.delete(pod, 60)
    await eventually(lambda: has_event(machine, name, "Killing"))
    await machine.delete(pod, seconds)
    await machine.gone(name)
    await eventually(lambda: not machine.folder.joinpath("pods", pod["metadata"]["uid"][-12:]).exists())


async def test_a_node_that_kills_its_programs_waits_for_no_hook(machine):
    pods = []
    for name, hook in HOOKS.items():
        pod = await machine.pod(f"killed-{name}", "exec sleep 60", main={"lifecycle": {"preStop": hook}})
        await machine.phase(f"killed-{name}", "Running")
        await machine.delete(pod, 60)
        await eventually(lambda name=name: has_event(machine, f"killed-{name}", "Killing"))
        pods.append(pod)
    machine.node.kill()
    await eventually(lambda: not list(machine.folder.glob("pods/*")))
    await machine.stop()
    await machine.start()
    for pod in pods:
        await machine.delete(pod, 0)
        await machine.gone(pod["metadata"]["name"])


async def test_requests_of_the_node_that_fail_are_sent_again(machine, monkeypatch):
    for module in (process_node, pod_runner, status_writer):
        monkeypatch.setattr(module, "_PAUSE", 0.01)
    conflict = errors.Conflict(409, errors.Status())
    failed = [errors.ServerFailed(500, errors.Status()), errors.ReplyLost("no reply")]
    writes = [("POST", "/unlucky/binding"), ("PATCH", "/unlucky/status"), ("DELETE", "/unlucky")]
    machine.gate.failures = {write: [*failed] for write in writes}
    machine.gate.failures["PATCH", "/unlucky/status"].append(conflict)
    pod = await machine.pod("unlucky", "exec sleep 100")
    await machine.phase("unlucky", "Running")
    raw = requests.delete(PODS, ObjectKey("default", "unlucky"), uid=pod["metadata"]["uid"])
    assert machine.server.handle(raw).code == 200  # past the gate
    await machine.gone("unlucky")
    assert [*machine.gate.failures.values()] == [[], [], []]


async def test_hooks_run_after_the_start_and_a_failed_one_ends_the_container(machine):
    for name, command, phase in (("hooked", "echo x > hook", "Succeeded"), ("unhooked", "exit 1", "Failed")):
        hook = {"postStart": {"exec": {"command": ["sh", "-c", command]}}}
        await machine.pod(name, "while ! test -e hook; do sleep 0.02; done", main={"lifecycle": hook})
        await machine.phase(name, phase)
    await eventually(lambda: has_event(machine, "unhooked", "FailedPostStartHook"))


async def test_a_pod_deleted_by_force_while_it_is_prepared_never_runs(machine, monkeypatch):
    started = []

    def start(identity, _, watcher):
        started.append(identity)
        watcher.on_failed("it should not have been asked for")

    monkeypatch.setattr(machine.node._parts.processes, "start", start)
    machine.gate.path = "/configmaps/gated"
    source = [{"configMapRef": {"name": "gated", "optional": True}}]
    pod = await machine.pod("unborn", main={"envFrom": source})
    await machine.gate.held.wait()
    await machine.delete(pod, 0)
    uid = pod["metadata"]["uid"]
    await eventually(lambda: machine.node._runners[uid]._is_gone)
    machine.gate.opened.set()
    await eventually(lambda: uid not in machine.node._runners or started)
    assert started == []


async def running(machine, name):
    return (await machine.get(name))["status"]["phase"] == "Running"


async def test_probes_make_a_container_ready_and_restart_it(machine):
    check = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 10}
    # Liveness would fail until the startup probe has succeeded.
    probes = {
        "startupProbe": {"exec": {"command": ["test", "-e", "ready"]}, "periodSeconds": 1},
        "readinessProbe": {"exec": {"command": ["test", "-e", "ready"]}, **check},
        "livenessProbe": {"exec": {"command": ["sh", "-c", "test -e alive && ! test -e sick"]}, **check},
    }
    pod = await machine.pod(
        "probed", "rm -f sick; sleep 0.2; touch alive ready; exec sleep 100", policy="Always", main=probes
    )
    await machine.wait("probed", lambda pod: state(pod)["ready"])
    (work,) = machine.folder.glob(f"pods/{pod['metadata']['uid'][-12:]}/work/main")
    (work / "ready").unlink()
    await machine.wait("probed", lambda pod: not state(pod)["ready"])
    (work / "sick").touch()
    pod = await machine.wait("probed", lambda pod: state(pod)["restartCount"] == 1 and state(pod)["ready"])
    assert state(pod)["lastState"]["terminated"]["exitCode"] == 143
    await machine.delete(pod, 1)


@pytest.mark.parametrize(
    ("name", "main", "reason", "message"),
    [
        ("no-command", {"command": None}, "CreateContainerError", "has no command"),
        (
            "no-config",
            {"envFrom": [{"configMapRef": {"name": "late"}}]},
            "CreateContainerConfigError",
            '"late" not found',
        ),
    ],
)
async def test_a_container_that_cannot_be_created_says_why(machine, name, main, reason, message):
    pod = await machine.pod(name, "exit 0", main=main)
    pod = await machine.wait(name, lambda pod: pod["status"].get("containerStatuses"))
    waiting = state(pod)["state"]["waiting"]
    assert (waiting["reason"], message in waiting["message"]) == (reason, True)
    await machine.delete(pod)
    await machine.gone(name)


async def test_a_program_waits_for_a_folder_that_was_deleted(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(pod_runner, "_RETRY", timedelta(seconds=0.1))
    monkeypatch.setattr(machine, "working_folder", str(tmp_path / "project"))
    await machine.stop()
    await machine.start()
    await machine.pod("homeless", "pwd")
    await machine.pod("lost", "pwd", main={"workingDir": "/no/such"})
    for name, text in (("homeless", f"the folder {tmp_path}/project does not exist any more"), ("lost", "/no/such")):
        pod = await machine.wait(
            name, lambda pod: "waiting" in state(pod)["state"] and state(pod)["state"]["waiting"].get("message")
        )
        waiting = state(pod)["state"]["waiting"]
        assert (waiting["reason"], text in waiting["message"]) == ("CreateContainerConfigError", True)
        assert pod["status"]["phase"] == "Pending"
    (tmp_path / "project").mkdir()
    await machine.phase("homeless", "Succeeded")
    assert await machine.log("homeless") == f"{tmp_path}/project\n"
    await machine.delete(await machine.get("lost"))
    monkeypatch.undo()
    await machine.stop()
    await machine.start()


async def test_a_program_waits_while_a_folder_cannot_be_made_for_it(machine, tmp_path, monkeypatch):
    """As on a full disk, or where a file is in the way."""
    monkeypatch.setattr(pod_runner, "_RETRY", timedelta(seconds=0.1))
    (tmp_path / "runs").write_text("")
    mount = {"name": "v", "mountPath": "/v", "subPath": "runs/first"}
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
    await machine.pod("in-the-way", "echo x > /v/done", main={"volumeMounts": [mount]}, volumes=volumes)
    pod = await machine.wait("in-the-way", lambda pod: state(pod)["state"].get("waiting", {}).get("message"))
    waiting = state(pod)["state"]["waiting"]
    assert (waiting["reason"], pod["status"]["phase"]) == ("CreateContainerConfigError", "Pending")
    assert f"a folder or file cannot be made: [Errno 20] Not a directory: '{tmp_path}/runs" in waiting["message"]
    (tmp_path / "runs").unlink()
    await machine.phase("in-the-way", "Succeeded")
    assert (tmp_path / "runs" / "first" / "done").exists()


@pytest.mark.parametrize(
    ("name", "main", "reason"),
    [
        ("no-program", {"command": ["no-such-program"]}, "StartError"),
        ("null-byte", {"command": ["a\0b"]}, "StartError"),
    ],
)
async def test_a_program_that_cannot_be_started_fails_its_pod(machine, name, main, reason):
    await machine.pod(name, main=main)
    ended = state(await machine.phase(name, "Failed"))["state"]["terminated"]
    assert await machine.kubectl_log(name) == b""
    # Without a start, the operator would take the pod for one that its node has rejected.
    assert (ended["reason"], ended["startedAt"]) == (reason, "1970-01-01T00:00:00Z")


async def test_a_pod_that_breaks_its_runner_fails_and_harms_no_other(machine):
    await machine.pod("broken", " ".join(f"a{number}.default.svc:1" for number in range(12_001)))
    await machine.pod("neighbour", "exit 0")
    await machine.phase("neighbour", "Succeeded")
    assert "NoPortLeft" in (await machine.phase("broken", "Failed"))["status"]["message"]


async def test_the_end_of_a_log_is_the_message_of_a_failure_if_the_container_wants_it(machine):
    main = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    await machine.pod("talking", "echo one; echo two; exit 1", main=main)
    assert state(await machine.phase("talking", "Failed"))["state"]["terminated"]["message"] == "one\ntwo"


async def test_the_end_of_a_termination_message_that_is_too_long_is_kept_as_a_kubelet_keeps_it(machine):
    await machine.pod("verbose", "{ head -c 5000 /dev/zero | tr '\\0' x; echo last; } >/dev/termination-log; exit 1")
    message = state(await machine.phase("verbose", "Failed"))["state"]["terminated"]["message"]
    assert (message[:1], message[-6:], len(message)) == ("x", "xlast\n", 4096)


async def test_a_pipe_in_place_of_the_termination_message_does_not_block_the_node(machine):
    await machine.pod("piped", "f=$TF_OPERATOR_TERMINATION_LOG; rm $f; mkfifo $f; exit 1")
    assert "message" not in state(await machine.phase("piped", "Failed"))["state"]["terminated"]


async def test_a_container_over_its_limit_of_memory_is_killed_where_the_system_keeps_limits(machine):
    main = {"resources": {"limits": {"memory": "64Mi"}}, "command": ["python", "-c", "len(b'x' * 200_000_000)"]}
    await machine.pod("greedy", main=main)
    pod = await machine.wait("greedy", lambda pod: "terminated" in state(pod)["state"])
    ended = state(pod)["state"]["terminated"]
    expected = ("OOMKilled", 137) if machine.has_limits else ("Completed", 0)
    assert (ended["reason"], ended["exitCode"]) == expected


async def test_a_pod_past_its_deadline_fails(machine):
    await machine.pod("late", "exec sleep 100", activeDeadlineSeconds=1)
    assert (await machine.phase("late", "Failed"))["status"]["reason"] == "DeadlineExceeded"


async def test_a_path_and_a_port_that_are_not_replaced_are_reported(machine):
    main = {"volumeMounts": [{"name": "data", "mountPath": "/opt/data"}], "ports": [{"containerPort": 2222}]}
    script = "echo --port=2222; ls -d $TF_OPERATOR_VOLUME_DATA"
    await machine.pod("unseen", script, main=main, volumes=[{"name": "data"}])
    await machine.phase("unseen", "Succeeded")
    assert "TF_OPERATOR_VOLUME_DATA" in await eventually(lambda: has_event(machine, "unseen", "MountNotVisible"))
    assert "TF_OPERATOR_PORT_2222" in await eventually(lambda: has_event(machine, "unseen", "PortNotReplaced"))


async def test_a_program_that_listens_for_the_network_is_reported(machine, monkeypatch):
    monkeypatch.setattr(listeners, "is_reachable", lambda: True)
    listen = "s = socket.create_server(('', int(os.environ['TF_OPERATOR_PORT_2222'])))"
    command = ["python", "-c", f"import os, socket, time; {listen}; time.sleep(100)"]
    main = {"command": command, "ports": [{"containerPort": 2222}]}
    pod = await machine.pod("open", main=main)
    assert "listen on all interfaces" in await eventually(lambda: has_event(machine, "open", "ListensOnAllInterfaces"))
    await machine.delete(pod, 0)


async def test_an_isolated_pod_waits_for_its_network_and_nothing_warns_of_its_ports(machine, monkeypatch):
    monkeypatch.setattr(listeners, "_EVERY", 0.05)
    monkeypatch.setattr(listeners, "is_reachable", lambda: True)
    monkeypatch.setattr(listeners, "exposed_ports", lambda: set(RANGE))  # others have the ports in their network
    make, refusals = network_requests.make, [network_requests.NetworkError("unshare: no"), OSError("no file is left")]

    async def refuse_at_first():
        if refusals:
            raise refusals.pop(0)
        return await make()

    monkeypatch.setattr(network_requests, "make", refuse_at_first)
    listen = "s = socket.create_server(('', int(os.environ['TF_OPERATOR_PORT_2222'])))"
    command = ["python", "-c", f"import os, socket, time; {listen}; time.sleep(100)"]
    probe = {"tcpSocket": {"port": 2222}, "periodSeconds": 1}
    main = {"command": command, "ports": [{"containerPort": 2222}], "readinessProbe": probe}
    pod = await machine.pod("alone", main=main, annotations={NETWORK_ANNOTATION: "Job"})
    rule = "spec.networkPolicy: Job needs a network of the job's own, which this machine refuses (unshare: no)"
    reason = {"reason": "CreateContainerConfigError", "message": rule}
    await machine.wait("alone", lambda pod: state(pod)["state"].get("waiting") == reason)

    await machine.wait("alone", lambda pod: state(pod)["ready"])
    events = await machine.events("alone")
    assert not refusals
    assert "nobody else reaches their ports" in events["OwnNetwork"]
    assert "ListensOnAllInterfaces" not in events
    await machine.delete(pod, 0)
    await eventually(lambda: not machine.node._parts.networks._by_job)


async def test_programs_save_their_work_when_their_node_ends_and_go_on_under_the_next_one(machine, tmp_path):
    saved = tmp_path / "saved"
    script = f"trap 'echo work >> {saved}; exit' TERM; while :; do sleep 0.05; done"
    hook = {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", f"echo hook >> {saved}"]}}}}
    await machine.pod("survivor", script, main=hook, policy="Always")
    await machine.phase("survivor", "Running")
    await machine.pod("ended", "echo kept")
    deleted = await machine.pod("deleted-later", "echo not kept")
    for name in ("ended", "deleted-later"):
        await machine.phase(name, "Succeeded")
    await machine.stop()
    assert saved.read_text() == "hook\nwork\n"
    assert list(machine.folder.glob("pods/*")) == []
    await machine.delete(deleted, 0)
    await machine.start()
    await eventually(lambda: not (machine.folder / "logs" / deleted["metadata"]["uid"]).exists())
    assert await machine.kubectl_log("ended") == b"kept\n"
    await machine.delete(await machine.get("ended"))
    await machine.gone("ended")
    pod = await machine.wait("survivor", lambda pod: state(pod)["restartCount"] == 1)
    assert state(pod)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
