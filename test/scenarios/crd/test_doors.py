"""What v1 refuses to change, no other door to the same job changes: older versions, /scale, annotations, conversion."""

import asyncio
import json
from contextlib import nullcontext

import pytest
import pytest_asyncio

from support import builders
from support.api import Api, RefusedError
from support.embedded_plane import EmbeddedPlane
from support.older_versions import path, serving
from support.resources import CRDS, TFJOBS
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.kubeflow.versions.conversion import OLDER

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]
JOB = builders.tfjob("j").workers(2)
ELASTIC = JOB.elastic(1, 4)
DYNAMIC = JOB.dynamic_workers()
QUEUED = JOB.scheduling(queue="a")
OURS, THEIRS = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"
NOTES = "tf-operator.kubeflow.org/v1-fields"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def versions_plane(fresh_plane):
    """A plane that serves all versions; a real one has an operator for its webhook, which looks after no job here."""
    with fresh_plane() as plane:
        if isinstance(plane, EmbeddedPlane):
            versions = v1.API.crd.load(*OLDER)["spec"]["versions"]
            plane.admin.patch(CRDS.path(name="tfjobs.kubeflow.org"), {"spec": {"versions": versions}})
            yield plane
            return
        namespace = await asyncio.to_thread(plane.make_namespace, "operator")
        async with serving(plane, namespace, is_own=True):
            yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(versions_plane):
    async with Api(versions_plane.kubeconfig("admin")) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def place(versions_plane):
    return await asyncio.to_thread(versions_plane.make_namespace, "doors")


@pytest.fixture
def changes(client, place):
    return client, place


