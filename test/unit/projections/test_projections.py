"""What is kept of objects, from their JSON."""

import gc
import json
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from support.jobs import builders
from support.pods import pod_status
from support.toys import toy_api
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import JobSummary
from tf_operator.dialects.t9k import v1beta1 as t9k
from tf_operator.job import constants
from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import FieldError, RestartPolicy
from tf_operator.machinery.transport import raw_json, responses
from tf_operator.meta import ObjectKey, parse_time, rfc3339
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.snapshot import Host, MainContainer, PodGroup, Service
from tf_operator.projections.jobs import (
    LARGEST_DECODED,
    MOST_DECODED,
    DecodedJobs,
    JobMeta,
    StoredJob,
    job_of,
    job_reader,
)
from tf_operator.projections.pod_groups import group_reader
from tf_operator.projections.pods import pod_reader
from tf_operator.projections.services import service_reader

ONE = (v1.API,)
READ_POD, read_service, read_group = pod_reader(ONE), service_reader(ONE), group_reader(ONE)
read_job = job_reader(v1.API)
NOW = "2026-01-01T00:00:00Z"
JOB = (
    builders.tfjob("j").in_namespace("ns").workers(2).merged({"metadata": {"uid": "u", "resourceVersion": "7"}}).body()
)


def raw(body):
    return msgspec.Raw(json.dumps(body).encode())


def pod(name="j-worker-1", **status):
    body = builders.child_pod(JOB, "Worker", 1).body()
    metadata = {**body["metadata"], "name": name, "namespace": "ns", "uid": "p", "resourceVersion": "8"}
    return {**body, "metadata": metadata, "status": status}


def read(name="j-worker-1", **status):
    return READ_POD(raw(pod(name, **status))).pod


def test_a_job_is_read_by_its_dialect():
    job = job_of(read_job(raw(JOB)), v1.API)

    assert (str(job.key), job.uid, job.resource_version) == ("ns/j", "u", "7")
    assert job.pod_count == 2
    assert not job.problems


def test_a_job_is_decoded_once_until_it_changes_whatever_its_version_says():
    jobs = DecodedJobs(v1.API)
    stored, restored = read_job(raw(JOB)), read_job(raw({**JOB, "spec": {"tfReplicaSpecs": {}}}))

    assert jobs.of(stored) is jobs.of(stored)
    assert (jobs.of(restored).pod_count, jobs.of(stored).pod_count) == (0, 2)


def test_only_the_last_small_jobs_are_kept_decoded():
    jobs = DecodedJobs(v1.API)
    first, *others = (
        read_job(raw({**JOB, "metadata": {**JOB["metadata"], "uid": f"u{number}"}})) for number in range(MOST_DECODED)
    )
    large = read_job(raw({**JOB, "status": {"note": "x" * LARGEST_DECODED}}))
    decoded = jobs.of(first)
    for stored in others:
        jobs.of(stored)

    assert jobs.of(first) is decoded
    assert jobs.of(large) is not jobs.of(large)
    jobs.of(read_job(raw(JOB)))
    assert jobs.of(first) is decoded
    assert len(jobs) == MOST_DECODED


