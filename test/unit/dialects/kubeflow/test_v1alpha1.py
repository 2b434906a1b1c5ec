"""kubeflow.org/v1alpha1: what it means in v1, what it shows, and by which rules its jobs are run."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tf_operator.client.manifests import validate
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.kubeflow.versions import v1alpha1
from tf_operator.dialects.kubeflow.versions.conversion import ORIGIN, convert, without_notes
from tf_operator.dialects.kubeflow.versions.stored_schema import LEFT_OUT
from tf_operator.dialects.served import ConversionError, ServedAPI
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import (
    ElasticRecord,
    FailureCause,
    JobPhase,
    JobRecord,
    QueueRecord,
    ReplicaRecord,
    ReplicaType,
)
from tf_operator.job.report import JobReport, ReplicaCounts
from tf_operator.job.training_job import DecidingReplica, RestartPolicy, TrainingJob
from tf_operator.meta import Body

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EXAMPLES = Path(__file__).resolve().parents[4] / "manifests/examples/kubeflow-v1alpha1"
CONTAINER = {"name": "tensorflow", "image": "i"}
PRINTED = yaml.safe_load((EXAMPLES / "status/tf_job.yaml").read_text())


def example(file: str = "tf_job.yaml", *, status: Any = None, **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((EXAMPLES / file).read_text())
    body["metadata"] |= {"namespace": "n", "uid": "u"}
    body["spec"] |= spec
    return body if status is None else body | {"status": status}


def item(kind: str = "MASTER", *, container: Body | None = None, policy: str = "", **more: Any) -> dict[str, Any]:
    pod = {"containers": [{**CONTAINER, **(container or {})}]} | ({"restartPolicy": policy} if policy else {})
    return {"tfReplicaType": kind, "template": {"spec": pod}} | more


def read(body: Body) -> TrainingJob:
    return v1.API.read_object(convert(body, "v1"))


def in_v1(*items: Any, **spec: Any) -> Any:
    return convert(example(**{"replicaSpecs": list(items), **spec}), "v1")["spec"]


@pytest.mark.documents("v1alpha1/printed-example", "v1alpha1/printed-yaml")
def test_a_job_is_shown_with_everything_that_was_not_given() -> None:
    body, job = example(), convert(convert(example(), "v1"), "v1alpha1")
    assert job == body | {
        "spec": PRINTED["spec"] | {"RuntimeId": read(body).runtime_id},
        "status": {"kinds": "TFJob.v1alpha1.kubeflow.org", "fixed": job["status"]["fixed"]},
    }


@pytest.mark.parametrize(
    ("worker", "scheduler"), [("s", "s"), ("other", None), (None, None)], ids=["all", "different ones", "some"]
)
def test_the_scheduler_that_all_pods_name_is_that_of_the_job(worker: str | None, scheduler: str | None) -> None:
    specs = {"Chief": {"schedulerName": "s"}, "Worker": {"schedulerName": worker} if worker else {}}
    replicas = {kind: {"template": {"spec": {"containers": [CONTAINER], **spec}}} for kind, spec in specs.items()}
    stored = example() | {"apiVersion": "kubeflow.org/v1", "spec": {"tfReplicaSpecs": replicas}}

    assert convert(stored, "v1alpha1")["spec"].get("schedulerName") == scheduler


@pytest.mark.documents("v1alpha1/printed-defaults")
def test_a_job_without_type_count_and_port_has_one_master() -> None:
    items = convert(convert(example("tf_job_defaults.yaml"), "v1"), "v1alpha1")["spec"]["replicaSpecs"]
    assert [(entry["tfReplicaType"], entry["replicas"], entry["tfPort"]) for entry in items] == [("MASTER", 1, 2222)]


@pytest.mark.parametrize("template", ["text", {"spec": "text"}])
def test_a_template_that_is_none_is_empty_in_v1_where_it_is_stored_and_refused_where_it_is_written(
    template: Any,
) -> None:
    body = example(replicaSpecs=[item() | {"template": template}])
    stored = convert(body, "v1")
    assert stored["spec"]["tfReplicaSpecs"]["Master"]["template"] == {"spec": {"containers": []}}
    assert "text" in json.loads(stored["metadata"]["annotations"][LEFT_OUT]).values()
    with pytest.raises(ConversionError, match="must be an object, is 'text'"):
        convert(body, "v1", is_written=True)


@pytest.mark.documents("v1alpha1/types", "v1alpha1/default-server")
@pytest.mark.parametrize(
    ("items", "spec", "replicas"),
    [
        ([item(policy="Never")], {}, {"Master": {"restartPolicy": "Never"}}),
        ([item(), item("WORKER")], {}, {"Master": {"restartPolicy": "Always"}, "Worker": {"restartPolicy": "Always"}}),
        ([item(tfPort=3000)], {}, {"Master": {"ports": [{"name": "tfjob-port", "containerPort": 3000}]}}),
        ([item(tfPort=65535)], {}, {"Master": {"ports": [{"name": "tfjob-port", "containerPort": 65535}]}}),
        ([item(tfPort=65536)], {}, {"Master": {"ports": None}}),
        ([item(tfPort=0)], {}, {"Master": {"ports": None}}),
        ([item()], {"schedulerName": "s"}, {"Master": {"schedulerName": "s"}}),
        ([item("PS", container={"name": "x"})], {"tfImage": "j"}, {"PS": {"images": ["i", "j"]}}),
        ([item("PS")], {}, {"PS": {"images": ["i"]}}),
        ([{"tfReplicaType": "PS", "template": None}], {}, {"PS": {"restartPolicy": "OnFailure"}}),
    ],
    ids=[
        "policy",
        "no policy",
        "port",
        "last port",
        "no port",
        "port 0",
        "scheduler",
        "server beside a container",
        "own server",
        "no template",
    ],
)
def test_what_the_list_says_is_in_the_templates_of_v1(
    items: list[Any], spec: dict[str, Any], replicas: dict[str, Any]
) -> None:
    stored_spec = in_v1(*items, **spec)
    assert stored_spec["runPolicy"] == {"cleanPodPolicy": "Running", "suspend": False}
    assert stored_spec["tfReplicaSpecs"].keys() == replicas.keys()
    for kind, expected in replicas.items():
        pod = stored_spec["tfReplicaSpecs"][kind]["template"]["spec"]
        facts = {
            "restartPolicy": stored_spec["tfReplicaSpecs"][kind]["restartPolicy"],
            "ports": pod["containers"][0].get("ports"),
            "schedulerName": pod.get("schedulerName"),
            "images": [entry["image"] for entry in pod["containers"]],
        }
        assert {name: facts[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({"min-instance": 1, "max-instance": 4}, {"minReplicas": 1, "maxReplicas": 4}),
        ({"max-instance": 4}, {"maxReplicas": 4}),
        ({"min-instance": 1}, None),
        ({"min-instance": 1, "max-instance": True}, None),
    ],
    ids=["both", "no least", "no most", "no number"],
)
def test_the_instances_of_the_fork_are_the_elastic_policy_of_v1(fields: Body, policy: Body | None) -> None:
    body = example(replicaSpecs=[item("WORKER", replicas=2)], **fields)
    stored = convert(body, "v1")
    assert stored["spec"].get("elasticPolicy") == policy
    spec = convert(stored, "v1alpha1")["spec"]
    assert {name: spec[name] for name in ("min-instance", "max-instance") if name in spec} == fields


def test_an_elastic_policy_that_was_changed_in_v1_is_shown_in_v1alpha1_and_its_metrics_survive() -> None:
    body = example(replicaSpecs=[item(), item("WORKER")], **{"min-instance": 1, "max-instance": 4})
    stored = convert(body, "v1")
    stored["spec"]["elasticPolicy"] = policy = {"minReplicas": 1, "maxReplicas": 6, "metrics": [{"type": "Pods"}]}
    job = convert(stored, "v1alpha1")
    assert (job["spec"]["min-instance"], job["spec"]["max-instance"]) == (1, 6)
    assert convert(job, "v1")["spec"]["elasticPolicy"] == policy


@pytest.mark.parametrize("policy", [None, {"minReplicas": 2, "maxReplicas": 4}], ids=["none", "narrower"])
def test_no_note_gives_a_job_an_elastic_policy_or_a_wider_one(policy: Body | None) -> None:
    stored = convert(example(replicaSpecs=[item(), item("WORKER", replicas=2)]), "v1")
    stored["spec"] |= {"elasticPolicy": policy} if policy else {}
    told = {"min-instance": ("minReplicas", 1), "max-instance": ("maxReplicas", 9)}
    notes = [
        {"path": [name], "original": number} | ({"back": policy[field]} if policy else {})
        for name, (field, number) in told.items()
    ]
    stored["metadata"]["annotations"] = {"tf-operator.kubeflow.org/v1alpha1-fields": json.dumps(notes)}
    spec = convert(stored, "v1alpha1")["spec"]
    expected = {name: policy[field] for name, (field, _) in told.items()} if policy else {}
    assert {name: spec[name] for name in told if name in spec} == expected


@pytest.mark.parametrize("name", ["replicaSpecs", "replica_specs"])
def test_no_note_gives_a_job_replicas_that_its_spec_does_not_have(name: str) -> None:
    """Whoever judges a job before it is stored reads its spec, and not a note in an annotation."""
    stored = convert(example(), "v1")
    stored["spec"]["tfReplicaSpecs"] = {}
    notes = json.dumps([{"path": [name], "original": [item()], "back": []}, {"path": [name], "original": [item()]}])
    stored["metadata"]["annotations"]["tf-operator.kubeflow.org/v1alpha1-fields"] = notes
    assert v1.API.read_object(stored).replicas == ()


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        (["WORKER", "MASTER"], ["WORKER", "MASTER"]),
        (["WORKER"], ["MASTER", "WORKER"]),
        (["BOSS", "MASTER"], ["MASTER", "WORKER"]),
        ("MASTER", ["MASTER", "WORKER"]),
    ],
)
def test_a_note_of_an_order_counts_only_if_it_is_one_of_the_types_that_there_are(order: Any, shown: list[str]) -> None:
    stored = convert(example(replicaSpecs=[item(), item("WORKER")]), "v1")
    notes = [{"path": ["replicaSpecs[]", "order"], "back": ["MASTER", "WORKER"], "original": order}]
    stored["metadata"]["annotations"] = {"tf-operator.kubeflow.org/v1alpha1-fields": json.dumps(notes)}

    spec = convert(stored, "v1alpha1")["spec"]
    assert [entry["tfReplicaType"] for entry in spec["replicaSpecs"]] == shown


@pytest.mark.parametrize(
    ("notes", "replicas"),
    [
        ({"MASTER": {"replicas": 1}}, {"Master": {"replicas": 2}}),
        ({"MASTER": {"replicas": None}}, {"Master": {"replicas": None}}),
        ({"MASTER": {}, "others": {"Evaluator": [{}], "Chief": [{}]}}, {"Evaluator": {}, "Chief": {}, "Master": {}}),
        ({"others": {"Worker": [{}], "PS": ["malformed"]}}, {"PS": "malformed", "Master": {}}),
    ],
    ids=["a count", "null", "others", "others that the list could have"],
)
def test_a_note_has_counts_that_were_not_given_and_replicas_for_which_a_list_has_no_place(
    notes: Any, replicas: Any
) -> None:
    restored = v1alpha1.join_v1({"tfReplicaSpecs": {"Master": {"replicas": 2}}}, {"tfReplicaSpecs[]": notes})
    assert restored == {"tfReplicaSpecs": replicas}


def test_replicas_without_a_template_have_none_in_the_other_version() -> None:
    assert v1alpha1.from_v1({"tfReplicaSpecs": {"Master": {}}})["replicaSpecs"] == [
        {"tfReplicaType": "MASTER", "replicas": 1, "tfPort": 2222}
    ]
    normalized = v1alpha1.normalized({"replicaSpecs": [{"tfReplicaType": "WORKER"}]}, "u")
    assert v1alpha1.to_v1(normalized)["tfReplicaSpecs"] == {"Worker": {"replicas": 1, "restartPolicy": "Always"}}


@pytest.mark.parametrize("own", [{"tfReplicaSpecs": 3}, {"tfReplicaSpecs": 3, "x": 1}, {}])
def test_replicas_that_are_no_mapping_are_noted_as_they_are(own: Body) -> None:
    assert v1alpha1.split_v1(own) == own
    assert v1alpha1.join_v1({"tfReplicaSpecs": 3}, own) == own


def test_what_v1_has_no_place_for_survives_an_edit_in_v1() -> None:
    body = example(
        replicaSpecs=[item("WORKER", replicas=2), item()],
        RuntimeId="76no",
        modelName="m",
        terminationPolicy={"chief": {"replicaName": "WORKER", "replicaIndex": 1}},
    )
    stored = convert(body, "v1")
    stored["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 3
    spec = convert(stored, "v1alpha1")["spec"]
    assert [entry["tfReplicaType"] for entry in spec["replicaSpecs"]] == ["WORKER", "MASTER"]
    assert spec["replicaSpecs"][0]["replicas"] == 3
    assert {name: spec[name] for name in ("RuntimeId", "modelName", "terminationPolicy")} == {
        name: body["spec"][name] for name in ("RuntimeId", "modelName", "terminationPolicy")
    }
    assert "cleanupPodPolicy" not in spec


def test_an_evaluator_is_kept_while_its_job_is_edited_in_v1alpha1() -> None:
    entry = {"replicas": 1, "restartPolicy": "ExitCode", "template": {"spec": {"containers": [CONTAINER]}}}
    stored = example() | {
        "apiVersion": "kubeflow.org/v1",
        "spec": {"tfReplicaSpecs": {"Chief": entry, "evaluator": entry}},
    }
    job = convert(stored, "v1alpha1")
    assert [replica["tfReplicaType"] for replica in job["spec"]["replicaSpecs"]] == ["MASTER"]
    assert convert(job, "v1") == stored


def test_the_id_in_names_may_be_spelled_as_later_operators_did() -> None:
    assert read(example(runtimeid="76no")).runtime_id == "76no"


def test_the_port_of_a_template_is_found_behind_others() -> None:
    ports = [{"name": "http", "containerPort": 80}, {"name": "tfjob-port", "containerPort": 5000}]
    stored = {
        **example(),
        "apiVersion": "kubeflow.org/v1",
        "spec": {"tfReplicaSpecs": {"Master": item(container={"ports": ports})}},
    }
    assert convert(stored, "v1alpha1")["spec"]["replicaSpecs"][0]["tfPort"] == 5000


def test_a_spec_that_is_no_object_is_a_problem_and_not_an_error() -> None:
    assert v1.API.read_object(convert(example(), "v1") | {"spec": "x"}).problems


def test_the_port_beside_the_template_wins_over_the_one_in_it() -> None:
    opened = {"ports": [{"name": "tfjob-port", "containerPort": 1}, {"name": "x", "containerPort": 2}]}
    pod = in_v1(item(container=opened, tfPort=5))["tfReplicaSpecs"]["Master"]["template"]["spec"]
    assert pod["containers"][0]["ports"] == [{"name": "tfjob-port", "containerPort": 5}, opened["ports"][1]]


@pytest.mark.documents("v1alpha1/printed-example", "v1alpha1/printed-gpu", "v1alpha1/printed-defaults")
@pytest.mark.parametrize("file", ["tf_job.yaml", "tf_job_gpu.yaml", "tf_job_defaults.yaml"])
def test_an_example_has_no_errors_and_means_the_same_when_it_is_rewritten(file: str) -> None:
    body: dict[str, Any] = yaml.safe_load((EXAMPLES / file).read_text())
    checked, rewritten = validate.check(body), v1.API.in_own_version(body)
    assert not checked.errors
    assert validate.check(rewritten).job == checked.job
    assert v1.API.in_own_version(rewritten) == rewritten


# --- Reading -------------------------------------------------------------------------------------------------------


@pytest.mark.documents("v1alpha1/types")
def test_a_job_of_v1alpha1_is_run_by_the_rules_of_v1alpha1() -> None:
    job = read(example())
    assert not job.problems
    assert job.profile is v1.V1ALPHA1
    assert job.deciding == DecidingReplica(ReplicaType.MASTER, 0, "spec.replicaSpecs")
    assert [(spec.type, spec.restart_policy, spec.is_default_server) for spec in job.replicas] == [
        (ReplicaType.MASTER, RestartPolicy.ON_FAILURE, False),
        (ReplicaType.PS, RestartPolicy.ON_FAILURE, True),
        (ReplicaType.WORKER, RestartPolicy.ON_FAILURE, False),
    ]


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({}, v1.V1ALPHA1),
        ({"status": {"origin": "v1alpha1", "conditions": []}, "metadata": {"annotations": {}}}, v1.V1ALPHA1),
        ({"status": {"conditions": []}}, v1.PROFILE),
        ({"metadata": {"annotations": {}}}, v1.PROFILE),
    ],
    ids=["noted", "recorded", "noted after a status was written", "nowhere"],
)
def test_the_version_in_which_a_job_was_created_decides_until_the_status_has_it(change: Body, rules: object) -> None:
    assert v1.API.read_object(convert(example(), "v1") | dict(change)).profile is rules


@pytest.mark.documents(
    "v1alpha1/permanent-codes",
    "v1alpha1/retryable-codes",
    "v1alpha1/code-138",
    "v1alpha1/other-codes",
    "fork/exit-codes",
)
@pytest.mark.parametrize(
    ("api", "final"),
    [(v1.API, {*range(1, 129), 139}), (v1.FORK_API, set(range(1, 128)))],
    ids=["default", "fork"],
)
def test_the_operator_chooses_which_exit_codes_of_a_master_are_final(api: ServedAPI, final: set[int]) -> None:
    """A later reading, when the status has the version, is by the same rules."""
    stored = convert(example(), "v1")
    job = api.read_object(stored)
    codes = job.profile.exit_codes
    assert {code for code in range(1, 257) if not codes.are_retryable(code, "Error")} == final | {256}
    assert not codes.are_retryable(137, "OOMKilled")
    status = api.write_status(JobReport(job, job.record, NOW), {})
    assert api.read_object(stored | {"status": status, "metadata": {}}).profile is job.profile


def test_a_job_of_v1_that_is_edited_in_v1alpha1_keeps_its_rules() -> None:
    stored = without_notes(convert(example(), "v1")) | {"metadata": {"name": "j", "uid": "u"}}
    job = convert(stored, "v1alpha1")
    assert job["metadata"]["annotations"][ORIGIN] == "v1"
    assert "RuntimeId" not in job["spec"]
    assert convert(job, "v1") == stored


def test_the_id_in_names_stays_when_the_given_one_is_removed() -> None:
    stored = convert(example(RuntimeId="76no"), "v1")
    assert v1.API.read_object(stored).runtime_id == "76no"
    status = v1.API.write_status(report(v1.API.read_object(stored), phase=JobPhase.CREATED), {})
    assert convert(stored | {"status": status}, "v1alpha1")["status"]["operator"]["runtimeId"] == "76no"
    replaced = convert(example(status={"operator": status}), "v1")
    assert v1.API.read_object(replaced).runtime_id == "76no"
    assert convert(replaced, "v1alpha1")["spec"]["RuntimeId"] == "76no"


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([item(), item()], "spec.replicaSpecs[1].tfReplicaType: is MASTER again: each type has one item"),
        ([item("BOSS")], "spec.replicaSpecs[0].tfReplicaType: must be one of 'MASTER', 'PS', 'WORKER', is 'BOSS'"),
        ([item(replicas=2)], "spec.replicaSpecs[0].replicas: must be 1 for the type MASTER, is 2"),
        ([item(tfPort="x")], "spec.replicaSpecs[0].tfPort: must be a whole number, is 'x'"),
        ([item("WORKER"), "x"], "spec.replicaSpecs[1]: must be an object, is 'x'"),
        (3, "spec.replicaSpecs: must be a list, is 3"),
    ],
)
def test_what_is_wrong_is_named_as_it_is_written(items: list[Any], problem: str) -> None:
    assert problem in [str(error) for error in read(example(replicaSpecs=items)).problems]


@pytest.mark.parametrize(
    ("field", "value"),
    [("restarts", {"scope": "Job"}), ("avoidNodes", {"afterFailures": 1}), ("progressPolicy", {"reports": True})],
)
def test_a_policy_that_was_asked_for_in_v1_is_a_problem(field: str, value: dict[str, Any]) -> None:
    stored = convert(example(), "v1")
    stored["spec"].setdefault("runPolicy", {})[field] = value
    job = v1.API.read_object(stored)
    assert [str(problem) for problem in job.problems] == [
        f"spec.runPolicy.{field}: cannot be in a job that was created in v1alpha1"
    ]


def test_more_memory_after_oom_kills_that_was_asked_for_in_v1_is_a_problem() -> None:
    stored = convert(example(), "v1")
    stored["spec"]["tfReplicaSpecs"]["Worker"]["oomPolicy"] = {"maxMemory": "64Gi"}
    job = v1.API.read_object(stored)
    assert [str(problem) for problem in job.problems] == [
        "spec.tfReplicaSpecs.Worker.oomPolicy: cannot be in a job that was created in v1alpha1"
    ]


def test_an_evaluator_that_was_added_in_v1_is_a_problem() -> None:
    stored = convert(example(), "v1")
    stored["spec"]["tfReplicaSpecs"]["Evaluator"] = {}
    assert "spec.tfReplicaSpecs.Evaluator: cannot be in a job that was created in v1alpha1" in [
        str(problem) for problem in v1.API.read_object(stored).problems
    ]


# --- The status ----------------------------------------------------------------------------------------------------


def report(job: TrainingJob, **fields: Any) -> JobReport:
    record = JobRecord(**{"start_time": NOW, "replicas": {kind: ReplicaRecord() for kind in ReplicaType}} | fields)
    counts = {spec.type: ReplicaCounts() for spec in job.replicas}
    return JobReport(job, record, NOW, counts=counts, message="What ended it.", note=" What it waits for.")


def shown_status(**fields: Any) -> dict[str, Any]:
    stored = convert(example(), "v1")
    status = v1.API.write_status(report(v1.API.read_object(stored), **fields), {})
    record = report(read(example()), **fields).record.changed(observed_generation=0)
    assert v1.API.read_object(stored | {"status": status}).record == record
    older_status: dict[str, Any] = convert(stored | {"status": status}, "v1alpha1")["status"]
    assert older_status.pop("operator") == status
    del older_status["fixed"]
    return older_status


SUCCEEDED = {
    "phase": JobPhase.SUCCEEDED,
    "completion_time": NOW,
    "replicas": {
        ReplicaType.MASTER: ReplicaRecord(completed=Indexes.of([0])),
        ReplicaType.WORKER: ReplicaRecord(),
        ReplicaType.PS: ReplicaRecord(),
    },
}
FAILED = {"phase": JobPhase.FAILED, "failure": FailureCause.PERMANENT_FAILURE, "completion_time": NOW}


@pytest.mark.documents("v1alpha1/printed-yaml")
def test_a_job_that_has_succeeded_shows_the_status_of_the_document() -> None:
    kinds = {"kinds": "TFJob.v1alpha1.kubeflow.org"}
    assert shown_status(**SUCCEEDED, clean_up_time=NOW) == PRINTED["status"] | kinds


@pytest.mark.documents("v1alpha1/phases", "v1alpha1/states")
@pytest.mark.parametrize(
    ("fields", "phase", "state", "reason"),
    [
        ({"phase": JobPhase.CREATED}, "Creating", "Running", "What it waits for."),
        ({"phase": JobPhase.RUNNING, "first_run_time": NOW}, "Running", "Running", "What it waits for."),
        ({"phase": JobPhase.RESTARTING, "first_run_time": NOW}, "Running", "Running", "What it waits for."),
        (SUCCEEDED, "CleanUp", "Succeeded", ""),
        (FAILED, "CleanUp", "Failed", "What ended it."),
        (FAILED | {"clean_up_time": NOW}, "Done", "Failed", "What ended it."),
        (FAILED | {"failure": FailureCause.INVALID_SPEC}, "Failed", "Failed", "What ended it."),
    ],
)
def test_phase_state_and_reason_follow_from_the_status_of_v1(
    fields: dict[str, Any], phase: str, state: str, reason: str
) -> None:
    status = shown_status(**fields)
    assert (status["phase"], status["state"], status["reason"]) == (phase, state, reason)


def test_a_job_of_the_queue_says_when_it_was_queued_and_ran_as_the_fork_did() -> None:
    queue = {
        "queue": QueueRecord(queued_time=datetime(2018, 5, 9, 15, 19, 36, tzinfo=UTC)),
        "elastic": ElasticRecord(workers=2, asked_for=1),
        "first_run_time": datetime(2018, 5, 9, 16, tzinfo=UTC),
        "replicas": {ReplicaType.WORKER: ReplicaRecord(completed=Indexes.of([]))},
    }
    queued = shown_status(**queue | {"phase": JobPhase.QUEUED, "first_run_time": None})
    assert (queued["enqueueScheduleTime"], queued["runningReplicas"]) == ("2018.05.09-15:19:36", 0)
    assert queued.keys().isdisjoint({"startRunTime", "jobFinishTime"})
    running = shown_status(**queue | {"phase": JobPhase.RUNNING})
    row = {"tf_replica_type": "WORKER", "state": "Running", "ReplicasStates": {"Running": 2}}
    assert (running["startRunTime"], row in running["replicaStatuses"]) == ("2018.05.09-16:00:00", True)
    ended = shown_status(**queue | SUCCEEDED | {"completion_time": datetime(2018, 5, 9, 17, tzinfo=UTC)})
    assert (ended["jobFinishTime"], ended["runningReplicas"]) == ("2018.05.09-17:00:00", 0)


def test_a_job_of_v1_is_done_when_it_has_ended() -> None:
    stored = without_notes(convert(example(), "v1")) | {"metadata": {"name": "j"}}
    assert v1.API.read_object(stored).profile is v1.PROFILE
    status = v1.API.write_status(report(v1.API.read_object(stored), **SUCCEEDED), {})
    assert "origin" not in status
    assert convert(stored | {"status": status}, "v1alpha1")["status"]["phase"] == "Done"


def test_a_job_of_v1_with_a_chief_shows_it_as_the_master_and_leaves_out_counts_that_are_none() -> None:
    replicas = {"Chief": item(), "Worker": item(replicas="x")}
    stored = {**example(), "apiVersion": "kubeflow.org/v1", "spec": {"tfReplicaSpecs": replicas}}
    done = {ReplicaType.CHIEF: ReplicaRecord(completed=Indexes.of([0])), ReplicaType.WORKER: ReplicaRecord()}
    status = v1.API.write_status(report(v1.API.read_object(stored), phase=JobPhase.RUNNING, replicas=done), {})
    rows = convert(stored | {"status": status}, "v1alpha1")["status"]["replicaStatuses"]
    assert [(row["tf_replica_type"], row["state"]) for row in rows] == [("MASTER", "Succeeded")]


@pytest.mark.parametrize(
    ("phase", "shown"),
    [(JobPhase.CREATED, "Creating"), (JobPhase.RUNNING, "Running"), (JobPhase.RESTARTING, "Running")],
)
def test_a_job_of_v1_has_run_since_its_start_for_only_one_of_v1alpha1_notes_when_it_first_did(
    phase: JobPhase, shown: str
) -> None:
    created = convert(example(), "v1")
    for stored, expected in ((without_notes(created) | {"metadata": {"name": "j"}}, shown), (created, "Creating")):
        status = v1.API.write_status(report(v1.API.read_object(stored), phase=phase), {})
        assert convert(stored | {"status": status}, "v1alpha1")["status"]["phase"] == expected


@pytest.mark.parametrize(
    ("is_of_v1", "failed", "state"), [(True, 1, "Failed"), (True, 0, "Running"), (False, 1, "Running")]
)
def test_of_a_job_of_v1_a_replica_has_failed_whose_pod_has(is_of_v1: bool, failed: int, state: str) -> None:
    """Of one of v1alpha1 only a replica that is not started again has."""
    stored = convert(example(), "v1")
    stored = without_notes(stored) | {"metadata": {"name": "j"}} if is_of_v1 else stored
    status = v1.API.write_status(report(v1.API.read_object(stored), phase=JobPhase.RUNNING), {})
    status["replicaStatuses"]["Master"]["failed"] = failed
    rows = convert(stored | {"status": status}, "v1alpha1")["status"]["replicaStatuses"]
    assert {row["tf_replica_type"]: row["state"] for row in rows}["MASTER"] == state


def test_a_job_that_was_never_reconciled_has_no_phase() -> None:
    assert "phase" not in convert(convert(example(), "v1") | {"status": {"theirs": 1}}, "v1alpha1")["status"]


@pytest.mark.parametrize(
    ("status", "phase", "condition"),
    [
        ({"phase": "Done", "state": "Succeeded"}, JobPhase.SUCCEEDED, "Succeeded"),
        ({"phase": "CleanUp", "state": "Succeeded"}, JobPhase.SUCCEEDED, "Succeeded"),
        ({"phase": "Done", "state": "Failed", "reason": "r"}, JobPhase.FAILED, "Failed"),
        ({"phase": "Failed", "reason": "r"}, JobPhase.FAILED, "Failed"),
        ({"phase": "Running", "state": "Running"}, JobPhase.NEW, None),
        ({"phase": "Creating", "state": "Succeeded"}, JobPhase.NEW, None),
    ],
)
def test_a_job_that_ended_under_an_operator_of_that_time_stays_ended(
    status: dict[str, Any], phase: JobPhase, condition: str | None
) -> None:
    stored = convert(example(status=status), "v1")
    assert v1.API.read_object(stored).record.phase is phase
    conditions = stored["status"].get("conditions", [])
    assert [(entry["type"], entry["message"]) for entry in conditions] == (
        [(condition, status.get("reason", ""))] if condition else []
    )
    converted = convert(stored, "v1alpha1")["status"]
    assert converted == status | {"kinds": "TFJob.v1alpha1.kubeflow.org", "fixed": converted["fixed"]}
    cleaned = JobReport(v1.API.read_object(stored), JobRecord(phase=phase, clean_up_time=NOW), NOW)
    if condition:
        stored["status"] = v1.API.write_status(cleaned, stored["status"])
        converted = convert(stored, "v1alpha1")["status"]
        assert converted["phase"] == ("Failed" if status["phase"] == "Failed" else "Done")
        assert converted["reason"] == status.get("reason", "")


def test_a_tensorboard_survives_the_way_to_v1_and_runs_by_the_name_of_the_job_id():
    body = example(RuntimeId="76no", tfImage="own", tensorboard={"logDir": "/l"})
    board = read(body).tensorboard

    assert board is not None
    assert (board.name, board.image, board.problems) == ("tensorboard-76no", "own", ())
    assert "tensorboard" in str(convert(body, "v1")["metadata"]["annotations"]), "by which such jobs are found"
    assert read(example()).tensorboard is None
