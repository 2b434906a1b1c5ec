"""What a TFJob v1 says, in the words of the project; wrong values are problems and never exceptions."""

import json

import pytest
from msgspec import structs

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import JobSummary
from tf_operator.job.memory import OOMPolicy
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import CleanPodPolicy, RestartPolicy, SchedulingPolicy, SuccessPolicy
from tf_operator.meta import ObjectKey, parse_time

EARLY, START, LATER = (f"2026-03-01T08:0{minute}:00Z" for minute in range(3))


def problems(job):
    return [str(problem) for problem in job.problems]


def test_everything_that_can_be_said_is_read():
    built = (
        tfjob("mnist")
        .workers(3, restart="ExitCode")
        .success_policy("AllWorkers")
        .dynamic_workers()
        .clean_pods("All")
        .backoff_limit(4)
        .deadline(60)
        .ttl(5)
        .startup_deadline(7)
        .suspended()
        .scheduling(min_available=2, queue="q", priority_class="p", min_resources={"cpu": "1"}, timeout=9)
        .annotations({"a": "b"})
    )
    job = job_of(built)

    assert (job.key, job.uid, job.generation) == (ObjectKey("team", "mnist"), "job-uid", 1)
    assert (job.replicas[0].count, job.replicas[0].restart_policy) == (3, RestartPolicy.EXIT_CODE)
    assert job.success_policy is SuccessPolicy.ALL_WORKERS
    assert job.has_dynamic_workers
    policy = job.run_policy
    assert (policy.clean_pods, policy.backoff_limit, policy.deadline_seconds) == (CleanPodPolicy.ALL, 4, 60)
    assert (policy.ttl_seconds, policy.startup_deadline_seconds, policy.is_suspended) == (5, 7, True)
    assert policy.scheduling == SchedulingPolicy(2, "q", {"cpu": "1"}, "p", 9)
    assert job.annotations == {"a": "b"}


def test_policies_directly_in_the_spec_are_in_force_where_the_run_policy_says_nothing():
    old = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 5, "activeDeadlineSeconds": 6, "backoffLimit": 7}
    policy = {"cleanPodPolicy": "None", "ttlSecondsAfterFinished": 8, "backoffLimit": None}
    job = v1.API.read_object({"spec": old | {"runPolicy": policy}})
    run_policy = job.run_policy
    assert (run_policy.clean_pods, run_policy.ttl_seconds) == (CleanPodPolicy.ALL, 8)
    assert (run_policy.deadline_seconds, run_policy.backoff_limit) == (6, 7)
    assert job.outdated_fields == ("spec.cleanPodPolicy", "spec.activeDeadlineSeconds", "spec.backoffLimit")


@pytest.mark.parametrize(("policy", "least"), [({"maxReplicas": 4}, 1), ({"minReplicas": 2, "maxReplicas": 4}, 2)])
def test_an_elastic_range_begins_with_one_replica_unless_it_names_another_number(policy, least):
    job = v1.API.read_object({"spec": {"elasticPolicy": policy}})

    assert [(limits.least, limits.most) for limits in job.elastic.ranges] == [(least, 4)]


def test_an_elastic_policy_may_have_a_range_of_parameter_servers_metrics_and_restarts_in_place():
    servers = {"parameterServers": {"minReplicas": 2, "maxReplicas": 3}}
    policy = servers | {"maxReplicas": 4, "metrics": [{"type": "Pods"}], "restartInPlace": True}
    elastic = v1.API.read_object({"spec": {"elasticPolicy": policy}}).elastic

    assert [(limits.type, limits.least, limits.most) for limits in elastic.ranges] == [
        (ReplicaType.WORKER, 1, 4),
        (ReplicaType.PS, 2, 3),
    ]
    assert (elastic.metrics, elastic.restarts_in_place) == (({"type": "Pods"},), True)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, None),
        ({"maxMemory": "8Gi"}, OOMPolicy(50, "8Gi")),
        ({"maxMemory": "8Gi", "growthPercent": 10}, OOMPolicy(10, "8Gi")),
    ],
    ids=["none", "by a half", "as said"],
)
def test_memory_grows_by_half_unless_the_policy_says_another_part(policy, expected):
    job = v1.API.read_object({"spec": {"tfReplicaSpecs": {"Worker": {"oomPolicy": policy}}}})

    assert job.replicas[0].oom_policy == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"tfReplicaSpecs": {"Worker": None}}, ["spec.tfReplicaSpecs.Worker: must not be null"]),
        ({"elasticPolicy": {}}, ["spec.elasticPolicy.maxReplicas: is required"]),
        ({"runPolicy": {"avoidNodes": {}}}, ["spec.runPolicy.avoidNodes.afterFailures: is required"]),
        ({"elasticPolicy": None, "networkPolicy": None, "runPolicy": {"avoidNodes": None}}, []),
    ],
    ids=["no replicas", "no most", "no number of failures", "nothing"],
)
def test_what_is_there_has_to_say_what_it_needs_and_null_is_nothing(spec, expected):
    job = v1.API.read_object({"spec": spec})

    assert problems(job) == expected
    assert (job.network_policy, job.run_policy.avoid_after) == (None, None)


