"""Jobs that were stored before the CRD had any rules: they can be read, labelled, reported on and deleted.

The real CRD is served under a group of the test's own: first without a schema, as the oldest operators had it, then as
it is.
"""

import copy

import pytest

from support.api import RefusedError
from support.crds import create_crd
from support.jobs import builders
from support.resources import CRDS
from support.settle import eventually
from tf_operator.dialects.kubeflow.v1 import API

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "TFJobInvalidSpec", "message": "why"}]}


def spec(policy=None, more=None, **replica_specs):
    return {"tfReplicaSpecs": replica_specs} | ({} if policy is None else {"runPolicy": policy}) | (more or {})


def worker(**fields):
    return spec(Worker={"template": TEMPLATE, **fields})


BREAKING_A_RULE = {
    "no replica specs": {},
    "null replica specs": {"tfReplicaSpecs": None},
    "empty replica specs": spec(),
    "unknown type": spec(Foo={"template": TEMPLATE}),
    "six types": spec(**{kind: {"template": TEMPLATE} for kind in "ABCDEF"}),
    "same type twice": spec(worker={"template": TEMPLATE}, Worker={"template": TEMPLATE}),
    "chief and master": spec(Chief={"template": TEMPLATE}, Master={"template": TEMPLATE}),
    "two chiefs": spec(Chief={"replicas": 2, "template": TEMPLATE}),
    "null replica": spec(Worker=None),
    "no template": spec(Worker={}),
    "too many replicas": worker(replicas=2**31 - 1),
    "unknown restart policy": worker(restartPolicy="Sometimes"),
    "no containers": spec(Worker={"template": {"spec": {}}}),
    "empty containers": spec(Worker={"template": {"spec": {"containers": []}}}),
    "misspelt container": spec(Worker={"template": {"spec": {"containers": [{"name": "tensorlow", "image": "i"}]}}}),
    "negative deadline": spec({"activeDeadlineSeconds": -1}, Worker={"template": TEMPLATE}),
    "text for a flag": spec({"suspend": "no"}, Worker={"template": TEMPLATE}),
    "unknown manager": spec({"managedBy": "me"}, Worker={"template": TEMPLATE}),
    "unknown policies": spec({"cleanPodPolicy": "x"}, {"successPolicy": "y"}, Worker={"template": TEMPLATE}),
}
POLICY = "text for a policy"
OF_THE_WRONG_TYPE = {
    "text for a number": worker(replicas="three"),
    "fraction for a number": worker(replicas=1.5),
    "text for replica specs": {"tfReplicaSpecs": "two workers"},
    "text for a replica": spec(Worker="one"),
    POLICY: spec("soft", Worker={"template": TEMPLATE}),
    "list for replica specs": {"tfReplicaSpecs": [{"tfReplicaType": "WORKER"}]},
}
# The API server's own check for kinds that can be scaled asks this in every write, whatever it changes.
UNSCALABLE = {"negative workers": worker(replicas=-1)}
MALFORMED = BREAKING_A_RULE | OF_THE_WRONG_TYPE | UNSCALABLE


def in_group(group):
    """The real CRD under another group."""
    body = API.crd.load()
    body["metadata"]["name"] = f"tfjobs.{group}"
    body["spec"]["group"] = group
    del body["spec"]["names"]["shortNames"]  # kubectl would warn others of two
    return body


