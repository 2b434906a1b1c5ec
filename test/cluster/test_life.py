"""A cluster as its user sees it, from `up` to `down`, and the machine before and after.

The tests of this module share one cluster and run in this order: the first ones use it, the last one takes it down.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from lab.cluster import cluster as cluster_module
from lab.cluster import host as cluster_host
from lab.cluster import image as cluster_image
from lab.cluster.cluster import Cluster
from lab.cluster.host import UnfitHostError
from lab.cluster.settings import PAUSE_IMAGE
from lab.control_plane import directory as plane_directory
from lab.control_plane.process import ProcessId
from lab.tools.get import programs
from support.host_traces import Machine, Marks
from support.partners.kubectl import Kubectl
from support.settle import eventually

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "hack" / "cluster"
PATIENCE = 60.0
pytestmark = pytest.mark.xdist_group("cluster")


def script(*arguments):
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def untouched_machine():
    """The machine before anything happens to it, save that programs are installed, which stay."""
    try:
        cluster_host.refuse_unfit()
        cluster_host.provide(print)
    except UnfitHostError as error:
        pytest.fail(str(error), pytrace=False)
    programs(*cluster_module.PROGRAMS)
    cluster_image.archive()
    return Machine.now()


@pytest.fixture(scope="module")
def new_cluster(untouched_machine, tmp_path_factory):
    """What `up` says, the cluster that it made, and by what its things are known."""
    root = tmp_path_factory.mktemp("clusters") / "the first"
    up = script("up", "--dir", str(root), "--owner", str(os.getpid()))
    assert up.returncode == 0, up.stderr
    yield up.stdout, Cluster.attach(root), Marks.of(root, plane_directory.read_state(root))
    script("down", "--dir", str(root))


@pytest.fixture(scope="module")
def live(new_cluster):
    return new_cluster[1]


@pytest.fixture
def kubectl(live, tmp_path):
    return Kubectl(live.kubeconfig, tmp_path)


def pod(name, *arguments, node):
    container = {"name": "main", "image": PAUSE_IMAGE, "args": list(arguments)}
    spec = {"containers": [container], "restartPolicy": "Never", "nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


async def said_by(kubectl, *arguments, node):
    """What a pod says that has succeeded."""

    def has_succeeded():
        status = kubectl.get("pod", "asking")["status"]
        assert status["phase"] == "Succeeded", status
        return True

    kubectl.create(pod("asking", *arguments, node=node))
    await eventually(has_succeeded, within=PATIENCE, every=0.2)
    output = kubectl.logs("asking", container="main")
    kubectl.run("delete", "pod/asking")
    return output


def test_up_tells_each_step_with_its_time_and_ends_with_the_line_that_sets_kubeconfig(new_cluster):
    told, live, _ = new_cluster
    # Where there is a proxy, the lines that lead around it come before the last one.
    *steps, last = (line for line in told.splitlines() if "no_proxy" not in line.lower())
    assert last == f"export KUBECONFIG={live.kubeconfig}"
    assert [step.split()[1] for step in steps] == ["s"] * len(steps)
    assert steps[-1].endswith("ready")


def test_status_says_that_every_node_and_server_is_up(live):
    told = script("status", "--dir", str(live.dir))
    assert told.returncode == 0, told.stdout
    names = [line.split()[0] for line in told.stdout.splitlines()]
    servers = ["etcd", "kube-apiserver", "controller-manager", "scheduler"]
    assert names == ["supervisor", "machine", *servers, "node-1", "node-2", "kube-proxy", "coredns"]


async def test_a_pod_finds_another_by_the_name_of_a_headless_service_across_nodes(kubectl):
    spec = {"clusterIP": "None", "selector": {"app": "greeter"}, "ports": [{"port": 2222}]}
    kubectl.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "greeter"}, "spec": spec})
    kubectl.create(pod("greeter", node="node-1"))
    output = await said_by(kubectl, "resolve", "greeter.default.svc", node="node-2")
    assert output == f"[{kubectl.get('pod', 'greeter')['status']['podIP']}]\n"


async def test_a_pod_reaches_the_api_server_by_its_cluster_ip_with_its_own_token(kubectl):
    output = await said_by(kubectl, "get", "/apis/authentication.k8s.io/v1", node="node-1")
    status, answer = output.split(maxsplit=1)
    assert status == "200"
    assert json.loads(answer)["groupVersion"] == "authentication.k8s.io/v1"


def test_an_archive_is_loaded_into_every_node(live):
    told = script("load", "--dir", str(live.dir), str(cluster_image.archive()))
    assert (told.returncode, told.stderr) == (0, "")


@pytest.fixture
def half_made(tmp_path):
    """Start a second cluster; return the process, and its things as soon as it has a node that is not ready yet."""
    root = tmp_path / "second"
    command = [SCRIPT, "up", "--dir", str(root), "--nodes", "1"]
    starting = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def node():
        state = plane_directory.read_state(root) if root.exists() else None
        return state and "node-1" in state["servers"] and (starting, state, Marks.of(root, state))

    yield node
    starting.wait(PATIENCE)
    script("down", "--dir", str(root))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
async def test_nothing_is_left_of_an_up_that_is_ended_half_way_beside_a_live_cluster(
    live, new_cluster, half_made, number
):
    starting, state, marks = await eventually(half_made, within=PATIENCE, every=0.05)
    assert marks.name != new_cluster[2].name
    starting.send_signal(number)
    starting.wait(PATIENCE)
    assert ProcessId(state["supervisor"]["pid"], state["supervisor"]["born"]).wait_gone(PATIENCE)
    assert marks.left() == []
    assert script("status", "--dir", str(live.dir)).returncode == 0


async def test_no_process_outlives_a_killed_supervisor_and_down_removes_the_rest(half_made):
    starting, state, marks = await eventually(half_made, within=PATIENCE, every=0.05)
    os.kill(state["supervisor"]["pid"], signal.SIGKILL)
    assert starting.wait(PATIENCE) == 1
    await eventually(lambda: not marks.processes(), within=PATIENCE, every=0.1)
    told = script("down", "--dir", str(marks.root))
    assert (told.returncode, told.stdout) == (0, f"removed what a killed cluster had left in {marks.root}\n")
    assert marks.left() == []


def test_no_mount_of_a_live_cluster_is_seen_on_its_machine(new_cluster):
    traces = new_cluster[2].traces()
    assert traces["mounts"] == []
    assert len(traces["processes"]) > 10
    assert len(traces["routes"]) >= 3


def test_down_leaves_the_machine_as_it_was_before_up(untouched_machine, new_cluster):
    _, live, marks = new_cluster
    told = script("down", "--dir", str(live.dir))
    assert (told.returncode, told.stdout) == (0, f"removed the cluster in {live.dir}\n")
    assert marks.left() == []
    assert Machine.now() == untouched_machine
    again = script("down", "--dir", str(live.dir))
    assert (again.returncode, again.stdout) == (0, f"there is no cluster in {live.dir}\n")