V1ALPHA1 = {"origin": "v1alpha1", "runtimeId": "abcd"}
CHANGES = {
    "its first status": ({}, {"status": {"conditions": [], "startTime": NOW}}),
    "another status": ({"status": {"startTime": NOW}}, {"status": {"replicaStatuses": {"Worker": {"active": 1}}}}),
    "a status that is none": ({}, {"status": ["x"]}),
    "no status any more": ({"status": {"startTime": NOW}}, {}),
    "a status by which it is one of v1alpha1": ({}, {"status": V1ALPHA1}),
    "a status by which it is none of v1alpha1": ({"status": V1ALPHA1}, {"status": {"conditions": []}}),
    "another spec": ({}, {"spec": {"tfReplicaSpecs": {}}}),
    "an annotation": ({}, {"metadata": {"annotations": {constants.GANG_SCHEDULER_ANNOTATION: "volcano"}}}),
    "its deletion": ({}, {"metadata": {"deletionTimestamp": NOW}}),
    "its generation": ({}, {"metadata": {"generation": 3}}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_job_that_has_changed_is_read_as_one_that_was_never_read(change):
    jobs = DecodedJobs(v1.API)
    before, after = (read_job(raw(builders.merge(JOB, part))) for part in change)
    after = msgspec.structs.replace(after, metadata=msgspec.structs.replace(after.metadata, resource_version="9"))
    jobs.of(before)

    expected = job_of(after, v1.API)
    assert (jobs.of(after), jobs.of(after).stored_status) == (expected, expected.stored_status)


def test_the_spec_of_a_job_is_not_read_again_when_only_its_status_changes():
    first, second = read_job(raw(JOB)), read_job(raw({**JOB, "status": {"startTime": NOW}}))
    specs = []

    def read_once(metadata, spec, stored):
        specs.append(spec)
        return v1.read(metadata, spec, stored)

    jobs = DecodedJobs(replace(v1.API, read=read_once))

    assert (jobs.of(first).record.start_time, jobs.of(second).record.start_time) == (None, parse_time(NOW))
    assert len(specs) == 1


CREATED = {"type": "Created", "status": "True", "lastTransitionTime": "2026-03-01T08:00:00Z"}
RUNNING = {"type": "Running", "status": "True", "lastTransitionTime": "2026-03-01T08:01:00Z"}
RESUMED = {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-03-01T08:03:00Z"}
STARTED = datetime(2026, 3, 1, 8, tzinfo=UTC)


def test_what_kubectl_noted_of_a_job_is_not_kept():
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    body = {"metadata": {"name": "j", "annotations": {applied: "{}", "a": "b"}}}

    assert read_job(raw(body)).metadata.annotations == {"a": "b"}


def test_a_job_that_is_patched_again_and_again_leaves_nothing_in_memory():
    """Its annotations may have 256 KiB, and every patch may bring others."""
    bodies = (
        msgspec.json.encode({"metadata": {"name": "j", "annotations": {"a": str(number) * 50_000}}})
        for number in range(10, 60)
    )
    read_job(next(bodies))
    tracemalloc.start()
    for body in bodies:
        read_job(body)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size < 500_000, "of 4.9 MB"


def test_a_job_is_cached_with_its_summary():
    """The last of its conditions that is true says where it stands."""
    conditions = [CREATED, {**RUNNING, "status": "False"}, RESUMED]
    status = {"conditions": conditions, "startTime": "2026-03-01T08:00:00Z"}

    assert read_job(raw({**JOB, "status": status})).summary == JobSummary("Created", STARTED)


@pytest.mark.parametrize("spec", ["nonsense", 5, ["a"], None], ids=str)
def test_a_spec_of_the_wrong_type_is_a_job_with_problems(spec):
    job = job_of(read_job(raw({**JOB, "spec": spec})), v1.API)

    assert job.replicas == ()


def test_a_job_that_is_nested_too_deep_keeps_its_name_and_its_status():
    status = {"conditions": [{"type": "Failed", "status": "True", "reason": "TFJobInvalidSpec"}]}
    deep = '{"a":' * 500_000 + "1" + "}" * 500_000
    text = json.dumps({**JOB, "spec": "DEEP", "status": status}).replace('"DEEP"', deep)

    stored_job = read_job(msgspec.Raw(text.encode()))

    assert "deeper" in stored_job.problem
    assert stored_job.summary == JobSummary("Failed", is_finished=True)
    assert stored_job.metadata.uid == "u"
    assert job_of(stored_job, v1.API).record.is_finished


def test_a_job_that_is_nested_too_deep_is_scanned_once(monkeypatch):
    """A tenant may patch such an object of a megabyte twenty times a second."""
    split, scanned = raw_json.split_object, 0

    def counted(text):
        nonlocal scanned
        scanned += len(text)
        return split(text)

    monkeypatch.setattr(raw_json, "split_object", counted)
    text = json.dumps({**JOB, "spec": "DEEP"}).replace('"DEEP"', "[" * 50_000 + "]" * 50_000)
    line = b'{"type":"MODIFIED","object":' + text.encode() + b"}\n"

    stored_job = read_job(responses.read_line(line).object)

    assert stored_job.metadata.key == ObjectKey("ns", "j")
    assert scanned < len(line) + 1000


def test_a_part_that_is_too_deep_for_its_own_decoder_reads_as_empty():
    deep = msgspec.Raw(b'{"a":' * 5000 + b"1" + b"}" * 5000)

    job = job_of(StoredJob(JobMeta(name="j"), spec=deep), v1.API)

    assert job.replicas == ()


def test_a_pod_belongs_to_the_replica_that_its_name_says():
    """Labels can be changed by whoever may update pods; names and owner references can not."""
    forged = pod()
    forged["metadata"]["labels"]["training.kubeflow.org/replica-index"] = "7"

    cached_pod = READ_POD(raw(forged))

    assert cached_pod.owner == "u"
    assert (cached_pod.pod.type, cached_pod.pod.index, cached_pod.pod.phase) == (ReplicaType.WORKER, 1, "Pending")


@pytest.mark.parametrize(
    ("owner", "controller"),
    [
        ({"kind": "TFJob"}, "toy-operator"),
        ({"kind": "TFJob"}, ""),
        ({"apiVersion": "other.org/v1"}, "tfjob-controller"),
        ({"kind": "PyTorchJob"}, "tfjob-controller"),
    ],
    ids=["of another controller by its label", "without the label", "of another group", "of another kind"],
)
def test_a_pod_in_shared_caches_has_a_job_only_if_its_label_and_its_owner_agree(owner, controller):
    """All have the UID of a job of ours, as a user may write it."""
    forged = pod()
    forged["metadata"]["ownerReferences"][0] |= owner
    forged["metadata"]["labels"]["training.kubeflow.org/operator-name"] = controller

    cached_pod = pod_reader((v1.API, toy_api.API))(raw(forged))

    assert (cached_pod.owner, cached_pod.pod) == ("", None)


def test_which_container_decides_is_up_to_the_profile_where_two_apis_share_the_cache():
    statuses = [
        {"name": "main", "state": {"terminated": {"exitCode": 3}}},
        {"name": "sidecar", "state": {"running": {}}},
        {"name": "tensorflow", "state": {"running": {"startedAt": NOW}}, "lastState": {"terminated": {"exitCode": 7}}},
    ]
    shared = pod_reader((v1.API, toy_api.API))(raw(pod(phase="Running", containerStatuses=statuses))).pod

    of_tfjob, of_toy = shared.decided_by("tensorflow"), shared.decided_by("main")
    assert (of_tfjob.main.exit_code, of_tfjob.last_termination.exit_code) == (None, 7)
    assert (of_toy.main.exit_code, of_toy.last_termination) == (3, None)
    assert shared.decided_by("other").main is None
    assert of_tfjob == read(phase="Running", containerStatuses=statuses), "as where one API is served"


@pytest.mark.parametrize(
    ("kind", "operator", "replica"),
    [("Play", "play-operator", (ReplicaType.WORKER, 1)), ("Training", "toy-operator", None)],
)
def test_which_replica_a_pod_is_follows_from_how_its_owners_api_names_pods(kind, operator, replica):
    body = pod("j-worker-76no-1-k3x9q")
    body["metadata"]["ownerReferences"][0] |= {"apiVersion": "toys.example.org/v1", "kind": kind}
    body["metadata"]["labels"]["training.kubeflow.org/operator-name"] = operator

    observed_pod = pod_reader((toy_api.API, toy_api.PLAY_API))(raw(body)).pod
    assert (observed_pod and (observed_pod.type, observed_pod.index)) == replica


@pytest.mark.parametrize(("seconds", "is_stopped"), [(1, True), (3600, False)])
def test_a_pod_is_stopped_when_its_deadline_is_at_once(seconds, is_stopped):
    body = pod()
    body["spec"]["activeDeadlineSeconds"] = seconds

    assert READ_POD(raw(body)).pod.is_stopped is is_stopped


def entry(name, restarts, state):
    return {"name": name, "restartCount": restarts, "state": state}


@pytest.mark.parametrize(
    ("sidecar", "main", "restarts"),
    [
        (entry(resize_sidecar.SIDECAR, 0, {"running": {}}), 2, 2),
        (entry(resize_sidecar.SIDECAR, 1, {"running": {}}), 1, 0),
        (entry(resize_sidecar.SIDECAR, 2, {"running": {}}), 3, 1),
        (entry(resize_sidecar.SIDECAR, 0, {"terminated": {"exitCode": resize_sidecar.EXIT_CODE}}), 1, 0),
        (entry(resize_sidecar.SIDECAR, 0, {"terminated": {"exitCode": 137}}), 1, 1),
        (entry("init", 1, {"running": {}}), 1, 2),
    ],
    ids=["a failure", "a resize", "both", "a resize that begins", "a sidecar that failed", "no sidecar"],
)
def test_restarts_by_a_resize_in_place_are_no_restarts(sidecar, main, restarts):
    body = pod(containerStatuses=[entry("tensorflow", main, {"running": {}})], initContainerStatuses=[sidecar])
    body["metadata"]["annotations"] = {resize_sidecar.SIZES_ANNOTATION: "Worker=2"}

    observed_pod = READ_POD(raw(body)).pod

    assert (observed_pod.restarts, observed_pod.cluster_size) == (restarts, "Worker=2")


def test_a_pod_says_when_it_was_told_to_restart_and_how_often_it_has():
    sidecar = entry(resize_sidecar.SIDECAR, 2, {"terminated": {"exitCode": resize_sidecar.EXIT_CODE}})
    body = pod(containerStatuses=[entry("tensorflow", 2, {"running": {}})], initContainerStatuses=[sidecar])
    texts = {resize_sidecar.SIZES_ANNOTATION: "attempt=3", resize_sidecar.REQUEST_ANNOTATION: "2026-03-01T08:00:00Z 2"}
    body["metadata"]["annotations"] = texts

    observed_pod = READ_POD(raw(body)).pod

    assert (observed_pod.restart_request, observed_pod.restarts_together) == ("2026-03-01T08:00:00Z 2", 3)


def test_a_pod_says_with_how_much_memory_it_was_made():
    body = pod()
    body["metadata"]["annotations"] = {constants.MEMORY_ANNOTATION: "8Gi"}

    assert READ_POD(raw(body)).pod.memory_limit == "8Gi"


@pytest.mark.parametrize(("mark", "is_isolated"), [("Job", True), ("None", False), ("", False)])
def test_a_pod_says_whether_it_has_the_network_of_its_job(mark, is_isolated):
    body = pod()
    body["metadata"]["annotations"] = {constants.NETWORK_ANNOTATION: mark}

    assert READ_POD(raw(body)).pod.is_isolated is is_isolated


ENDED = {"exitCode": 137, "reason": "Error", "startedAt": NOW, "finishedAt": NOW}
TOGETHER = {
    "exitCode": 137,
    "startedAt": None,
    "finishedAt": None,
    "reason": "RestartingAllContainers",
    "message": "The container is removed because",
}
ON_42 = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


def restarting(value):
    """The condition that each pod has which may restart all its containers."""
    return {"type": "AllContainersRestarting", "status": value}


@pytest.mark.parametrize("size", ["", "Worker=2"])
def test_a_pod_whose_containers_the_kubelet_restarts_has_not_ended(size):
    statuses = [entry("tensorflow", 0, {"terminated": ENDED})]
    body = pod(phase="Running", containerStatuses=statuses, conditions=[restarting("True")])
    body["metadata"]["annotations"] = {resize_sidecar.SIZES_ANNOTATION: size} if size else {}

    observed_pod = READ_POD(raw(body)).pod

    assert (observed_pod.main, observed_pod.is_restarting, observed_pod.pending_reason) == (None, True, "")


def starts_again(condition, init, *, has_run=True):
    """A Pending pod whose init containers run, or wait to, and with it its deciding container."""
    waits = entry("tensorflow", 1, {"waiting": {"reason": "RestartingAllContainers", "message": "is removed"}})
    statuses = [{**waits, "lastState": {"terminated": TOGETHER} if has_run else {}}]
    conditions = [{"type": "PodScheduled", "status": "True"}, *([restarting(condition)] if condition else [])]
    return pod(
        phase="Pending", containerStatuses=statuses, initContainerStatuses=[entry("i", 1, init)], conditions=conditions
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (starts_again("True", {"running": {}}), (True, "")),
        (starts_again("False", {"running": {}}), (True, "")),
        (starts_again("False", {"waiting": {"reason": "RestartingAllContainers"}}), (True, "")),
        (starts_again("False", {"waiting": {"reason": "ImagePullBackOff"}}), (False, "ImagePullBackOff")),
        (starts_again("False", {"waiting": {"reason": "PodInitializing"}}, has_run=False), (False, "PodInitializing")),
        (starts_again("", {"waiting": {"reason": "PodInitializing"}}), (False, "PodInitializing")),
    ],
    ids=["ends them", "init runs", "init waits", "init is in trouble", "has never run", "no rule restarts all"],
)
def test_a_pending_pod_that_has_run_and_begins_again_by_a_rule_waits_for_nothing(body, expected):
    pod = READ_POD(raw(body)).pod

    assert (pod.is_restarting, pod.pending_reason.replace("RestartingAllContainers", "PodInitializing")) == expected


@pytest.mark.parametrize(
    ("spec", "conditions", "size", "expected"),
    [
        ({}, [], "", (None, 0)),
        ({"restartPolicy": "OnFailure"}, [], "", ("OnFailure", 3)),
        ({"restartPolicy": "Never", "restartPolicyRules": [ON_42]}, [restarting("False")], "", ("Never", 3)),
        ({}, [restarting("False")], "", (None, 3)),
        ({}, [restarting("False")], "Worker=2", (None, 0)),
        ({"restartPolicy": "OnFailure"}, [restarting("False")], "Worker=2", ("OnFailure", 1)),
    ],
    ids=["no rules", "own policy", "own rule", "a rule of another", "resizes", "resizes and own policy"],
)
def test_restarts_by_rules_are_those_of_the_deciding_container(spec, conditions, size, expected):
    sidecar = entry(resize_sidecar.SIDECAR if size else "sidecar", 2, {"running": {}})
    statuses = [entry("tensorflow", 3, {"running": {}})]
    body = pod(phase="Running", containerStatuses=statuses, initContainerStatuses=[sidecar], conditions=conditions)
    body["metadata"]["annotations"] = {resize_sidecar.SIZES_ANNOTATION: size} if size else {}
    body["spec"]["containers"][0] |= spec

    observed_pod = READ_POD(raw(body)).pod

    assert (observed_pod.restart_rules and observed_pod.restart_rules.policy, observed_pod.restarts_by_rule) == expected


def test_equal_rules_are_kept_once_and_those_of_a_container_go_with_it():
    bodies = [pod(phase="Running", containerStatuses=[{"name": "main"}, {"name": "tensorflow"}]) for _ in range(2)]
    for body in bodies:
        own = {"restartPolicy": "Never", "restartPolicyRules": [ON_42]}
        body["spec"]["containers"] = [{"name": "main"}, {"name": "tensorflow", **own}]

    pods = [pod_reader((v1.API, toy_api.API))(raw(body)).pod for body in bodies]

    first, second = (pod.decided_by("tensorflow").restart_rules for pod in pods)
    assert first is second
    assert first.restarts_all(42)
    assert pods[0].decided_by("main").restart_rules is None


@pytest.mark.parametrize(
    ("counts", "conditions", "expected"),
    [((2, 2, 2), [restarting("False")], 2), ((3, 2, 2), [restarting("False")], 3), ((2, 2, 2), [], 6)],
    ids=["of all, twice", "and once of one", "no rule restarts all"],
)
def test_a_restart_of_all_containers_is_one_restart(counts, conditions, expected):
    names = ("tensorflow", "other", "sidecar")
    first, second, third = (entry(name, count, {"running": {}}) for name, count in zip(names, counts, strict=True))

    pod = read(containerStatuses=[first, second], initContainerStatuses=[third], conditions=conditions)

    assert pod.restarts == expected


def test_the_words_of_the_kubelet_about_a_restart_of_all_containers_are_no_message_of_the_program():
    statuses = [{**entry("tensorflow", 1, {"running": {}}), "lastState": {"terminated": TOGETHER}}]

    assert read(phase="Running", containerStatuses=statuses).last_termination.message == ""


@pytest.mark.parametrize("name", ["other-worker-1", "j-worker-01", "j-worker", "j-worker-1-x", "j-boss-0"])
def test_a_pod_of_another_name_is_no_replica(name):
    assert READ_POD(raw(pod(name))).pod is None


def test_the_name_of_a_namespace_is_kept_once():
    one, other = (READ_POD(raw(pod(name))).metadata.namespace for name in ("mnist-worker-0", "mnist-worker-1"))
    assert one is other


def test_a_pod_that_nobody_controls_has_no_owner():
    orphan = pod()
    orphan["metadata"]["ownerReferences"][0]["controller"] = False

    assert (READ_POD(raw(orphan)).owner, READ_POD(raw(orphan)).pod) == ("", None)


def test_the_deciding_container_s_end_is_kept():
    ended = {"exitCode": 137, "reason": "OOMKilled", "message": "too much", "startedAt": NOW, "finishedAt": NOW}
    statuses = [
        {"name": "sidecar", "restartCount": 2, "state": {"terminated": {"exitCode": 3}}},
        {"name": "tensorflow", "restartCount": 1, "state": {"terminated": ended}},
    ]

    pod = read(phase="Failed", containerStatuses=statuses, initContainerStatuses=[{"name": "i", "restartCount": 4}])

    assert (pod.main.exit_code, pod.main.reason, pod.main.message) == (137, "OOMKilled", "too much")
    assert pod.main.started_at == pod.main.finished_at
    assert pod.restarts == 7


@pytest.mark.parametrize(
    ("codes", "worst"),
    [((0, 0), 0), ((0, 137), 137), ((0, None), None), ((), None)],
    ids=["all well", "one killed", "one runs", "none yet"],
)
def test_the_highest_exit_code_is_told_when_no_container_runs_any_more(codes, worst):
    states = [{"running": {}} if code is None else {"terminated": {"exitCode": code}} for code in codes]
    statuses = [{"name": f"c{number}", "state": state} for number, state in enumerate(states)]

    assert read(phase="Running", containerStatuses=statuses).max_exit_code == worst


def test_how_a_container_ended_before_it_was_restarted_is_kept():
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no data", "finishedAt": NOW}}
    statuses = [{"name": "tensorflow", "restartCount": 1, "state": {"running": {}}, "lastState": ended}]

    pod = read(phase="Running", containerStatuses=statuses)

    assert (pod.last_termination.exit_code, pod.last_termination.message) == (1, "no data")
    assert read(phase="Running", containerStatuses=[{**statuses[0], "lastState": {}}]).last_termination is None


def test_a_container_that_runs_or_waits_has_not_ended():
    running = [{"name": "tensorflow", "state": {"running": {"startedAt": NOW}}}]
    waiting = [{"name": "tensorflow", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]

    main = read(phase="Running", containerStatuses=running).main
    assert main.exit_code is None
    assert main.started_at is not None
    assert read(phase="Running", containerStatuses=waiting).main is None
    assert read(phase="Failed", reason="Evicted").main is None
    assert MainContainer().exit_code is None


SCHEDULED = STARTED + timedelta(seconds=1)
PREPARED = STARTED + timedelta(seconds=2)
RUNS = {"running": {}}


def scheduled(status, *, init=None, main=None, **more):
    """The status of a Pending pod, with its condition PodScheduled and the states of two containers."""
    condition = {"type": "PodScheduled", "status": status, "lastTransitionTime": rfc3339(SCHEDULED), **more}
    states = {"initContainerStatuses": init, "containerStatuses": main}
    statuses = {name: [{"state": state}] for name, state in states.items() if state}
    return {"phase": "Pending", "conditions": [condition], **statuses}


def waits(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


def ended(code):
    return {"terminated": {"exitCode": code, "finishedAt": rfc3339(PREPARED)}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ("no scheduler has taken the pod (schedulerName )", None, False)),
        (scheduled("False", reason="Unschedulable", message="0/1"), ("Unschedulable: 0/1", SCHEDULED, False)),
        (scheduled("False", reason="Gated"), ("Gated", SCHEDULED, False)),
        (scheduled("True"), ("its node has not started it", SCHEDULED, True)),
        (scheduled("True", main=waits("ContainerCreating")), ("ContainerCreating", SCHEDULED, True)),
        (scheduled("True", main=waits("ErrImagePull", "no")), ("ErrImagePull: no", SCHEDULED, False)),
        (scheduled("True", init=waits("ImagePullBackOff")), ("ImagePullBackOff", SCHEDULED, False)),
        (scheduled("True", init=RUNS, main=waits("PodInitializing")), ("", SCHEDULED, False)),
        (scheduled("True", init=ended(1), main=waits("PodInitializing")), ("", SCHEDULED, False)),
        (scheduled("True", init=ended(0), main=waits("PodInitializing")), ("PodInitializing", PREPARED, True)),
        ({"phase": "Running", "containerStatuses": [{"state": waits("CrashLoopBackOff")}]}, ("", None, False)),
    ],
    ids=[
        "no scheduler",
        "unschedulable",
        "gated",
        "scheduled",
        "creating",
        "image",
        "init image",
        "init runs",
        "init failed",
        "init done",
        "not pending",
    ],
)
def test_why_a_pod_is_pending_is_in_the_words_of_the_scheduler_or_kubelet(status, expected):
    pod = read(**status)

    assert (pod.pending_reason, pod.waits_since, pod.is_starting) == expected


@pytest.mark.parametrize(
    ("size", "main", "expected"),
    [
        (
            "attempt=2",
            {"state": waits("CrashLoopBackOff", "20s"), "lastState": ended(137)},
            ("CrashLoopBackOff: 20s", PREPARED),
        ),
        ("attempt=2", {"state": waits("CrashLoopBackOff", "20s")}, ("", None)),
        ("attempt=2", {"state": waits("PodInitializing"), "lastState": ended(137)}, ("", None)),
        ("attempt=2", {"state": RUNS, "lastState": ended(137)}, ("", None)),
        ("Worker=2", {"state": waits("CrashLoopBackOff", "20s"), "lastState": ended(137)}, ("", None)),
        ("", {"state": waits("CrashLoopBackOff", "20s"), "lastState": ended(137)}, ("", None)),
    ],
    ids=["in back-off", "never ended", "being started", "runs", "for resizes", "of another job"],
)
def test_a_job_that_restarts_in_place_knows_why_a_kubelet_does_not_start_a_program_again(size, main, expected):
    sidecar = {"name": "sidecar", "state": waits("CrashLoopBackOff", "5m"), "lastState": ended(1)}
    body = pod(phase="Running", containerStatuses=[sidecar, {"name": "tensorflow", "restartCount": 2, **main}])
    body["metadata"]["annotations"] = {resize_sidecar.SIZES_ANNOTATION: size} if size else {}

    observed_pod = READ_POD(raw(body)).pod
    assert (observed_pod.pending_reason, observed_pod.waits_since) == expected


def test_the_scheduler_that_does_not_take_a_pod_is_named():
    body = {**pod(phase="Pending"), "spec": {"schedulerName": "nobody"}}

    assert READ_POD(raw(body)).pod.pending_reason == "no scheduler has taken the pod (schedulerName nobody)"
    body["spec"]["nodeName"] = "node-1"
    assert READ_POD(raw(body)).pod.is_starting


def test_a_disrupted_pod_says_so_in_a_condition_and_since_when():
    target = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": NOW}

    disrupted, over = read(conditions=[target]), read(conditions=[{**target, "status": "False"}])

    assert (disrupted.is_disrupted, disrupted.disrupted_at) == (True, parse_time(NOW))
    assert (over.is_disrupted, over.disrupted_at) == (False, None)


@pytest.mark.parametrize(
    ("spec", "policy"),
    [({"restartPolicy": "OnFailure"}, RestartPolicy.ON_FAILURE), ({}, None), ({"restartPolicy": "Sometimes"}, None)],
)
def test_the_restart_policy_of_a_pod_is_kept_when_it_is_known(spec, policy):
    assert READ_POD(raw({**pod(), "spec": spec})).pod.restart_policy is policy


EVICTING = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
FETCHED = {"name": "prepare", "state": {"terminated": {"exitCode": 0}}}
NOT_FETCHED = {"name": "fetch", "state": {"terminated": {"exitCode": 3}}}


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ({"conditions": [EVICTING]}, "EvictionByEvictionAPI", "Eviction API: evicting"),
        ({"conditions": [{**EVICTING, "status": "False"}]}, "", ""),
        ({"conditions": [EVICTING], "reason": "Evicted", "message": "low on memory"}, "Evicted", "low on memory"),
        (
            {"phase": "Failed", "initContainerStatuses": [FETCHED, NOT_FETCHED]},
            "",
            "init container fetch exited with code 3",
        ),
        ({"phase": "Failed", "initContainerStatuses": [FETCHED]}, "", ""),
        ({"phase": "Pending", "initContainerStatuses": [NOT_FETCHED]}, "", ""),
    ],
    ids=["drained", "drained no longer", "the kubelet knows better", "init container", "another reason", "tried again"],
)
def test_why_a_pod_ended_is_told_in_the_words_of_who_knows(status, reason, message):
    pod = read(**status)

    assert (pod.reason, pod.message) == (reason, message)


