"""What v1 refuses to change, no other door to the same job changes.

One table: each rule of the CRD of v1 that is about changes, times each way to write a job in any of its versions.
"""

import asyncio
import copy
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio
from msgspec import structs

from support.api import Api, RefusedError
from support.embedded.embedded_plane import EmbeddedPlane
from support.jobs import builders
from support.jobs.older_versions import TEMPLATE, old_job, path, serving
from support.jobs.templates import Template
from support.resources import CRDS, TFJOBS, Json
from support.settle import eventually
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.kubeflow.versions import remainder
from tf_operator.dialects.kubeflow.versions.conversion import OLDER, STORED, convert

pytestmark = pytest.mark.asyncio(loop_scope="module")
JOB = builders.tfjob("j").chief().workers(2)
ELASTIC = JOB.elastic(1, 4)
ELASTIC_SERVERS = JOB.parameter_servers().elastic(1, 4, parameterServers={"maxReplicas": 2})
DYNAMIC = JOB.dynamic_workers()
GROWING = JOB.oom_policy("Worker", "8Gi", limit="4Gi")
QUEUED = JOB.scheduling(queue="a")
RULED = builders.tfjob("j").chief().workers(2, template=Template().main(restartPolicy="Never"))
LONG = "j" * 54
"""Of the Services of this job, and of ten workers, but not of eleven, the names are short enough."""
OURS, THEIRS = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"
PREFIX = "tf-operator.kubeflow.org"
NOTES = f"{PREFIX}/v1-fields"
CRD = v1.API.crd.load(*OLDER)
VERSIONS = {version["name"]: version for version in CRD["spec"]["versions"]}
SPECS = ".spec.tfReplicaSpecs"
BY_SERVER, BY_WEBHOOK = "replicas field .* does not exist", "v1, in which jobs are stored, does not take"
STARTED = {
    "conditions": [
        {"type": "Created", "status": "True", "reason": "TFJobCreated"},
        {"type": "Running", "status": "True", "reason": "TFJobRunning"},
    ],
    "startTime": "2026-01-01T00:00:00Z",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def versions_plane(fresh_plane):
    """A plane that serves all versions; a real one has an operator for its webhook, which looks after no job here."""
    with fresh_plane() as plane:
        if isinstance(plane, EmbeddedPlane):
            plane.admin.patch(CRDS.path(name="tfjobs.kubeflow.org"), {"spec": {"versions": [*VERSIONS.values()]}})
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


# --- The rules ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A change that a rule of v1 forbids, of a job that runs."""

    field: str
    rule: str
    """A part of what the rule says."""
    job: Json
    spec: Json
    """A merge patch."""
    name: str = ""
    """Another name for the job."""
    says: str = ""
    """A regular expression: what v1 answers where another check comes before the rule."""

    def goal(self, stored: Json) -> Json:
        changed = builders.merge(stored, {"spec": self.spec})
        return builders.merge(changed, {"metadata": {"name": self.name}} if self.name else {})


def change(id: str, field: str, rule: str, job: builders.TFJobBuilder | Json, spec: Json, **more: str):  # noqa: A002
    body = job if isinstance(job, dict) else job.body()
    return pytest.param(Change(field, rule, body, spec, **more), id=id)


def whole(kind: str, count: int = 1) -> Json:
    """A type of replicas with all that it needs."""
    return {"tfReplicaSpecs": builders.tfjob().replicas(kind, count).body()["spec"]["tfReplicaSpecs"]}


def counts(**sizes: int | None) -> Json:
    return {"tfReplicaSpecs": {kind: count if count is None else {"replicas": count} for kind, count in sizes.items()}}


def worker(**fields: object) -> Json:
    return {"tfReplicaSpecs": {"Worker": fields}}


def container(**fields: object) -> Json:
    return worker(template={"spec": {"containers": [fields]}})


def policy(**fields: object) -> Json:
    return {"runPolicy": fields}


STAY, BOUNDS = "types and numbers of replicas can only change", "<= number of workers"
ONLY_BEFORE = ".spec.runPolicy.managedBy", "cannot be set, changed or removed after creation"
QUEUE = ".spec.runPolicy.schedulingPolicy.queue", "cannot be changed or removed once it is set"
WHOLE = ".spec.runPolicy.restarts.scope", "must be Replica with enableDynamicWorker"
METHOD = ".spec.runPolicy.restarts.method", "must be Recreate unless the scope is Job"
HOW = METHOD[0], "can only change while the job is suspended"
OWN_RULES = METHOD[0], "must be Recreate where a container 'tensorflow' has a restartPolicy"
MEMORY = SPECS, "needs an oomPolicy.maxMemory that is at least the memory limit"
MODE = ".spec.serviceMode", "can only change while the job is suspended"
HOSTS = MODE[0], "must be Replica where a template has a hostname or subdomain"
OPEN = ".spec.networkPolicy", "must be None where a template has hostNetwork"
ON_HOSTS = builders.tfjob("j").chief().workers(2, template=Template().spec(hostNetwork=True))
ONE_SERVICE = JOB.service_mode("Job")
NAMED = builders.tfjob("j").chief().workers(2, template=Template().spec(hostname="a"))
LARGE = {"name": "tensorflow", "image": "x", "resources": {"limits": {"memory": "9Gi"}}}
FORMAT = ".spec.tfConfigFormat", "can only change while the job is suspended"
OLDEST = old_job(
    "v1alpha1",
    replicaSpecs=[
        {
            "tfReplicaType": kind,
            "replicas": count,
            "template": TEMPLATE,
        }
        for kind, count in (("MASTER", 1), ("WORKER", 2))
    ],
)
OLDEST_ELASTIC = builders.merge(OLDEST, {"spec": {"max-instance": 4}})
CHANGES = [
    change(
        "another name",
        ".metadata.name",
        "has to start with a lower-case letter",
        JOB,
        {},
        name="1",
        says="does not match",
    ),
    change(
        "no replicas",
        SPECS,
        "needs at least one type",
        JOB,
        counts(Worker=None, Chief=None),
        says="needs at least one type|must be of type object",
    ),
    change("an unknown type", SPECS, "knows only the types", JOB, whole("Helper")),
    change("a type twice", SPECS, "has the same type twice", JOB, whole("WORKER", 2)),
    change("chief and master", SPECS, "cannot have both a Chief and a Master", JOB, whole("Master")),
    change("two chiefs", SPECS, "can have at most 1 replica", JOB, counts(Chief=2)),
    change(
        "no container that trains", SPECS, "needs a container named tensorflow", JOB, container(name="x", image="x")
    ),
    change("no image", SPECS, "needs an image for each container", JOB, container(name="tensorflow")),
    change("too many for the name", ".metadata.name", "is too long", DYNAMIC.named(LONG), counts(Worker=11)),
    change("more workers", SPECS, STAY, JOB, counts(Worker=3)),
    change("fewer workers", SPECS, STAY, JOB, counts(Worker=1)),
    change("in another case", SPECS, STAY, builders.tfjob("j").chief().replicas("worker", 2), counts(worker=3)),
    change("no workers", SPECS, STAY, JOB, counts(Worker=0)),
    change("a type less", SPECS, STAY, JOB, counts(Chief=None)),
    change("a new type", SPECS, STAY, JOB, whole("PS")),
    change("an evaluator", SPECS, STAY, JOB, whole("Evaluator")),
    change("dynamic only now", SPECS, STAY, JOB, {"enableDynamicWorker": True} | counts(Worker=3)),
    change("elastic only now", SPECS, STAY, JOB, {"elasticPolicy": {"maxReplicas": 4}} | counts(Worker=3)),
    change("no dynamic workers", SPECS, STAY, DYNAMIC, counts(Worker=None)),
    change("servers of an elastic job", SPECS, STAY, ELASTIC.parameter_servers(), counts(PS=2)),
    change("servers of a dynamic job", SPECS, STAY, DYNAMIC.parameter_servers(), counts(PS=2)),
    change("created in v1alpha1", SPECS, STAY, OLDEST, counts(Worker=3)),
    change("v1alpha1, elastic only now", SPECS, STAY, OLDEST, {"elasticPolicy": {"maxReplicas": 4}} | counts(Worker=3)),
    change("beyond the elastic policy", ".spec.elasticPolicy", BOUNDS, ELASTIC, counts(Worker=6)),
    change("below the elastic policy", ".spec.elasticPolicy", BOUNDS, JOB.elastic(2, 4), counts(Worker=1)),
    change("a narrower elastic policy", ".spec.elasticPolicy", BOUNDS, ELASTIC, {"elasticPolicy": {"maxReplicas": 1}}),
    change("suspended, beyond", ".spec.elasticPolicy", BOUNDS, ELASTIC.suspended(), counts(Worker=6)),
    change("beyond max-instance", ".spec.elasticPolicy", BOUNDS, OLDEST_ELASTIC, counts(Worker=6)),
    change(
        "too many elastic servers",
        ".spec.elasticPolicy.parameterServers",
        "<= number of parameter servers",
        ELASTIC_SERVERS,
        counts(PS=3),
    ),
    change("another TF_CONFIG", *FORMAT, JOB, {"tfConfigFormat": "Sparse"}),
    change("the default TF_CONFIG", *FORMAT, JOB.tf_config_format("Sparse"), {"tfConfigFormat": None}),
    change("one Service", *MODE, JOB, {"serviceMode": "Job"}),
    change("a Service for each replica", *MODE, ONE_SERVICE, {"serviceMode": None}),
    change("one Service and a host name", *HOSTS, NAMED.suspended(), {"serviceMode": "Job"}),
    change("a NetworkPolicy for the network of hosts", *OPEN, ON_HOSTS, {"networkPolicy": "Job"}),
    change("give the job away", *ONLY_BEFORE, JOB, policy(managedBy=THEIRS)),
    change("change the manager", *ONLY_BEFORE, JOB.managed_by(THEIRS), policy(managedBy=OURS)),
    change("take the job back", *ONLY_BEFORE, JOB.managed_by(THEIRS), policy(managedBy=None)),
    change("give away a suspended job", *ONLY_BEFORE, JOB.suspended(), policy(managedBy=THEIRS)),
    change("restart as a whole", *WHOLE, DYNAMIC, policy(restarts={"scope": "Job"})),
    change("dynamic workers of a whole job", *WHOLE, JOB.restarts_as_a_whole(), {"enableDynamicWorker": True}),
    change(
        "a deadline without reports",
        ".spec.runPolicy.progressPolicy.deadlineSeconds",
        "needs reports: true",
        JOB.progress_deadline(60),
        policy(progressPolicy={"reports": False}),
    ),
    change(
        "a restart without a deadline",
        ".spec.runPolicy.progressPolicy.action",
        "must be Report without deadlineSeconds",
        JOB.progress_deadline(60, "Restart"),
        policy(progressPolicy={"deadlineSeconds": None}),
    ),
    change("restart one replica in place", *METHOD, JOB, policy(restarts={"scope": "Replica", "method": "InPlace"})),
    change(
        "a smaller scope in place", *METHOD, JOB.restarts_as_a_whole("InPlace"), policy(restarts={"scope": "Replica"})
    ),
    change(
        "restart in place by other rules", *OWN_RULES, RULED, policy(restarts={"scope": "Job", "method": "InPlace"})
    ),
    change("restart in place only now", *HOW, JOB.restarts_as_a_whole(), policy(restarts={"method": "InPlace"})),
    change(
        "restart in place no longer", *HOW, JOB.restarts_as_a_whole("InPlace"), policy(restarts={"method": "Recreate"})
    ),
    change("no restarts in place", *HOW, JOB.restarts_as_a_whole("InPlace"), policy(restarts=None)),
    change("less memory at most", *MEMORY, GROWING, worker(oomPolicy={"maxMemory": "3Gi"})),
    change("a limit above the most", *MEMORY, GROWING, container(**LARGE)),
    change("another queue", *QUEUE, QUEUED, policy(schedulingPolicy={"queue": "b"})),
    change("no queue", *QUEUE, QUEUED, policy(schedulingPolicy=None)),
]


# --- The doors ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Visit:
    """Somebody who wants a job to be as v1 does not let it become, before a door."""

    client: Api
    place: str
    version: str
    stored: Json
    """The job in v1."""
    goal: Json
    """As it should be, in v1."""

    @property
    def target(self) -> str:
        return path(self.version, self.place, self.stored["metadata"]["name"])

    async def job(self) -> Json:
        return await self.client.get(self.target)

    async def intent(self) -> Json:
        """The job as it is wanted in this version, with an annotation for what only v1 has."""
        goal = convert(self.goal, self.version)
        metadata = {name: value for name, value in goal["metadata"].items() if name in {"name", "annotations"}}
        return {name: goal[name] for name in ("apiVersion", "kind", "spec")} | {"metadata": metadata}

    async def annotate(self, version: str) -> None:
        """Say of each version in annotations that it had what is wanted, and the widest elastic policy."""
        widest = builders.merge(self.goal, {"spec": {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 10_000}}})
        target = path(version, self.place, self.stored["metadata"]["name"])
        await self.client.patch(target, {"metadata": {"annotations": notes(self.stored, widest)}})


