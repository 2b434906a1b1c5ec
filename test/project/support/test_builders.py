"""Builders: what the bodies hold, that nothing is shared, that children follow their job."""

import pytest

from support import builders
from support.templates import Template

LABELS = {
    "training.kubeflow.org/operator-name": "tfjob-controller",
    "training.kubeflow.org/job-name": "j",
    "training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/replica-index": "0",
}


def stored(job: builders.TFJobBuilder) -> dict:
    """The job as if the apiserver had returned it."""
    return job.merged({"metadata": {"uid": "u-1"}}).body()


def test_a_job_holds_only_what_was_asked_for():
    assert builders.tfjob("j").workers(2).body() == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "j"},
        "spec": {
            "tfReplicaSpecs": {
                "Worker": {
                    "replicas": 2,
                    "template": {"spec": {"containers": [{"name": "tensorflow", "image": "training:test"}]}},
                }
            }
        },
    }


def test_every_policy_has_its_place_in_the_spec():
    job = (
        builders.tfjob()
        .chief()
        .clean_pods("Running")
        .backoff_limit(0)
        .deadline(3)
        .ttl(0)
        .startup_deadline(9)
        .suspended()
        .managed_by()
        .success_policy()
        .dynamic_workers()
        .scheduling(min_available=0, queue="q", priority_class="high", min_resources={"cpu": "1"}, timeout=60)
        .body()
    )

    assert job["spec"]["successPolicy"] == "AllWorkers"
    assert job["spec"]["enableDynamicWorker"] is True
    assert job["spec"]["runPolicy"] == {
        "cleanPodPolicy": "Running",
        "backoffLimit": 0,
        "activeDeadlineSeconds": 3,
        "ttlSecondsAfterFinished": 0,
        "startupDeadlineSeconds": 9,
        "suspend": True,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "schedulingPolicy": {
            "minAvailable": 0,
            "queue": "q",
            "priorityClass": "high",
            "minResources": {"cpu": "1"},
            "scheduleTimeoutSeconds": 60,
        },
    }


def test_each_replica_type_has_its_canonical_key():
    job = builders.tfjob().chief().master().workers(3).parameter_servers(2).evaluators().body()

    counts = {kind: spec["replicas"] for kind, spec in job["spec"]["tfReplicaSpecs"].items()}
    assert counts == {"Chief": 1, "Master": 1, "Worker": 3, "PS": 2, "Evaluator": 1}


def test_a_count_of_none_leaves_the_default_to_the_schema():
    spec = builders.tfjob().replicas("worker", None, restart="ExitCode").body()["spec"]

    assert "replicas" not in spec["tfReplicaSpecs"]["worker"]
    assert spec["tfReplicaSpecs"]["worker"]["restartPolicy"] == "ExitCode"


def test_a_builder_is_unchanged_when_another_is_made_from_it():
    base = builders.tfjob("j").workers(1)

    base.workers(5).labels({"a": "b"}).suspended().merged({"spec": {"x": 1}})

    assert base.body() == builders.tfjob("j").workers(1).body()


def test_bodies_share_nothing_when_one_is_changed():
    job = builders.tfjob().workers(1).scheduling(min_resources={"cpu": "1"})
    first = job.body()

    first["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"].clear()
    first["spec"]["runPolicy"]["schedulingPolicy"]["minResources"]["cpu"] = "2"

    assert job.body() != first
    assert job.body()["spec"]["runPolicy"]["schedulingPolicy"]["minResources"] == {"cpu": "1"}


def test_what_a_caller_gave_is_not_changed_and_not_kept():
    given = {"spec": {"list": [1]}}
    job = builders.tfjob().merged(given)
    given["spec"]["list"].append(2)

    assert job.body()["spec"]["list"] == [1]


