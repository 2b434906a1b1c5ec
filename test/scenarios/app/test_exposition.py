"""Prometheus' own linter, the real program, has nothing to say about what the operator exposes."""

import subprocess
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from tf_operator.app.metrics.registry import Metrics
from tf_operator.controller.instruments import ReconcileResult

HACK_TOOL = Path(__file__).resolve().parents[3] / "hack" / "tool"


@pytest.fixture(scope="module")
def promtool():
    done = subprocess.run([HACK_TOOL, "promtool"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def used_metrics():
    """Measures of a process in which everything has happened at least once."""
    metrics = Metrics(workers=16, lease="tf-operator", namespaces=["ns"])
    client, pods = metrics.client("https://10.0.0.1"), metrics.reflector("pods")
    client.replied("get", "<error>", 0.1)
    client.retried("create", "Unreachable")
    pods.listed(1, 0.1)
    pods.relisted("asked")
    metrics.election.attempted("Unreachable")
    metrics.controllers["tfjob-controller"].reconciles.began()
    metrics.controllers["tfjob-controller"].reconciles.ended(ReconcileResult.ERROR, 0.1)
    metrics.jobs["tensorflow"].failed("ns", 'a reason with "quotes", a \\ and a\nline')
    metrics.jobs["tensorflow"].restarted("ns", replica_type="Worker", reason="ExitCode")
    metrics.loop.lagged(0.1)
    metrics.sample()
    return metrics


def test_promtool_finds_nothing_wrong_with_any_metric(promtool):
    page = generate_latest(used_metrics().registry)
    done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