def test_a_pod_that_is_terminating_tells_until_when_it_has_time():
    leaving = pod(phase="Running")
    leaving["metadata"]["deletionTimestamp"] = "2026-03-01T08:00:30Z"

    observed_pod = READ_POD(raw(leaving)).pod

    assert observed_pod.is_terminating
    assert observed_pod.deletion_deadline == STARTED + timedelta(seconds=30)
    assert read(phase="Running").deletion_deadline is None


def test_what_the_kubelet_driver_writes_is_understood():
    """The driver writes what real kubelets do."""
    body = pod()
    body["spec"] = {"containers": [{"name": "tensorflow", "image": "i"}]}
    body["status"] = pod_status.running(body, NOW)

    observed_pod = READ_POD(raw(body)).pod

    assert observed_pod.phase == "Running"


def test_a_service_tells_whose_it_is_and_whether_one_request_may_delete_it():
    metadata = {**pod()["metadata"], "name": "j-worker-1", "labels": {"training.kubeflow.org/job-uid": "u"}}

    assert read_service(raw({"metadata": metadata})).service == Service("j-worker-1", "p", False, "u")
    metadata |= {"labels": {}, "deletionTimestamp": NOW}
    assert read_service(raw({"metadata": metadata})).service == Service("j-worker-1", "p", True, "")


