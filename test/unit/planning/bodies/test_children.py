"""Bodies of pods and Services are made from whatever a template is; golden cases show whole bodies."""

import pytest

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from support.jobs.templates import Template
from tf_operator.job import constants
from tf_operator.planning.bodies import children
from tf_operator.planning.bodies.children import ChildBuilder
from tf_operator.planning.snapshot import Settings


def builder(template, **settings):
    job = job_of(tfjob("j").workers(2, template=template).parameter_servers(1))
    return ChildBuilder(job, Settings(**settings)), job.replicas[-1].type


def pod_of(template, **settings):
    child_builder, kind = builder(template, **settings)
    return child_builder.pod(kind, 0, name="j")


def raw(**template):
    """A template as nobody should write it, with the container that makes the job valid."""

    class Raw(Template):
        def body(self):
            return {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}, **template}

    return Raw()


@pytest.mark.parametrize("metadata", [None, 3, {"annotations": [1], "labels": [2]}, {"annotations": None}], ids=repr)
def test_metadata_of_a_template_that_is_none_is_passed_over(metadata):
    pod = pod_of(raw(metadata=metadata))

    assert set(pod["metadata"]) == {"name", "namespace", "labels", "ownerReferences"}


@pytest.mark.parametrize("name", [constants.AVOIDED_NODES_ANNOTATION, constants.NETWORK_ANNOTATION])
def test_a_template_that_was_copied_from_a_pod_does_not_speak_for_the_operator(name):
    pod = pod_of(raw(metadata={"annotations": {name: "Job", "own": "x"}}), marks_isolated=True)

    assert pod["metadata"]["annotations"] == {"own": "x"}


@pytest.mark.parametrize("env", [{"A": "b"}, "x", 3], ids=repr)
def test_an_env_that_is_no_list_is_left_for_the_apiserver_to_refuse(env):
    pod = pod_of(Template().main(env=env))

    assert pod["spec"]["containers"][0]["env"] == env


def test_what_is_no_container_is_left_for_the_apiserver_to_refuse():
    pod = pod_of(raw(spec={"containers": ["x", {"name": "tensorflow", "image": "i"}]}))

    assert pod["spec"]["containers"][0] == "x"
    assert pod["spec"]["containers"][1]["env"][0]["name"] == "TF_CONFIG"


@pytest.mark.parametrize(
    ("ports", "served"),
    [
        ([], "tfjob-port 2222 TCP"),
        ([{"name": "b", "containerPort": 9}, {"containerPort": 8}], "port-8 8 TCP, b 9 TCP, tfjob-port 2222 TCP"),
        ([{"name": "a", "containerPort": 2222}], "a 2222 TCP"),
        (
            [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}],
            "port-53 53 TCP, port-53-udp 53 UDP, tfjob-port 2222 TCP",
        ),
        ([{"name": "a", "containerPort": "x"}, {"containerPort": 7, "protocol": 5}, 3], "tfjob-port 2222 TCP"),
        ("many", ""),
    ],
    ids=["none", "sorted, and named", "one number once", "two protocols", "no ports", "no list"],
)
def test_a_service_has_one_port_for_each_of_the_container(ports, served):
    child_builder, kind = builder(Template().main(ports=ports))

    service_ports = child_builder.service(kind, 0, name="j")["spec"].get("ports", [])

    assert ", ".join(f"{port['name']} {port['port']} {port['protocol']}" for port in service_ports) == served


@pytest.mark.parametrize(
    ("scheduler", "others"),
    [(None, []), ("", []), ("volcano", []), ("mine", ["Worker"]), (["odd"], ["Worker"])],
    ids=repr,
)
def test_a_template_that_asks_for_another_scheduler_is_known(scheduler, others):
    """training-operator: TestIsCustomSchedulerSet."""
    job = job_of(tfjob().workers(1, template=Template().spec(schedulerName=scheduler)).parameter_servers(1))

    assert children.types_with_other_scheduler(job, "volcano") == others


def test_a_template_without_a_pod_says_nothing():
    job = job_of(tfjob().workers(1))
    odd = job_of(tfjob().workers(1), {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": 5}}}}})

    assert children.types_with_restart_policy(job) == []
    assert children.types_with_restart_policy(odd) == []
    assert children.types_with_own_tf_config(odd) == []


FALLBACK = "FallbackToLogsOnError"


def test_the_end_of_the_log_explains_a_failure_unless_the_template_chooses_otherwise():
    sidecar = {"name": "sidecar", "image": "i"}
    init = [{"name": "fetch", "image": "i"}, {"name": "own", "image": "i", "terminationMessagePolicy": "File"}, "x"]
    main = {"name": "tensorflow", "image": "i"}
    spec = pod_of(raw(spec={"containers": [main, sidecar], "initContainers": init}))["spec"]

    assert spec["containers"][0]["terminationMessagePolicy"] == FALLBACK
    assert spec["containers"][1] == sidecar
    assert spec["initContainers"] == [{**init[0], "terminationMessagePolicy": FALLBACK}, init[1], "x"]
    own = pod_of(raw(spec={"containers": [main | {"terminationMessagePolicy": "File"}], "initContainers": {}}))["spec"]
    assert own["containers"][0]["terminationMessagePolicy"] == "File"
    assert own["initContainers"] == {}


def test_the_default_of_a_pod_is_no_part_of_its_job_so_that_one_that_runs_is_left_alone():
    child_builder, kind = builder(Template())

    child_builder.pod(kind, 0, name="j")

    assert not any("terminationMessagePolicy" in str(spec.template) for spec in child_builder.job.replicas)
