"""``tf-operator run`` as a process of its own, with the rights of its role, on a real control plane.

What it does about TFJobs is tested elsewhere; here it starts, tells how it is, hands over, and ends.
"""

import asyncio
import json
import signal
import time
import urllib.error
import urllib.request

import pytest

from support.operators.operator_process import operator, start
from support.resources import LEASES
from support.settle import eventually

METRICS, PROBES = 0, 1
ELECTED = ("--leader-elect",)
LEASE = LEASES.path("tf-operator", "tf-operator")


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read()


async def page(process, which, path):
    return await asyncio.to_thread(fetch, f"{await process.address(which)}{path}")


async def metric(process, line):
    """The value of one series, by all that stands before the value."""
    _, body = await page(process, METRICS, "/metrics")
    (series,) = [text for text in body.decode().splitlines() if text.startswith(f"{line} ")]
    return float(series.rpartition(" ")[2])


def holder(plane):
    return plane.admin.get(LEASE)["spec"]["holderIdentity"]


@pytest.mark.documents("mlkube/deployment")
async def test_it_leads_is_alive_and_ready_and_is_refused_nothing(plane):
    async with operator(plane, arguments=ELECTED, environment={"MY_POD_NAME": "tf-operator-0"}) as process:
        assert holder(plane).startswith("tf-operator-0_")
        assert await page(process, PROBES, "/readyz") == (200, b"ok\n")
        assert await page(process, PROBES, "/healthz") == (200, b"ok\n")
        assert await metric(process, 'leader_election_master_status{name="tf-operator"}') == 1
        _, body = await page(process, METRICS, "/metrics")
        assert b'rest_client_requests_total{code="200"' in body
        assert b'code="403"' not in body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_0_and_the_lease_is_free(plane, number):
    process = await start(plane, arguments=ELECTED)
    await process.wait_for("workers started")
    process.signal(number)

    assert await process.wait() == 0
    assert not process.unexpected()
    assert holder(plane) == ""
    assert [record["message"] for record in process.records][-1] == "ended"


async def test_an_apiserver_that_is_not_there_makes_it_wait_alive_and_not_ready(plane, tmp_path):
    config = json.loads(plane.kubeconfig("operator").read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(json.dumps(config))

    arguments = (f"--kubeconfig={elsewhere}", *ELECTED)
    async with operator(plane, arguments=arguments, until="the watch ended; trying again") as process:
        assert await page(process, PROBES, "/healthz") == (200, b"ok\n")
        status, body = await page(process, PROBES, "/readyz")
        assert status == 500
        assert b"the cache of tfjobs.kubeflow.org has not synced\n" in body
        assert process.records_of("the watch ended; trying again")[0]["cause"] == "Unreachable"


async def test_an_event_loop_that_is_stuck_fails_the_probe_within_ten_seconds_and_metrics_still_answer(plane):
    process = await start(plane, arguments=["--leader-elect=false"], probe={"block": 60, "computes": True})
    await process.wait_for("workers started")
    assert (await page(process, PROBES, "/healthz"))[0] == 200
    process.signal(signal.SIGUSR2)
    stuck_at = time.monotonic()

    async def fails():
        asked_at = time.monotonic()
        status, body = await page(process, PROBES, "/healthz")
        return status == 500 and (body, asked_at)

    body, asked_at = await eventually(fails, within=30, every=0.2)
    assert asked_at - stuck_at < 10
    assert body.startswith(b"the event loop has been blocked for ")
    assert await metric(process, "tf_operator_event_loop_heartbeat_age_seconds") > 5
    await process.kill()
