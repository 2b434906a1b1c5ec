"""``tf-operator run`` as a process of its own, with the rights of its role, on a real control plane.

What it does about TFJobs is tested elsewhere; here it starts, tells how it is, hands over, and ends.
"""

import asyncio
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.operator_process import operator, start
from support.resources import LEASES

ROOT = Path(__file__).resolve().parents[3]
METRICS, PROBES = 0, 1
ELECTED = ("--leader-elect",)
LEASE = LEASES.path("tf-operator", "tf-operator")


def fetch(url, **headers):
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read(), reply.headers
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read(), refusal.headers


async def page(process, which, path, **headers):
    return await asyncio.to_thread(fetch, f"{await process.address(which)}{path}", **headers)


async def metric(process, line):
    """The value of one series, by all that stands before the value."""
    _, body, _ = await page(process, METRICS, "/metrics")
    (found,) = [text for text in body.decode().splitlines() if text.startswith(f"{line} ")]
    return float(found.rpartition(" ")[2])


def holder(plane):
    return plane.admin.get(LEASE)["spec"]["holderIdentity"]


@pytest.fixture(scope="module")
def promtool():
    done = subprocess.run([ROOT / "hack" / "tool", "promtool"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


async def test_it_leads_is_alive_and_ready_and_is_refused_nothing(plane):
    async with operator(plane, arguments=ELECTED, environment={"MY_POD_NAME": "tf-operator-0"}) as process:
        assert holder(plane).startswith("tf-operator-0_")
        assert (await page(process, PROBES, "/readyz"))[:2] == (200, b"ok\n")
        assert (await page(process, PROBES, "/healthz"))[:2] == (200, b"ok\n")
        assert await metric(process, 'leader_election_master_status{name="tf-operator"}') == 1
        _, body, _ = await page(process, METRICS, "/metrics")
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


async def test_a_second_signal_ends_it_at_once_whatever_it_waits_for(plane):
    process = await start(plane, arguments=ELECTED)
    await process.wait_for("workers started")
    apiserver = plane.servers["kube-apiserver"]
    apiserver.pause()
    try:
        process.signal(signal.SIGTERM)  # it cannot release the Lease now
        await process.wait_for("stopping")
        process.signal(signal.SIGTERM)

        assert await process.wait(within=3) == 128 + signal.SIGTERM
    finally:
        apiserver.resume()


async def test_an_apiserver_that_is_not_there_makes_it_wait_alive_and_not_ready(plane, tmp_path):
    config = json.loads(plane.kubeconfig("operator").read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(json.dumps(config))

    arguments = (f"--kubeconfig={elsewhere}", *ELECTED)
    async with operator(plane, arguments=arguments, until="the watch ended; trying again") as process:
        assert (await page(process, PROBES, "/healthz"))[:2] == (200, b"ok\n")
        status, body, _ = await page(process, PROBES, "/readyz")
        assert status == 500
        assert b"the cache of tfjobs.kubeflow.org has not synced\n" in body
        assert process.said("the watch ended; trying again")[0]["cause"] == "Unreachable"


def run(*arguments, **environment):
    """A process that is expected to end by itself: exit code, and the lines it has written."""
    command = [sys.executable, "-m", "tf_operator", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "there is no kubeconfig at"), ("{", "kubeconfig"), ('{"current-context": "x"}', "x")],
    ids=["missing", "not YAML", "without its context"],
)
def test_a_kubeconfig_that_is_no_good_is_one_clear_line(content, said, tmp_path):
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    code, lines = run("run", f"--kubeconfig={path}", "--metrics-bind-address=0", "--health-probe-bind-address=0")

    last = json.loads(lines[-1])
    assert code == 1
    assert last["message"] == "cannot start"
    assert said in last["error"]
    assert "exception" not in last


def test_logs_for_people_have_no_braces_and_no_colours_in_a_file(tmp_path):
    code, lines = run("run", "--kubeconfig=/no/such/file", "--log-format=console", "--metrics-bind-address=127.0.0.1:0")

    assert code == 1
    assert all(line.isprintable() and not line.startswith("{") for line in lines)
