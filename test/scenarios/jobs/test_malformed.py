"""Jobs that no operator can run, stored when the CRD knew no rules: they disturb nobody, and each is told why.

Under a CRD without a schema everything can be stored. Then the real one is put in its place, and the operator starts.
"""

import copy
from itertools import cycle, islice

import pytest

from lab.control_plane.access import OPERATOR
from support.api import Api, RefusedError
from support.audit import AuditLog
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE, conditions
from support.operators.operator_fixture import make_namespaces, make_operator_fixture
from support.resources import CRDS, TFJOBS, Json
from support.settle import eventually

MALFORMED = 100
TEMPLATE: Json = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
MISSPELT: Json = {"spec": {"containers": [{"name": "tensorlow", "image": "i"}]}}


def _worker(**fields):
    return {"tfReplicaSpecs": {"Worker": {"template": TEMPLATE, **fields}}}


def _policy(**fields):
    return _worker() | {"runPolicy": fields}


# What is wrong, and what its message has to name.
KINDS: list[tuple[Json, str]] = [
    (_worker(template=MISSPELT), "tensorflow"),
    (_worker(replicas="three"), "replicas"),
    ({"tfReplicaSpecs": {"Chief": {"template": TEMPLATE}, "Master": {"template": TEMPLATE}}}, "Master"),
    ({"tfReplicaSpecs": {"Foo": {"template": TEMPLATE}}}, "Foo"),
    (_worker(template={"spec": {"containers": []}}), "containers"),
    (_policy(activeDeadlineSeconds=-1), "activeDeadlineSeconds"),
    ({"tfReplicaSpecs": {"Worker": None}}, "tfReplicaSpecs"),  # the apiserver hands out no null
    ({"tfReplicaSpecs": {}}, "tfReplicaSpecs"),
    ({"tfReplicaSpecs": "two workers"}, "tfReplicaSpecs"),
    (_worker(restartPolicy="Sometimes"), "restartPolicy"),
    (_worker(replicas=2**31 - 1), "replicas"),
    (_policy(backoffLimit=-3), "backoffLimit"),
    (_policy(cleanPodPolicy="Some"), "cleanPodPolicy"),
    (_worker(template={"spec": {"containers": [{"name": "tensorflow"}]}}), "image"),
]


@pytest.mark.parametrize("own_control_plane", [{"audit"}], indirect=True)
async def test_a_hundred_malformed_jobs_disturb_nobody(own_control_plane):
    plane = own_control_plane
    namespaces = await make_namespaces(plane, "malformed", 1)
    async with Api(plane.kubeconfig("admin")) as admin:
        expected = await _store_malformed(admin, namespaces[0])
    async with make_operator_fixture(plane, namespaces=namespaces) as operator_fixture:
        job_namespace, pid = operator_fixture.job_namespace(), operator_fixture.process.pid
        await _good_job_runs(job_namespace, "good")
        await eventually(lambda: _all_told(job_namespace, expected), within=60)
        await job_namespace.quiet(2.0)
        assert (operator_fixture.process.pid, operator_fixture.process.exit_code) == (pid, None)
        assert set(await job_namespace.pods()) == {"good-worker-0"}
        writes = AuditLog(plane.audit_log).since().by(user=OPERATOR.login, namespace=job_namespace.namespace).writes()
        bad = [entry for entry in writes.of("tfjobs.kubeflow.org/status") if entry.name.startswith("bad-")]
        assert len(bad) == MALFORMED, "one status for each"

        mark = job_namespace.mark()
        await operator_fixture.restart()
        await _good_job_runs(job_namespace, "better")
        await job_namespace.quiet(2.0)
        assert not [entry for entry in job_namespace.sent(mark).writes() if entry.name.startswith("bad-")]


async def _good_job_runs(job_namespace, name):
    await job_namespace.submit(builders.tfjob(name).workers(1))

    async def check():
        pods = await job_namespace.pods()
        assert f"{name}-worker-0" in pods
        return pods

    assert await eventually(check, within=PATIENCE)
    await job_namespace.run(f"{name}-worker-0")
    await job_namespace.wait(name, "Running")


async def _store_malformed(admin, namespace):
    """Store them all; what the message of each has to name."""
    path = CRDS.path(name=TFJOBS.qualified)
    real = await admin.get(path)
    await _replace(admin, real, _without_rules(real))
    first = {"apiVersion": TFJOBS.api_version, "kind": "TFJob", "metadata": {"name": "probe"}, "spec": {}}
    await eventually(lambda: _accepts(admin, namespace, first), within=60)
    expected = {}
    for number, (spec, named) in enumerate(islice(cycle(KINDS), MALFORMED)):
        body = first | {"metadata": {"name": f"bad-{number}"}, "spec": copy.deepcopy(spec)}
        await admin.create(TFJOBS.path(namespace), body)
        expected[f"bad-{number}"] = named
    await _replace(admin, await admin.get(path), real)
    await eventually(lambda: _refuses(admin, namespace, first), within=60)
    return expected


def _without_rules(crd):
    body = copy.deepcopy(crd)
    version = body["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version["subresources"] = {"status": {}}
    version.pop("selectableFields", None)
    version.pop("additionalPrinterColumns", None)
    return body


async def _replace(admin, present, crd):
    body = {**crd, "metadata": {**crd["metadata"], "resourceVersion": present["metadata"]["resourceVersion"]}}
    body.pop("status", None)
    await admin.replace(CRDS.path(name=TFJOBS.qualified), body)


async def _accepts(admin, namespace, body):
    try:
        await admin.create(TFJOBS.path(namespace), body, dryRun="All")
    except RefusedError:
        return False
    return True


async def _refuses(admin, namespace, body):
    return not await _accepts(admin, namespace, body)


async def _all_told(job_namespace, expected):
    jobs = {
        job["metadata"]["name"]: job for job in await job_namespace.admin.list(TFJOBS.path(job_namespace.namespace))
    }
    for name, named in expected.items():
        failed = conditions(jobs[name]).get("Failed", {})
        assert failed.get("reason") == "TFJobInvalidSpec", f"{name}: {jobs[name].get('status')}"
        assert named in failed["message"], f"{name}: {failed['message']}"
    return True