def test_a_pod_group_has_its_phase_and_spec():
    metadata = {**pod()["metadata"], "name": "j"}

    cached_group = read_group(raw({"metadata": metadata, "spec": {"minMember": 3}, "status": {"phase": "Inqueue"}}))

    assert cached_group.as_planned() == PodGroup("j", "p", "Inqueue", {"minMember": 3})
    assert cached_group.owner == "u"


def test_the_spec_of_a_pod_group_is_kept_as_text():
    """A tenant may say that a job controls a group, and decoded it takes ten times the memory."""
    body = {"metadata": pod()["metadata"], "spec": {"minTaskMember": dict.fromkeys(map(str, range(9)), 1)}}

    assert isinstance(read_group(raw(body)).spec, msgspec.Raw)


@pytest.mark.parametrize(
    "owner",
    [
        {},
        {"kind": "Job"},
        {"apiVersion": "batch.volcano.sh/v1alpha1"},
        {"apiVersion": "kubeflow.org.example/v1"},
        {"controller": False},
    ],
    ids=["nobody", "another kind", "another group", "a group of a similar name", "an owner that does not control it"],
)
def test_of_a_pod_group_that_no_job_controls_only_the_name_is_kept(owner):
    """Any tenant may create large PodGroups, and Volcano creates one for each of its own jobs."""
    metadata = pod()["metadata"]
    metadata["ownerReferences"] = [metadata["ownerReferences"][0] | owner] if owner else []

    cached_group = read_group(raw({"metadata": metadata, "spec": {"minResources": {"cpu": "1"}}}))

    assert (cached_group.metadata.name, cached_group.owner, cached_group.spec) == ("j-worker-1", "", msgspec.Raw(b"{}"))