async def write(visit: Visit) -> None:
    job, intent = await visit.job(), await visit.intent()
    metadata = builders.merge(job["metadata"], intent["metadata"])
    await visit.client.replace(visit.target, job | {"metadata": metadata, "spec": intent["spec"]})


async def write_without_annotations(visit: Visit) -> None:
    job, intent = await visit.job(), await visit.intent()
    metadata = {name: value for name, value in job["metadata"].items() if name != "annotations"}
    await visit.client.replace(
        visit.target, job | {"metadata": metadata | {"name": intent["metadata"]["name"]}, "spec": intent["spec"]}
    )


async def patch(visit: Visit) -> None:
    intent = await visit.intent()
    await visit.client.patch(
        visit.target,
        [
            {"op": "replace", "path": "/spec", "value": intent["spec"]},
            *({"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in intent["metadata"].items()),
        ],
        "json",
    )


async def apply(visit: Visit) -> None:
    await visit.client.patch(visit.target, await visit.intent(), "apply")


async def scale(visit: Visit) -> None:
    old, new = (body["spec"]["tfReplicaSpecs"] for body in (visit.stored, visit.goal))
    workers = new.get("Worker") or old.get("Worker") or {"replicas": 3}  # another spelling has no scale
    await visit.client.patch(f"{visit.target}/scale", {"spec": {"replicas": workers["replicas"]}})


async def status(visit: Visit) -> None:
    """With a spec, annotations and all that is fixed as if the job were as it is wanted."""
    intent, goal = await visit.intent(), convert(visit.goal, visit.version)
    forged = {name: value for name, value in goal["status"].items() if name == "fixed"}
    await visit.client.patch(f"{visit.target}/status", intent | {"status": forged})


async def annotations(visit: Visit) -> None:
    """In an edit of nothing else."""
    await visit.annotate(visit.version)


async def annotations_before_a_write(visit: Visit) -> None:
    await visit.annotate(STORED)
    job, intent = await visit.job(), await visit.intent()
    replicas = {name: intent["spec"][name] for name in ("tfReplicaSpecs", "replicaSpecs") if name in intent["spec"]}
    await visit.client.replace(visit.target, job | {"spec": job["spec"] | replicas})


def notes(stored: Json, goal: Json) -> Json:
    """Annotations that say of each version that it had what is wanted."""
    notes_by_key = {NOTES: remainder.encode([*remainder.differences(goal["spec"], stored["spec"])])}
    for version in OLDER:
        old, new = (convert(body, version)["spec"] for body in (stored, goal))
        notes_by_key[f"{PREFIX}/{version}-fields"] = remainder.encode([*remainder.differences(new, old)])
    return notes_by_key | {f"{PREFIX}/origin": "v1" if stored["status"].get("origin") else "v1alpha1"}


Door = Callable[[Visit], Awaitable[None]]
SPEC_DOORS = (write, write_without_annotations, patch, apply)
DOORS: dict[str, tuple[Door, ...]] = {
    name: (
        *SPEC_DOORS,
        *({"scale": scale, "status": status}[subresource] for subresource in version["subresources"]),
        annotations,
        annotations_before_a_write,
    )
    for name, version in VERSIONS.items()
}


# --- The table ------------------------------------------------------------------------------------------------------


async def running(client: Api, place: str, job: Json) -> Json:
    """The job in v1, as if the operator had started it."""
    version, name = job["apiVersion"].rpartition("/")[2], job["metadata"]["name"]
    await client.patch(path(version, place, name), job, "apply")
    started = STARTED | ({"origin": version} if version != STORED else {})
    return await client.patch(TFJOBS.path(place, name) + "/status", {"status": started})


def read(body: Json) -> v1.TrainingJob:
    """The job as the operator has it, but for what changes with any write."""
    return structs.replace(v1.API.read_object(body), resource_version="", generation=0, annotations={})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("change", CHANGES)
async def test_what_v1_forbids_is_refused_at_every_door_or_without_effect(client, place, change, version):
    name = change.job["metadata"]["name"]
    stored, open_doors = await running(client, place, change.job), {}
    for door in DOORS[version]:
        answer = "accepted"
        try:
            await door(Visit(client, place, version, stored, change.goal(stored)))
        except RefusedError as refusal:
            answer = str(refusal)
        assert re.search(f"^accepted$|422 Invalid|400 BadRequest|500 .*({BY_SERVER}|{BY_WEBHOOK})", answer), answer
        if version == STORED and door in SPEC_DOORS:
            assert re.search(change.says or re.escape(change.rule), answer), f"{door.__name__}: {answer}"
        stored_before, stored = stored, await client.get(TFJOBS.path(place, name))
        if read(stored) != read(stored_before):
            open_doors[door.__name__] = stored["spec"]
            await client.delete(TFJOBS.path(place, name))
            stored = await running(client, place, change.job)
    assert open_doors == {}


async def test_the_table_has_each_rule_of_v1_about_changes():
    rules = VERSIONS[STORED]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    about_changes = [(rule["fieldPath"], rule["message"]) for rule in rules if "oldSelf" in rule["rule"]]
    rows = {(row.values[0].field, row.values[0].rule) for row in CHANGES}
    assert [
        rule for rule in about_changes if not any(field == rule[0] and text in rule[1] for field, text in rows)
    ] == []


# --- What v1 allows ---------------------------------------------------------------------------------------------------


ALLOWED = [
    pytest.param(ELASTIC, {"Worker": 4}, id="within the elastic policy"),
    pytest.param(ELASTIC_SERVERS, {"Worker": 2, "PS": 2}, id="elastic servers"),
    pytest.param(DYNAMIC, {"Worker": 9}, id="dynamic workers"),
    pytest.param(JOB.suspended(), {"Worker": 9}, id="suspended"),
]


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


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize(("job", "numbers"), ALLOWED)
async def test_numbers_of_replicas_change_in_older_versions_as_in_v1(client, place, version, job, numbers):
    await client.create(TFJOBS.path(place), job.body())
    spec = await stored(client, place)

    await client.patch(path(version, place, "j"), {"spec": replicas(version, **numbers)})
    assert await stored(client, place) == spec | {"tfReplicaSpecs": spec["tfReplicaSpecs"] | numbers}

    if "scale" in VERSIONS[version]["subresources"]:
        await client.patch(f"{path(version, place, 'j')}/scale", {"spec": {"replicas": 3}})
        assert (await stored(client, place))["tfReplicaSpecs"]["Worker"] == 3


# --- Annotations and status -----------------------------------------------------------------------------------------


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
        pytest.param(JOB, note((("serviceMode",), "Job")), id="one Service"),
        pytest.param(ONE_SERVICE, None, id="a Service for each replica"),
        pytest.param(JOB, note((("networkPolicy",), "Job")), id="a NetworkPolicy"),
        pytest.param(JOB.network_policy("Job"), None, id="no NetworkPolicy"),
        pytest.param(JOB, note((("enableDynamicWorker",), True)), id="dynamic workers"),
        pytest.param(JOB, note((("elasticPolicy",), {"maxReplicas": 9})), id="an elastic policy"),
        pytest.param(ELASTIC, note((("elasticPolicy",), {"maxReplicas": 1})), id="a narrower elastic policy"),
        pytest.param(QUEUED, None, id="leave the queue"),
        pytest.param(QUEUED, note((("runPolicy", "schedulingPolicy"), {"queue": "b"})), id="another queue"),
        pytest.param(JOB, note((("runPolicy", "suspend"), True)), id="suspend"),
    ],
)
async def test_annotations_change_nothing_of_a_stored_job_that_only_v1_has(client, place, version, job, text):
    await client.create(TFJOBS.path(place), job.body())
    spec = await stored(client, place)

    await client.patch(path(version, place, "j"), {"metadata": {"annotations": {NOTES: text}}})
    body = await client.get(path(version, place, "j"))
    body["metadata"]["annotations"] = {}
    await client.replace(path(version, place, "j"), body)  # as kubectl replace

    assert await stored(client, place) == spec


