"""The rules: what promtool says of them, that each alert is shown to fire and to be silent, and that each can be met.

The cases are in ``alerts/``, in promtool's own form.
"""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from pages.all_metrics import full_registry
from support.partners.helm import CHART, Helm, one

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "manifests" / "monitoring" / "alerts.yaml"
CASES = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
RUNBOOKS = ROOT / "docs" / "runbooks"
PAGE = (ROOT / "docs" / "monitoring.md").read_text()

GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
alerts = pytest.mark.parametrize("rule", ALERTS.values(), ids=ALERTS)

# Who scrapes gives these to every series.
OF_TARGETS = {"job", "namespace", "instance"}


def cases():
    return [case for path in CASES for case in yaml.safe_load(path.read_text())["tests"]]


def selectors(expression):
    """The metrics that an expression asks for, each with the text in its braces."""
    return re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", expression)


def grouped(expression):
    """The labels by which it groups or matches."""
    return {label for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in names.split(", ")}


SERIES = {sample.name: set(sample.labels) for family in full_registry().collect() for sample in family.samples}
SERIES["up"] = set()  # Prometheus' own


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_promtool_sees_each_alert_fire_and_be_silent_as_the_cases_say(promtool, path):
    process = subprocess.run(
        [promtool, "test", "rules", path.name], cwd=path.parent, capture_output=True, text=True, check=False
    )

    assert process.returncode == 0, process.stdout + process.stderr


def test_every_alert_fires_exactly_once_in_a_case_of_its_own_and_is_silent_in_another():
    fires, silent = set(), set()
    for case in cases():
        (test,) = case["alert_rule_test"]
        name, verb = case["name"].split()[0], case["name"].split(":")[0].partition(" ")[2]
        assert test["alertname"] == name, case["name"]
        assert len(test["exp_alerts"]) == {"fires": 1, "is silent": 0}[verb], case["name"]
        (fires if test["exp_alerts"] else silent).add(name)

    assert fires == silent == set(ALERTS)


@alerts
def test_an_alert_asks_only_for_metrics_and_labels_that_the_operator_exposes(rule):
    pairs = selectors(rule["expr"])
    assert pairs

    for metric, matchers in pairs:
        assert metric in SERIES
        matched = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert matched <= SERIES[metric] | OF_TARGETS, metric
    labels = set().union(*(SERIES[metric] for metric, _ in pairs)) | OF_TARGETS
    assert grouped(rule["expr"]) <= labels
    # A metric without braces would be that of every program in the cluster.
    rest = re.sub(r"\w+\{[^}]*\}(\[\w+\])?( offset \w+)?|\[\w+:\w+\]|\b(?:by|on) \([^)]*\)", "", rule["expr"])
    assert set(re.findall(r"[a-zA-Z_]\w*", re.sub(r"\w+\s*(?=\()", "", rest))) <= {"and", "or", "unless"}


@alerts
def test_an_alert_is_about_this_installation_and_groups_by_namespaces_and_never_by_jobs(rule):
    by = grouped(rule["expr"])

    assert all('job="tf-operator"' in matchers for _, matchers in selectors(rule["expr"]))
    assert "namespace" in by
    assert not {"pod", "job_name", "uid"} & by
    assert ("job_namespace" in by) == rule["alert"].startswith("TFJob")


@alerts
def test_an_alert_says_what_is_wrong_where_and_how_severe(rule):
    notes = rule["annotations"]

    assert set(notes) == {"summary", "description"}
    assert set(rule["labels"]) == {"severity"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert "{{" not in notes["summary"], "whoever groups alerts shows it once for all of them"
    assert "$labels.namespace" in notes["description"] or "$labels.job_namespace" in notes["description"]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert():
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == set(ALERTS)


def yaml_blocks():
    """The configurations on the page on monitoring: that of a plain Prometheus, and values of the chart."""
    return re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_plain_configuration_on_the_page_is_one_that_prometheus_takes(promtool, tmp_path):
    (config,) = [block for block in yaml_blocks() if "scrape_configs" in block]
    (tmp_path / "prometheus.yaml").write_text(config)
    (tmp_path / "alerts.yaml").write_text((CHART / "rules" / "alerts.yaml").read_text())

    process = subprocess.run(
        [promtool, "check", "config", "prometheus.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert process.returncode == 0, process.stdout + process.stderr
    assert f"{len(ALERTS)} rules found" in process.stdout


def test_the_values_on_the_page_are_values_of_the_chart(tmp_path):
    (values,) = [yaml.safe_load(block) for block in yaml_blocks() if "prometheusRule" in block]

    rule = one(Helm("helm-3", tmp_path).objects(values), "PrometheusRule")

    by_alert = {entry["alert"]: entry for group in rule["spec"]["groups"] for entry in group["rules"]}
    assert set(ALERTS) - set(by_alert) == {"TFOperatorRateLimited"}
    assert (by_alert["TFJobsFailing"]["for"], by_alert["TFJobsFailing"]["labels"]["severity"]) == ("1h", "info")
    assert by_alert["TFJobsFailing"]["annotations"]["runbook_url"].startswith("https://wiki.example/")
