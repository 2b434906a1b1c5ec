"""Which pod of a job reports how far the program is, and what it gets for that."""

import pytest

from support.jobs.builders import tfjob
from tf_operator.dialects.kubeflow.v1 import API
from tf_operator.job.record import ReplicaType
from tf_operator.planning.bodies.children import ChildBuilder
from tf_operator.planning.bodies.progress_reporting import ProgressServer
from tf_operator.planning.snapshot import Settings

SERVER = ProgressServer("http://127.0.0.1:1", "secret")
VARIABLES = {"KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"}


def pods(builder, server=SERVER):
    """The pods of all replicas, by type and index."""
    job = API.read_object(builder.body() | {"metadata": {"name": "j", "namespace": "team", "uid": "job-uid"}})
    children = ChildBuilder(job, Settings(progress=server))
    places = [(spec.type, index) for spec in job.replicas for index in range(spec.count)]
    return {(kind, index): children.pod(kind, index, name="pod") for kind, index in places}


def variables(pod, container=0):
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][container].get("env", ())}


@pytest.mark.parametrize(
    ("job", "reporter"),
    [
        (tfjob("j").workers(3), (ReplicaType.WORKER, 0)),
        (tfjob("j").chief().workers(2).parameter_servers(2), (ReplicaType.CHIEF, 0)),
        (tfjob("j").master().workers(2), (ReplicaType.MASTER, 0)),
    ],
    ids=["workers", "a chief", "a master"],
)
def test_only_the_pod_that_decides_reports_and_the_others_are_what_they_were(job, reporter):
    made, without = pods(job), pods(job, server=None)

    assert [place for place in made if made[place] != without[place]] == [reporter]


def test_the_pod_has_a_url_of_its_job_and_its_token_as_a_file():
    pod = pods(tfjob("j").workers(1))[ReplicaType.WORKER, 0]

    env = variables(pod)
    assert env["KUBEFLOW_TRAINER_SERVER_URL"] == (
        "http://127.0.0.1:1/apis/kubeflow.org/v1/namespaces/team/tfjobs/j/status"
    )
    (volume,), (mount,) = pod["spec"]["volumes"], pod["spec"]["containers"][0]["volumeMounts"]
    assert mount == {"name": volume["name"], "mountPath": "/var/run/secrets/kubeflow/trainer", "readOnly": True}
    (source,) = volume["projected"]["sources"]
    (item,) = source["downwardAPI"]["items"]
    assert env["KUBEFLOW_TRAINER_SERVER_TOKEN"] == f"{mount['mountPath']}/{item['path']}"
    annotation = item["fieldRef"]["fieldPath"].removeprefix("metadata.annotations['").removesuffix("']")
    assert SERVER.job_of(pod["metadata"]["annotations"][annotation]) == "job-uid"


def test_in_a_cluster_only_jobs_that_ask_for_it_report_with_a_token_of_the_pod():
    server, job = ProgressServer("https://here", authority="PEM"), tfjob("j").workers(2)
    asking = job.merged({"spec": {"runPolicy": {"progressPolicy": {"reports": True}}}})
    assert pods(job, server) == pods(job, server=None)

    made = pods(asking, server)
    assert made[ReplicaType.WORKER, 1] == pods(asking, server=None)[ReplicaType.WORKER, 1]
    pod = made[ReplicaType.WORKER, 0]
    assert pod["metadata"]["annotations"] == {"tf-operator.kubeflow.org/progress-ca": "PEM"}
    token, authority = pod["spec"]["volumes"][0]["projected"]["sources"]
    assert token == {
        "serviceAccountToken": {
            "path": "token",
            "audience": "tf-operator.kubeflow.org/progress",
            "expirationSeconds": 3600,
        }
    }
    assert authority["downwardAPI"]["items"][0]["path"] == "ca.crt"
    assert variables(pod)["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == "/var/run/secrets/kubeflow/trainer/ca.crt"


def test_a_user_who_reports_elsewhere_keeps_the_variable_and_other_containers_get_none():
    own = {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://mine"}
    body = tfjob("j").workers(1).body()
    containers = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    containers[0]["env"] = [own]
    containers.append({"name": "sidecar", "image": "i"})
    job = API.read_object(body)
    pod = ChildBuilder(job, Settings(progress=SERVER)).pod(ReplicaType.WORKER, 0, name="pod")

    assert not VARIABLES & {*variables(pod, 1)}
    assert variables(pod)["KUBEFLOW_TRAINER_SERVER_URL"] == "https://mine"
    assert "KUBEFLOW_TRAINER_SERVER_TOKEN" not in variables(pod)


@pytest.mark.parametrize("token", ["", ".", "job-uid", "job-uid.", f"job-uid.{'0' * 64}", "é.é"])
def test_a_token_that_was_not_made_here_is_nobodys(token):
    assert SERVER.job_of(token) == ""
    assert SERVER.job_of(ProgressServer("", "another secret").token_of("job-uid")) == ""
