"""Fixtures that need a real Kubernetes; see support/control_plane.py for what they hand out.

One control plane serves a whole test session, however many xdist workers it has: the controlling process
chooses its directory, the first worker that needs it starts it, owned by the controller, and the others join.
It is taken down when the session ends, and by its keeper when pytest is killed.
"""

import contextlib
import gc
import os
import secrets
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lab.cluster import cluster as cluster_module
from lab.cluster import network as cluster_network
from lab.cluster.cluster import Cluster
from lab.cluster.host import UnfitHostError
from lab.control_plane import plane as plane_module
from lab.control_plane import setup as plane_setup
from lab.control_plane.directory import DirectoryRefusedError
from lab.control_plane.plane import FEATURES, ControlPlane
from lab.tools.catalogue import ToolError
from lab.tools.get import Toolbox, programs, refuse_programs
from support.api import Api
from support.embedded.embedded_plane import EmbeddedPlane
from support.given_cluster import GivenCluster
from support.local_machine import LocalMachine
from support.partners.prometheus import Prometheus
from support.pods.kubelet import Kubelet

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

SESSION_FEATURES = frozenset({"audit", "controller-manager"})
START_SECONDS = 90.0
PROMETHEUS_PROGRAMS = ("prometheus", "promtool")
# Fixtures that bring programs of Kubernetes or Prometheus, and the one that brings an API server of either kind.
BRINGING_PROGRAMS = frozenset({"plane_programs", "kubectl", "cluster", *PROMETHEUS_PROGRAMS})
SERVER = "fresh_plane"
BRINGING = BRINGING_PROGRAMS | {SERVER}

Programs = dict[str, str]


class SessionPlane(NamedTuple):
    """Where the plane of this session is, or will be, and whose end is its end."""

    root: Path
    owner: int

    @property
    def cluster(self) -> Path:
        """Where the cluster of this session is, or will be."""
        return self.root.with_name(f"{self.root.name}-cluster")


# What a file takes, roughly, and each test of it; the first entry that fits counts.
USUAL_SECONDS = {
    "test/scenarios/crd/test_doors": (2.0, 0.05),
    "test/scenarios/crd/": (2.0, 0.3),
    "test/scenarios/cli/": (2.0, 0.3),
    "test/scenarios/local/test_gpus": (0.0, 4.5),
    "test/scenarios/local/test_networks": (0.0, 6.0),
    "test/scenarios/local/test_node": (0.0, 0.5),
    "test/scenarios/local/test_progress": (0.0, 15.0),
    "test/scenarios/local/test_up": (0.0, 4.0),
    "test/scenarios/local/": (1.0, 4.0),
    "test/scenarios/machinery/": (2.0, 1.0),
    "test/scenarios/parity/test_embedded": (1.0, 0.05),
    "test/scenarios/parity/": (20.0, 0.0),
    "test/scenarios/test_takeover_previous": (30.0, 0.0),
    "test/scenarios/": (3.0, 2.5),
    "test/faults/test_leadership": (10.0, 12.0),
    "test/faults/test_servers": (10.0, 15.0),
    "test/faults/": (10.0, 5.0),
    "test/lab/control_plane/": (0.0, 4.0),
    "test/lab/support/disturbances/fault_proxy/": (0.0, 0.5),
    "test/proof/test_coverage": (20.0, 0.0),
    "test/proof/test_processes": (15.0, 0.0),
    "test/proof/test_search": (5.0, 2.0),
    "test/simulation/test_lives": (0.0, 0.6),
    "test/simulation/test_queue_day": (0.0, 6.0),
    "test/simulation/usage": (0.0, 0.5),
    "test/simulation/": (5.0, 0.0),
    "test/packaging/chart/older_versions/": (10.0, 15.0),
    "test/packaging/chart/test_hook": (10.0, 5.0),
    "test/packaging/chart/test_kubeflow": (10.0, 2.0),
    "test/packaging/chart/test_life": (10.0, 10.0),
    "test/packaging/docs/test_commands": (20.0, 0.1),
    "test/packaging/docs/test_readme": (20.0, 0.0),
    "test/packaging/examples/test_apply": (5.0, 1.0),
    "test/packaging/test_wheel": (12.0, 0.0),
    "test/unit/cli/test_which_cluster": (0.0, 0.05),
    "test/unit/planning/test_hangs": (0.0, 0.2),
}

