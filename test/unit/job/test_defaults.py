"""The port of the cluster is added where it is missing, once, and never beside one of the same name."""

import pytest
from msgspec import structs

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.job.defaults import with_defaults

PORT = {"name": "tfjob-port", "containerPort": 2222}


def ports_after(container, **more_spec):
    job = job_of(tfjob().workers(1))
    template = {"spec": {"containers": [container], **more_spec}}
    job = structs.replace(job, replicas=(structs.replace(job.replicas[0], template=template),))
    containers = with_defaults(job).replicas[0].template["spec"]["containers"]
    return containers[0].get("ports") if isinstance(containers[0], dict) else containers[0]


@pytest.mark.parametrize(
    ("ports", "after"),
    [
        (None, [PORT]),
        ([], [PORT]),
        ([{"name": "other", "containerPort": 1}], [{"name": "other", "containerPort": 1}, PORT]),
        ([{"name": "tfjob-port", "containerPort": 9}], [{"name": "tfjob-port", "containerPort": 9}]),
        (["x"], ["x", PORT]),
        ("many", "many"),
    ],
    ids=["none", "empty", "another", "its own", "no port", "no list"],
)
def test_the_port_is_added_where_there_is_none_of_its_name(ports, after):
    """training-operator: TestSetDefaultPort and its siblings."""
    assert ports_after({"name": "tensorflow", "ports": ports}) == after


def test_other_containers_get_no_port():
    assert ports_after({"name": "sidecar"}) is None
    assert ports_after("no container") == "no container"


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": {}}, {"spec": {"containers": {}}}])
def test_a_template_without_containers_stays_as_it_is(template):
    job = job_of(tfjob().workers(1))
    job = structs.replace(job, replicas=(structs.replace(job.replicas[0], template=template),))

    assert with_defaults(job) is job
