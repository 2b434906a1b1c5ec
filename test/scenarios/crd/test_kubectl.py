"""Every verb of an unmodified kubectl on TFJobs, and what a person reads then."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from support.jobs import builders
from tf_operator.dialects.kubeflow.v1 import API

ROOT = Path(__file__).resolve().parents[3]
JOB = builders.tfjob("mnist").chief().workers(3)
T1, T2 = "2026-11-20T08:00:00Z", "2026-11-20T09:30:00Z"


def condition(kind, status="True", reason=""):
    return {
        "type": kind,
        "status": status,
        "reason": reason or f"TFJob{kind}",
        "message": f"TFJob ns/mnist: {kind}.",
        "lastUpdateTime": T1,
        "lastTransitionTime": T1,
    }


# The status of a job as the operator leaves it in each of the six states.
CREATED = condition("Created")
STATES = {
    "Created": {"conditions": [CREATED], "ready": "0/4", "restarts": 0},
    "Running": {"conditions": [CREATED, condition("Running")], "ready": "4/4", "restarts": 0, "startTime": T1},
    "Restarting": {"conditions": [CREATED, condition("Restarting")], "ready": "3/4", "restarts": 2, "startTime": T1},
    "Suspended": {
        "conditions": [CREATED, condition("Running", "False", "TFJobSuspended"), condition("Suspended")],
        "ready": "0/4",
        "restarts": 2,
        "startTime": T1,
    },
    "Succeeded": {
        "conditions": [CREATED, condition("Running", "False"), condition("Succeeded")],
        "ready": "4/4",
        "restarts": 2,
        "startTime": T1,
        "completionTime": T2,
    },
    "Failed": {
        "conditions": [CREATED, condition("Running", "False"), condition("Failed", reason="TFJobBackoffLimitExceeded")],
        "ready": "1/4",
        "restarts": 3,
        "startTime": T1,
        "completionTime": T2,
        "firstFailure": {"pod": "mnist-worker-1", "container": "tensorflow", "exitCode": 137, "reason": "OOMKilled"},
    },
}


@pytest.fixture
def job(kubectl):
    """A job that kubectl has created."""
    kubectl("create", "-f", "-", stdin=json.dumps(JOB.body()))
    return "tfjob/mnist"


@pytest.fixture
def report(kubectl):
    """Write a status as the operator would."""

    def write(job, status):
        kubectl("patch", job, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))

    return write


def row(table):
    """The one row of a table, by its headings."""
    heading, line = table.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", heading)]
    cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return dict(zip(heading.split(), cells, strict=True))


def complaint(refused):
    return refused.value.stderr.strip()


@pytest.mark.parametrize("state", STATES)
def test_get_shows_state_ready_and_restarts_and_wide_the_reason_and_times(kubectl, job, report, state):
    report(job, STATES[state])

    narrow, wide = row(kubectl("get", "tfjobs")), row(kubectl("get", "tfjob", "mnist", "-o", "wide"))

    columns = ["NAME", "STATE", "READY", "RESTARTS", "AGE"]
    assert (list(narrow), list(wide)) == (columns, [*columns, "REASON", "ATTEMPT", "PROGRESS", "STARTED", "FINISHED"])
    assert narrow["AGE"]
    ready, restarts = STATES[state]["ready"], str(STATES[state]["restarts"])
    assert (narrow["STATE"], narrow["READY"], narrow["RESTARTS"]) == (state, ready, restarts)
    assert wide["REASON"] == STATES[state]["conditions"][-1]["reason"]
    assert bool(wide["STARTED"]) == ("startTime" in STATES[state])
    assert bool(wide["FINISHED"]) == ("completionTime" in STATES[state])


@pytest.mark.parametrize("name", ["tfj", "tfjob", "tfjobs", "tfjobs.kubeflow.org", "all"])
def test_jobs_are_found_under_every_name(kubectl, job, name):
    assert "tfjob.kubeflow.org/mnist" in kubectl("get", name, "-o", "name")


def test_jobs_can_be_selected_by_who_manages_them(kubectl, job):
    theirs = JOB.named("theirs").managed_by("kueue.x-k8s.io/multikueue")
    kubectl("create", "-f", "-", stdin=json.dumps(theirs.body()))
    selector = "--field-selector=spec.runPolicy.managedBy"

    assert kubectl("get", "tfj", "-o", "name", f"{selector}=kueue.x-k8s.io/multikueue").split() == [
        "tfjob.kubeflow.org/theirs"
    ]
    assert kubectl("get", "tfj", "-o", "name", f"{selector}=").split() == ["tfjob.kubeflow.org/mnist"]


def test_describe_shows_conditions_and_the_first_failure(kubectl, job, report):
    report(job, STATES["Failed"])

    description = kubectl("describe", job)

    for line in (r"Reason: +TFJobBackoffLimitExceeded", r"Exit Code: +137", r"Pod: +mnist-worker-1", r"Restarts: +3"):
        assert re.search(line, description), line


def own_fields(schema, path):
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", child
        if name != "template":
            inner = next((child[key] for key in ("items", "additionalProperties") if key in child), child)
            yield from own_fields(inner, f"{path}.{name}")


OWN = API.crd.load()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def test_explain_describes_each_of_our_fields_with_the_words_of_the_source(kubectl):
    words = {path: child["description"] for top in ("spec", "status") for path, child in own_fields(OWN[top], top)}
    explanations = {
        path: " ".join(kubectl("explain", f"tfjob.{path}").split())
        for path in ("spec.successPolicy", "spec.runPolicy.backoffLimit", "status.firstFailure.exitCode")
    }

    assert len(words) > 50
    assert all(" ".join(words[path].split()) in text for path, text in explanations.items())


def test_scale_changes_dynamic_workers(kubectl):
    kubectl("create", "-f", "-", stdin=json.dumps(JOB.dynamic_workers().body()))

    assert kubectl("scale", "tfjob/mnist", "--replicas=5") == "tfjob.kubeflow.org/mnist scaled\n"
    assert kubectl("get", "tfjob/mnist", "-o", "jsonpath={.spec.tfReplicaSpecs.Worker.replicas}") == "5"


def test_scale_of_a_job_that_cannot_be_scaled_says_why(kubectl, job):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        kubectl("scale", job, "--replicas=5")

    assert complaint(refused).endswith(
        "types and numbers of replicas can only change while the job is suspended (spec.runPolicy.suspend); "
        "the number of workers also with spec.enableDynamicWorker or within spec.elasticPolicy, which has to be set"
        " before"
    )


def test_scale_beyond_the_elastic_policy_says_the_numbers(kubectl):
    kubectl("create", "-f", "-", stdin=json.dumps(JOB.elastic(1, 4).body()))

    with pytest.raises(subprocess.CalledProcessError) as refused:
        kubectl("scale", "tfjob/mnist", "--replicas=9")

    assert "spec.elasticPolicy" in complaint(refused)
    assert complaint(refused).endswith("needs minReplicas (1) <= number of workers (9) <= maxReplicas (4)")


@pytest.mark.parametrize("awaited", ["condition=Succeeded", "jsonpath={.status.completionTime}"])
def test_wait_returns_when_the_job_has_succeeded(kubectl, job, report, awaited):
    report(job, STATES["Succeeded"])

    assert kubectl("wait", job, f"--for={awaited}", "--timeout=20s") == "tfjob.kubeflow.org/mnist condition met\n"


def test_applying_twice_on_the_server_side_changes_nothing_and_meets_no_conflict(kubectl, report):
    def apply(manifest):
        kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
        return json.loads(kubectl("get", "tfjob/mnist", "-o", "json"))

    apply(JOB.body())
    report("tfjob/mnist", STATES["Running"])
    tfjob = json.loads(kubectl("get", "tfjob/mnist", "-o", "json"))

    assert apply(JOB.body()) == tfjob
    changed = apply(JOB.clean_pods("All").body())
    assert changed["spec"]["runPolicy"]["cleanPodPolicy"] == "All"
    assert changed["status"] == tfjob["status"]
    assert apply(JOB.body())["spec"] == tfjob["spec"]


def test_the_crd_itself_can_be_applied_on_the_client_side_again_and_again(kubectl, namespace):
    """Which keeps all of it in an annotation of limited size; under another group, as the real one is there."""
    text = (ROOT / "manifests/crd/tfjobs.yaml").read_text().replace("kubeflow.org", f"{namespace}.test")
    text = re.sub(r"(?m)^ *shortNames:\n( *- tfj\n)", "", text)  # of which kubectl warns other tests of this server
    assert "tfj\n" not in text

    assert kubectl("apply", "-f", "-", stdin=text).endswith("created\n")
    assert kubectl("apply", "-f", "-", stdin=text).endswith("unchanged\n")
