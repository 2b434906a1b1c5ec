"""The control plane with its real servers: it works, and nothing of it outlives what it should not.

Whether "nothing is left" is judged from outside, by the process table: every process of a plane, supervisor or
server, has the plane's directory in its command line.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.control_plane import cli
from lab.control_plane import launch as plane_launch
from lab.control_plane import plane as control_plane
from lab.control_plane import servers as plane_servers
from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from lab.tools import get

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = REPOSITORY / "hack" / "control-plane"
KILLED_SESSION = Path(__file__).with_name("killed_session.py")
GONE_SECONDS = 30.0

pytestmark = pytest.mark.usefixtures("plane_programs")


def run(*arguments, **options):
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=250, check=False, **options
    )


def start(*arguments):
    """Begin `hack/control-plane` in a process group of its own, as a shell does."""
    return subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of(root):
    """Command lines of all processes that have to do with the plane in *root*, by pid."""
    by_pid = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if f"{root} " in line or f"{root}/" in line:
                by_pid[int(entry.name)] = line
    return by_pid


def wait_until(is_so, problem, seconds=GONE_SECONDS):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"after {seconds} s: {problem}"
        time.sleep(0.05)


def wait_nothing_left(root):
    wait_until(lambda: not processes_of(root), f"processes of {root} still run")
    wait_until(lambda: not root.exists(), f"{root} still exists")


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def status(root):
    return {row["name"]: row for row in cli.status_rows(root)}


def ports_of(root):
    return [row["port"] for row in status(root).values() if row["port"]]


@pytest.fixture
def root(tmp_path):
    """Where a test brings up a plane; one that it leaves behind when it fails is taken down."""
    yield tmp_path / "plane"
    control_plane.take_down(tmp_path / "plane")


def test_up_status_and_down_work_from_any_folder(tmp_path, root):
    up = run("up", "--dir", "plane", cwd=tmp_path)
    assert up.returncode == 0, up.stderr
    assert f"export KUBECONFIG={root}/admin.kubeconfig" in up.stdout

    process = run("status", "--dir", root)
    assert process.returncode == 0
    assert [line.split()[0] for line in process.stdout.splitlines()] == ["supervisor", "etcd", "kube-apiserver"]
    assert all(line.endswith(" up") for line in process.stdout.splitlines())
    ports = ports_of(root)
    assert len(ports) == 2
    assert all(is_listening(port) for port in ports)

    down = run("down", "--dir", "plane", cwd=tmp_path)
    assert (down.returncode, down.stdout) == (0, f"removed the control plane in {root}\n")
    assert processes_of(root) == {}
    assert not root.exists()
    assert not any(is_listening(port) for port in ports)


@pytest.mark.parametrize("command", ["up", "down"])
def test_a_directory_that_is_not_a_planes_is_refused_and_left_as_it_is(tmp_path, command):
    (tmp_path / "thesis.txt").write_text("years of work")
    refused = run(command, "--dir", tmp_path)
    assert refused.returncode == 1
    assert "not empty and not a control plane's" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("stage", ["supervisor", "kube-apiserver"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_up_that_is_stopped_while_it_starts_leaves_nothing(root, stage, number):
    up = start("up", "--dir", root)
    mark = "lab.control_plane.supervisor" if stage == "supervisor" else f"/{stage} "
    wait_until(lambda: any(mark in line for line in processes_of(root).values()), f"no {stage}", 60)
    os.killpg(up.pid, number)
    _, complaint = up.communicate(timeout=30)
    if number is signal.SIGINT:
        assert (up.returncode, complaint) == (130, "control-plane: interrupted; nothing is left running\n")
    wait_nothing_left(root)


@pytest.mark.parametrize(
    ("workers", "number"),
    [(["-n", "2"], signal.SIGKILL), ([], signal.SIGINT)],
    ids=["killed with two workers", "interrupted"],
)
def test_a_pytest_that_is_stopped_leaves_no_server(tmp_path, workers, number):
    marks = tmp_path / "seen"
    marks.mkdir()
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *workers, KILLED_SESSION],
        cwd=REPOSITORY,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        | {"PLANE_SEEN": str(marks), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        expected = 2 if workers else 1
        wait_until(lambda: len(list(marks.iterdir())) == expected, "the session did not get its plane", 250)
        (root,) = {path.readlink() for path in marks.iterdir()}  # one plane for all workers
        assert len(processes_of(root)) == 4  # supervisor, etcd, kube-apiserver, kube-controller-manager
        session.send_signal(number)
        wait_nothing_left(root)
    finally:
        session.kill()
        session.wait()


def test_a_supervisor_that_hangs_is_taken_down_all_the_same(own_control_plane):
    supervisor = own_control_plane.state["supervisor"]
    os.kill(supervisor["pid"], signal.SIGSTOP)
    own_control_plane.servers["etcd"].pause()
    control_plane.take_down(own_control_plane.dir)
    wait_nothing_left(own_control_plane.dir)


@pytest.fixture
def broken_program(tmp_path, monkeypatch, plane_programs):
    """Put a script in the place of a server."""

    def put(name, script):
        program = tmp_path / f"broken-{name}"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setitem(get._paths, name, str(program))

    return put


@pytest.mark.parametrize("name", ["etcd", "kube-apiserver"])
def test_a_server_that_dies_while_it_starts_is_named_with_the_end_of_its_log(root, broken_program, name):
    broken_program(name, "echo cannot find my socks >&2; exit 3")
    with pytest.raises(plane_launch.ServerFailedError) as failure:
        ControlPlane.up(root)
    assert str(failure.value) == f"{name} ended with code 3; the end of its log:\ncannot find my socks"
    assert processes_of(root) == {}
    assert not root.exists()


def test_a_port_that_somebody_took_in_between_is_replaced_by_another(root, monkeypatch):
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        used_port = somebody.getsockname()[1]
        free = plane_servers.free_port
        offers = itertools.chain([used_port, free(), used_port], iter(free, 0))
        monkeypatch.setattr(plane_servers, "free_port", lambda _host: next(offers))
        with ControlPlane.up(root) as plane:
            assert used_port not in {server.port for server in plane.servers.values()}
            assert plane.admin.get("/api/v1/namespaces/default")["kind"] == "Namespace"


def pod(name):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_the_audit_log_has_one_record_of_each_request_of_the_operator_and_none_of_others(control_plane, namespace):
    path = f"/api/v1/namespaces/{namespace}/pods"
    operator = control_plane.api("operator")
    operator.get(path)
    operator.create(path, pod("p"))
    with pytest.raises(ApiRefusedError):
        operator.create(path, pod("p"))
    control_plane.admin.get(path)
    operator.get(f"{path}?watch=1&timeoutSeconds=1")
    with pytest.raises(ApiRefusedError):
        operator.get(f"/api/v1/namespaces/{namespace}/secrets?watch=1")

    records = [
        record
        for record in map(json.loads, control_plane.audit_log.read_text().splitlines())
        if record["requestURI"].startswith(f"/api/v1/namespaces/{namespace}/")
    ]
    assert [(record["verb"], record["stage"], record["responseStatus"]["code"]) for record in records] == [
        ("list", "ResponseComplete", 200),
        ("create", "ResponseComplete", 201),
        ("create", "ResponseComplete", 409),
        ("watch", "ResponseStarted", 200),
        ("watch", "ResponseStarted", 403),
    ]
