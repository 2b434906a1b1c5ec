"""The whole process in this one: it is built, starts, ends, and says in one line why it cannot."""

import json
import os
import signal
import sys

import msgspec
import pytest

from tf_operator.app import clients, lifecycle, run
from tf_operator.app.http import server
from tf_operator.app.options.flag_types import Address
from tf_operator.app.options.options import ElectionOptions, Options, Protection
from tf_operator.app.wiring import ControllerContext
from tf_operator.controller.conflicts import ConflictingController
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.election.leaderelection import ElectionConfig
from tf_operator.machinery.queue.workqueue import WorkQueue
from tf_operator.machinery.transport.requests import Resource
from tf_operator.machinery.transport.responses import ObjectMeta

pytestmark = pytest.mark.usefixtures("own_logging", "own_signals")
NOWHERE = {"metrics_address": None, "health_address": None}
ANYWHERE = Address("127.0.0.1", 0)
TAKEN = object()
UNUSABLE = "/nowhere/tls.crt with /nowhere/tls.key cannot be used"
PODS = Resource("", "v1", "pods", "Pod")


class Pod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


READ_POD = msgspec.json.Decoder(Pod).decode


class Idle:
    """A controller that has nothing to do; as soon as it is made, the process gets a signal."""

    made_of: ControllerContext

    def __init__(self, context, _api):
        Idle.made_of = context
        self.queue = WorkQueue(context.clock)
        context.informers.get(PODS, decode=READ_POD, scopes=context.scopes())
        os.kill(os.getpid(), signal.SIGTERM)

    async def run(self):
        raise AssertionError("it must not work: the caches were never complete")

    async def drain(self):
        raise AssertionError("there is nothing to drain")


def records(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_process_that_gets_a_signal_ends_with_0_and_has_logged_what_it_did(kubeconfig, capsys):
    options = Options(kubeconfig=kubeconfig, warnings=("--v changes nothing",), **NOWHERE)

    assert run.run(options, make_controller=Idle) == 0
    logged = [record["message"] for record in records(capsys)]
    assert (logged[:3], logged[-1]) == (["--v changes nothing", "listening", "starting"], "ended")
    assert "stopping" in logged


def test_a_process_may_write_before_it_is_elected_only_without_an_election(kubeconfig):
    run.run(Options(kubeconfig=kubeconfig, **NOWHERE), make_controller=Idle)
    with pytest.raises(NotLeading):
        Idle.made_of.client._guard()

    run.run(Options(kubeconfig=kubeconfig, election=None, **NOWHERE), make_controller=Idle)
    Idle.made_of.client._guard()


def spied(monkeypatch, module, name):
    """What the class of this name is made with, each time."""
    calls, original = [], getattr(module, name)

    def make(*arguments, **options):
        calls.append(options)
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, make)
    return calls


def test_election_budget_and_time_to_drain_are_those_of_the_options(kubeconfig, monkeypatch):
    elections, budgets = spied(monkeypatch, clients, "ElectionThread"), spied(monkeypatch, clients, "TokenBucket")
    lives = spied(monkeypatch, lifecycle, "Lifecycle")
    limits = {"pod_name": "p", "qps": 7, "burst": 9, "drain_timeout": 3.5}
    election = ElectionOptions(config=ElectionConfig(60, 40, 5))
    run.run(Options(kubeconfig=kubeconfig, election=election, **limits, **NOWHERE), make_controller=Idle)

    assert [options["config"] for options in elections] == [election.config]
    assert elections[0]["identity"].startswith("p_")
    assert {"qps": 7, "burst": 9} in budgets
    assert [life["drain_timeout"] for life in lives] == [3.5]


@pytest.mark.documents("fork/accelerators")
def test_plans_depend_on_what_the_controller_config_says(kubeconfig, tmp_path):
    (tmp_path / "config.yaml").write_text("tfImage: i")
    file = str(tmp_path / "config.yaml")
    run.run(Options(kubeconfig=kubeconfig, controller_config_file=file, **NOWHERE), make_controller=Idle)
    assert Idle.made_of.settings().server_image == "i"


def test_without_uvloop_the_loop_of_asyncio_is_used(kubeconfig, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    options = Options(kubeconfig=kubeconfig, election=None, **NOWHERE)

    assert run.run(options, make_controller=Idle) == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"is_in_cluster": True, "kubeconfig": "", **NOWHERE},
            "not inside a cluster: KUBERNETES_SERVICE_HOST is not set; give a kubeconfig instead",
        ),
        (
            {"controller_config_file": "/nowhere/config.yaml", **NOWHERE},
            "/nowhere/config.yaml: cannot be read: No such file or directory",
        ),
        ({"metrics_address": TAKEN}, "cannot listen on {taken}: Address already in use"),
        (
            {"metrics_address": ANYWHERE, "metrics_protection": Protection("/nowhere/tls.crt", "/nowhere/tls.key")},
            f"the certificate of /metrics: {UNUSABLE}: No such file or directory",
        ),
    ],
    ids=["a pod without its account", "a missing config", "an address that is taken", "a missing certificate"],
)
def test_a_process_that_cannot_start_says_why_on_one_line(kubeconfig, capsys, monkeypatch, options, error):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with server.serving(server.Endpoint(ANYWHERE, {})) as (taken,):
        options = {name: taken if value is TAKEN else value for name, value in options.items()}
        assert run.run(Options(**{"kubeconfig": kubeconfig} | options), make_controller=Idle) == 1

    assert records(capsys)[-1]["error"] == error.format(taken=taken)


class Waiting(Idle):
    """A controller that has nothing to do, and no signal comes."""

    def __init__(self, context, _api):
        self.queue = WorkQueue(context.clock)
        context.informers.get(PODS, decode=READ_POD, scopes=context.scopes())


async def seen_at_once(_detector):
    raise ConflictingController("there is another one")


def test_another_controller_is_reported_on_one_line_without_a_traceback(kubeconfig, capsys, monkeypatch):
    monkeypatch.setattr(run.ConflictDetector, "watch", seen_at_once)
    options = Options(kubeconfig=kubeconfig, election=None, **NOWHERE)
    assert run.run(options, make_controller=Waiting) == 1

    last = records(capsys)[-1]
    assert (last["message"], last["error"]) == ("cannot start", "there is another one")
    assert "exception" not in last


def test_a_bug_is_logged_with_its_traceback_and_ends_the_process_with_1(kubeconfig, capsys):
    def broken(_context, _api):
        raise LookupError("no")

    assert run.run(Options(kubeconfig=kubeconfig, **NOWHERE), make_controller=broken) == 1
    last = records(capsys)[-1]
    assert last["message"] == "a part of the process failed"
    assert "LookupError: no" in last["exception"]


def test_a_signal_ends_the_process_while_a_plugin_hangs_that_is_to_print_the_first_credentials(tmp_path, capsys):
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\nkill -TERM {os.getpid()}\nexec sleep 10\n")
    plugin.chmod(0o700)
    user = {"exec": {"command": str(plugin), "apiVersion": "client.authentication.k8s.io/v1"}}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "x", "user": user}],
            }
        )
    )

    assert run.run(Options(kubeconfig=str(kubeconfig), **NOWHERE), make_controller=Idle) == 0
    assert [record["message"] for record in records(capsys)] == ["listening", "stopping", "ended"]
