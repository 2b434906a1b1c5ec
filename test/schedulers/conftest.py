"""A control plane with a scheduler that knows gangs, nodes without a kubelet, and who plays the kubelet on them.

One plane for each scheduler, because etcd numbers the writes of one plane. ``make schedulers`` chooses Kubernetes 1.37.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from lab.control_plane import servers
from lab.control_plane.plane import ControlPlane
from lab.tools.get import programs
from support.operators.operator_fixture import make_namespaces, make_operator_fixture
from support.pods.gangs import GangCluster
from support.pods.pod_groups import PLUGINS

RBAC = Path(__file__).resolve().parents[2] / "manifests" / "rbac"
PLUGINS_NAME = "scheduler-plugins-scheduler"
CONFIG = """\
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection: {{leaderElect: false}}
    clientConnection: {{kubeconfig: {kubeconfig}, qps: 500, burst: 1000}}
    podInitialBackoffSeconds: 1
    podMaxBackoffSeconds: 2
    profiles:
    - schedulerName: {name}
      plugins:
        multiPoint:
          enabled: [{{name: Coscheduling}}]
        queueSort:
          disabled: [{{name: "*"}}]
          enabled: [{{name: Coscheduling}}]
      pluginConfig:
      - name: Coscheduling
        args: {{permitWaitingTimeSeconds: 10, podGroupBackoffSeconds: 3}}
"""
"""A gang that does not become whole gives its places back after ten seconds: what others hold for so long is room for
nobody. Its pods must all come back within that time, so the longest backoff is shorter: by default it is as long. A
gang that was rejected leaves the room to another one for a while: else two that hold a part each reject each other."""


@pytest.fixture(scope="module", params=["native", PLUGINS_NAME], ids=["native", "scheduler-plugins"])
def gang_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ControlPlane, str]]:
    """A plane, and the ``--gang-scheduler-name`` of its scheduler."""
    root = tmp_path_factory.mktemp("gangs")
    with ControlPlane.up(
        root / "plane", frozenset({"audit", "controller-manager", "scheduler", servers.GANGS})
    ) as plane:
        if request.param == "native":
            for path in sorted((RBAC / "native-gangs").glob("*.yaml")):
                plane.grant(yaml.safe_load(path.read_text()))
        else:
            _start_scheduler_plugins(plane, root)
        yield plane, request.param


def _start_scheduler_plugins(plane: ControlPlane, root: Path) -> None:
    """The scheduler of that name, with the CRD that comes with it."""
    plane.grant(yaml.safe_load((Path(__file__).parent / "scheduler-plugins-podgroups.yaml").read_text()))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "test-scheduler-plugins"}}
    rules = [{"apiGroups": [PLUGINS.group], "resources": ["*"], "verbs": ["*"]}]
    plane.grant({**role, "kind": "ClusterRole", "rules": rules})
    to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test-scheduler-plugins"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    plane.grant({**role, "kind": "ClusterRoleBinding", "roleRef": to, "subjects": [user]})
    config = root / "scheduler.yaml"
    config.write_text(dedent(CONFIG).format(kubeconfig=plane.kubeconfig("scheduler"), name=PLUGINS_NAME))
    programs("scheduler-plugins")
    plane.launcher.start(servers.scheduler_plugins(plane.layout, config))


@pytest.fixture
def gang_cluster(gang_plane: tuple[ControlPlane, str]):
    """A function that has an operator work on the plane, with room for so many pods on nodes of this size."""
    plane, scheduler = gang_plane

    @asynccontextmanager
    async def make(*, room: int, a_node: int = 10, seconds: float = 0.2) -> AsyncIterator[GangCluster]:
        [namespace] = await make_namespaces(plane, "gangs", 1)
        arguments = (f"--gang-scheduler-name={scheduler}",)
        async with (
            make_operator_fixture(plane, namespaces=[namespace], arguments=arguments) as operator,
            GangCluster(operator.job_namespace(), scheduler, seconds=seconds) as cluster,
            cluster.nodes(room=room, a_node=a_node),
        ):
            yield cluster

    return make
