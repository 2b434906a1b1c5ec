"""``tfjob convert``: manifests of older versions, rewritten in v1."""

from pathlib import Path

import pytest
import yaml

from tf_operator.cli import main

EXAMPLES = Path(__file__).resolve().parents[3] / "manifests/examples"
OLD_JOB = """\
{apiVersion: kubeflow.org/v1beta2, kind: TFJob, metadata: {name: mnist}, spec: {backoffLimit: 3, tfReplicaSpecs:
  {Worker: {template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}}
"""
INCOMPLETE = (
    "{apiVersion: kubeflow.org/v1beta1, kind: TFJob, metadata: {annotations: {tf-operator.kubeflow.org/incomplete: x}}}"
)


@pytest.fixture
def convert(tmp_path, capsys):
    def run(text, *arguments, command="convert"):
        path = tmp_path / "job.yaml"
        path.write_text(text)
        code = main.main([command, "-f", str(path), *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err.replace(f"{path}", "job.yaml")

    return run


def test_jobs_are_rewritten_and_other_objects_printed_as_they_are(convert):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    code, out, err = convert(f"{OLD_JOB}---\n{yaml.dump(claim)}")

    job, other = yaml.safe_load_all(out)
    assert (code, err, other) == (0, "", claim)
    assert (job["apiVersion"], job["metadata"]) == ("kubeflow.org/v1", {"name": "mnist"})
    assert job["spec"]["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 3}


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("kubeflow-v1alpha1/tf_job.yaml", "kubeflow.org/v1"),
        ("kubeflow-v1beta1/tf_job.yaml", "kubeflow.org/v1"),
        ("mlkube/tf_job.yaml", "mlkube.io/v1beta1"),
        ("t9k/tensorflow-example.yaml", "batch.tensorstack.dev/v1beta1"),
    ],
)
def test_a_job_of_the_documents_is_planned_the_same_when_it_is_converted_and_converted_once(convert, file, version):
    given = (EXAMPLES / file).read_text()
    code, once, err = convert(given)

    assert (code, err, yaml.safe_load(once)["apiVersion"]) == (0, "", version)
    assert convert(once) == (0, once, "")
    plans = [convert(text, "-o", "yaml", command="plan") for text in (given, once)]
    assert [code for code, _, _ in plans] == [0, 0]
    children, same = (list(yaml.safe_load_all(out)) for _, out, _ in plans)
    assert "Pod" in {child["kind"] for child in children}
    assert same == children


def test_what_cannot_be_converted_is_reported_and_the_rest_printed(convert):
    code, out, err = convert(f"{INCOMPLETE}\n---\n{OLD_JOB}")

    assert (code, len(list(yaml.safe_load_all(out)))) == (1, 1)
    assert err.startswith("job.yaml#1: metadata.annotations[tf-operator.kubeflow.org/incomplete]: ")


def test_a_file_that_is_no_manifest_is_reported(convert):
    assert convert("") == (1, "", "job.yaml: there is no object in it\n")


def test_plan_reads_older_versions_too_and_says_what_the_fields_are_called(convert):
    code, out, err = convert(OLD_JOB, command="plan")

    assert (code, out.splitlines()[0]) == (0, "TFJob default/mnist: 1 pod and 1 Service")
    assert err.startswith("job.yaml: warning: apiVersion: is read as kubeflow.org/v1, as 'tfjob convert' rewrites it")
    assert "metadata: metadata.annotations" in convert(INCOMPLETE, command="plan")[2]
