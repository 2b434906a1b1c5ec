"""What the clients of the process find out before it starts."""

import asyncio

import pytest
from structlog.testing import capture_logs

from support.fake_clock import FakeClock
from support.scripted_transport import Routed, ScriptedTransport, client_of
from tf_operator.app.clients import Clients
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options.options import Options
from tf_operator.machinery.transport import errors

SERVED, ABSENT = 1, errors.NotFound(404, errors.Status())
FORBIDDEN = errors.Forbidden(403, errors.Status(message="podgroups is forbidden"))


@pytest.mark.parametrize(
    ("answers", "name", "warnings"),
    [
        ((SERVED, SERVED), "scheduler-plugins-scheduler", []),
        ((ABSENT, SERVED), "volcano", []),
        ((FORBIDDEN, SERVED), "volcano", ["podgroups is forbidden"]),
        ((ABSENT, FORBIDDEN), "", ["podgroups is forbidden"]),
    ],
)
async def test_a_gang_scheduler_is_installed_if_its_pod_groups_are_served_and_may_be_listed(
    kubeconfig, monkeypatch, answers, name, warnings
):
    clock = FakeClock()
    servers = {"scheduling.x-k8s.io": ScriptedTransport(clock), "scheduling.volcano.sh": ScriptedTransport(clock)}
    for server, answer in zip(servers.values(), answers, strict=True):
        server.position = answer
    monkeypatch.setattr(Clients, "webhook", lambda _: client_of(Routed(servers, part=2), clock))

    with capture_logs() as records:
        finding = asyncio.create_task(Clients(Options(kubeconfig=kubeconfig), clock, Metrics()).gang_scheduler())
        await clock.idle()

    assert finding.done()
    assert finding.result() == name
    assert [record["error"] for record in records] == warnings
