"""The TFJob controller is made of the parts of the process, as the options say."""

import os
import signal
from dataclasses import replace
from datetime import timedelta

import pytest

from support.toys import toy_api
from tf_operator.app import run, wiring
from tf_operator.app.options.options import Kueue, Options, RestartDelay, parse
from tf_operator.dialects import registry
from tf_operator.machinery.transport.requests import Scope
from tf_operator.meta import ObjectKey
from tf_operator.planning.child_kinds import network_policy
from tf_operator.planning.snapshot import Settings


def test_plans_depend_on_what_the_options_say():
    options = Options(
        cluster_domain="cluster.local", gang_scheduler="volcano", restart_delay=RestartDelay(2.0, 60.0, 300.0)
    )

    assert wiring.settings(options) == Settings(
        cluster_domain="cluster.local",
        gang_scheduler="volcano",
        without_tensorboards={"kubeflow.org/v1": "this operator runs with --tensorboards=none"},
        restart_delay=timedelta(seconds=2),
        longest_restart_delay=timedelta(minutes=1),
        backoff_reset_after=timedelta(minutes=5),
    )


@pytest.mark.parametrize(
    ("arguments", "makes_them", "for_all"),
    [([], False, False), (["--network-policies=requested"], True, False), (["--network-policies=all"], True, True)],
)
def test_jobs_get_networkpolicies_if_they_ask_or_all_do(arguments, makes_them, for_all):
    options = parse(arguments, {})
    assert (network_policy.KIND in options.child_kinds) is makes_them
    assert wiring.settings(options).isolates_jobs is for_all


@pytest.mark.usefixtures("own_logging", "own_signals")
@pytest.mark.parametrize("gang_scheduler", ["", "volcano"])
def test_the_controller_is_made_and_ends_with_the_process(kubeconfig, gang_scheduler):
    def make(context, api):
        os.kill(os.getpid(), signal.SIGTERM)
        return wiring.make_controller(context, api)

    options = Options(kubeconfig=kubeconfig, gang_scheduler=gang_scheduler, metrics_address=None, health_address=None)

    assert run.run(options, make_controller=make) == 0


@pytest.mark.usefixtures("own_logging", "own_signals")
def test_the_controllers_of_a_process_share_every_budget_and_the_caches_of_children(kubeconfig):
    controllers = []

    def make(context, api):
        os.kill(os.getpid(), signal.SIGTERM)
        controllers.append(wiring.make_controller(context, api))
        return controllers[-1]

    apis = (registry.DEFAULT, toy_api.API)
    options = Options(kubeconfig=kubeconfig, apis=apis, metrics_address=None, health_address=None)

    assert run.run(options, make_controller=make) == 0
    one, other = controllers
    assert one.reconciler.executor.shares.slots is other.reconciler.executor.shares.slots
    assert one.reconciler.executor.writer.client is other.reconciler.executor.writer.client
    assert one.reconciler.observer.caches.pods is other.reconciler.observer.caches.pods
    assert one.queue is not other.queue
    assert one.notes is not other.notes


@pytest.mark.usefixtures("own_logging", "own_signals")
def test_the_jobs_of_each_namespace_take_turns(kubeconfig):
    taken = []

    def make(context, api):
        os.kill(os.getpid(), signal.SIGTERM)
        queue = (controller := wiring.make_controller(context, api)).queue
        queue.resume()
        for key in (ObjectKey("a", "1"), ObjectKey("a", "2"), ObjectKey("b", "1")):
            queue.add(key)
        taken.extend(str(queue._hand_out()) for _ in range(3))
        return controller

    assert run.run(Options(kubeconfig=kubeconfig, metrics_address=None, health_address=None), make_controller=make) == 0
    assert taken == ["a/1", "b/1", "a/2"]


@pytest.mark.usefixtures("own_logging", "own_signals")
@pytest.mark.parametrize("kueue", Kueue)
def test_nothing_of_kueue_is_watched_unless_the_operator_makes_workloads(kubeconfig, kueue):
    watched = []

    def make(context, api):
        os.kill(os.getpid(), signal.SIGTERM)
        controller = wiring.make_controller(replace(context, options=replace(context.options, kueue=kueue)), api)
        watched.extend(context.informers.sizes())
        return controller

    assert run.run(Options(kubeconfig=kubeconfig, metrics_address=None, health_address=None), make_controller=make) == 0
    kinds = {name.partition(" ")[0].partition(".")[0] for name in watched} - {"tfjobs", "pods", "services"}
    queues = {"workloads", "resourceflavors", "workloadpriorityclasses", "priorityclasses"}
    assert kinds == (queues if kueue is Kueue.EXTERNAL else set())


@pytest.mark.parametrize(
    ("namespaces", "scopes"),
    [((), (Scope("", "app=x"),)), (("a", "b"), (Scope("a", "app=x"), Scope("b", "app=x")))],
    ids=["cluster", "two namespaces"],
)
def test_what_is_watched_follows_the_namespaces_that_are_served(namespaces, scopes):
    context = wiring.ControllerContext(*[None] * 4, Options(namespaces=namespaces), *[None] * 3)

    assert context.scopes("app=x") == scopes
