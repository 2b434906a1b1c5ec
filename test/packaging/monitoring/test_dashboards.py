"""The dashboards on a live operator: every query finds something."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest
import pytest_asyncio

from support.partners.pod_metrics import PodMetrics
from support.partners.prometheus import Target
from support.settle import eventually

ROOT = Path(__file__).resolve().parents[3]
FILES = {path.stem: path for path in sorted((ROOT / "charts/tf-operator/dashboards").glob("*.json"))}
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


def filled(text, values):
    """The text with values in the place of ``$name`` and ``${name:format}``, as Grafana fills them in."""
    return re.sub(r"\$(?:\{(\w+)(?::\w+)?\}|([a-zA-Z_]\w*))", lambda place: values[place[1] or place[2]], text)


def answer_of(prometheus, query):
    """What a query finds; a scrape that is late leaves all series out until the next one."""
    for _ in range(20):
        if samples := prometheus.query(query):
            return samples
        time.sleep(0.5)
    return []


def values_of(prometheus, dashboard, **choices):
    """What Grafana puts in the place of variables, each second being scraped: all of them, or the first there is."""
    values = {"__rate_interval": "4s", "__range": f"{SCRAPES}s", "__range_s": str(SCRAPES)} | choices
    for variable in read(dashboard)["templating"]["list"]:
        if variable["type"] == "datasource" or variable["name"] in choices:
            continue
        if variable["type"] == "textbox":
            values[variable["name"]] = variable["query"]
            continue
        series, label = re.fullmatch(r"label_values\((.+),\s*(\w+)\)", variable["query"]["query"]).groups()
        labels = {sample.labels.get(label, "") for sample in answer_of(prometheus, filled(series, values))}
        values[variable["name"]] = variable.get("allValue") or min(labels)
    return values


def unanswered(prometheus, dashboard, panels, **choices):
    """The queries of these panels that find nothing, by the panel's title."""
    values = values_of(prometheus, dashboard, name=RUNS_ON, **choices)
    expressions = [(panel["title"], filled(target["expr"], values)) for panel in panels for target in panel["targets"]]
    return [(title, expression) for title, expression in expressions if not answer_of(prometheus, expression)]


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
    assert unanswered(watched.prometheus, name, panels_of(name), job="tf-operator") == []


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
    own = [panel for panel in panels_of(name) if not is_foreign(panel)]

    assert unanswered(watched.prometheus, name, own) == []


@pytest.mark.parametrize("name", FILES)
def test_a_panel_on_metrics_of_others_says_who_has_them(name):
    for panel in panels_of(name):
        metrics = {metric for target in panel["targets"] for metric in metrics_of(target["expr"])}
        assert all(FOREIGN[metric] in panel["description"] for metric in metrics & FOREIGN.keys()), panel["title"]
        assert ("Needs " in panel["description"]) == is_foreign(panel), panel["title"]
