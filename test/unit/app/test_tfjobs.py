"""The TFJob controller fits the process: it is made of its parts, and told what the options say."""

import os
import signal
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tf_operator.app import run, tfjobs
from tf_operator.app.metrics_jobs import PHASES
from tf_operator.app.options import Options, RestartDelay
from tf_operator.planning.observed import Settings


def job(namespace, phase):
    return SimpleNamespace(metadata=SimpleNamespace(namespace=namespace), phase=phase)


def test_plans_depend_on_what_the_options_say():
    options = Options(
        cluster_domain="cluster.local", gang_scheduler="volcano", restart_delay=RestartDelay(2.0, 60.0, 300.0)
    )

    assert tfjobs.settings(options) == Settings(
        cluster_domain="cluster.local",
        gang_scheduler="volcano",
        restart_delay=timedelta(seconds=2),
        longest_restart_delay=timedelta(minutes=1),
        forgiven_after=timedelta(minutes=5),
    )


def test_jobs_are_counted_by_namespace_and_phase_and_new_ones_too():
    jobs = [job("a", "Running"), job("a", "Running"), job("b", "Failed"), job("b", "")]

    counted = tfjobs.phases(jobs)

    assert counted == {("a", "Running"): 2, ("b", "Failed"): 1, ("b", "New"): 1}
    assert {phase for _, phase in counted} <= set(PHASES)


@pytest.mark.usefixtures("own_logging", "own_signals")
@pytest.mark.parametrize("gang_scheduler", ["", "volcano"])
def test_the_controller_is_made_and_ends_with_the_process(kubeconfig, gang_scheduler):
    def made(parts):
        os.kill(os.getpid(), signal.SIGTERM)
        return tfjobs.make_controller(parts)

    options = Options(kubeconfig=kubeconfig, gang_scheduler=gang_scheduler, metrics_address=None, health_address=None)

    assert run.run(options, make_controller=made) == 0
