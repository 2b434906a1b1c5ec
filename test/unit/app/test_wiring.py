"""The TFJob controller is made of the parts of the process, as the options say."""

import os
import signal
from datetime import timedelta

import pytest

from tf_operator.app import run, wiring
from tf_operator.app.options.options import Options, RestartDelay
from tf_operator.machinery.transport.requests import Scope
from tf_operator.planning.snapshot import Settings


def test_plans_depend_on_what_the_options_say():
    options = Options(
        cluster_domain="cluster.local", gang_scheduler="volcano", restart_delay=RestartDelay(2.0, 60.0, 300.0)
    )

    assert wiring.settings(options) == Settings(
        cluster_domain="cluster.local",
        gang_scheduler="volcano",
        restart_delay=timedelta(seconds=2),
        longest_restart_delay=timedelta(minutes=1),
        backoff_reset_after=timedelta(minutes=5),
    )


@pytest.mark.usefixtures("own_logging", "own_signals")
@pytest.mark.parametrize("gang_scheduler", ["", "volcano"])
def test_the_controller_is_made_and_ends_with_the_process(kubeconfig, gang_scheduler):
    def made(context):
        os.kill(os.getpid(), signal.SIGTERM)
        return wiring.make_controller(context)

    options = Options(kubeconfig=kubeconfig, gang_scheduler=gang_scheduler, metrics_address=None, health_address=None)

    assert run.run(options, make_controller=made) == 0


@pytest.mark.usefixtures("own_logging", "own_signals")
def test_all_controllers_of_a_process_share_the_slots_for_writes(kubeconfig):
    slots = []

    def made(context):
        os.kill(os.getpid(), signal.SIGTERM)
        controllers = [wiring.make_controller(context) for _ in range(2)]
        slots.extend(controller.reconciler.executor.shares.slots for controller in controllers)
        return controllers[0]

    assert run.run(Options(kubeconfig=kubeconfig, metrics_address=None, health_address=None), make_controller=made) == 0
    assert slots[0] is slots[1]


@pytest.mark.parametrize(
    ("namespaces", "scopes"),
    [((), (Scope("", "app=x"),)), (("a", "b"), (Scope("a", "app=x"), Scope("b", "app=x")))],
    ids=["cluster", "two namespaces"],
)
def test_what_is_watched_follows_the_namespaces_that_are_served(namespaces, scopes):
    context = wiring.ControllerContext(*[None] * 4, Options(namespaces=namespaces), *[None] * 5)

    assert context.scopes("app=x") == scopes
