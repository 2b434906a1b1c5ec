"""What the API server makes of a job that it accepts: defaults, and pod templates from which nothing is missing."""

import copy
import json
from pathlib import Path

import pytest

from crd import core, outputs
from support.api import RefusedError
from support.jobs import builders
from support.resources import TFJOBS
from tf_operator.dialects.kubeflow.v1 import API

ROOT = Path(__file__).resolve().parents[3]
JOB = builders.tfjob("j").workers(1)
# One field of every kind of place in a pod that a later Kubernetes could add.
FUTURE = {"aFieldOfTheFuture": {"deep": [{"down": 1}]}}


def with_template(template):
    return JOB.merged({"spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}}).body()


def filled(schema, path=""):
    """A value for every field of a schema, with a field of the future in each object that can have one."""
    if schema.get("x-kubernetes-int-or-string"):
        return 5
    if "properties" in schema:
        fields = {name: filled(child, f"{path}.{name}") for name, child in schema["properties"].items()}
        return fields | (copy.deepcopy(FUTURE) if schema.get("x-kubernetes-preserve-unknown-fields") else {})
    if "additionalProperties" in schema:
        return {"key": filled(schema["additionalProperties"], path)}
    if "items" in schema:
        return [filled(schema["items"], path)]
    return {"string": "2026-01-01T00:00:00Z", "integer": 7, "boolean": True, "object": {}}[schema["type"]]


@pytest.fixture(scope="module")
def template_schema():
    version = API.crd.load()["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec["properties"]["tfReplicaSpecs"]["additionalProperties"]["properties"]["template"]


async def test_defaults_are_stored(admin, namespace):
    stored = await admin.create(TFJOBS.path(namespace), builders.tfjob("j").replicas("Worker", None).body())

    assert stored["spec"]["runPolicy"] == {"cleanPodPolicy": "None", "suspend": False}
    worker = stored["spec"]["tfReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (1, "Never")


async def test_no_field_of_a_template_is_lost_known_or_not(admin, namespace, template_schema):
    template = filled(template_schema)
    template["spec"]["containers"][0]["name"] = "tensorflow"

    stored = await admin.create(TFJOBS.path(namespace), with_template(template))

    assert stored["spec"]["tfReplicaSpecs"]["Worker"]["template"] == template
    assert json.dumps(template).count("aFieldOfTheFuture") > 150


@pytest.mark.real_server("all fields of its pods")
async def test_every_field_of_pods_is_in_the_schema(admin):
    """Without it no field would be lost, but `kubectl explain` would not know it: run `hack/generate core`."""
    served = core.keep(await admin.get("/openapi/v3/api/v1"))
    definitions = json.loads((ROOT / outputs.CORE).read_text())

    missing = {
        name: fields
        for name, definition in served.items()
        if (fields := set(definition.get("properties", ())) - set(definitions.get(name, {}).get("properties", ())))
    }

    assert missing == {}


async def test_what_cannot_be_set_in_the_metadata_of_a_template_is_dropped(admin, namespace):
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"], "name": "n", "namespace": "m"}
    body = with_template({"metadata": metadata | {"uid": "u", "ownerReferences": []}})

    stored = await admin.create(TFJOBS.path(namespace), body, fieldValidation="Ignore")

    assert stored["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"] == metadata


@pytest.mark.parametrize("field", ["cleanUpPolicy", "runpolicy"])
async def test_a_field_that_tfjobs_do_not_have_is_refused_by_strict_clients(admin, namespace, field):
    with pytest.raises(RefusedError, match=f'unknown field "spec.{field}"'):
        await admin.create(TFJOBS.path(namespace), JOB.merged({"spec": {field: "All"}}).body())


@pytest.mark.real_server("server-side apply by two managers")
async def test_two_writers_can_share_the_containers_of_a_template(admin, namespace):
    def intent(*containers):
        replicas = {"Worker": {"template": {"spec": {"containers": list(containers)}}}}
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": "j"},
            "spec": {"tfReplicaSpecs": replicas},
        }

    path = TFJOBS.path(namespace, "j")
    await admin.patch(path, intent({"name": "tensorflow", "image": "a"}), "apply", fieldManager="one", force="false")
    await admin.patch(path, intent({"name": "proxy", "image": "b"}), "apply", fieldManager="two", force="false")
    await admin.patch(path, intent({"name": "tensorflow", "image": "c"}), "apply", fieldManager="one", force="false")

    stored = await admin.get(path)
    containers = stored["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert {item["name"]: item["image"] for item in containers} == {"tensorflow": "c", "proxy": "b"}


async def test_status_fields_of_others_are_kept(admin, namespace):
    await admin.create(TFJOBS.path(namespace), JOB.body())
    status = {
        "theirs": {"a": [1]},
        "conditions": [{"type": "Theirs", "status": "True", "observedGeneration": 3}],
        "replicaStatuses": {"Worker": {"theirs": 1}},
        "firstFailure": {"theirs": "x"},
        "replacements": [{"replica": "Worker-1", "uid": "u", "theirs": True}],
    }

    written = await admin.patch(TFJOBS.path(namespace, "j", "status"), {"status": status})

    assert written["status"] == status