def test_a_problem_names_the_field():
    assert str(FieldError("spec", "is bad")) == "spec: is bad"


def test_how_all_containers_stand_is_kept_only_for_the_api_that_shows_it():
    states = {"tensorflow": {"terminated": {"exitCode": 3}}, "proxy": {"running": {}}, "late": {"waiting": {}}}
    statuses = [{"name": name, "state": state} for name, state in states.items()]
    body = pod(phase="Running", containerStatuses=statuses)
    owner = body["metadata"]["ownerReferences"][0]
    theirs = {**owner, "apiVersion": t9k.RESOURCE.api_version, "kind": t9k.RESOURCE.kind}
    read_pod = pod_reader((v1.API, t9k.API))

    assert read_pod(raw(body)).pod.containers == ()
    metadata = {**body["metadata"], "ownerReferences": [theirs], "labels": {OPERATOR_LABEL: t9k.API.controller}}
    observed_pod = read_pod(raw({**body, "metadata": metadata})).pod
    assert [tuple(line) for line in observed_pod.containers] == [
        ("tensorflow", "Terminated", 3),
        ("proxy", "Running", None),
        ("late", "Waiting", None),
    ]


def test_all_pods_of_a_node_share_where_they_are():
    """One reference for each pod is all that it costs."""
    one, other = (
        READ_POD(raw({**pod(name), "spec": {"nodeName": "node-17"}})).pod for name in ("j-worker-0", "j-worker-1")
    )

    assert one.host == Host("node-17")
    assert one.host is other.host


