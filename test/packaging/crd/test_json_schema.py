"""The JSON schemas of manifests/schemas accept our examples and refuse mistakes, asked by kubeconform."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from crd import json_schema
from lab.tools.get import programs
from tf_operator.dialects import registry

ROOT = Path(__file__).resolve().parents[3]
LAYOUT = ROOT / json_schema.FOLDER / "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
EXAMPLES = {
    "TFJob v1": "gpu.yaml",
    "TFJob v1beta1": "kubeflow-v1beta1/tf_job.yaml",
    "TFJob v1alpha1": "kubeflow-v1alpha1/tf_job.yaml",
    "mlkube": "mlkube/tf_job.yaml",
    "T9k": "t9k/tensorflow-example.yaml",
}


def conform(*arguments, stdin=""):
    """What kubeconform finds wrong, by file name or nothing, and how many objects it looked at."""
    # Examples have objects of others, too; ``valid`` counts ours.
    options = ["-strict", "-output=json", "-summary", "-ignore-missing-schemas", f"-schema-location={LAYOUT}"]
    command = [programs("kubeconform")["kubeconform"], *options, *map(str, arguments)]
    process = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
    report = json.loads(process.stdout)
    wrong = [f"{entry['filename']}: {entry['msg']}" for entry in report["resources"] if entry["msg"]]
    return wrong, report["summary"]["valid"]


def manifest(example):
    documents = yaml.load_all((ROOT / "manifests/examples" / EXAMPLES[example]).read_text(), yaml.CSafeLoader)
    return next(body for body in documents if body["kind"] in ("TFJob", "TfJob", "TensorFlowTrainingJob"))


def replica(body):
    """The first replica of a job, in any of the APIs."""
    spec = body["spec"]
    replicas = next(spec[key] for key in ("tfReplicaSpecs", "replicaSpecs", "replica_specs") if key in spec)
    return next(iter(replicas.values())) if isinstance(replicas, dict) else replicas[0]


def test_every_version_of_every_kind_that_is_served_has_a_schema():
    served = [api.resource for api in registry.SERVED if api.resource.version != "hub"]
    paths = {f"{it.group}/{api_kind(it)}_{it.version}.json" for it in served}
    files = {str(path.relative_to(ROOT / json_schema.FOLDER)) for path in (ROOT / json_schema.FOLDER).rglob("*.json")}

    assert len(paths) >= 3
    assert paths <= files


def api_kind(resource):
    return resource.kind.lower()


@pytest.mark.programs("kubeconform")
def test_the_schemas_accept_every_example():
    files = [path for path in sorted((ROOT / "manifests/examples").rglob("*.yaml")) if is_whole(path)]
    wrong, valid = conform(*files)

    assert wrong == []
    assert valid == len(files) >= 20


def is_whole(path):
    """Neither a part of a manifest nor an object of a partner alone."""
    kinds = ("TFJob", "TfJob", "TensorFlowTrainingJob")
    return path.parent.name not in ("fragments", "status") and any(
        f"\nkind: {kind}\n" in path.read_text() for kind in kinds
    )


@pytest.mark.programs("kubeconform")
@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda body: body["spec"].update(paralellism=2), "'paralellism' not allowed"),
        (lambda body: replica(body).update(replicas="two"), "want integer"),
        (lambda body: body.pop("spec"), "'spec'"),
    ],
    ids=["unknown field", "text for a number", "no spec"],
)
def test_the_schemas_refuse_a_mistake_and_name_it(example, change, complaint):
    body = manifest(example)
    change(body)
    wrong, valid = conform(stdin=yaml.safe_dump(body))

    assert (len(wrong), valid) == (1, 0)
    assert complaint in wrong[0]


@pytest.mark.programs("kubeconform")
def test_the_schemas_know_the_pod_template_as_well():
    body = manifest("TFJob v1")
    replica(body)["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": "http"}]

    assert "/template/spec/containers/0/ports/0/containerPort" in conform(stdin=yaml.safe_dump(body))[0][0]


def test_what_may_be_null_for_the_server_may_be_null_for_an_editor():
    schema = {"type": "string", "enum": ["a"], "nullable": True}

    assert json_schema.convert(schema) == {"type": ["string", "null"], "enum": ["a", None]}
