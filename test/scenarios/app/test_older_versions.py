"""Older versions of TFJob on a real API server: the webhook of a real operator converts them."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest

from lab.control_plane.api import ApiRefusedError
from support import builders
from support.older_versions import HOST, SECRET, TEMPLATE, define, old_job, path, serving
from support.operator_process import operator
from support.resources import SECRETS, TFJOBS
from support.settle import eventually
from tf_operator.app.webhook import keys
from tf_operator.dialects.kubeflow.versions.conversion import OLDER


@pytest.fixture
def namespace(plane):
    return plane.make_namespace("older-versions")


@pytest.mark.documents("v1beta1/object", "v1beta1/master-alone", "v1beta1/pod")
async def test_a_manifest_of_v1beta1_runs_and_is_shown_in_each_version_as_it_was_written(plane, namespace):
    async with serving(plane, namespace):
        created = plane.admin.create(path("v1beta1", namespace), old_job("v1beta1"))
        await asyncio.to_thread(plane.admin.wait_for, f"/api/v1/namespaces/{namespace}/pods/j-master-0")

        def versions():
            """The job as both versions show it, once it has a status and none was written between the two reads."""
            found = [plane.admin.get(path(version, namespace, "j")) for version in ("v1", "v1beta1")]
            version, other = (job["metadata"]["resourceVersion"] for job in found)
            return "status" in found[0] and version == other and found

        stored, shown = await eventually(versions, within=30)
        assert stored["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
        assert shown["spec"] == created["spec"]
        assert shown["spec"].keys() == {"tfReplicaSpecs"}
        assert shown["spec"]["tfReplicaSpecs"]["MASTER"]["template"] == TEMPLATE
        assert shown["status"] == stored["status"]
        assert "tfReplicaStatuses" in plane.admin.get(path("v1alpha2", namespace, "j"))["status"]
        assert plane.admin.get(path("v1beta2", namespace, "j"))["spec"]["cleanPodPolicy"] == "Running"


async def test_an_edit_in_an_older_version_loses_nothing_that_only_v1_knows(plane, namespace):
    async with serving(plane, namespace):
        job = (
            builders.tfjob("j")
            .workers(2)
            .merged(
                {
                    "spec": {
                        "successPolicy": "AllWorkers",
                        "runPolicy": {"suspend": True, "schedulingPolicy": {"queue": "q"}},
                    }
                }
            )
        )
        before = plane.admin.create(TFJOBS.path(namespace), job.body())
        plane.admin.patch(path("v1beta1", namespace, "j"), {"metadata": {"labels": {"team": "a"}}})
        plane.admin.patch(path("v1beta1", namespace, "j"), {"spec": {"ttlSecondsAfterFinished": 60}})

        after = plane.admin.get(TFJOBS.path(namespace, "j"))
        assert after["metadata"]["labels"] == {"team": "a"}
        assert after["spec"] == before["spec"] | {
            "runPolicy": before["spec"]["runPolicy"] | {"ttlSecondsAfterFinished": 60}
        }


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"tfReplicaSpecs": {"MASTER": {"template": TEMPLATE}, "Chief": {"template": TEMPLATE}}},
            "both a Chief and a Master",
        ),
        (
            {"tfReplicaSpecs": {"Evaluator": {"template": TEMPLATE, "replicas": 2}}},
            "at most 1 replica of the type Chief",
        ),
        ({"tfReplicaSpecs": {"Boss": {"template": TEMPLATE}}}, "knows only the types Chief, Master"),
        ({"cleanPodPolicy": "Some"}, 'Unsupported value: "Some"'),
        (
            {"tfReplicaSpecs": {"MASTER": {"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}}},
            "needs a container named tensorflow",
        ),
    ],
    ids=["two leaders", "two evaluators", "an unknown type", "an unknown policy", "no container tensorflow"],
)
async def test_older_versions_have_rules_of_their_own(plane, namespace, older_versions, wrong, sentence):
    with pytest.raises(ApiRefusedError, match=sentence):
        plane.admin.create(path("v1beta1", namespace), old_job("v1beta1", **wrong))


@pytest.fixture(scope="module")
def older_versions(shared_plane):
    """The versions alone: what a version itself refuses needs no webhook."""
    define(shared_plane, f"--older-versions={','.join(OLDER)}", f"--webhook=https://{HOST}:1")
    yield
    define(shared_plane)


async def test_users_of_v1_do_not_notice_that_the_webhook_is_down(plane, namespace, older_versions):
    async with operator(plane, namespaces=[namespace], user="admin"):
        plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())
        await asyncio.to_thread(plane.admin.wait_for, f"/api/v1/namespaces/{namespace}/pods/j-worker-0")

        assert [item["metadata"]["name"] for item in plane.admin.get(TFJOBS.path(namespace))["items"]] == ["j"]
        with pytest.raises(ApiRefusedError, match=r"conversion webhook for kubeflow.org/v1, Kind=TFJob failed"):
            plane.admin.get(path("v1beta1", namespace, "j"))


async def test_no_request_fails_while_the_certificate_is_renewed(plane, namespace):
    now = datetime.now(UTC)
    old = keys.next_keys(keys.Keys(), HOST, now - keys.VALID_FOR * 0.7)
    due = keys.next_keys(old, HOST, now - keys.KNOWN_AFTER + timedelta(seconds=15))
    async with serving(plane, namespace, due):
        plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())

        def has_changed():
            plane.admin.get(path("v1beta1", namespace, "j"))
            found = plane.admin.get(SECRETS.path(namespace, SECRET))["data"]
            return base64.b64decode(found["tls.crt"]) == due.waiting.certificate

        assert not has_changed()
        await eventually(has_changed, within=60)
        for _ in range(10):
            plane.admin.get(path("v1beta1", namespace, "j"))