def replicas(version, **counts):
    """A merge patch of the spec of a job with a chief and workers; ``None``: the type goes."""
    template = JOB.body()["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    if version != "v1alpha1":
        entries = {kind: count if count is None else {"replicas": count} for kind, count in counts.items()}
        return {
            "tfReplicaSpecs": entries | {kind: entries[kind] | {"template": template} for kind in {"PS"} & {*entries}}
        }
    listed = {"MASTER": 1} | {kind.upper(): count for kind, count in counts.items() if count is not None}
    return {
        "replicaSpecs": [
            {"tfReplicaType": kind, "replicas": count, "template": template} for kind, count in listed.items()
        ]
    }


async def stored(client, place):
    """What only the rules are about, of the job as v1 has it."""
    spec = (await client.get(TFJOBS.path(place, "j")))["spec"]
    return spec | {"tfReplicaSpecs": {kind: entry["replicas"] for kind, entry in spec["tfReplicaSpecs"].items()}}


COUNTS = [
    pytest.param(JOB.chief(), {"Worker": 3}, True, id="more workers"),
    pytest.param(JOB.chief(), {"Worker": 1}, True, id="fewer workers"),
    pytest.param(JOB.chief(), {"Worker": None}, True, id="a type less"),
    pytest.param(JOB.chief(), {"Worker": 2, "PS": 1}, True, id="a new type"),
    pytest.param(JOB.chief().elastic(1, 4), {"Worker": 4}, False, id="within the elastic policy"),
    pytest.param(JOB.chief().elastic(1, 4), {"Worker": 6}, True, id="beyond the elastic policy"),
    pytest.param(JOB.chief().parameter_servers().elastic(1, 4), {"Worker": 2, "PS": 2}, True, id="servers that stay"),
    pytest.param(
        JOB.chief().parameter_servers().elastic(1, 4, parameterServers={"maxReplicas": 2}),
        {"Worker": 2, "PS": 2},
        False,
        id="elastic servers",
    ),
    pytest.param(JOB.chief().dynamic_workers(), {"Worker": 9}, False, id="dynamic workers"),
    pytest.param(JOB.chief().suspended(), {"Worker": 9}, False, id="suspended"),
    pytest.param(JOB.chief().elastic(1, 4).suspended(), {"Worker": 6}, True, id="suspended, beyond the elastic policy"),
]


@pytest.mark.parametrize(("job", "counts", "is_forbidden"), COUNTS)
async def test_numbers_of_replicas_change_in_older_versions_as_in_v1(client, place, job, counts, is_forbidden):
    for version in OLDER:
        await client.create(TFJOBS.path(place), job.body())
        before = await stored(client, place)
        complaint = pytest.raises(RefusedError, match="422 Invalid")
        with complaint if is_forbidden else nullcontext():
            await client.patch(path(version, place, "j"), {"spec": replicas(version, **counts)})

        wanted = before["tfReplicaSpecs"] | ({} if is_forbidden else counts)
        assert await stored(client, place) == before | {"tfReplicaSpecs": wanted}, version
        await client.delete(TFJOBS.path(place, "j"))


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize(
    ("job", "asked", "workers"),
    [
        pytest.param(JOB, 3, 2, id="plain"),
        pytest.param(ELASTIC, 4, 4, id="within the elastic policy"),
        pytest.param(ELASTIC, 6, 2, id="beyond the elastic policy"),
        pytest.param(DYNAMIC, 6, 6, id="dynamic"),
    ],
)
async def test_scale_of_each_version_obeys_the_rules_of_v1(changes, version, job, asked, workers):
    client, place = changes
    await client.create(TFJOBS.path(place), job.body())
    complaint = pytest.raises(RefusedError, match=r"can only change while|minReplicas \(1\) <= number of workers")
    with nullcontext() if workers == asked else complaint:
        await client.patch(f"{path(version, place, 'j')}/scale", {"spec": {"replicas": asked}})
    assert (await stored(client, place))["tfReplicaSpecs"] == {"Worker": workers}


def note(*differences):
    return json.dumps([{"path": list(where), "original": value} for where, value in differences])


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize(
    ("job", "text"),
    [
        pytest.param(JOB, note((("runPolicy", "managedBy"), THEIRS)), id="give the job away"),
        pytest.param(JOB.managed_by(THEIRS), None, id="take the job back"),
        pytest.param(JOB.managed_by(THEIRS), note((("runPolicy", "managedBy"), OURS)), id="change the manager"),
        pytest.param(JOB, note((("tfConfigFormat",), "Sparse")), id="another TF_CONFIG"),
        pytest.param(JOB.tf_config_format("Sparse"), None, id="the default TF_CONFIG"),
        pytest.param(JOB, note((("enableDynamicWorker",), True)), id="dynamic workers"),
        pytest.param(JOB, note((("elasticPolicy",), {"maxReplicas": 9})), id="an elastic policy"),
        pytest.param(ELASTIC, note((("elasticPolicy",), {"maxReplicas": 1})), id="a narrower elastic policy"),
        pytest.param(QUEUED, None, id="leave the queue"),
        pytest.param(QUEUED, note((("runPolicy", "schedulingPolicy"), {"queue": "b"})), id="another queue"),
        pytest.param(JOB, note((("runPolicy", "suspend"), True)), id="suspend"),
    ],
)
async def test_annotations_change_nothing_of_a_stored_job_that_only_v1_has(client, place, version, job, text):
    await client.create(TFJOBS.path(place), job.chief().body())
    before = await stored(client, place)

    await client.patch(path(version, place, "j"), {"metadata": {"annotations": {NOTES: text}}})
    shown = await client.get(path(version, place, "j"))
    shown["metadata"]["annotations"] = {}
    await client.replace(path(version, place, "j"), shown)  # as kubectl replace

    assert await stored(client, place) == before


async def test_what_is_fixed_cannot_be_written_to_the_status_either(client, place):
    await client.create(TFJOBS.path(place), JOB.body())
    forged = {"status": {"fixed": {"fields": note((("runPolicy", "managedBy"), THEIRS))}}}

    with pytest.raises(RefusedError, match="cannot change in the field fixed"):
        await client.patch(path("v1beta1", place, "j") + "/status", forged)
    await client.patch(path("v1beta1", place, "j") + "/status", {"status": {"fixed": None, "x": 1}})

    job = await client.get(TFJOBS.path(place, "j"))
    assert "managedBy" not in job["spec"]["runPolicy"]
    assert job["status"] == {"x": 1}
