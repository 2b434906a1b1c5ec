"""The configuration of kube-state-metrics is one that it reads, and gives what the status of a job says."""

from datetime import datetime
from pathlib import Path

import pytest
import yaml

from support.jobs.recorded_jobs import golden
from tf_operator.dialects import phases, registry
from tf_operator.dialects.kubeflow.conditions import ConditionType
from tf_operator.dialects.t9k.conditions import T9kPhase

ROOT = Path(__file__).resolve().parents[3]
CONFIG = yaml.safe_load((ROOT / "manifests/monitoring/kube-state-metrics.yaml").read_text())
RESOURCES = {entry["groupVersionKind"]["kind"]: entry for entry in CONFIG["spec"]["resources"]}
APIS = {kind: registry.find(f"{kind}.{entry['groupVersionKind']['group']}") for kind, entry in RESOURCES.items()}
# The fields of its Go types; what it does not know it refuses.
LABELS = {"commonLabels", "labelsFromPath"}
FIELDS = {
    "resource": LABELS | {"metricNamePrefix", "groupVersionKind", "resourcePlural", "metrics", "errorLogV"},
    "metric": LABELS | {"name", "help", "each", "errorLogV"},
    "gauge": {"path", "labelsFromPath", "labelFromKey", "valueFrom", "valueType", "nilIsZero"},
    "stateSet": {"path", "labelsFromPath", "list", "labelName", "valueFrom"},
    "info": {"path", "labelsFromPath", "labelFromKey"},
}
metrics = pytest.mark.parametrize(
    ("kind", "metric"),
    [
        pytest.param(kind, metric, id=f"{kind} {metric['name']}")
        for kind, entry in RESOURCES.items()
        for metric in entry["metrics"]
    ],
)


def type_of(metric):
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
    kind = type_of(metric)
    rule = metric["each"][kind]
    value_at_path = at(job, rule["path"])
    if kind == "stateSet":
        state = at(value_at_path, rule.get("valueFrom", []))
        return {} if state is None else {entry: float(entry == state) for entry in rule["list"]}
    if kind == "info":
        return {
            at(value_at_path, path): 1.0
            for path in rule["labelsFromPath"].values()
            if at(value_at_path, path) is not None
        }
    if isinstance(value_at_path, list):
        (path,) = rule["labelsFromPath"].values()
        elements = {at(element, path): element for element in value_at_path}
    else:
        elements = value_at_path if "labelFromKey" in rule else {"": value_at_path}
    values = {key: at(element, rule.get("valueFrom", [])) for key, element in (elements or {}).items()}
    if rule.get("nilIsZero"):
        values = {key: 0 if value is None else value for key, value in values.items()}
    return {key: number(value) for key, value in values.items() if value is not None}


def scrape(job):
    return {metric["name"]: samples(metric, job) for metric in RESOURCES[job["kind"]]["metrics"]}


def test_the_configuration_has_no_field_that_kube_state_metrics_does_not_know():
    assert set(CONFIG) == {"kind", "spec"}
    assert set(CONFIG["spec"]) == {"resources"}
    assert CONFIG["kind"] == "CustomResourceStateMetrics"
    assert all(set(entry) <= FIELDS["resource"] for entry in RESOURCES.values())


def test_the_jobs_of_every_api_have_metrics():
    versions = {(APIS[kind].resource, entry["groupVersionKind"]["version"]) for kind, entry in RESOURCES.items()}

    assert versions == {
        (api.resource, api.resource.version) for api in registry.SERVED if api.resource.version != "hub"
    }


@metrics
def test_a_metric_has_a_type_that_exists_and_all_that_this_type_needs(kind, metric):
    type_name = type_of(metric)
    rule = metric["each"][type_name]

    assert set(metric) <= FIELDS["metric"]
    assert set(metric["each"]) == {"type", type_name}
    assert set(rule) <= FIELDS[type_name]
    assert all(isinstance(part, str) for part in rule["path"])
    assert metric["help"].endswith(".")
    assert metric["name"].endswith("_info") == (type_name == "info")
    assert type_name != "stateSet" or {"list", "labelName"} <= set(rule)


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("TFJob", "state", ConditionType),
        ("TfJob", "phase", phases.StatusPhase),
        ("TfJob", "state", phases.State),
        ("TensorFlowTrainingJob", "phase", T9kPhase),
    ],
)
def test_every_state_of_a_job_is_listed(kind, name, words):
    (states,) = [metric["each"]["stateSet"]["list"] for metric in RESOURCES[kind]["metrics"] if metric["name"] == name]

    assert set(states) == set(words)


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
MLKUBE = {
    "phase": {"Creating"},
    "state": {"Running"},
    "failure_info": {},
    "start_time": {"": 1772352600.0},
    "completion_time": {},
    "restarts": {"Master": 0.0},
    "replicas_running": {"MASTER": 1.0},
    "replicas_failed": {"MASTER": 0.0},
}
T9K = {
    "phase": {"Pending"},
    "start_time": {"": 1772352000.0},
    "restarts": {"worker": 0.0},
    "disruptions": {"": 0.0},
    "replicas": {"creating": 1.0}
    | dict.fromkeys(("pending", "running", "succeeded", "failed", "unknown", "deleted"), 0.0),
}
NEW = {"state": set(), "state_info": {}, "start_time": {}, "replicas_active": {}, "spec_replicas": {"Worker": 2.0}}


@pytest.mark.parametrize(
    ("case", "has_status", "expected"),
    [
        ("restart-in-place-is-counted-once", True, RUNNING),
        ("status-chief-failed", True, FAILED),
        ("restart-in-place-is-counted-once", False, NEW),
        ("tensorboard-of-the-job-itself-is-off", True, MLKUBE),
        ("tensorboard-is-ready", True, T9K),
    ],
    ids=["running", "failed", "without a status", "mlkube", "T9k"],
)
def test_the_metrics_say_what_the_status_says(case, has_status, expected):
    job = golden()[case]
    scraped = scrape(job if has_status else job | {"status": {}})
    for name in {"state", "phase"} & scraped.keys():
        scraped[name] = {state for state, value in scraped[name].items() if value}

    assert {name: scraped[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("status", "values"),
    [({"progressPercentage": 34}, {"": 34.0}), ({"progressPercentage": 0}, {"": 0.0}), ({"step": 7}, {}), (None, {})],
    ids=["a percentage", "none of it yet", "only a step", "no reports"],
)
def test_only_a_job_that_reports_a_percentage_has_one(status, values):
    job = golden()["restart-in-place-is-counted-once"]
    job = job | {"status": job["status"] | {"trainerStatus": status}}

    assert scrape(job)["progress_percentage"] == values


def field(schema, path):
    """The schema of a field of the CRD; none where there is no such field. What keeps unknown fields has all."""
    for part in path:
        if not schema or (schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema):
            break
        if part.lstrip("-").isdigit():
            schema = schema.get("items")
        else:
            schema = schema.get("properties", {}).get(part) or schema.get("additionalProperties")
    return schema


@metrics
def test_a_metric_reads_fields_that_a_job_has(kind, metric):
    rule = metric["each"][type_of(metric)]
    inside = [rule.get("valueFrom", []), *rule.get("labelsFromPath", {}).values()]
    schema = field(APIS[kind].crd.load()["spec"]["versions"][0]["schema"]["openAPIV3Schema"], rule["path"])
    if schema and "items" in schema:
        schema = schema["items"]
    elif schema and "labelFromKey" in rule:
        schema = field(schema, [next(iter(schema.get("properties", {})), "any")])
    assert rule["path"][:1] == ["metadata"] or all(field(schema, path) for path in inside)
