"""What the builders build is accepted by a real apiserver, every field of it known and of the right type."""

import pytest

from support import builders
from support.api import Api, RefusedError
from support.crds import create_crd
from support.resources import CONFIG_MAPS, PODS, SERVICES, Resource, resource_of
from support.templates import Template

INT, TEXT, FLAG = {"type": "integer"}, {"type": "string"}, {"type": "boolean"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def record(required: tuple[str, ...] = (), **properties: object) -> dict:
    found = {"type": "object", "properties": properties}
    return found | {"required": list(required)} if required else found


def tfjob_crd(group: str) -> dict:
    """TFJob as tfjob-v1.md section 1 has it, under another group, as the real one may be served already.

    Written from the upstream facts and not from manifests/crd: it judges the builders' spelling.
    """
    scheduling = record(
        minAvailable=INT,
        queue=TEXT,
        priorityClass=TEXT,
        scheduleTimeoutSeconds=INT,
        minResources={"type": "object", "additionalProperties": TEXT},
    )
    policy = record(
        cleanPodPolicy=TEXT,
        ttlSecondsAfterFinished=INT,
        activeDeadlineSeconds=INT,
        backoffLimit=INT,
        suspend=FLAG,
        managedBy=TEXT,
        schedulingPolicy=scheduling,
        startupDeadlineSeconds=INT,
    )
    replica = record(replicas=INT, restartPolicy=TEXT, template=OPEN)
    spec = record(
        ("tfReplicaSpecs",),
        tfReplicaSpecs={"type": "object", "additionalProperties": replica},
        successPolicy=TEXT,
        enableDynamicWorker=FLAG,
        runPolicy=policy,
    )
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"tfjobs.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "tfjobs", "singular": "tfjob", "kind": "TFJob", "listKind": "TFJobList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": record(spec=spec, status=OPEN)},
                }
            ],
        },
    }


FULL_TEMPLATE = (
    Template()
    .command("train")
    .env({"A": "1"})
    .port("tfjob-port", 2222)
    .resources(requests={"cpu": "100m"}, limits={"memory": "1Gi"})
    .sidecar()
    .init()
    .sidecar("native", native=True)
    .labels({"a": "b"})
    .annotations({"c": "d"})
    .spec(nodeSelector={"e": "f"}, schedulerName="s", terminationGracePeriodSeconds=3)
)
FULL_JOB = (
    builders.tfjob("full")
    .labels({"a": "b"})
    .annotations({"c": "d"})
    .chief(restart="OnFailure")
    .workers(3, restart="ExitCode", template=FULL_TEMPLATE)
    .parameter_servers(2, restart="Always")
    .evaluators(restart="Never")
    .clean_pods("Running")
    .backoff_limit(3)
    .deadline(60)
    .ttl(10)
    .startup_deadline(5)
    .suspended()
    .managed_by()
    .success_policy()
    .dynamic_workers()
    .scheduling(min_available=1, queue="q", priority_class="p", min_resources={"cpu": "1"}, timeout=9)
)


@pytest.fixture
async def tfjobs(admin: Api, namespace: str) -> Resource:
    return await create_crd(admin, tfjob_crd(f"{namespace}.test"))


@pytest.fixture
async def stored_job(admin: Api, namespace: str, tfjobs: Resource) -> dict:
    """FULL_JOB, stored: an owner that the garbage collector finds."""
    job = FULL_JOB.merged({"apiVersion": tfjobs.api_version}).body()
    return await admin.create(tfjobs.path(namespace), job)


def test_the_resource_of_the_judging_crd_is_the_real_one_but_for_the_group():
    assert resource_of(tfjob_crd("kubeflow.org")).path() == "/apis/kubeflow.org/v1/tfjobs"


async def test_a_job_with_every_field_is_stored_as_it_was_built(stored_job):
    assert stored_job["spec"] == FULL_JOB.body()["spec"]


async def test_a_field_that_tfjob_v1_does_not_have_would_have_been_refused(admin, namespace, tfjobs):
    job = builders.tfjob().workers(1).merged({"apiVersion": tfjobs.api_version, "spec": {"runPolcy": {}}})

    with pytest.raises(RefusedError, match=r'unknown field "spec\.runPolcy"'):
        await admin.create(tfjobs.path(namespace), job.body())


async def test_children_of_a_job_are_accepted_and_belong_to_it(admin, namespace, stored_job):
    for kind, index in (("Chief", 0), ("Worker", 2), ("PS", 1), ("Evaluator", 0)):
        pod = await admin.create(PODS.path(namespace), builders.child_pod(stored_job, kind, index).body())
        service = builders.child_service(stored_job, kind, index).body()
        service = await admin.create(SERVICES.path(namespace), service)

        name = f"full-{kind.lower()}-{index}"
        for child in (pod, service):
            (owner,) = child["metadata"]["ownerReferences"]
            assert (child["metadata"]["name"], owner["uid"]) == (name, stored_job["metadata"]["uid"])
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


async def test_a_free_pod_and_service_are_accepted_with_all_they_can_have(admin, namespace):
    owner = await admin.create(
        CONFIG_MAPS.path(namespace),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}},
    )
    pod = builders.pod("a").shaped(FULL_TEMPLATE).restart("OnFailure").in_namespace(namespace)
    pod = pod.labels({"x": "y"}).owned_by(owner).finalizer("test.tf-operator/f")
    service = builders.service("s").selecting({"x": "y"}).port("p", 80)

    stored = await admin.create(PODS.path(namespace), pod.body())
    await admin.create(SERVICES.path(namespace), service.body())

    assert stored["metadata"]["finalizers"] == ["test.tf-operator/f"]
    assert [entry["name"] for entry in stored["spec"]["initContainers"]] == ["init", "native"]
    await admin.patch(PODS.path(namespace, "a"), {"metadata": {"finalizers": None}})
