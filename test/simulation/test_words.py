"""Each served API is reported on in its own words: no sentence names a field, a type or a kind that it does not have.

What an API has is derived from its CRD. Each life ends, or stops, for one of the reasons that planning knows.
"""

import logging
import re
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.embedded.pod_events import (
    everything_runs,
    fails,
    is_deleted,
    is_drained,
    is_stuck,
    refused_next,
    restarts_in_place,
    succeeds,
    time_passes,
)
from support.embedded.progress import LISTENING, reports
from support.embedded.simulator import Simulator
from tf_operator.client import events, job, pods
from tf_operator.client.explanation import checks
from tf_operator.client.explanation.situation import Situation
from tf_operator.client.plan import dry_run
from tf_operator.controller import resources
from tf_operator.dialects import registry
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.mlkube import v1beta1 as mlkube
from tf_operator.dialects.t9k import v1beta1 as t9k
from tf_operator.job.ending import EndReason
from tf_operator.job.record import NOT_ELASTIC, QueueRecord, ReplicaType, UnfitCause, UnfitRecord
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, Settings

APIS = {"v1": v1.API, "v1alpha1": v1.API, "mlkube": mlkube.API, "t9k": t9k.API}
VERSIONS = {name: api.resource.version for name, api in APIS.items()} | {"v1alpha1": "v1alpha1"}
LEADERS = {"v1": "chief", "v1alpha1": "master", "mlkube": "master", "t9k": "chief"}
POD_FIELDS = frozenset({"restartPolicy", "schedulerName"})
"""Of templates, which all APIs have; some have a field of that name beside the template."""


@dataclass(frozen=True)
class Life:
    """What happens to a job of these APIs, and a part of what is reported of it."""

    part: str
    moves: tuple[Any, ...] = ()
    apis: tuple[str, ...] = tuple(APIS)
    job: dict[str, Any] = field(default_factory=dict)
    settings: Settings = DEFAULT_SETTINGS


def manifest(of, *, name="job", workers=2, types=None, policy="", limits=None, pod=None, **more):
    """A job with a leader, workers and a parameter server, or with these types."""
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}], **(pod or {})}}
    head = {
        "apiVersion": f"{APIS[of].resource.group}/{VERSIONS[of]}",
        "kind": APIS[of].resource.kind,
        "metadata": {"name": name},
    }
    counts = types or {LEADERS[of]: 1, "worker": workers, "ps": 1}
    items = {kind: {"replicas": count, "template": template} for kind, count in counts.items()}
    fields = {"runPolicy": limits, **more} if limits else more
    if of in {"mlkube", "v1alpha1"}:
        template["spec"] |= {"restartPolicy": policy} if policy else {}
        return {**head, "spec": {"replicaSpecs": [{"tfReplicaType": k.upper(), **item} for k, item in items.items()]}}
    own = {"restartPolicy": policy} if policy else {}
    if of == "t9k":
        return {**head, "spec": {"replicaSpecs": [{"type": k, **item, **own} for k, item in items.items()], **fields}}
    names = {kind.label: str(kind) for kind in ReplicaType}
    return {**head, "spec": {"tfReplicaSpecs": {names[k]: {**item, **own} for k, item in items.items()}, **fields}}


def leader(move, *arguments):
    """The move of the replica that decides."""
    return lambda simulator: move(f"{simulator.job.main_replica[0].label}-0", *arguments)(simulator)


def edited(change):
    """The job is stored with another spec, whatever its schema says; ``change`` gets the spec and its replicas."""

    def edit(simulator):
        body = deepcopy(simulator.body)
        spec = body["spec"]
        body["metadata"]["generation"] += 1
        change(spec, list(spec["tfReplicaSpecs"].values()) if "tfReplicaSpecs" in spec else spec["replicaSpecs"])
        simulator.put(simulator.api.resource, body)

    return edit


def refuses(code):
    """A pod is lost, and no other one may be made."""

    def refuse(simulator):
        refused_next("create pods", code)(simulator)
        is_deleted("worker-1")(simulator)

    return refuse


def has_workers(count):
    return edited(lambda _, replicas: replicas[1].update(replicas=count))


def cannot_fit(cause):
    """The job queue has decided that the workers cannot fit."""

    def decide(simulator):
        queue = QueueRecord(queued_time=simulator.now, unfit=UnfitRecord(cause, ReplicaType.WORKER))
        simulator.tamper({"status": simulator.api.decision_patch(simulator.job, queue, NOT_ELASTIC)})

    return decide


