"""What the API server says of a TfJob of mlkube.io: both spellings accepted, and each rule with its exact sentence."""

from pathlib import Path

import pytest
import yaml

from support.api import RefusedError
from support.crds import create_crd
from support.resources import Resource
from tf_operator.dialects.served import Crd

JOBS = Resource("mlkube.io", "v1beta1", "tfjobs")
EXAMPLES = Path(__file__).resolve().parents[3] / "manifests/examples/mlkube"
SNAKE, CAMEL = (yaml.safe_load((EXAMPLES / name).read_text()) for name in ("tf_job.yaml", "tf_job_camel_case.yaml"))
CONTAINER = {"name": "tensorflow", "image": "i"}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
TWO = "Invalid value: cannot have both {} and {}: they are two spellings of one field"

NO_CONTAINER = "needs a container named tensorflow in the templates of MASTER and WORKER: it is the one that trains"
NOBODY_DECIDES = (
    "Invalid value: needs the replica that decides the job: an item of the type MASTER, or the one that "
    "terminationPolicy names"
)


def item(kind=None, **fields):
    return ({} if kind is None else {"tfReplicaType": kind}) | {"template": TEMPLATE, **fields}


def spec(*items, **fields):
    return {"replicaSpecs": list(items or [item()]), **fields}


def pod(**container):
    return {"spec": {"containers": [CONTAINER | container]}}


@pytest.fixture
async def try_create(admin, namespace):
    """Try to create a job with this spec; what the server complains of, by field."""
    await create_crd(admin, Crd("tf_operator.dialects.mlkube").load())

    async def attempt(job_spec, name="j", *, stored=False):
        body = {"apiVersion": JOBS.api_version, "kind": "TfJob", "metadata": {"name": name}, "spec": job_spec}
        try:
            await admin.create(JOBS.path(namespace), body, **({} if stored else {"dryRun": "All"}))
        except RefusedError as refusal:
            return refusal.complaints
        return {}

    return attempt


@pytest.mark.parametrize(
    "job_spec",
    [
        pytest.param(SNAKE["spec"], id="with underscores"),
        pytest.param(CAMEL["spec"], id="in camel case"),
        pytest.param(spec(), id="a single item is the master"),
        pytest.param(spec(item(tf_port=1), item("WORKER", replicas=0)), id="both spellings, of different fields"),
        pytest.param(spec(item(), {"tfReplicaType": "PS", "replicas": 2, "template": None}), id="PS without template"),
        pytest.param(spec(item(), item("PS", template=pod(name="sidecar"))), id="PS with other containers only"),
        pytest.param(spec(item("WORKER"), termination_policy={"chief": {"replica_name": "WORKER"}}), id="no master"),
        pytest.param(
            spec(tfImage="i", cleanup_pod_policy="All", tensorboard={"logDir": "/logs", "volumes": []}), id="the rest"
        ),
    ],
)
async def test_what_the_documents_have_is_accepted(try_create, job_spec):
    assert await try_create(job_spec) == {}


