"""Queues of Kueue, beside the golden cases: each sentence, each form of a topology, and what is not of its type."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from support.jobs import builders
from support.jobs.templates import Template
from support.partners.kueue_queue import QUEUE
from tf_operator.dialects.kubeflow import v1
from tf_operator.job.record import JobPhase
from tf_operator.planning.kueue import admission, protocol, workload
from tf_operator.planning.kueue.state import LONGEST_RUN, Flavor, KueueState, Workload, flavors, workloads
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, Cause, RejectedWrite, Settings, Snapshot

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
ANNOTATION = "kueue.x-k8s.io/podset-"


def job(annotations=None, **record):
    template = {"metadata": {"annotations": annotations or {}}}
    body = builders.tfjob("j").in_namespace("ns").workers(4).labels({QUEUE: "q"})
    body = body.merged({"metadata": {"uid": "u"}, "spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}})
    training_job = v1.API.read_object(body.body())
    return structs.replace(training_job, record=training_job.record.changed(**record))


def condition(kind, status="True", reason="R", message="Some words."):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def snapshot_with(*conditions, rejected=None, spec=(), of=None, **status):
    of = of or job()
    spec = {"queueName": "q", "priority": 0, **dict(spec)}
    queued = Workload("w", "u", "1", workload.digest(of), (), spec, {"conditions": list(conditions), **status})
    return Snapshot(of, NOW, rejected=rejected, kueue=KueueState(workload=queued, flavors={"spot": Flavor()}))


ADMITTED = (condition("QuotaReserved"), condition("Admitted"))
MISSING = {"podSetAssignments": [{"name": "worker", "flavors": {"cpu": "gone"}}]}


def test_flavors_are_read_in_the_version_of_the_workloads_and_in_the_whole_cluster():
    resources = flavors("v1beta2"), workloads("v1beta2")

    assert [(str(resource), resource.is_namespaced) for resource in resources] == [
        ("resourceflavors.kueue.x-k8s.io", False),
        ("workloads.kueue.x-k8s.io", True),
    ]
    assert {resource.api_version for resource in resources} == {"kueue.x-k8s.io/v1beta2"}


@pytest.mark.parametrize(
    ("snapshot", "message"),
    [
        (snapshot_with(), "It waits in queue q; its Workload w says for what."),
        (snapshot_with(condition("QuotaReserved", "False", "Inadmissible")), "It waits in queue q: Some words."),
        (snapshot_with(condition("QuotaReserved")), "Queue q has quota for it, and its admission checks are not done."),
        (snapshot_with(spec={"active": False}), "Its Workload w is not active."),
        (snapshot_with(*ADMITTED, condition("Finished", message="")), "Its Workload w was declared finished."),
        (snapshot_with(*ADMITTED, condition("Evicted")), "It was evicted from queue q: Some words."),
        (snapshot_with(*ADMITTED, admission=MISSING), "It was admitted to ResourceFlavor gone, which is not there."),
        (snapshot_with(*ADMITTED), None),
    ],
)
def test_a_job_says_what_it_waits_for(snapshot, message):
    hold = protocol.queued(snapshot).hold
    assert (hold and hold.message) == message


@pytest.mark.parametrize(
    ("annotations", "request_"),
    [
        ({"required-topology": "rack", "group-name": "g"}, {"required": "rack", "podSetGroupName": "g"}),
        ({"preferred-topology": "rack"}, {"preferred": "rack"}),
        ({"unconstrained-topology": "true", "group-name": "g"}, {"unconstrained": True}),
        ({"unconstrained-topology": "no"}, {}),
        (
            {"slice-required-topology": "rack", "slice-size": "2"},
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2},
        ),
        (
            {"slice-required-topology": "rack", "slice-size": "12345678901"},
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 123456789},
        ),
        ({"slice-required-topology": "rack", "slice-size": "two"}, {}),
    ],
)
def test_a_topology_is_asked_for_as_the_template_says(annotations, request_):
    of = job({ANNOTATION + name: value for name, value in annotations.items()})
    (pod_set,) = workload.pod_sets(of, DEFAULT_SETTINGS)
    assert pod_set["topologyRequest"] == {"podIndexLabel": "training.kubeflow.org/replica-index", **request_}


@pytest.mark.parametrize("own", [[], [{"name": "own"}]], ids=["alone", "beside others"])
def test_quota_is_asked_for_the_sidecar_that_restarts_in_place_and_jobs_that_run_go_on(own):
    body = builders.tfjob("j").in_namespace("ns").workers(2, template=Template().spec(initContainers=own))
    of = v1.API.read_object(body.elastic(1, 4, restartInPlace=True).labels({QUEUE: "q"}).body())
    settings = Settings(restarts_in_place=True)
    (without,), (pod_set,) = workload.pod_sets(of, DEFAULT_SETTINGS), workload.pod_sets(of, settings)
    sidecar, *others = pod_set["template"]["spec"].pop("initContainers")

    assert sidecar == {
        "name": "tf-operator-resize",
        "image": "training:test",
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "10m", "memory": "32Mi"}},
    }
    assert others == without["template"]["spec"].pop("initContainers")
    assert pod_set == without
    runs = workload.body(of, KueueState(), settings)["metadata"]["annotations"]
    assert runs == workload.body(of, KueueState(), DEFAULT_SETTINGS)["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("conditions", "is_running", "expected"),
    [
        ((), False, None),
        ((), True, ("True", "Started")),
        ((condition("PodsReady"),), False, ("False", "WaitForRecovery")),
        ((condition("PodsReady", "False", "WaitForRecovery"),), True, ("True", "Recovered")),
    ],
)
def test_that_all_pods_run_is_said_when_it_changes(conditions, is_running, expected):
    of = job(all_running_time=NOW, phase=JobPhase.RUNNING if is_running else JobPhase.RESTARTING)
    patches = list(protocol.actions(snapshot_with(*ADMITTED, *conditions, of=of)))
    entries = [
        entry for patch in patches for entry in patch.body["status"]["conditions"] if entry["type"] == "PodsReady"
    ]
    assert [(entry["status"], entry["reason"]) for entry in entries] == ([expected] if expected else [])


@pytest.mark.parametrize("conditions", [(), (condition("Finished"),), (condition("Evicted"),)])
def test_of_a_workload_that_waits_nothing_is_written(conditions):
    assert not list(protocol.actions(snapshot_with(*conditions)))


def test_of_pods_that_never_ran_nothing_is_said_when_quota_is_given_back():
    (patch,) = protocol.actions(snapshot_with(*ADMITTED, condition("Evicted", reason="ClusterQueueStopped")))
    statuses = {entry["type"]: entry["status"] for entry in patch.body["status"]["conditions"]}
    assert statuses == {"Evicted": "True", "Requeued": "False", "QuotaReserved": "False", "Admitted": "False"}


def test_the_end_is_told_once_to_a_workload_that_is_there():
    ended = snapshot_with(*ADMITTED, of=job(phase=JobPhase.FAILED))
    terminating = replace(ended.kueue.workload, is_terminating=True)
    told = snapshot_with(condition("Finished"), of=ended.job).kueue
    states = (ended.kueue, None, KueueState(), replace(ended.kueue, workload=terminating), told)

    assert [len(list(protocol.after_end(ended.changed(kueue=state)))) for state in states] == [1, 0, 0, 0, 0]
    (patch,) = protocol.after_end(ended)
    (finished,) = (entry for entry in patch.body["status"]["conditions"] if entry["type"] == "Finished")
    assert (finished["reason"], finished["message"]) == ("Failed", "The job has failed")


def test_what_was_refused_is_not_tried_again_at_once():
    refused = RejectedWrite("x", "no", NOW, cause=Cause.UNCHANGED, resource="workloads.kueue.x-k8s.io")
    snapshot = snapshot_with(*ADMITTED, rejected=refused, of=job(phase=JobPhase.SUCCEEDED))
    assert not list(protocol.after_end(snapshot))
    assert not list(protocol.actions(snapshot.changed(kueue=KueueState())))
    assert len(list(protocol.after_end(snapshot.changed(now=NOW + timedelta(minutes=5))))) == 1


@pytest.mark.parametrize(
    ("resource", "is_written"),
    [("pods", True), ("podgroups.scheduling.volcano.sh", True), ("workloads.kueue.x-k8s.io", False)],
)
def test_what_else_was_refused_keeps_no_quota(resource, is_written):
    refused = RejectedWrite("x", "no", NOW, attempts=9, resource=resource)
    evicted = snapshot_with(*ADMITTED, condition("Evicted"), rejected=refused)
    ended = snapshot_with(*ADMITTED, rejected=refused, of=job(phase=JobPhase.FAILED))

    assert [len(list(protocol.actions(evicted))), len(list(protocol.after_end(ended)))] == [is_written, is_written]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3600", 3600),
        ("2147483647", 2147483647),
        ("000000000000060", 60),
        ("2147483648", None),
        ("10000000000", None),
        ("9" * 63, None),
        ("0", None),
        ("", None),
        ("1h", None),
        ("\u0663", None),
    ],
)
def test_the_longest_run_is_read_as_kueue_reads_it(text, seconds):
    of = structs.replace(job(), labels={QUEUE: "q", LONGEST_RUN: text})
    assert workload.place(of, KueueState()).get("maximumExecutionTimeSeconds") == seconds


def test_the_priority_class_of_the_policy_comes_before_those_of_templates():
    of = job()
    policy = structs.replace(of.run_policy, scheduling=structs.replace(of.run_policy.scheduling, priority_class="high"))
    template = {"spec": {**of.replicas[0].template["spec"], "priorityClassName": "low"}}
    of = structs.replace(of, replicas=(structs.replace(of.replicas[0], template=template),))
    assert workload.priority_class(of) == "low"
    assert workload.priority_class(structs.replace(of, run_policy=policy)) == "high"


def test_what_is_not_of_its_type_changes_no_template():
    """The API server refuses such pods with its own words."""
    of = job()
    spec = structs.replace(of.replicas[0], template={"metadata": {"labels": "x"}, "spec": {"tolerations": "y"}})
    update = {"name": "worker", "labels": {"a": "b"}, "tolerations": [{"key": "k"}]}
    checks = [{"podSetUpdates": [update, {"name": "other", "labels": {"c": "d"}}]}]
    state = snapshot_with(
        *ADMITTED, admission={"podSetAssignments": [{"name": "worker"}]}, admissionChecks=checks
    ).kueue
    (replica,) = admission.admit(structs.replace(of, replicas=(spec,)), state, state.workload).replicas
    assert (replica.template["metadata"]["labels"], replica.template["spec"]["tolerations"]) == ("x", "y")


@pytest.mark.parametrize(
    ("asks", "is_unconstrained"), [({"required": "rack"}, False), ({"podIndexLabel": "x"}, True), (None, True)]
)
def test_a_job_that_asks_for_no_topology_is_placed_anywhere_in_it(asks, is_unconstrained):
    assigned = {"podSetAssignments": [{"name": "worker", "topologyAssignment": {}}], "clusterQueue": "Not a label"}
    state = snapshot_with(
        *ADMITTED, spec={"podSets": [{"name": "worker", "topologyRequest": asks}]}, admission=assigned
    ).kueue
    (replica,) = admission.admit(job(), state, state.workload).replicas
    assert (f"{ANNOTATION}unconstrained-topology" in replica.template["metadata"]["annotations"]) is is_unconstrained
    assert "kueue.x-k8s.io/cluster-queue-name" not in replica.template["metadata"]["labels"]