def test_a_merge_replaces_adds_and_removes():
    job = builders.tfjob().workers(1).deadline(3).ttl(5)

    patched = job.merged({"spec": {"runPolicy": {"activeDeadlineSeconds": None}, "tfReplicaSpecs": 5}}).body()

    assert patched["spec"] == {"runPolicy": {"ttlSecondsAfterFinished": 5}, "tfReplicaSpecs": 5}


def test_metadata_is_complete_when_all_of_it_is_given():
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "uid": "u"}}
    pod = (
        builders.pod()
        .named("p")
        .in_namespace("ns")
        .labels({"a": "1"})
        .labels({"aa": "2"})
        .annotations({"b": "2"})
        .owned_by(owner, controller=False)
        .finalizer("x.test/f")
        .body()
    )

    assert pod["metadata"] == {
        "name": "p",
        "namespace": "ns",
        "labels": {"a": "1", "aa": "2"},
        "annotations": {"b": "2"},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "o",
                "uid": "u",
                "controller": False,
                "blockOwnerDeletion": False,
            }
        ],
        "finalizers": ["x.test/f"],
    }


def test_a_child_pod_has_the_names_labels_and_owner_of_its_replica():
    job = stored(builders.tfjob("j").chief().workers(2))

    pod = builders.child_pod(job, "Worker", 0).body()

    assert pod["metadata"] == {
        "name": "j-worker-0",
        "labels": LABELS,
        "ownerReferences": [
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "name": "j",
                "uid": "u-1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


@pytest.mark.parametrize(
    ("job", "kind", "index", "is_master"),
    [
        (builders.tfjob("j").chief().workers(2), "Chief", 0, True),
        (builders.tfjob("j").master().workers(2), "Master", 0, True),
        (builders.tfjob("j").chief().workers(2), "Worker", 0, False),
        (builders.tfjob("j").workers(2), "Worker", 0, True),
        (builders.tfjob("j").workers(2), "Worker", 1, False),
        (builders.tfjob("j").workers(2).parameter_servers(), "PS", 0, False),
    ],
    ids=["chief", "master", "worker 0 beside a chief", "worker 0", "worker 1", "ps"],
)
def test_the_role_of_master_goes_to_the_chief_or_else_to_worker_0(job, kind, index, is_master):
    labels = builders.child_pod(stored(job), kind, index).body()["metadata"]["labels"]

    assert (labels.get("training.kubeflow.org/job-role") == "master") is is_master


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", "Never"),
        ("ExitCode", "Never"),
        ("Never", "Never"),
        ("OnFailure", "OnFailure"),
        ("Always", "Always"),
    ],
)
def test_a_child_pod_carries_the_policy_that_a_kubelet_understands(policy, expected):
    job = stored(builders.tfjob("j").workers(1, restart=policy))

    assert builders.child_pod(job, "Worker", 0).body()["spec"]["restartPolicy"] == expected


def test_a_child_pod_is_made_from_the_template_and_our_labels_win():
    template = (
        Template()
        .image("x")
        .labels({"a": "b", "training.kubeflow.org/job-name": "forged"})
        .annotations({"c": "d"})
        .spec(schedulerName="s")
    )
    job = stored(builders.tfjob("j").workers(1, template=template))

    pod = builders.child_pod(job, "Worker", 0).body()

    assert pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == "j"
    assert pod["metadata"]["labels"]["a"] == "b"
    assert pod["metadata"]["annotations"] == {"c": "d"}
    assert pod["spec"]["containers"] == [{"name": "tensorflow", "image": "x"}]
    assert pod["spec"]["schedulerName"] == "s"


def test_a_child_service_is_headless_and_selects_its_replica():
    template = Template().port("tfjob-port", 2222).port("metrics", 9090)
    job = stored(builders.tfjob("j").chief().workers(2, template=template))

    service = builders.child_service(job, "Worker", 0).body()

    assert service["metadata"]["name"] == "j-worker-0"
    assert service["metadata"]["labels"] == LABELS
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": LABELS,
        "ports": [{"name": "tfjob-port", "port": 2222}, {"name": "metrics", "port": 9090}],
    }
