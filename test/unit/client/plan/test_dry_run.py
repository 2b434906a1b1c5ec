"""What the operator would make of a job."""

import json

import pytest

from support.jobs.builders import tfjob
from support.jobs.templates import Template
from support.toys import toy_child
from tf_operator.client.manifests import validate
from tf_operator.client.plan import dry_run
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, Settings

CLUSTER = tfjob("j").chief().workers(2)


def dry_run_of(builder, settings=DEFAULT_SETTINGS):
    return dry_run.run(validate.check(builder.body()).job, settings)


def test_every_replica_has_a_pod_and_a_service_of_its_name():
    plan = dry_run_of(CLUSTER)

    assert [replica.name for replica in plan.replicas] == ["j-chief-0", "j-worker-0", "j-worker-1"]
    for replica in plan.replicas:
        service, pod = (child.body() for child in replica.create.in_order())
        assert pod["metadata"]["name"] == service["metadata"]["name"] == replica.name


def test_the_address_is_the_one_in_tf_config():
    plan = dry_run_of(CLUSTER, Settings(cluster_domain="cluster.local"))
    worker = plan.replicas[2]

    config = worker.tf_config

    assert json.loads(config)["cluster"]["worker"][1] == worker.address
    assert worker.address == "j-worker-1.default.svc.cluster.local:2222"


@pytest.mark.parametrize(
    ("job", "is_warned"),
    [
        pytest.param(tfjob("j").workers(2).parameter_servers(1), True, id="no chief"),
        pytest.param(tfjob("j").chief().workers(2).parameter_servers(1), False, id="a chief"),
        pytest.param(tfjob("j").workers(2).parameter_servers(0), False, id="no servers after all"),
        pytest.param(tfjob("j").parameter_servers(1), False, id="no workers"),
        pytest.param(tfjob("j").workers(2).parameter_servers(1).dynamic_workers(), False, id="dynamic workers"),
    ],
)
def test_parameter_servers_that_may_wait_for_a_chief_for_ever_are_warned_of(job, is_warned):
    assert any("no chief" in warning for warning in dry_run_of(job).warnings) is is_warned


def test_a_job_that_reports_is_told_where_that_has_no_effect_as_its_operator_is_not_known():
    where = "no effect in a cluster whose operator takes no reports (--progress-bind-address)"

    plan = dry_run_of(tfjob("j").workers(1).progress_deadline(60))

    assert plan.warnings == (f"spec.runPolicy.progressPolicy: {where}",)


@pytest.mark.parametrize(
    ("entry", "config"),
    [
        pytest.param({"name": "TF_CONFIG", "value": "mine"}, "mine", id="a text"),
        pytest.param(
            {"name": "TF_CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            "(the template says where it is from)",
            id="from elsewhere",
        ),
    ],
)
def test_a_tf_config_of_the_users_own_is_shown_and_remarked_on(entry, config):
    container = {"name": "tensorflow", "image": "i", "env": [entry]}
    patch = {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}}}}
    plan = dry_run_of(tfjob("j").workers(2, template=Template()).merged(patch))

    assert plan.replicas[0].tf_config == config
    assert plan.warnings == ("The template of Worker sets TF_CONFIG itself: it is left as it is",)


METRICS = [{"type": "Resource", "resource": {"name": "cpu"}}]


def test_what_a_job_has_beside_its_replicas_is_planned_with_the_flag_that_it_needs(monkeypatch):
    monkeypatch.setattr(kinds, "ALL", toy_child.WITH_REMINDERS)
    job = tfjob("j").workers(1).ttl(60)
    plan = dry_run_of(job.elastic(1, 2, metrics=METRICS))

    assert [create.resource.kind for create in plan.extras] == ["HorizontalPodAutoscaler", "Reminder"]
    flag = "if the operator runs with --horizontal-pod-autoscalers"
    words = dict(plan.sentences)
    assert words["HorizontalPodAutoscaler"] == f"HorizontalPodAutoscaler j, {flag}; as long as the job runs"
    assert words["Reminder"] == "Reminder j; as long as the job runs"
    title = "TFJob default/j: 1 pod and 1 Service with a HorizontalPodAutoscaler and a Reminder"
    assert str(plan).partition("\n")[0] == title
    assert str(dry_run_of(tfjob("j").workers(1))).partition("\n")[0] == "TFJob default/j: 1 pod and 1 Service"


def test_a_networkpolicy_is_planned_with_what_happens_without_it():
    plan = dry_run_of(tfjob("j").workers(1).network_policy("Job"))

    assert str(plan).partition("\n")[0] == "TFJob default/j: 1 pod and 1 Service with a NetworkPolicy"
    assert dict(plan.sentences)["NetworkPolicy"] == (
        "NetworkPolicy j, if the operator runs with --network-policies; no pod is created without it; until the job is"
        " deleted"
    )
    meaning = "a network of their own: nobody else reaches their ports, and they reach nothing outside"
    assert dict(plan.sentences)["Network"] == f"tfjob run without a cluster gives its programs {meaning}"
    assert "Network" not in dict(dry_run_of(tfjob("j").workers(1)).sentences)


def test_why_a_job_can_have_no_child_that_it_asks_for_is_a_warning():
    spelt = tfjob("j").workers(1).elastic(1, 2, metrics=METRICS).body()
    spelt["spec"]["tfReplicaSpecs"] = {"worker": spelt["spec"]["tfReplicaSpecs"]["Worker"]}
    plan = dry_run.run(validate.check(spelt).job, DEFAULT_SETTINGS)

    assert plan.extras == ()
    assert "there is no HorizontalPodAutoscaler: spec.tfReplicaSpecs has no key Worker." in plan.warnings