async def test_what_is_fixed_cannot_be_written_to_the_status_either(client, place):
    await client.create(TFJOBS.path(place), JOB.body())
    forged = {"status": {"fixed": {"fields": note((("runPolicy", "managedBy"), THEIRS))}}}

    with pytest.raises(RefusedError, match="cannot change in the field fixed"):
        await client.patch(path("v1beta1", place, "j") + "/status", forged)
    await client.patch(path("v1beta1", place, "j") + "/status", {"status": {"fixed": None, "x": 1}})

    job = await client.get(TFJOBS.path(place, "j"))
    assert "managedBy" not in job["spec"]["runPolicy"]
    assert job["status"] == {"x": 1}


# --- Server-side apply ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OLDER)
async def test_a_manifest_of_an_older_version_can_be_rewritten_for_v1_and_back(client, place, version):
    """An API server converts what is left of the job without the fields of the other manifest."""
    manifest = old_job(version)
    rewritten = v1.API.in_own_version(manifest)
    original = await running(client, place, manifest)

    for body in (rewritten, manifest, rewritten):
        job = await client.patch(path(body["apiVersion"].rpartition("/")[2], place, "j"), body, "apply")
        assert job["apiVersion"] == body["apiVersion"]
        assert read(await client.get(TFJOBS.path(place, "j"))) == read(original)


