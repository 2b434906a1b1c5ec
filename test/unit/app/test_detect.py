"""What the operator detects in a cluster before it starts."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from support.embedded.scripted_transport import Routed, ScriptedTransport, client_of
from support.fake_clock import FakeClock
from tf_operator.app.detect import Detector
from tf_operator.machinery.transport import errors
from tf_operator.planning.bodies import gang_schedulers
from tf_operator.planning.kueue import state

SERVED, ABSENT = 1, errors.NotFound(404, errors.Status())
NOTHING = b'{"resources": [{"name": "priorityclasses", "kind": "PriorityClass", "namespaced": false}]}'
WORKLOADS = b'{"resources": [{"name": "workloads", "kind": "Workload", "namespaced": true}]}'
POD_GROUPS = b'{"resources": [{"name": "podgroups", "kind": "PodGroup", "namespaced": true}]}'
FORBIDDEN = errors.Forbidden(403, errors.Status(message="podgroups is forbidden"))


@pytest.mark.parametrize(
    ("answers", "version"),
    [((SERVED, SERVED), "v1beta2"), ((ABSENT, SERVED), "v1beta1"), ((ABSENT, ABSENT), "v1beta2")],
)
async def test_workloads_of_kueue_are_used_in_the_newest_version_that_is_served(answers, version):
    clock = FakeClock()
    servers = {state.workloads(name).api_version: ScriptedTransport(clock) for name in state.VERSIONS}
    for server, answer in zip(servers.values(), answers, strict=True):
        server.script = [NOTHING if answer is ABSENT else WORKLOADS]
        server.position = answer
    detector = Detector(client_of(Routed(servers, part=slice(2, 4)), clock), clock, namespace="")
    finding = asyncio.create_task(detector.kueue_version())
    await clock.idle()

    assert finding.result() == version


@pytest.mark.parametrize(
    ("version", "can"),
    [("1.36", True), ("1.36+", True), ("1.35", False), ("2.0", True), ("1.x", False)],
)
async def test_pods_restart_in_place_from_kubernetes_1_36_on(version, can):
    clock = FakeClock()
    major, minor = version.split(".")
    server = ScriptedTransport(clock)
    server.script, server.position = [json.dumps({"major": major, "minor": minor}).encode()], SERVED

    assert await Detector(client_of(server, clock), clock, namespace="").can_restart_in_place() is can


@pytest.mark.parametrize(
    ("answers", "name", "warnings"),
    [
        ((SERVED, SERVED, SERVED, SERVED), "native", []),
        ((ABSENT, SERVED, SERVED, SERVED), "native-v1alpha2", []),
        ((ABSENT, ABSENT, SERVED, SERVED), "scheduler-plugins-scheduler", []),
        ((ABSENT, ABSENT, ABSENT, SERVED), "volcano", []),
        ((ABSENT, ABSENT, FORBIDDEN, SERVED), "volcano", ["podgroups is forbidden"]),
        ((ABSENT, ABSENT, ABSENT, FORBIDDEN), "", ["podgroups is forbidden"]),
    ],
)
async def test_a_gang_scheduler_is_installed_if_its_pod_groups_are_served_and_may_be_listed(answers, name, warnings):
    clock = FakeClock()
    schedulers = [gang_schedulers.find(scheduler) for scheduler in gang_schedulers.BY_PREFERENCE]
    servers = {scheduler.resource.api_version: ScriptedTransport(clock) for scheduler in schedulers}
    for server, answer in zip(servers.values(), answers, strict=True):
        server.script = [NOTHING if answer is ABSENT else POD_GROUPS]
        server.position = FORBIDDEN if answer is ABSENT else answer  # who asks for what is absent is refused
    detector = Detector(client_of(Routed(servers, part=slice(2, 4)), clock), clock, namespace="")

    with capture_logs() as records:
        finding = asyncio.create_task(detector.gang_scheduler(gang_schedulers.BY_PREFERENCE))
        await clock.idle()

    assert finding.done()
    assert finding.result() == name
    assert [record["error"] for record in records] == warnings