RUNS = everything_runs
SUSPENDED, RESUMED = (edited(lambda spec, _, on=on: spec.update(runPolicy={"suspend": on})) for on in (True, False))
PAUSED, GOES_ON = (
    edited(lambda spec, _, on=on: spec.update(runMode={"pause": {"enabled": on}})) for on in (True, False)
)
LACKS_IMAGE = edited(
    lambda _, replicas: replicas[1].update(template={"spec": {"containers": [{"name": "tensorflow"}]}})
)
LACKS_LEADER = edited(lambda spec, replicas: spec.update(replicaSpecs=replicas[2:]))
WITH_POLICIES = ("v1", "t9k")
"""Whose replicas have restart policies, and whose jobs have limits."""
LISTS = ("mlkube", "t9k")
NEVER, ON_FAILURE, BY_CODE = ({"policy": policy} for policy in ("Never", "OnFailure", "ExitCode"))
LIMITS = {"limits": {"backoffLimit": 1, "activeDeadlineSeconds": 500}}
AT_ONCE = {"limits": {"startupDeadlineSeconds": 5}}
AFTER_A_SILENCE = {"limits": {"progressPolicy": {"reports": True, "deadlineSeconds": 60, "action": "Fail"}}}
DYNAMIC = {"types": {"worker": 2}, "enableDynamicWorker": True}
LARGE = {"name": "a-name-that-is-as-long-as-many-are-in-clusters", "workers": 1900}
OWN = {"schedulerName": "mine", "restartPolicy": "Never"}
OWN_CONFIG = {
    "containers": [{"name": "tensorflow", "image": "i", "env": [{"name": "TF_CONFIG", "value": '{"cluster": {}}'}]}]
}
QUEUE, GANG = Settings(has_job_queue=True), Settings(gang_scheduler="volcano")
LIVES = {
    "success": Life("successfully completed.", (RUNS, leader(succeeds))),
    "run": Life("it succeeds when", (RUNS,)),
    "no replicas": Life("It has no replicas", (), ("v1",), {"types": {"worker": 0}}),
    "failure": Life("replica(s) failed: ", (RUNS, leader(fails)), job=NEVER),
    "final code": Life("replica(s) failed: ", (RUNS, leader(fails)), WITH_POLICIES, BY_CODE),
    "loss": Life("was lost", (RUNS, is_deleted("worker-1")), ("v1",), NEVER),
    "no worker left": Life("no worker is left: ", (RUNS, fails("worker-0"), fails("worker-1")), ("v1",), DYNAMIC),
    "restart": Life("restarting", (RUNS, fails("worker-1", 143), RUNS), job=ON_FAILURE),
    "disruption": Life("replacing", (RUNS, is_drained("worker-1")), job=ON_FAILURE),
    "restart in place": Life("in place", (RUNS, restarts_in_place("worker-1")), ("v1", "mlkube"), ON_FAILURE),
    "limit": Life(
        "reached the specified backoff limit of ",
        (RUNS, leader(fails, 143), time_passes(60), RUNS, leader(fails, 143)),
        WITH_POLICIES,
        ON_FAILURE | LIMITS,
    ),
    "deadline": Life("longer than specified deadline of ", (RUNS, time_passes(600)), WITH_POLICIES, LIMITS),
    "hang": Life(
        "because its program hangs",
        (RUNS, time_passes(5), reports(step=1), time_passes(70)),
        ("v1",),
        AFTER_A_SILENCE,
        LISTENING,
    ),
    "late start": Life("were not running ", (time_passes(9),), ("v1",), AT_ONCE),
    "suspension": Life(" is suspended.", (RUNS, SUSPENDED, RESUMED), ("v1",)),
    "pause": Life(" is paused.", (RUNS, PAUSED, GOES_ON), ("t9k",)),
    "queue": Life(" is queued. ", settings=QUEUE),
    **{f"queue: {cause}": Life(" is queued. ", (cannot_fit(cause),), settings=QUEUE) for cause in UnfitCause},
    "pending": Life("waits: ", (is_stuck("worker-0", "ErrImagePull"), time_passes(600))),
    "refusal": Life("was rejected", (refuses(403),)),
    "final refusal": Life("was rejected", (refuses(422),)),
    "large environment": Life("TF_CONFIG would have", job=LARGE),
    "no image": Life("The spec is invalid: ", (LACKS_IMAGE,), settings=QUEUE),
    "no leader": Life("The spec is invalid: ", (LACKS_LEADER,), LISTS, settings=QUEUE),
    "edit of numbers": Life("job runs with", (RUNS, has_workers(3), has_workers(1))),
    "edit of a template": Life("ignored", (RUNS, LACKS_IMAGE)),
    "own TF_CONFIG": Life("sets TF_CONFIG itself", job={"pod": OWN_CONFIG}),
    "own scheduler": Life("asks for another scheduler", job={"pod": OWN}, settings=GANG),
}
CASES = [(of, name) for name, life in LIVES.items() for of in life.apis]


