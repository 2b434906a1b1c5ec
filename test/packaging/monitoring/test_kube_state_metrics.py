"""The configuration of kube-state-metrics is one that it reads, and gives what a TFJob's status says."""

from datetime import datetime
from pathlib import Path

import pytest
import yaml

from tf_operator.dialects.kubeflow.conditions import ConditionType

ROOT = Path(__file__).resolve().parents[3]
CONFIG = yaml.safe_load((ROOT / "manifests/monitoring/kube-state-metrics.yaml").read_text())
(RESOURCE,) = CONFIG["spec"]["resources"]
CRD = yaml.load((ROOT / "manifests/crd/tfjobs.yaml").read_text(), Loader=yaml.CSafeLoader)["spec"]
# The fields of its Go types; what it does not know it refuses.
LABELS = {"commonLabels", "labelsFromPath"}
FIELDS = {
    "resource": LABELS | {"metricNamePrefix", "groupVersionKind", "resourcePlural", "metrics", "errorLogV"},
    "metric": LABELS | {"name", "help", "each", "errorLogV"},
    "gauge": {"path", "labelsFromPath", "labelFromKey", "valueFrom", "valueType", "nilIsZero"},
    "stateSet": {"path", "labelsFromPath", "list", "labelName", "valueFrom"},
    "info": {"path", "labelsFromPath", "labelFromKey"},
}
SCHEMA = CRD["versions"][0]["schema"]["openAPIV3Schema"]
metrics = pytest.mark.parametrize("metric", RESOURCE["metrics"], ids=lambda metric: metric["name"])


def kind_of(metric):
    return metric["each"]["type"][0].lower() + metric["each"]["type"][1:]


def at(body, path):
    """What kube-state-metrics finds: fields by name, and elements of a list by number."""
    for part in path:
        if isinstance(body, dict):
            body = body.get(part)
        elif isinstance(body, list) and -len(body) <= int(part) < len(body):
            body = body[int(part)]
        else:
            return None
    return body


def number(value):
    return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else float(value)


def samples(metric, job):
    """The values of one metric, by the label that tells them apart."""
    kind = kind_of(metric)
    rule = metric["each"][kind]
    found = at(job, rule["path"])
    if kind == "stateSet":
        state = at(found, rule["valueFrom"])
        return {} if state is None else {entry: float(entry == state) for entry in rule["list"]}
    if kind == "info":
        return {at(found, path): 1.0 for path in rule["labelsFromPath"].values() if at(found, path) is not None}
    elements = found if "labelFromKey" in rule else {"": found}
    values = {key: at(element, rule.get("valueFrom", [])) for key, element in (elements or {}).items()}
    if rule.get("nilIsZero"):
        values = {key: 0 if value is None else value for key, value in values.items()}
    return {key: number(value) for key, value in values.items() if value is not None}


def golden(case):
    """A TFJob as it is stored after a plan of the operator."""
    job = yaml.safe_load((ROOT / f"test/golden/{case}.input.yaml").read_text())["job"]
    status = yaml.safe_load((ROOT / f"test/golden/{case}.plan.yaml").read_text())["status"]
    job["metadata"]["creationTimestamp"] = "2026-03-01T08:00:00Z"
    return job if status == "unchanged" else merged(job, {"status": status})


def merged(body, patch):
    new = {key: value for key, value in body.items() if patch.get(key, "") is not None}
    for key, value in patch.items():
        if value is not None:
            new[key] = merged(body.get(key) or {}, value) if isinstance(value, dict) else value
    return new


def scrape(job):
    return {metric["name"]: samples(metric, job) for metric in RESOURCE["metrics"]}


def test_the_configuration_has_no_field_that_kube_state_metrics_does_not_know():
    assert set(CONFIG) == {"kind", "spec"}
    assert set(CONFIG["spec"]) == {"resources"}
    assert set(RESOURCE) <= FIELDS["resource"]
    assert CONFIG["kind"] == "CustomResourceStateMetrics"
    assert RESOURCE["groupVersionKind"] == {
        "group": CRD["group"],
        "version": CRD["versions"][0]["name"],
        "kind": CRD["names"]["kind"],
    }


@metrics
def test_a_metric_has_a_kind_that_exists_and_all_that_this_kind_needs(metric):
    kind = kind_of(metric)
    rule = metric["each"][kind]

    assert set(metric) <= FIELDS["metric"]
    assert set(metric["each"]) == {"type", kind}
    assert set(rule) <= FIELDS[kind]
    assert all(isinstance(part, str) for part in rule["path"])
    assert metric["help"].endswith(".")
    assert metric["name"].endswith("_info") == (kind == "info")
    assert kind != "stateSet" or {"list", "labelName", "valueFrom"} <= set(rule)


def test_every_state_of_a_job_is_listed():
    (states,) = [metric["each"]["stateSet"]["list"] for metric in RESOURCE["metrics"] if metric["name"] == "state"]

    assert set(states) == set(ConditionType)


RUNNING = {
    "created": {"": 1772352000.0},
    "state": {"Running"},
    "state_info": {"TFJobRunning": 1.0},
    "start_time": {"": 1772352000.0},
    "completion_time": {},
    "restarts": {"": 2.0},
    "disruptions": {"": 0.0},
    "spec_replicas": {"Worker": 2.0},
    "replicas_active": {"Worker": 2.0},
    "replicas_failed": {"Worker": 0.0},
}
FAILED = {
    "state": {"Failed"},
    "state_info": {"TFJobFailed": 1.0},
    "completion_time": {"": 1772352030.0},
    "replicas_failed": {"Chief": 1.0, "PS": 0.0, "Worker": 0.0},
    "replicas_pending": {"Chief": 0.0, "PS": 2.0, "Worker": 4.0},
}
NEW = {"state": set(), "state_info": {}, "start_time": {}, "replicas_active": {}, "spec_replicas": {"Worker": 2.0}}


@pytest.mark.parametrize(
    ("case", "has_status", "wanted"),
    [
        ("restart-in-place-is-counted-once", True, RUNNING),
        ("status-chief-failed", True, FAILED),
        ("restart-in-place-is-counted-once", False, NEW),
    ],
    ids=["running", "failed", "without a status"],
)
def test_the_metrics_say_what_the_status_says(case, has_status, wanted):
    job = golden(case)
    found = scrape(job if has_status else job | {"status": {}})
    found["state"] = {state for state, value in found["state"].items() if value}

    assert {name: found[name] for name in wanted} == wanted


def has_field(schema, path):
    """Whether the schema of the CRD has this field; that of metadata is not in there."""
    for part in path:
        if part.lstrip("-").isdigit():
            schema = schema["items"]
        elif part in schema.get("properties", {}):
            schema = schema["properties"][part]
        else:
            return False
    return True


@metrics
def test_a_metric_reads_fields_that_a_tfjob_has(metric):
    rule = metric["each"][kind_of(metric)]
    below = [rule.get("valueFrom", []), *rule.get("labelsFromPath", {}).values()]
    schema, path = SCHEMA, rule["path"]
    if "labelFromKey" in rule:
        for part in path:
            schema = schema["properties"][part]
        schema, path = schema.get("additionalProperties") or next(iter(schema["properties"].values())), []
    assert path[:1] == ["metadata"] or all(has_field(schema, [*path, *more]) for more in below)