def test_a_job_of_which_the_status_alone_has_changed_is_what_reading_all_of_it_makes():
    body = tfjob("mnist").workers(1).body()
    metadata = body["metadata"] | {"resourceVersion": "2"}
    status = {"conditions": [{"type": "Running", "status": "True"}], "restarts": 1}
    job = v1.API.read_object(body)

    assert v1.API.with_status(job, metadata, status) == v1.API.read(metadata, body["spec"], status)
    for changed, stored in ((job, {"origin": "v1alpha1"}), (structs.replace(job, runtime_id="76no"), status)):
        assert v1.API.with_status(changed, metadata, stored) is None, "its status says how its spec is read"


@pytest.mark.parametrize("key", ["worker", "WORKER", "Worker", "wOrKeR"])
def test_keys_are_read_in_any_letter_case(key):
    """training-operator: TestSetTypeNames."""
    assert job_of(tfjob().replicas(key, 2)).replicas[0].type is ReplicaType.WORKER


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({"spec": 3}, "spec: must be an object, is 3"),
        ({"spec": {"tfReplicaSpecs": {"Foo": {}}}}, "is no replica type; there are Chief, Master, PS, Worker"),
        ({"spec": {"tfReplicaSpecs": {"worker": {}}}}, "is Worker again, in another letter case"),
        ({"spec": {"runPolicy": {"cleanPodPolicy": "Some"}}}, "must be one of 'None', 'Running', 'All', is 'Some'"),
        ({"spec": {"tfReplicaSpecs": {"Worker": {"restartPolicy": ""}}}}, "must be one of"),
    ],
    ids=["spec", "type", "twice", "enum", "empty enum"],
)
def test_what_is_wrong_is_a_problem_that_names_it(patch, problem):
    job = job_of(tfjob().workers(1), patch)

    assert problem in problems(job)[0]


def test_a_program_that_a_signal_has_ended_or_that_says_so_is_started_again():
    codes = v1.PROFILE.exit_codes

    assert [code for code in range(1, 257) if codes.are_retryable(code, "Error")] == [*range(128, 256)]


def test_metadata_of_the_wrong_type_is_none():
    job = v1.API.read_object({"metadata": {"annotations": [], "generation": "1", "deletionTimestamp": "soon"}})

    assert (job.annotations, job.generation) == ({}, 0)
    assert job.is_being_deleted


def summary(conditions, spec=b"{}", **status):
    entries = [{"type": kind, "status": "True", "lastTransitionTime": LATER} for kind in conditions]
    text = json.dumps({"conditions": entries, **status}).encode()
    return v1.API.summarize({"creationTimestamp": EARLY}, spec, text)


@pytest.mark.parametrize(
    ("conditions", "since"),
    [([], EARLY), (["Created"], START), (["Created", "Restarting"], LATER), (["Created", "Running"], None)],
    ids=["new", "created", "restarting", "running"],
)
def test_a_summary_says_where_a_job_stands_and_since_when_it_waits(conditions, since):
    job_summary = summary(conditions, startTime=START)

    assert job_summary == JobSummary(conditions[-1] if conditions else "", parse_time(since))


def test_a_job_that_waits_for_its_gang_waits_since_no_moment():
    assert summary(["Created"]).waits_since is None


@pytest.mark.parametrize(("stored", "is_hung"), [(True, True), (False, False), ("yes", False), (1, False)], ids=repr)
def test_a_summary_says_whether_the_program_hangs_whatever_somebody_has_written(stored, is_hung):
    job_summary = summary(["Running"], hung=stored)
    assert (job_summary.phase, job_summary.is_hung) == ("Running", is_hung)


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_summary_says_that_a_job_has_ended(end):
    assert summary(["Created", end]) == JobSummary(end, is_finished=True)


def test_a_job_of_another_controller_does_not_wait_for_this_one():
    other = b'{"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}'

    assert summary([], other) == JobSummary(is_ours=False)


@pytest.mark.parametrize("part", [b"[]", b"{", b'{"conditions": 3, "runPolicy": 3}'])
def test_a_summary_of_what_cannot_be_read_is_that_of_a_job_of_ours(part):
    assert v1.API.summarize({}, part, part) == JobSummary()


def test_a_condition_of_somebody_else_does_not_hide_where_a_job_stands():
    assert summary(["Created", "Succeeded", "example.com/Audited"]) == JobSummary("Succeeded", is_finished=True)
