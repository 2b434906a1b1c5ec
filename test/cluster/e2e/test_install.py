"""The installed operator: the chart's own test, and its metrics as Prometheus sees them."""

import re
import subprocess

import pytest

from support.jobs.real_namespace import small_job
from support.partners.prometheus import Target
from support.settle import eventually


def test_helm_test_succeeds_and_tells_what_the_job_did(operator):
    told = operator.helm.ok("test", "tf", "--namespace", "tf-operator", "--logs", "--timeout", "95s")

    assert re.search(r"^Phase: +Succeeded$", told, re.MULTILINE)
    assert "(TFJobSucceeded)" in told


@pytest.fixture
def forwarded(operator):
    """The leader's port of metrics, on this machine."""
    command = operator.kubectl.command("port-forward", f"pod/{operator.leader()}", ":8080")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            yield re.fullmatch(r"Forwarding from (127\.0\.0\.1:\d+) -> 8080\n", line)[1]
        finally:
            process.terminate()


async def test_prometheus_scrapes_the_leader_and_counts_jobs(here, forwarded, prometheus, counts):
    prometheus.scrape(Target("tf-operator", forwarded, {"namespace": "tf-operator"}))
    here.kubectl.create(small_job("j", counts))
    await here.wait_state("j", "Succeeded", within=90)

    counted = f'training_operator_jobs_successful_total{{job_namespace="{here.name}"}}'

    def is_seen():
        assert prometheus.value(counted) == 1
        assert prometheus.value('up{job="tf-operator"}') == 1
        assert prometheus.value("leader_election_master_status") == 1
        return True

    # Together: a scrape that is late leaves all series out until the next one.
    await eventually(is_seen, within=30, every=0.5)
