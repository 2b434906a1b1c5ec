"""Which informers there are, and what they are asked to watch."""

import pytest

from support.embedded.controller_harness import JOBS
from support.embedded.scripted_transport import ScriptedTransport, client_of
from support.fake_clock import FakeClock
from support.toys import toy_api
from tf_operator.controller.caches import make_caches, owner_of, owner_value
from tf_operator.dialects.kubeflow import v1
from tf_operator.machinery.cache.factory import SharedInformerFactory, name_of
from tf_operator.machinery.transport.requests import Scope
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.projections.children import Child


def caches(gang="", *namespaces, served=(v1.API,)):
    clock = FakeClock()
    informers = SharedInformerFactory(client=client_of(ScriptedTransport(clock), clock), clock=clock)
    return make_caches(informers, namespaces=namespaces, gang_scheduler=gang, api=v1.API, served=served), informers


def test_only_children_with_our_label_are_watched():
    """Memory follows our jobs, not the cluster."""
    _, informers = caches("", "a", "b")

    label = "training.kubeflow.org/operator-name=tfjob-controller"
    assert set(informers.idle_seconds()) == {
        "tfjobs.kubeflow.org in a, b",
        f"pods in a ({label}), b ({label})",
        f"services in a ({label}), b ({label})",
    }
    assert name_of(JOBS, [Scope("a")]) == "tfjobs.kubeflow.org in a"


def test_the_children_of_all_served_apis_are_one_watch():
    _, informers = caches(served=(v1.API, toy_api.API))

    label = "training.kubeflow.org/operator-name in (tfjob-controller,toy-operator)"
    assert set(informers.idle_seconds()) == {"tfjobs.kubeflow.org", f"pods in ({label})", f"services in ({label})"}


@pytest.mark.parametrize(
    ("gang", "group"),
    [("", ""), ("volcano", "podgroups.scheduling.volcano.sh"), ("my-scheduler", "podgroups.scheduling.x-k8s.io")],
)
def test_pod_groups_are_watched_where_there_is_a_gang_scheduler(gang, group):
    gang_caches, _ = caches(gang)

    assert [str(groups.resource) for groups in gang_caches.groups.values()] == ([group] if group else [])
    assert set(gang_caches.views()) == {"tfjobs.kubeflow.org", "pods", "services"} | ({group} if group else set())


def test_a_child_is_found_under_the_job_of_its_own_namespace_that_controls_it():
    assert owner_of(Child(ObjectMeta("a", "ns"), "u")) == (owner_value("ns", "u"),)
    assert owner_of(Child(ObjectMeta("a", "ns"), "")) == ()
    assert owner_value("ns", "u") != owner_value("evil", "u")
