"""The dashboards on a live operator: every query finds something, and every panel can be drawn without Grafana."""

import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest
import pytest_asyncio

from lab.prometheus.pod_metrics import PodMetrics
from lab.prometheus.server import Target
from rendering import queries
from rendering.queries import Prometheus
from support.settle import eventually

ROOT = Path(__file__).resolve().parents[3]
FILES = {path.stem: path for path in sorted((ROOT / "charts/tf-operator/dashboards").glob("*.json"))}
RENDER = ROOT / "hack" / "render-dashboards"
# Metrics that the operator does not have, and who has them. The panels on them say so.
FOREIGN = {
    "kube_pod_owner": "kube-state-metrics",
    "kube_pod_status_phase": "kube-state-metrics",
    "kube_pod_container_status_waiting_reason": "kube-state-metrics",
    "kube_pod_container_status_last_terminated_reason": "kube-state-metrics",
    "kube_pod_container_status_restarts_total": "kube-state-metrics",
    "kube_pod_container_resource_requests": "kube-state-metrics",
    "container_cpu_usage_seconds_total": "cAdvisor",
    "container_memory_working_set_bytes": "cAdvisor",
    "container_network_receive_bytes_total": "cAdvisor",
    "container_network_transmit_bytes_total": "cAdvisor",
}
SCRAPES = 12
# The first time on a machine, the venv of the renderer is made.
pytestmark = pytest.mark.timeout(700)
# A job of test/support/jobs/workload.py whose pods run all the time.
RUNS_ON = "endless"


def metrics_of(query):
    """The names of the metrics in a query."""
    return set(re.findall(r"(\w+)\{", query))


def is_foreign(panel):
    return any(metrics_of(target["expr"]) & FOREIGN.keys() for target in panel["targets"])


def read(name):
    return json.loads(FILES[name].read_text())


def panels_of(name):
    return [panel for panel in read(name)["panels"] if panel["type"] != "row"]


def ask(prometheus, name, seconds, **wishes):
    span = queries.recent(prometheus, seconds, step=1.0)
    return queries.ask(read(name), prometheus, span, scrape_seconds=1.0, wishes={"name": RUNS_ON} | wishes)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def watched(monitored):
    """The live operator, what other exporters report about its pods, and scrapes enough for every rate."""
    prometheus = monitored.prometheus
    with PodMetrics.up(monitored.plane.admin, [monitored.namespace]) as address:
        prometheus.scrape(Target("pods", address))
        # Of both: the one that is scraped already would pass alone.
        enough = f'count(count_over_time(up{{job=~"tf-operator|pods"}}[1m]) >= {SCRAPES}) == 2'
        await eventually(lambda: prometheus.query(enough), within=60)
        yield monitored


@pytest.mark.parametrize("name", FILES)
def test_every_query_of_every_panel_finds_at_least_one_series(watched, name):
    panels = ask(Prometheus(watched.prometheus.url), name, SCRAPES, job="tf-operator")

    assert [(panel.title, panel.unanswered) for panel in panels if panel.unanswered] == []


def test_every_metric_of_the_panels_is_the_operators_own_or_listed_as_anothers(watched):
    with urlopen(f"{watched.address}/metrics") as answer:
        families = re.findall(r"^# TYPE (\w+) (\w+)$", answer.read().decode(), re.MULTILINE)
    served = {f"{name}_bucket" if kind == "histogram" else name for name, kind in families}

    panels = [panel for name in FILES for panel in panels_of(name)]
    names = {metric for panel in panels for target in panel["targets"] for metric in metrics_of(target["expr"])}

    assert names - served == FOREIGN.keys()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def neighbour(watched):
    """Another installation, for other namespaces, whose numbers happen to be the same."""

    class Door(BaseHTTPRequestHandler):
        def do_GET(self):
            with urlopen(f"{watched.address}/metrics") as answer:
                page = answer.read().replace(watched.namespace.encode(), b"elsewhere")
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Door) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        watched.prometheus.scrape(Target("neighbour", f"127.0.0.1:{server.server_port}"))
        enough = 'count_over_time(up{job="neighbour"}[1m]) >= 5'
        await eventually(lambda: watched.prometheus.query(enough), within=60)
        yield
        server.shutdown()


@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize("name", FILES)
def test_two_operators_for_different_namespaces_can_be_looked_at_together(watched, name):
    panels = ask(Prometheus(watched.prometheus.url), name, 10)

    assert all(panel.lines for panel in panels if not is_foreign(panel.panel))


@pytest.mark.parametrize("name", FILES)
def test_a_panel_on_metrics_of_others_says_who_has_them(name):
    for panel in panels_of(name):
        metrics = {metric for target in panel["targets"] for metric in metrics_of(target["expr"])}
        assert all(FOREIGN[metric] in panel["description"] for metric in metrics & FOREIGN.keys()), panel["title"]
        assert ("Needs " in panel["description"]) == is_foreign(panel), panel["title"]


def render(*arguments):
    return subprocess.run([RENDER, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600)


def test_every_dashboard_is_drawn_with_data_in_every_panel(watched, tmp_path):
    done = render(
        *("--prometheus", watched.prometheus.url, "--output", tmp_path, "--range", "30s", "--scrape-interval", "1s"),
        f"--set=name={RUNS_ON}",
    )

    assert (done.returncode, "no data" in done.stdout) == (0, False), done.stdout + done.stderr
    assert {path.stem for path in tmp_path.glob("*.png") if 20_000 < path.stat().st_size < 200_000} == FILES.keys()


def test_a_panel_without_data_says_so_and_the_command_names_it(watched, tmp_path):
    arguments = ("--prometheus", watched.prometheus.url, "--output", tmp_path, "--range", "30s", "--set", "job=nobody")

    done = render(*arguments, FILES["internals"])

    assert done.returncode == 0
    assert "no data for: Replicas, Leaders, " in done.stdout


@pytest.mark.parametrize(
    ("query", "message"),
    [("sum(up{job=~", "parse error"), ('up{cluster="$cluster"}', "nothing is known of the variable 'cluster'")],
    ids=["refused", "unknown variable"],
)
def test_a_query_without_an_answer_is_an_error_that_names_the_panel(prometheus, query, message):
    body = read("overview")
    body["panels"][1]["targets"][0]["expr"] = query
    server = Prometheus(prometheus.url)

    with pytest.raises(queries.QueryError, match="panel 'Running': ") as error:
        queries.ask(body, server, queries.recent(server, 10, step=1.0), scrape_seconds=1.0, wishes={})
    assert message in str(error.value)