SESSION_PLANE = pytest.StashKey[SessionPlane]()
# As it is before a conftest.py or a test module below this folder is imported.
ENVIRONMENT = dict(os.environ)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=("real", "embedded"),
        default="real",
        help="which API server tests share: kube-apiserver, or the embedded one, for all tests that it can serve; "
        "with it, tests that need a program of Kubernetes are left out, too",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Nothing of what is collected is garbage; see pytest_collection_finish.
    gc.disable()
    # Shells have what they start in the background ignore Ctrl-C, and all its children inherit that. The programs that
    # the tests start are to be interrupted all the same.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.server == "embedded":
        refuse_programs("with --server=embedded no program is got: the test needs the marker programs(...)")
    worker_input = getattr(config, "workerinput", None)
    if worker_input is None:
        root = Path(tempfile.gettempdir()) / f"tf-operator-test-{os.getpid()}-{secrets.token_hex(4)}"
        config.stash[SESSION_PLANE] = SessionPlane(root, os.getpid())
    else:
        config.stash[SESSION_PLANE] = SessionPlane(Path(worker_input["plane_root"]), worker_input["plane_owner"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "WorkerController") -> None:
    """Tell an xdist worker about the plane of the session."""
    session = node.config.stash[SESSION_PLANE]
    node.workerinput |= {"plane_root": str(session.root), "plane_owner": session.owner}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what runs on an API server, or with programs of Kubernetes: ``make scenarios`` selects by these marks."""
    needs_programs = _needs_programs(item)
    if isinstance(item, pytest.Function) and (SERVER in _fixtures(item) or needs_programs):
        item.add_marker("kubernetes")
        if needs_programs:
            item.add_marker("kubernetes_only")


def _needs_programs(item: pytest.Item) -> bool:
    is_marked = any(item.get_closest_marker(name) for name in ("real_server", "programs"))
    return is_marked or (isinstance(item, pytest.Function) and not BRINGING_PROGRAMS.isdisjoint(_fixtures(item)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have the workers of xdist begin with the longest files, so that none of them begins when the others end.

    xdist hands out whole files in this order (``--no-loadscope-reorder``).
    """
    if config.option.server == "embedded":
        unfit = {item for item in items if _needs_programs(item)}
        items[:] = [item for item in items if item not in unfit]
        config.hook.pytest_deselected(items=list(unfit))
    if hasattr(config, "workerinput"):
        tests = Counter(item.path for item in items)
        seconds = {path: _usual_seconds(str(path.relative_to(config.rootpath)), tests[path]) for path in tests}
        items.sort(key=lambda item: (-seconds[item.path], item.path))


def _usual_seconds(path: str, tests: int) -> float:
    of_file, of_test = next(
        (seconds for begin, seconds in USUAL_SECONDS.items() if path.startswith(begin)), (0.0, 0.01)
    )
    return of_file + of_test * tests


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the servers before the first test: on a new machine it takes longer than a test may."""
    # Thousands of tests stay in memory to the end; without this, each collection of garbage walks over them.
    gc.freeze()
    gc.enable()
    refuse_changed_environment(dict(os.environ))
    if session.config.option.collectonly:
        return
    fixtures = {name for item in session.items if isinstance(item, pytest.Function) for name in _fixtures(item)}
    if session.config.option.server == "real" and SERVER in fixtures:
        fixtures.add("plane_programs")
    servers = plane_setup.binaries(FEATURES) if "plane_programs" in fixtures else []
    monitoring = PROMETHEUS_PROGRAMS if fixtures & {"prometheus", "promtool"} else ()
    nodes = cluster_module.PROGRAMS if "cluster" in fixtures and GivenCluster.from_environment() is None else ()
    others = {name for item in session.items for mark in item.iter_markers("programs") for name in mark.args}
    if names := [*servers, *monitoring, *nodes, *sorted(others)]:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        # What cannot be had fails the tests that want it, each with the reason.
        with capture.global_and_fixture_disabled(), contextlib.suppress(ToolError):
            if unknown := others - Toolbox(os.environ).tools().keys():
                raise pytest.UsageError(f"no tool has the name {', '.join(sorted(unknown))}: see hack/tool --list")
            programs(*names)


def refuse_changed_environment(now: Mapping[str, str]) -> None:
    """Fail the session when a module that was imported has changed the environment of all tests."""
    of_the_runner = ("PYTEST_", "COV_")
    changed = sorted({name for name, _ in ENVIRONMENT.items() ^ now.items() if not name.startswith(of_the_runner)})
    if changed:
        raise pytest.UsageError(
            f"importing the tests changes {', '.join(changed)}, for every test and every program that a test starts: "
            "use monkeypatch in a fixture"
        )


def _fixtures(item: pytest.Function) -> Iterator[str]:
    """Those of ``BRINGING`` that a test has from a conftest.py; a parameter or a fixture of the module may be named so.

    Others are not looked up: for ten thousand tests, in each worker, that was a sixth of the collection.
    """
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    module = item.getparent(pytest.Module)
    for name in BRINGING.intersection(item.fixturenames):
        definitions = item.session._fixturemanager.getfixturedefs(name, item) or ()
        if name not in parameters and definitions and module and definitions[-1].baseid != module.nodeid:
            yield name


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        session = config.stash[SESSION_PLANE]
        plane_module.take_down(session.root)
        plane_module.take_down(session.cluster)


@pytest.fixture(autouse=True)
def _no_state_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test finds a local server of who runs it, or changes what their ``tfjob`` remembers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{secrets.token_hex(4)}"))


@pytest.fixture(scope="session")
def plane_programs() -> Programs:
    """Paths of all servers that a plane can have; a test that starts planes by itself asks for this."""
    return programs(*plane_setup.binaries(FEATURES))


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, fresh_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    """The plane of the session, with controller-manager and audit; shared, so nobody stops anything in it.

    With ``--server=embedded``: one of this process, with the embedded API server.
    """
    if request.config.option.server == "embedded":
        with fresh_plane(*SESSION_FEATURES) as embedded:
            yield embedded
        return
    session = request.config.stash[SESSION_PLANE]
    try:
        plane = ControlPlane.up(session.root, SESSION_FEATURES, owner=session.owner)
    except DirectoryRefusedError:  # another worker was first
        plane = ControlPlane.attach(session.root, patience=START_SECONDS)
    plane.detach()
    yield plane


@pytest.fixture(scope="session")
def fresh_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., ControlPlane]:
    """Start a plane with these features, to be used in a ``with`` block; what it has beside the CRD is up to the test.

    With ``--server=embedded`` it is an embedded one, which always has an audit log.
    """

    def start(*features: str) -> ControlPlane:
        root = tmp_path_factory.mktemp("own") / "plane"
        if is_embedded:
            return EmbeddedPlane.start(root, collects="controller-manager" in features)
        return ControlPlane.up(root, frozenset(features))

    is_embedded = request.config.option.server == "embedded"
    if not is_embedded:
        request.getfixturevalue("plane_programs")
    return start


@pytest.fixture
def own_control_plane(
    request: pytest.FixtureRequest, fresh_plane: Callable[..., ControlPlane]
) -> Iterator[ControlPlane]:
    """A plane for one test that stops or restarts servers; bare, or with what an indirect parameter says."""
    with fresh_plane(*getattr(request, "param", ())) as plane:
        yield plane


@pytest.fixture
def namespace(request: pytest.FixtureRequest, control_plane: ControlPlane) -> str:
    """A fresh namespace in the session's plane; it is left until the plane ends, deleting it costs more."""
    return control_plane.make_namespace(request.node.name)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster | GivenCluster:
    """A real cluster with two nodes: the one that E2E_KUBECONFIG names, or else one of the session's own."""
    if (existing := GivenCluster.from_environment()) is not None:
        return existing
    session = request.config.stash[SESSION_PLANE]
    # Whatever a test runs, kubectl for one, finds the cluster without the proxy that the network outside may need.
    os.environ.update(cluster_network.around_proxies(os.environ))
    try:
        new = Cluster.up(session.cluster, nodes=2, owner=session.owner)
    except UnfitHostError as error:
        pytest.fail(f"{error}; or name a cluster by E2E_KUBECONFIG", pytrace=False)
    except DirectoryRefusedError:  # another worker was first
        return Cluster.attach(session.cluster, patience=START_SECONDS)
    new.detach()
    return new


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A real Prometheus that scrapes nothing yet; each module names jobs of its own in it, and loads its own rules."""
    with Prometheus.up(tmp_path_factory.mktemp("prometheus")) as server:
        yield server


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """The session plane's administrator."""
    async with Api(control_plane.kubeconfig("admin")) as api:
        yield api


@pytest.fixture
async def kubelet(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Kubelet]:
    """The kubelet of the test's namespace."""
    async with Api(control_plane.kubeconfig("kubelet")) as api:
        yield Kubelet(api, namespace)


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Callable[..., str]:
    """The real kubectl, as the administrator, in the test's namespace: call it with its arguments.

    What it prints is returned; a failure is a ``CalledProcessError`` with its complaint as ``stderr``.
    """
    program = programs("kubectl")["kubectl"]
    access = (
        f"--kubeconfig={control_plane.kubeconfig('admin')}",
        f"--cache-dir={tmp_path}",
        f"--namespace={namespace}",
    )

    def run(*arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        command = [program, *access, *arguments]
        process = subprocess.run(command, input=stdin, env=env, capture_output=True, text=True, check=True)
        return process.stdout

    return run


@pytest.fixture
async def local_server(tmp_path: Path) -> AsyncIterator[LocalMachine]:
    """Where ``tfjob local up`` was typed."""
    machine = LocalMachine(tmp_path)
    assert (await machine.run("local", "up"))[0] == 0
    yield machine
    assert (await machine.run("local", "down", "--purge"))[0] == 0
