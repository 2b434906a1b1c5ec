"""The alerts on a live operator: silent while all is well, and loud when it is not."""

import asyncio
import re
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from support.api import Api
from support.jobs import builders
from support.operators import operator_process
from support.operators.operator_process import OperatorProcess
from support.partners.prometheus import Prometheus, Target
from support.pods.autopilot import autopilot
from support.pods.kubelet import Kubelet
from support.pods.pod_scripts import Script, failing, running
from support.pods.pod_status import Exit
from support.resources import LEASES, TFJOBS
from support.settle import eventually

# A lead that is lost is taken over in seconds.
QUICK_ELECTION = tuple(
    f"--leader-election-{name}" for name in ("lease-duration=12s", "renew-deadline=9s", "retry-period=1s")
)
# What the fixture ``monitored`` gives to the operator that is well.
LABELS = {"namespace": "jobs", "pod": "tf-operator-0"}
ROOT = Path(__file__).resolve().parents[3]
RULES = (ROOT / "manifests" / "monitoring" / "alerts.yaml").read_text()
in_session = pytest.mark.asyncio(loop_scope="session")


def hasty(text):
    """The same rules, which wait for nothing: a condition that holds once is an alert."""
    body = yaml.safe_load(text)
    for group in body["groups"]:
        for rule in group["rules"]:
            rule["for"] = "0s"
    return yaml.safe_dump(body)


@in_session
async def test_no_alert_fires_while_all_is_well_although_jobs_fail_and_restart_and_wait(monitored):
    prometheus = monitored.prometheus
    prometheus.load_rules(hasty(RULES))

    def evaluated():
        assert {rule["health"] for rule in prometheus.rules()} == {"ok"}, prometheus.rules()
        return prometheus.value('min(count_over_time(up{job="tf-operator"}[1h]))') >= 15

    await eventually(evaluated, within=60)
    await eventually(lambda: prometheus.alerts() == [], within=30)
    prometheus.load_rules()


def test_the_metrics_of_an_operator_that_has_been_through_a_lot_have_no_flaw(monitored, promtool):
    with urlopen(f"{monitored.address}/metrics") as answer:
        page = answer.read()

    process = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)

    assert (process.returncode, process.stdout + process.stderr) == (0, b"")


def queries_in(text):
    """The queries of a page: blocks of PromQL, one a line, and what tables of queries have in backticks."""
    blocks = re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
    tables = re.findall(r"^\|[^|\n]*\| quer(?:y|ies) \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [query for table in tables for query in re.findall("`([^`]+)`", table)]
    return [*"\n".join(blocks).split("\n"), *cells]


PAGES = [ROOT / "docs" / "monitoring.md", *sorted((ROOT / "docs" / "runbooks").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_query_of_the_documentation_is_one_that_prometheus_answers(monitored, page):
    text = page.read_text().replace("NAMESPACE", monitored.namespace)

    for query in filter(None, queries_in(text)):
        monitored.prometheus.query(query)


@in_session
async def test_every_query_of_the_page_on_monitoring_finds_series(monitored):
    # What kube-state-metrics would export is not there.
    queries = {query for query in queries_in(PAGES[0].read_text()) if query and "kube_tfjob" not in query}
    assert len(queries) >= 10

    def are_all_answered():
        assert [query for query in queries if not monitored.prometheus.query(query)] == []
        return True

    await eventually(are_all_answered, within=30, every=1)


@dataclass(frozen=True, slots=True)
class Installation:
    """An operator to which something happens."""

    process: OperatorProcess
    namespace: str
    """The one that they serve, and where they pretend to be."""
    prometheus: Prometheus
    """One that scrapes them, and the operator that is well; nobody else's series are touched."""

    def alerts(self):
        """The alerts about it."""
        return {alert.name: alert for alert in self.prometheus.alerts() if alert.labels["namespace"] == self.namespace}

    async def told(self, name):
        """The alerts, when this is the only one: a scrape that is late makes others for a second."""

        def alone():
            alerts = self.alerts()
            assert set(alerts) == {name}, sorted(alerts)
            return alerts

        return await eventually(alone, within=60)

    def others(self):
        """The alerts about the healthy operator."""
        return [alert.name for alert in self.prometheus.alerts() if alert.labels["namespace"] != self.namespace]


@asynccontextmanager
async def installed(monitored, folder):
    """An installation with a Lease of its own; run by the administrator, because the role names the Lease."""
    namespace = await asyncio.to_thread(monitored.plane.make_namespace, "victim")
    arguments = (*("--leader-election-id=victim", "--leader-election-namespace=default"), *QUICK_ELECTION)
    process = await operator_process.start(monitored.plane, namespaces=[namespace], arguments=arguments, user="admin")
    # With the label that the rules ask for, in a place that nobody else has.
    labels = {"job": "tf-operator", "namespace": namespace, "pod": "victim-0"}
    target = Target("victim", await process.address(), labels)
    try:
        with Prometheus.up(folder / "prometheus") as prometheus:
            prometheus.scrape(Target("tf-operator", monitored.address, LABELS), target)
            leaders = "count(leader_election_master_status == 1) == 2"
            await eventually(lambda: prometheus.query(f"({leaders}) and count(up == 1) == 2"), within=60)
            prometheus.load_rules(hasty(RULES))
            await eventually(lambda: {rule["health"] for rule in prometheus.rules()} == {"ok"}, within=30)
            await eventually(lambda: prometheus.alerts() == [], within=30)
            yield Installation(process, namespace, prometheus)
    finally:
        if process.exit_code is None:
            await process.terminate()
        monitored.plane.admin.delete(LEASES.path("default", "victim"))


@in_session
async def test_jobs_that_fail_are_told_for_their_namespace_although_they_are_its_first(monitored, tmp_path):
    plane = monitored.plane
    script = Script().otherwise([running(), failing(Exit(1))])
    async with (
        Api(plane.kubeconfig("admin")) as admin,
        Api(plane.kubeconfig("kubelet")) as nodes,
        installed(monitored, tmp_path) as victim,
        autopilot(Kubelet(nodes, victim.namespace), script),
    ):
        for number in range(3):
            job = builders.tfjob(f"broken-{number}").workers(1, restart="Never").body()
            await admin.create(TFJOBS.path(victim.namespace), job)
        told = await victim.told("TFJobsFailing")

        assert told["TFJobsFailing"].labels["job_namespace"] == victim.namespace
        assert told["TFJobsFailing"].annotations["description"].startswith("100% of the tensorflow jobs that ended")
        await eventually(lambda: victim.others() == [], within=30)


@in_session
async def test_a_lost_lead_and_then_a_dead_process_are_told_by_their_alerts_and_by_no_other(monitored, tmp_path):
    async with installed(monitored, tmp_path) as victim:
        # Somebody else has the Lease, and keeps it.
        lease = {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600}}
        monitored.plane.admin.patch(LEASES.path("default", "victim"), lease)
        told = await victim.told("TFOperatorNoLeader")
        assert told["TFOperatorNoLeader"].labels == {
            "alertname": "TFOperatorNoLeader",
            "severity": "critical",
            "namespace": victim.namespace,
            "name": "victim",
        }

        # Nobody scrapes it any more: whether it leads is not known, and that is another alert.
        await victim.process.kill()
        await eventually(lambda: set(victim.alerts()) == {"TFOperatorDown"}, within=30)
        await eventually(lambda: victim.others() == [], within=30)