@pytest.mark.parametrize(("health", "expected"), [("Unhealthy", True), ("Healthy", False), ("Unknown", False)])
def test_a_device_that_its_kubelet_calls_unhealthy_is_noticed(health, expected):
    devices = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "0", "health": health}]}]

    status = {"containerStatuses": [{"name": "side", "allocatedResourcesStatus": devices}]}

    observed_pod = READ_POD(raw(builders.merge(pod(), {"spec": {"nodeName": "n"}, "status": status}))).pod

    assert observed_pod.host == Host("n", expected)


def test_of_a_pod_without_a_node_it_is_kept_which_ones_it_avoids():
    avoided = {"metadata": {"annotations": {constants.AVOIDED_NODES_ANNOTATION: "a,b"}}}
    placed, waiting = (
        READ_POD(raw(builders.merge(pod(), avoided | {"spec": {"nodeName": node}}))).pod for node in ("c", "")
    )

    assert (placed.host, waiting.host) == (Host("c"), Host(avoided="a,b"))


def test_a_list_of_avoided_nodes_that_is_none_of_ours_is_not_kept():
    """Whoever may edit pods could fill the memory with it."""
    names = ",".join(["a" * 253] * 17)
    forged = {"metadata": {"annotations": {constants.AVOIDED_NODES_ANNOTATION: names}}}

    assert READ_POD(raw(builders.merge(pod(), forged))).pod.host == Host()
    longest = {"metadata": {"annotations": {constants.AVOIDED_NODES_ANNOTATION: names[:-254]}}}
    assert READ_POD(raw(builders.merge(pod(), longest))).pod.host == Host(avoided=names[:-254])