def without_schema(body):
    body = copy.deepcopy(body)
    version = body["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version["subresources"] = {"status": {}}
    del version["selectableFields"], version["additionalPrinterColumns"]
    return body


class Upgrade:
    """Jobs under the old CRD, and the step to the new one."""

    def __init__(self, admin, namespace, new, resource):
        self.admin, self.namespace, self.new, self.resource = admin, namespace, new, resource

    def path(self, name="j", subresource=""):
        return self.resource.path(self.namespace, name, subresource)

    async def create(self, spec, name="j"):
        body = {"apiVersion": self.resource.api_version, "kind": "TFJob", "metadata": {"name": name}}
        return await self.admin.create(self.path(""), body | ({} if spec is None else {"spec": spec}))

    async def run(self):
        await self.admin.patch(CRDS.path(name=self.new["metadata"]["name"]), {"spec": self.new["spec"]})

        async def is_served():
            try:
                await self.admin.create(
                    self.path(""),
                    builders.tfjob("1").merged({"apiVersion": self.resource.api_version}).body(),
                    dryRun="All",
                )
            except RefusedError as refusal:
                return refusal.status == 422
            return False

        await eventually(is_served)


@pytest.fixture
async def upgrade(admin, namespace):
    """The old CRD, served; ``run`` brings the new one."""
    new = in_group(f"{namespace}.test")
    return Upgrade(admin, namespace, new, await create_crd(admin, without_schema(new)))


async def test_every_malformed_job_gets_a_status_again_and_again_and_can_be_deleted(upgrade):
    names = {f"j-{number}": flaw for number, flaw in enumerate(MALFORMED)}
    for name, flaw in names.items():
        await upgrade.create(MALFORMED[flaw], name)
    await upgrade.create(None, "no-spec")
    await upgrade.create(MALFORMED["no template"], "1.has-a-name-that-no-service-can-have")
    await upgrade.run()

    for name, flaw in (names | {"no-spec": "", "1.has-a-name-that-no-service-can-have": ""}).items():
        for status in (FAILED, {"ready": "0/0", "observedGeneration": 1}, {"restarts": 1, "theirs": {"kept": True}}):
            written = await upgrade.admin.patch(upgrade.path(name, "status"), {"status": status})
            assert status.items() <= written["status"].items(), flaw
        await upgrade.admin.delete(upgrade.path(name))


async def test_a_job_that_breaks_a_rule_can_still_be_labelled(upgrade):
    for number, malformed in enumerate(BREAKING_A_RULE.values()):
        await upgrade.create(malformed, f"j-{number}")
    await upgrade.run()

    for number, flaw in enumerate(BREAKING_A_RULE):
        patch = {"metadata": {"labels": {"a": "b"}}}
        written = await upgrade.admin.patch(upgrade.path(f"j-{number}"), patch)
        assert written["metadata"]["labels"] == {"a": "b"}, flaw


@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param(UNSCALABLE | {name: job for name, job in OF_THE_WRONG_TYPE.items() if name != POLICY}, id="most"),
        pytest.param({POLICY: OF_THE_WRONG_TYPE[POLICY]}, id=POLICY, marks=pytest.mark.real_server("types in rules")),
    ],
)
async def test_a_job_that_no_rule_can_read_cannot_be_edited_any_more(upgrade, jobs):
    """As docs/api.md says: it gets a status, and can be deleted and created again."""
    for number, malformed in enumerate(jobs.values()):
        await upgrade.create(malformed, f"j-{number}")
    await upgrade.run()

    for number, flaw in enumerate(jobs):
        with pytest.raises(RefusedError, match="Invalid") as refused:
            await upgrade.admin.patch(upgrade.path(f"j-{number}"), {"metadata": {"labels": {"a": "b"}}})
        assert refused.value.status == 422, flaw


async def test_what_a_change_does_not_touch_is_not_checked_again(upgrade):
    await upgrade.create(BREAKING_A_RULE["misspelt container"])
    await upgrade.run()

    await upgrade.admin.patch(upgrade.path(), {"spec": {"runPolicy": {"suspend": True, "ttlSecondsAfterFinished": 9}}})
    with pytest.raises(RefusedError, match="needs a container named tensorflow in the template of Worker"):
        await upgrade.admin.patch(upgrade.path(), {"spec": {"tfReplicaSpecs": {"Worker": {"restartPolicy": "Always"}}}})
    await upgrade.admin.patch(upgrade.path(), {"spec": {"tfReplicaSpecs": {"Worker": {"template": TEMPLATE}}}})


async def test_a_name_that_is_too_long_for_its_replicas_lets_them_become_fewer_and_no_more(upgrade):
    name = "a" * 60
    dynamic = spec(None, {"enableDynamicWorker": True}, Worker={"replicas": 5, "template": TEMPLATE})
    await upgrade.create(dynamic, name)
    await upgrade.run()

    await upgrade.admin.patch(upgrade.path(name), {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 4}}}})
    with pytest.raises(RefusedError, match="is too long for the type Worker"):
        await upgrade.admin.patch(upgrade.path(name), {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 5}}}})


async def test_policies_of_the_oldest_form_are_kept(upgrade):
    """Flat beside the replica specs, where they are in force."""
    await upgrade.create(spec(None, {"cleanPodPolicy": "All", "backoffLimit": 3}, Worker={"template": TEMPLATE}))
    await upgrade.run()

    stored = (await upgrade.admin.get(upgrade.path()))["spec"]

    assert set(stored) == {"tfReplicaSpecs", "runPolicy", "cleanPodPolicy", "backoffLimit"}
    assert (stored["cleanPodPolicy"], stored["backoffLimit"]) == ("All", 3)