@pytest.mark.parametrize(
    ("job_spec", "field", "complaint"),
    [
        ({}, "spec", "Required value: needs replicaSpecs, or replica_specs"),
        (spec() | SNAKE["spec"], "spec", TWO.format("replica_specs", "replicaSpecs")),
        (spec(runtimeid="a", RuntimeId="a"), "spec", TWO.format("runtimeid", "RuntimeId")),
        (
            spec(terminationPolicy={}, termination_policy={}),
            "spec",
            TWO.format("termination_policy", "terminationPolicy"),
        ),
        (
            spec(cleanupPodPolicy="All", cleanup_pod_policy="All"),
            "spec",
            TWO.format("cleanup_pod_policy", "cleanupPodPolicy"),
        ),
        (
            spec(terminationPolicy={"chief": {"replicaName": "MASTER", "replica_name": "MASTER"}}),
            "spec.terminationPolicy.chief",
            TWO.format("replica_name", "replicaName"),
        ),
        (
            spec(terminationPolicy={"chief": {"replicaIndex": 0, "replica_index": 0}}),
            "spec.terminationPolicy.chief",
            TWO.format("replica_index", "replicaIndex"),
        ),
        (spec(item(tf_port=1, tfPort=1)), "spec.replicaSpecs", TWO.format("tf_port", "tfPort in one item")),
        (
            {"replica_specs": [item("MASTER", tf_replica_type="MASTER")]},
            "spec.replica_specs",
            TWO.format("tf_replica_type", "tfReplicaType in one item"),
        ),
        (
            spec(item("WORKER"), item("PS")),
            "spec",
            NOBODY_DECIDES,
        ),
        (
            spec(item(), item("WORKER"), terminationPolicy={"chief": {"replicaName": "WORKER", "replicaIndex": 1}}),
            "spec",
            NOBODY_DECIDES,
        ),
        (
            spec(item(), item("MASTER")),
            "spec.replicaSpecs",
            "Invalid value: has the same type twice; each type has one item, and one without a type is MASTER",
        ),
        (spec(item(replicas=2)), "spec.replicaSpecs", "Invalid value: must have 1 replica of the type MASTER"),
        (
            spec({"tfReplicaType": "MASTER"}),
            "spec.replicaSpecs",
            "Required value: needs a template for the types MASTER and WORKER",
        ),
        (
            spec(item(), item("WORKER", template=pod(name="main"))),
            "spec.replicaSpecs",
            f"Invalid value: {NO_CONTAINER}",
        ),
        (
            spec(item(template=pod(image=""))),
            "spec.replicaSpecs",
            "Invalid value: needs an image for each container",
        ),
        (
            spec(item(), item("CHIEF")),
            "spec.replicaSpecs[1].tfReplicaType",
            'Unsupported value: "CHIEF": supported values: "MASTER", "PS", "WORKER"',
        ),
        (
            spec(runtimeid="76NO"),
            "spec.runtimeid",
            "Invalid value: \"76NO\": spec.runtimeid in body should match '^[a-z0-9]{1,8}$'",
        ),
    ],
)
async def test_what_makes_no_job_is_refused_with_the_field_and_the_rule(try_create, job_spec, field, complaint):
    assert (await try_create(job_spec)).get(field) == complaint


@pytest.mark.parametrize("name", ["1-job", "a" * 64])
async def test_a_name_that_no_service_can_have_is_refused(try_create, name):
    assert "Services and labels carry the name of the job" in (await try_create(spec(), name))["metadata.name"]


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        ({"RuntimeId": "b"}, "cannot set, change or remove RuntimeId after creation: it is in the names of pods and"),
        ({"RuntimeId": None}, "cannot set, change or remove RuntimeId after creation"),
        ({"replicaSpecs": [item(), item("WORKER", replicas=2)]}, "cannot change types and numbers of replicas"),
        ({"replicaSpecs": None, "replica_specs": [item(), item("WORKER")]}, "cannot change the spelling of"),
    ],
)
async def test_what_running_pods_depend_on_cannot_change(admin, namespace, try_create, patch, complaint):
    await try_create(spec(item(), item("WORKER"), RuntimeId="a"), stored=True)
    path = JOBS.path(namespace, "j")
    with pytest.raises(RefusedError, match=complaint):
        await admin.patch(path, {"spec": patch})

    await admin.patch(path, {"spec": {"RuntimeId": None, "runtimeid": "a", "cleanupPodPolicy": "None"}})


async def test_a_new_job_shows_its_kind_and_the_constants_of_its_status_before_any_operator_has_seen_it(
    admin, namespace, try_create
):
    await try_create(spec(), stored=True)

    status = (await admin.get(JOBS.path(namespace, "j")))["status"]

    assert status == {"kinds": "TfJob.v1beta1.mlkube.io", "conditions": None, "controlPaused": False}
