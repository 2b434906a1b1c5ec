"""Which informers there are, and what they are asked to watch."""

import pytest

from support.embedded.controller_harness import JOBS
from support.embedded.scripted_transport import ScriptedTransport, client_of
from support.fake_clock import FakeClock
from support.toys import toy_api
from tf_operator.controller.caches import make_caches, owner_of, owner_value
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.t9k import v1beta1 as t9k
from tf_operator.machinery.cache.factory import SharedInformerFactory, name_of
from tf_operator.machinery.transport.requests import Scope
from tf_operator.planning.child_kinds import hpa, network_policy, tensorboard
from tf_operator.projections.children import Child


def caches(gang="", *namespaces, served=(v1.API,), clock=None, **asked_for):
    clock = clock or FakeClock()
    informers = SharedInformerFactory(client=client_of(ScriptedTransport(clock), clock), clock=clock)
    places = {"namespaces": namespaces, "gang_scheduler": gang}
    return make_caches(informers, **places, api=served[0], served=served, **asked_for), informers


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


async def test_the_groups_of_a_scheduler_that_jobs_have_to_ask_for_are_watched_when_the_first_one_does(clock):
    gang_caches, informers = caches("volcano", gang_schedulers_by_job=("native", "volcano"), clock=clock)
    await clock.advance(5)
    groups = "podgroups.scheduling.volcano.sh v1beta1", "podgroups.scheduling.k8s.io v1beta1"
    assert {name: informers.idle_seconds()[name] for name in groups} == {groups[0]: 5, groups[1]: 0}

    gang_caches.groups["native"].demand()
    assert informers.idle_seconds()[groups[1]] == 5


def test_what_jobs_have_beside_their_replicas_is_watched_where_the_operator_makes_it():
    """Others use TensorBoards, too, so those are watched whatever their labels are."""
    label = "training.kubeflow.org/operator-name=tfjob-controller"
    v1_caches, informers = caches("", "a", child_kinds=(hpa.KIND, tensorboard.KIND))
    assert [kind for kind in v1_caches.extras if v1_caches.extras[kind]] == [hpa.KIND]
    assert v1_caches.extras.keys() == {hpa.KIND, network_policy.KIND}, "no job of this API has a TensorBoard"
    assert f"horizontalpodautoscalers.autoscaling v2 in a ({label})" in informers.idle_seconds()

    t9k_caches, informers = caches(served=(t9k.API,), child_kinds=(tensorboard.KIND,))
    assert [kind for kind in t9k_caches.extras if t9k_caches.extras[kind]] == [tensorboard.KIND]
    assert "tensorboards.tensorstack.dev v1beta1" in informers.idle_seconds()


def test_a_child_is_found_under_the_job_of_its_own_namespace_that_controls_it():
    assert owner_of(Child("a", "ns", "p", "9", "u")) == (owner_value("ns", "u"),)
    assert owner_of(Child("a", "ns", "p", "9", "")) == ()
    assert owner_value("ns", "u") != owner_value("evil", "u")
