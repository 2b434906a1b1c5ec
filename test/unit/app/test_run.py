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
from tf_operator.app.options.options import Election, Options, Protection
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


def test_a_process_that_gets_a_signal_ends_with_0_and_has_told_what_it_did(kubeconfig, capsys):
    options = Options(kubeconfig=kubeconfig, warnings=("--v changes nothing",), **NOWHERE)

    assert run.run(options, make_controller=Idle) == 0
    told = [record["message"] for record in records(capsys)]
    assert (told[:3], told[-1]) == (["--v changes nothing", "listening", "starting"], "ended")
    assert "stopping" in told


def test_a_process_that_has_to_be_elected_may_not_write_before_it_is(kubeconfig):
    run.run(Options(kubeconfig=kubeconfig, **NOWHERE), make_controller=Idle)

    with pytest.raises(NotLeading):
        Idle.made_of.client._guard()


def test_a_process_that_is_the_only_one_may_always_write(kubeconfig):
    run.run(Options(kubeconfig=kubeconfig, election=None, **NOWHERE), make_controller=Idle)

    Idle.made_of.client._guard()


def spied(monkeypatch, module, name):
    """What the class of this name is made with, each time."""
    made, original = [], getattr(module, name)

    def make(*arguments, **options):
        made.append(options)
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, make)
    return made


def test_work_may_take_as_long_to_drain_as_the_options_say(kubeconfig, monkeypatch):
    lives = spied(monkeypatch, lifecycle, "Lifecycle")
    run.run(Options(kubeconfig=kubeconfig, drain_timeout=3.5, **NOWHERE), make_controller=Idle)

    assert [life["drain_timeout"] for life in lives] == [3.5]


def test_the_election_and_the_budget_are_what_the_options_say(kubeconfig, monkeypatch):
    elections, budgets = spied(monkeypatch, clients, "ElectionThread"), spied(monkeypatch, clients, "TokenBucket")
    times = ElectionConfig(60, 40, 5)
    options = Options(kubeconfig=kubeconfig, election=Election(config=times), pod_name="p", qps=7, burst=9, **NOWHERE)
    run.run(options, make_controller=Idle)

    assert [election["config"] for election in elections] == [times]
    assert elections[0]["identity"].startswith("p_")
    assert {"qps": 7, "burst": 9} in budgets


def test_without_uvloop_asyncios_own_loop_does(kubeconfig, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    options = Options(kubeconfig=kubeconfig, election=None, **NOWHERE)

    assert run.run(options, make_controller=Idle) == 0


def listening(capsys):
    return next(record["addresses"] for record in records(capsys) if record["message"] == "listening")


def test_one_address_may_have_all_pages(kubeconfig, capsys):
    with server.serving(server.Endpoint(ANYWHERE, {})) as (free,):
        pass
    run.run(Options(kubeconfig=kubeconfig, metrics_address=free, health_address=free), make_controller=Idle)

    assert listening(capsys) == [str(free)]


def test_a_pod_without_its_account_is_one_clear_line(capsys, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert run.run(Options(is_in_cluster=True, **NOWHERE), make_controller=Idle) == 1

    assert "KUBERNETES_SERVICE_HOST is not set" in records(capsys)[-1]["error"]


def test_an_address_that_is_taken_is_one_clear_line(kubeconfig, capsys):
    with server.serving(server.Endpoint(ANYWHERE, {})) as (taken,):
        assert run.run(Options(kubeconfig=kubeconfig, metrics_address=taken), make_controller=Idle) == 1

    assert records(capsys)[-1]["error"] == f"cannot listen on {taken}: Address already in use"


def test_a_certificate_that_cannot_be_used_is_one_clear_line(kubeconfig, capsys):
    protection = Protection("/nowhere/tls.crt", "/nowhere/tls.key")
    options = Options(kubeconfig=kubeconfig, metrics_address=ANYWHERE, metrics_protection=protection)
    assert run.run(options, make_controller=Idle) == 1

    told = records(capsys)[-1]["error"]
    assert told == "/nowhere/tls.crt with /nowhere/tls.key cannot be used: No such file or directory"


class Waiting(Idle):
    """A controller that has nothing to do, and no signal comes."""

    def __init__(self, context, _api):
        self.queue = WorkQueue(context.clock)
        context.informers.get(PODS, decode=READ_POD, scopes=context.scopes())


async def seen_at_once(_detector):
    raise ConflictingController("there is another one")


def test_another_controller_is_one_clear_line_without_a_traceback(kubeconfig, capsys, monkeypatch):
    monkeypatch.setattr(run.ConflictDetector, "watch", seen_at_once)
    options = Options(kubeconfig=kubeconfig, election=None, **NOWHERE)
    assert run.run(options, make_controller=Waiting) == 1

    last = records(capsys)[-1]
    assert (last["message"], last["error"]) == ("cannot start", "there is another one")
    assert "exception" not in last


def test_a_bug_is_told_with_its_traceback_and_ends_the_process_with_1(kubeconfig, capsys):
    def broken(_context, _api):
        raise LookupError("no")

    assert run.run(Options(kubeconfig=kubeconfig, **NOWHERE), make_controller=broken) == 1
    last = records(capsys)[-1]
    assert last["message"] == "a part of the process has died"
    assert "LookupError: no" in last["exception"]