# --- Names ----------------------------------------------------------------------------------------------------------


def named(version, name):
    return old_job(version, name) if version != STORED else {**JOB.body(), "metadata": {"name": name}}


IMPOSSIBLE = ("1", "a.b", "j" * 64)
TOO_LONG = LONG + "jj"
"""A Service of the master would have one character too many; in v1alpha1 that depends on the RuntimeId."""


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_new_job_needs_a_name_that_its_services_can_have_in_each_version(client, place, version):
    for name in IMPOSSIBLE if version == "v1alpha1" else (*IMPOSSIBLE, TOO_LONG):
        with pytest.raises(RefusedError) as refusal:
            await client.create(path(version, place), named(version, name), dryRun="All")
        assert list(refusal.value.complaints) == ["metadata.name"], name
    await client.create(path(version, place), named(version, LONG), dryRun="All")


@contextmanager
def without_rules(plane):
    """The definition without those of v1, as an older one may have been."""
    definition = CRDS.path(name=TFJOBS.qualified)
    versions = plane.admin.get(definition)["spec"]["versions"]
    lax = copy.deepcopy(versions)
    for version in lax:
        version["schema"]["openAPIV3Schema"].pop("x-kubernetes-validations")
    plane.admin.patch(definition, {"spec": {"versions": lax}})
    yield
    plane.admin.patch(definition, {"spec": {"versions": versions}})


async def test_a_stored_job_that_has_no_such_name_can_be_changed_in_each_version(versions_plane, client, place):
    async def is_accepted(name):
        try:
            await client.create(TFJOBS.path(place), named(STORED, name))
        except RefusedError as refusal:
            return refusal.reason == "AlreadyExists"
        return True

    with without_rules(versions_plane):
        for name in (*IMPOSSIBLE, TOO_LONG):
            await eventually(lambda name=name: is_accepted(name))

    async def is_refused():
        return not await is_accepted("2")

    await eventually(is_refused)
    for version in VERSIONS:
        for name in (*IMPOSSIBLE, TOO_LONG):
            await client.patch(path(version, place, name), {"metadata": {"labels": {"in": version}}})
            job = await client.get(TFJOBS.path(place, name))
            assert (job["metadata"]["name"], job["metadata"]["labels"]["in"]) == (name, version)