@pytest.mark.parametrize(("of", "name"), CASES, ids=[f"{of}: {name}" for of, name in CASES])
def test_no_sentence_names_what_its_api_does_not_have(of, name, caplog):
    caplog.set_level(logging.INFO)
    life, sentences = LIVES[name], []
    with capture_logs() as records:
        simulator = Simulator(manifest(of, **life.job), life.settings, APIS[of])
        for move in (lambda _: None, *life.moves):
            move(simulator)
            simulator.settle()
            sentences += [*sentences_in(simulator.status), explanation(simulator)]

    reported = [message for _, _, message in simulator.operator.recorder.events]
    logged = [str(value) for record in records for value in record.values()]
    assert life.part in " ".join([*sentences, *reported])
    assert {text: words for text in [*sentences, *reported, *logged] if (words := foreign_words(of, text))} == {}


@pytest.mark.parametrize("of", APIS)
@pytest.mark.parametrize("types", [None, {"worker": 2, "ps": 1}], ids=["with a leader", "without one"])
def test_no_plan_names_what_its_api_does_not_have(of, types):
    if types and of in LEADERS and LEADERS[of] == "master":
        types = {"master": 1, **types}
    rules = {"restartPolicy": "Always", "restartPolicyRules": []}
    pod = {"containers": [{"name": "tensorflow", "image": "i", **rules}]}
    body = APIS[of].in_own_version(manifest(of, types=types, pod=pod, policy="OnFailure"))

    assert foreign_words(of, str(dry_run.run(APIS[of].read_object(body), DEFAULT_SETTINGS))) == []


def test_each_api_and_each_reason_has_a_life():
    assert set(APIS.values()) == set(registry.SERVED)
    parts = [life.part for life in LIVES.values()]
    assert [
        reason for reason in EndReason if not any(part in reason.replace("{suspended}", "suspended") for part in parts)
    ] == [EndReason.CHILD_REJECTED]


def explanation(simulator):
    """What ``tfjob explain`` says of the job."""
    own, api = job.read_job(simulator.body, simulator.api), simulator.api
    seen = pods.read_pods(own, simulator.of(resources.PODS), api)
    return str(checks.explain(Situation(own, seen, tuple(events.read_events([])), simulator.now)))


def sentences_in(part):
    """The sentences of a status, without the record of the job in it, and without what is only kept from pods."""
    for name, value in part.items() if isinstance(part, dict) else ():
        if name in {"message", "reason", "note"} and isinstance(value, str):
            yield value
        yield from sentences_in(value) if name != "operator" else ()
    for entry in part if isinstance(part, list) else ():
        yield from sentences_in(entry)


def foreign_words(of, text):
    """The fields, types and kinds in a text that other APIs have, and this one does not."""
    foreign = frozenset().union(*map(vocabulary, APIS)) - vocabulary(of)
    words = re.findall(r"[A-Za-z_][\w\[\]]*(?:\.[\w\[\]]+)*", text)
    return [
        word
        for word in words
        if set(word.split(".")) & foreign or (word.startswith("spec.") and not has_path(schema(of), word))
    ]


@cache
def vocabulary(of):
    """The names of an API that no English word is spelt like: its kind, its types of replicas, and its fields."""
    items = schema(of)["properties"].get("replicaSpecs", {}).get("items", {}).get("properties", {})
    types = next((items[name]["enum"] for name in ("type", "tfReplicaType") if name in items), ReplicaType)
    # What v1alpha1 has no word for is read from the job as it is stored, and shown so by tfjob: in v1.
    more = names_in(schema("v1")["properties"]["runPolicy"]) if of == "v1alpha1" else ()
    names = {*names_in(schema(of)), *more, *map(str, types), APIS[of].resource.kind} - POD_FIELDS
    return frozenset(name for name in names if not name.islower())


@cache
def schema(of):
    """The schema of its spec."""
    api, version = APIS[of], VERSIONS[of]
    crd = api.crd.load(*({version} - {api.resource.version}))
    return next(
        entry["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for entry in crd["spec"]["versions"]
        if entry["name"] == version
    )


def names_in(part):
    """The fields of a schema, without those of pods."""
    for name, below in part.get("properties", {}).items():
        yield name
        yield from names_in(below) if name != "template" else ()
    for below in (part.get("items"), part.get("additionalProperties")):
        yield from names_in(below) if isinstance(below, dict) else ()


def has_path(part, path):
    """Whether a schema has the field with this path."""
    for name in re.split(r"[.\[]", path.removeprefix("spec.")):
        if name == "template":
            return True
        below = part.get("items") if name.endswith("]") else part.get("properties", {}).get(name)
        part = below or part.get("additionalProperties")
        if not isinstance(part, dict):
            return False
    return True
