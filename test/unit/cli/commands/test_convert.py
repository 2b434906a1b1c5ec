"""``tfjob convert``: manifests of older versions, rewritten in v1."""

from pathlib import Path

import pytest
import yaml

from tf_operator.cli import main

EXAMPLES = Path(__file__).resolve().parents[4] / "manifests/examples"
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
        output = capsys.readouterr()
        return code, output.out, output.err.replace(f"{path}", "job.yaml")

    return run


def test_jobs_are_rewritten_and_other_objects_printed_as_they_are(convert):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    code, out, err = convert(f"{OLD_JOB}---\n{yaml.dump(claim)}")

    job, other = yaml.safe_load_all(out)
    assert (code, err, other) == (0, "", claim)
    assert (job["apiVersion"], job["metadata"]) == ("kubeflow.org/v1", {"name": "mnist"})
    assert job["spec"]["runPolicy"] == {"cleanPodPolicy": "Running", "suspend": False, "backoffLimit": 3}


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("kubeflow-v1alpha1/tf_job.yaml", ""),
        ("kubeflow-v1beta1/tf_job.yaml", ""),
        ("mlkube/tf_job.yaml", "spec.cleanupPodPolicy"),
        ("mlkube/tf_job_camel_case.yaml", "spec.cleanupPodPolicy"),
        ("t9k/tensorflow-example.yaml", ""),
    ],
)
def test_a_job_of_the_documents_has_the_same_pods_as_a_tfjob_and_is_converted_once(convert, file, changed):
    """The kubelet restarts what a T9k job replaces by a new pod: its pods alone have another restart policy."""
    manifest = (EXAMPLES / file).read_text()
    code, once, err = convert(manifest)

    assert (code, yaml.safe_load(once)["apiVersion"]) == (0, "kubeflow.org/v1")
    assert [line.split(": ")[:3] for line in err.splitlines()] == [["job.yaml", "warning", changed]] * bool(changed)
    assert convert(once) == (0, once, "")
    expected, actual = (pods(convert(text, "-o", "yaml", command="plan")[1]) for text in (manifest, once))
    assert len(expected) >= 1
    if file.startswith("t9k"):
        assert {pod.pop("restartPolicy") for pod in expected.values()} == {"Never"}
        assert {pod.pop("restartPolicy") for pod in actual.values()} == {"OnFailure"}
    assert actual == expected


def pods(text):
    return {child["metadata"]["name"]: child["spec"] for child in yaml.safe_load_all(text) if child["kind"] == "Pod"}


def test_what_a_job_of_t9k_says_beside_its_replicas_is_said_in_the_words_of_v1(convert):
    body = yaml.safe_load((EXAMPLES / "t9k/tensorflow-example.yaml").read_text())
    body["metadata"] |= {"labels": {"team": "a"}, "uid": "u"}
    body["spec"] |= {
        "runPolicy": {"cleanUpPolicy": "Unfinished", "backoffLimit": 2, "activeDeadlineSeconds": 60},
        "scheduler": {"t9kScheduler": {"queue": "q", "priority": 5}},
        "runMode": {
            "pause": {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["x"]}]},
            "debug": {"enabled": True},
        },
        "tensorboardSpec": {"image": "i", "trainingLogFilesets": ["t9k://pvc/logs/a"]},
    }
    code, out, err = convert(yaml.dump(body))

    job = yaml.safe_load(out)
    assert (code, job["metadata"]) == (0, {"name": "tensorflow-example", "labels": {"team": "a"}})
    assert job["spec"]["runPolicy"] == {
        "cleanPodPolicy": "Running",
        "backoffLimit": 2,
        "activeDeadlineSeconds": 60,
        "suspend": True,
        "schedulingPolicy": {"queue": "q"},
    }
    assert [line.split(": ")[2] for line in err.splitlines()] == [
        "spec.runMode.debug",
        "spec.runMode.pause.resumeSpecs",
        "spec.scheduler.t9kScheduler.priority",
        "spec.tensorboardSpec",
    ]


def test_an_invalid_job_of_another_api_is_not_converted(convert):
    body = yaml.safe_load((EXAMPLES / "t9k/tensorflow-example.yaml").read_text())
    body["spec"]["replicaSpecs"][0]["type"] = "master"
    code, out, err = convert(yaml.dump(body))

    assert (code, out) == (1, "")
    assert err.startswith("job.yaml: spec.replicaSpecs[0].type: ")


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
