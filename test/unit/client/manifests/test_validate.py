"""Validation of manifests, as the API server and the operator do it."""

import pytest

from support.jobs import manifest_cases
from support.jobs.builders import tfjob
from tf_operator.cli import main
from tf_operator.client.manifests import validate

JOB = tfjob("j").workers(2)
WORKER = "spec.tfReplicaSpecs.Worker"


def reported(body, **options):
    findings = validate.check(body, **options)
    return [str(error) for error in findings.errors], [str(warning) for warning in findings.warnings]


def test_a_namespace_that_is_not_the_one_of_the_command_line_is_an_error():
    errors, _ = reported(JOB.in_namespace("mine").body(), namespace="yours")

    assert errors == ["metadata.namespace: is 'mine', and --namespace says 'yours'"]


@pytest.mark.parametrize("case", manifest_cases.GOOD + manifest_cases.BAD, ids=lambda case: case.name)
def test_the_fields_that_are_wrong_are_reported_once(case, capsys, tmp_path):
    path = tmp_path / "job"
    path.write_text(case.text)

    code = main.main(["plan", "-f", str(path)])

    lines = capsys.readouterr().err.splitlines()
    fields = [line.removeprefix(f"{path}: ").split(": ")[0] for line in lines if ": warning: " not in line]
    assert (fields, code) == (list(case.errors), bool(case.errors))


def test_a_version_that_is_not_served_is_an_error():
    errors, _ = reported({"apiVersion": "kubeflow.org/v2", "kind": "TFJob"})

    assert errors == ["apiVersion: must be 'kubeflow.org/v1', is 'kubeflow.org/v2'"]


def test_a_tf_config_that_no_process_can_be_started_with_is_an_error():
    (error,), _ = reported(tfjob("j").workers(5000).body())

    assert error.startswith(f"{WORKER}.replicas: must be at most 4002 ")


@pytest.mark.parametrize(
    ("patch", "warning"),
    [
        pytest.param(
            {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"tolerance": []}}}}}},
            f"{WORKER}.template.spec.tolerance: unknown field; did you mean tolerations?",
            id="misspelt in a pod",
        ),
        pytest.param(
            {"metadata": {"name": None, "generateName": "run-"}},
            "metadata.generateName: the cluster will choose the end of the name; xxxxx stands for it",
            id="a name that is chosen later",
        ),
    ],
)
def test_a_warning_does_not_make_the_job_invalid(patch, warning):
    assert reported(JOB.merged(patch).body()) == ([], [warning])


def test_a_job_that_was_read_from_a_cluster_is_planned_as_if_it_were_new():
    written = {
        "metadata": {"uid": "u", "resourceVersion": "7", "deletionTimestamp": "2024-01-01T00:00:00Z"},
        "status": {"conditions": [{"type": "Succeeded", "status": "True"}]},
    }
    job = validate.check(JOB.merged(written).body()).job

    assert (job.uid, job.is_being_deleted, job.record.is_finished) == ("u", False, False)
