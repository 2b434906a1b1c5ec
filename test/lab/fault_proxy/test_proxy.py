"""The fault proxy as a test holds it, with no apiserver behind it: what it asserts, waits for and hands out."""

import asyncio
import json

import pytest

from lab.fault_proxy import faults
from lab.fault_proxy.proxy import FaultProxy
from lab.fault_proxy.trigger import anything, create, listing, watch
from lab.fault_proxy.wire import Wire

PODS = "/api/v1/namespaces/n/pods"


def write_kubeconfig(folder, user, **cluster):
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9/", **cluster}}],
        "users": [{"name": "other", "user": {}}, {"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    return folder / "kubeconfig"


@pytest.fixture
def kubeconfig(tmp_path):
    """Leads to nobody: these tests answer every request by a fault."""
    return write_kubeconfig(tmp_path, {"token": "t"})


async def ask(proxy, target=PODS, **options):
    async with Wire.open(proxy) as wire:
        await wire.ask(target, **options)
        return (await wire.head())[0], await wire.body()


async def test_leaving_the_proxy_fails_a_test_whose_fault_never_struck(kubeconfig):
    async def a_test(proxy):
        with proxy:
            proxy.on(create("pods"), do=faults.fail(500))
            proxy.on(anything(), do=faults.fail(503))
            await ask(proxy)

    proxy = FaultProxy(kubeconfig)
    with pytest.raises(AssertionError, match=r"fail\(500\) on .* fired 0 times"):
        await a_test(proxy)
    assert not proxy._thread.is_alive()


def test_leaving_the_proxy_by_an_exception_lets_the_exception_speak(kubeconfig):
    def a_test(proxy):
        with proxy:
            proxy.on(create("pods"), do=faults.fail(500))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        a_test(FaultProxy(kubeconfig))


async def test_a_rule_that_is_taken_off_strikes_no_more(kubeconfig):
    with FaultProxy(kubeconfig) as proxy:
        proxy.on(anything(), do=faults.fail(503))
        with proxy.on(listing("pods"), do=faults.fail(500)):
            assert (await ask(proxy))[0] == 503, "the rule added first stands outermost"
            first = proxy._rules[0]
            first.off()
            assert (await ask(proxy))[0] == 500
        proxy.on(anything(), do=faults.fail(502))
        assert (await ask(proxy))[0] == 502


async def test_one_proxy_serves_several_tests_each_without_rules_and_calls_of_the_one_before(kubeconfig):
    with FaultProxy(kubeconfig) as proxy:
        proxy.on(anything(), do=faults.fail(503))
        never = proxy.on(create("pods"), do=faults.fail(500))
        await ask(proxy)
        with pytest.raises(AssertionError, match=r"fail\(500\) on .* fired 0 times"):
            proxy.end()

        proxy.begin()
        assert proxy.calls() == ()
        proxy.on(anything(), do=faults.fail(502))
        assert (await ask(proxy))[0] == 502
        assert never.fired == 0
        proxy.end()


async def asked_in_vain(proxy, trigger, fault):
    """A test in which a request is answered with RST."""
    with proxy:
        proxy.on(trigger, do=fault, at_least=0)
        with pytest.raises(ConnectionResetError):
            await ask(proxy, method="POST", body=b"{}")


async def test_an_exception_in_a_function_of_the_test_fails_the_test(kubeconfig):
    def is_broken(body):
        return body["there is no such field"]

    with pytest.raises(ExceptionGroup, match="in the fault proxy") as failed:
        await asked_in_vain(FaultProxy(kubeconfig), create("pods", body=is_broken), faults.fail(500))
    assert isinstance(failed.value.exceptions[0], KeyError)


async def test_waiting_in_vain_ends_with_the_story_so_far(kubeconfig):
    with FaultProxy(kubeconfig) as proxy:
        with pytest.raises(AssertionError, match=r"not within 0.01 s \(no request at all\)"):
            await proxy.until(lambda: False, within=0.01)
        proxy.on(anything(), do=faults.fail(500))
        await ask(proxy)
        with pytest.raises(AssertionError, match=f"not within 0.01 s\n  #1 client GET {PODS} -> 500 clean fail"):
            await asyncio.to_thread(proxy.wait_until, lambda: False, 0.01)


async def test_a_fault_at_once_fails_where_no_watch_is_open(kubeconfig):
    with FaultProxy(kubeconfig) as proxy, pytest.raises(AssertionError, match="no open watch fits"):
        proxy.now(watch("pods"), do=faults.cut())


@pytest.mark.parametrize("strike", [FaultProxy.frozen, FaultProxy.half_open])
async def test_a_fault_of_connections_fails_where_no_connection_felt_it(strike, kubeconfig):
    with FaultProxy(kubeconfig) as proxy:
        proxy.url()
        with pytest.raises(AssertionError, match="no connection of any client felt it"), strike(proxy):
            pass
        with pytest.raises(ZeroDivisionError), strike(proxy):
            raise ZeroDivisionError


async def test_a_half_open_connection_is_silent_whether_idle_or_waiting_for_a_reply(kubeconfig):
    with FaultProxy(kubeconfig) as proxy:
        proxy.on(create(), do=faults.fail(500), at_least=0)
        held = proxy.on(listing(), do=faults.hold())
        proxy.on(listing(), do=faults.fail(500))
        async with Wire.open(proxy) as idle, Wire.open(proxy) as waiting:
            await idle.ask(PODS, method="POST")
            await idle.head()
            await idle.body()
            await waiting.ask(PODS)
            await proxy.until(held.has_fired)
            with proxy.half_open():
                await idle.ask(PODS, method="POST")
                held.release()
                assert await idle.is_silent(0.1)
                assert await waiting.is_silent(0.1)
        assert proxy.count(create()) == 1


# What faults send, against what a kube-apiserver 1.36.3 was seen to send
