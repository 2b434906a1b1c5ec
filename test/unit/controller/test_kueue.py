"""What is known of Kueue for one job."""

from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest
from msgspec import structs

from support.jobs import builders
from support.partners.kueue_queue import PRIORITY, QUEUE
from tf_operator.controller.caches import OWNER, owner_of
from tf_operator.controller.kueue import KueueCaches
from tf_operator.dialects.kubeflow import v1
from tf_operator.machinery.cache.store import Store
from tf_operator.planning.kueue import state, workload
from tf_operator.planning.kueue.state import Flavor, Priority
from tf_operator.projections import workloads

READ = workloads.workload_reader((v1.API,))
OWNED = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "u", "controller": True}
CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
SPOT = {"metadata": {"name": "spot"}, "spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot"}]}}


def job(**labels):
    body = builders.tfjob("j").in_namespace("ns").workers(1).labels({QUEUE: "q"} | labels)
    return v1.API.read_object(body.merged({"metadata": {"uid": "u"}}).body())


def informer(resource, indexes=None, **facts):
    store = Store(indexes)
    facts = {"has_synced": True, "is_absent": False, "is_stale": lambda _: False} | facts
    return SimpleNamespace(store=store, resource=resource, **facts)


@pytest.fixture
def caches():
    version = state.VERSIONS[0]
    return KueueCaches(
        version,
        informer(state.workloads(version), {OWNER: owner_of}),
        informer(state.flavors(version)),
        informer(state.priority_classes(version)),
        informer(state.POD_PRIORITIES),
    )


def put(informer, read, body):
    informer.store.put(read(msgspec.json.encode(body)))


def stored(name, uid="u", **more):
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-of-{name}", "resourceVersion": "7"}
    pod_set = {"name": "worker", "count": 1, "template": {"spec": {"containers": [{"name": "x" * 1000}]}}}
    spec = {"podSets": [pod_set], "queueName": "q", "priority": 1, "priorityClassRef": CLASS}
    return {"metadata": metadata | {"ownerReferences": [OWNED | {"uid": uid}]}, "spec": spec, **more}


def test_only_a_workload_that_the_job_controls_is_its_own(caches):
    ours = workload.name_of(job())
    for name, uid in (("a", "other"), (ours, "other"), ("b", "u")):
        put(caches.workloads, READ, stored(name, uid))
    assert caches.of(job()).workload.name == "b"
    put(caches.workloads, READ, stored(ours, status={"conditions": [{"type": "Admitted", "status": "True"}]}))
    own_workload = caches.of(job()).workload
    assert (own_workload.name, own_workload.is_admitted) == (ours, True)
    pod_set = {"name": "worker", "count": 1, "topologyRequest": {}}
    assert own_workload.spec == {"podSets": [pod_set], "queueName": "q", "priority": 1, "priorityClassRef": CLASS}


def test_a_job_without_a_queue_has_only_a_workload_that_it_has(caches):
    unlabelled = job(**{QUEUE: ""})
    assert caches.of(unlabelled) is None
    put(caches.workloads, READ, stored("a"))
    assert caches.of(unlabelled).workload.name == "a"


@pytest.mark.parametrize("facts", [{"is_absent": True}, {"has_synced": False}, {"is_stale": lambda _: True}])
@pytest.mark.parametrize("which", ["workloads", "flavors", "own_classes", "pod_classes"])
def test_what_cannot_be_read_is_said(caches, facts, which):
    vars(getattr(caches, which)).update(facts)
    assert caches.of(job()).unreadable == f"{getattr(caches, which).resource} cannot be read; is Kueue installed?"


@pytest.mark.parametrize(
    ("labels", "classes", "priority", "problem"),
    [
        ({}, {}, Priority(), ""),
        ({}, {"low": (5, True), "lower": (3, True), "other": (1, False)}, Priority("lower", 3, is_of_pods=True), ""),
        ({PRIORITY: "own"}, {}, Priority("own", 7), ""),
        ({PRIORITY: "low"}, {"low": (5, True)}, None, "There is no WorkloadPriorityClass low."),
    ],
)
def test_priority_is_that_of_the_class(caches, labels, classes, priority, problem):
    put(caches.own_classes, workloads.read_priority, {"metadata": {"name": "own"}, "value": 7})
    for name, (value, is_default) in classes.items():
        body = {"metadata": {"name": name, "uid": name}, "value": value, "globalDefault": is_default}
        put(caches.pod_classes, workloads.read_priority, body)
    job_state = caches.of(job(**labels))
    assert (job_state.priority, job_state.problem) == (priority, problem)


@pytest.mark.parametrize(("place", "unreadable"), [("ns", "workloads"), ("", "flavors"), ("other", "")])
def test_workloads_are_read_in_the_namespace_of_the_job_and_the_rest_in_the_cluster(caches, place, unreadable):
    for which in ("workloads", "flavors", "own_classes", "pod_classes"):
        getattr(caches, which).is_stale = place.__eq__

    words = f"{getattr(caches, unreadable).resource} cannot be read; is Kueue installed?" if unreadable else ""
    assert caches.of(job()).unreadable == words


def test_a_job_that_cannot_be_suspended_has_nothing_to_do_with_kueue(caches):
    put(caches.workloads, READ, stored("a"))
    assert caches.of(structs.replace(job(), profile=replace(v1.PROFILE, suspend_path=()))) is None


def test_flavors_are_known_to_jobs_with_a_workload(caches):
    put(caches.flavors, workloads.read_flavor, SPOT)
    assert caches.of(job()).flavors == {}
    put(caches.workloads, READ, stored("a"))
    assert caches.of(job()).flavors == {"spot": Flavor({"pool": "spot"}, ({"key": "spot"},))}
