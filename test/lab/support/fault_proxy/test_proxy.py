"""The fault proxy as a test holds it, with no apiserver behind it: what it asserts, waits for and hands out."""

import pytest
import trustme

from lab.kubeconfig import Access, write
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.trigger import anything, create, listing, watch
from support.disturbances.fault_proxy.wire import Wire

PODS = "/api/v1/namespaces/n/pods"


@pytest.fixture
def kubeconfig(tmp_path):
    """Nobody listens at its server."""
    authority = trustme.CA().cert_pem.bytes().decode()
    write(tmp_path / "kubeconfig", Access("https://127.0.0.1:9", "t", authority), user="u")
    return tmp_path / "kubeconfig"


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
        first = proxy.on(anything(), do=faults.fail(503))
        with proxy.on(listing("pods"), do=faults.fail(500)):
            assert (await ask(proxy))[0] == 503, "the rule added first stands outermost"
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


async def test_an_exception_in_a_function_of_the_test_fails_the_test(kubeconfig):
    async def a_test(proxy):
        with proxy:
            proxy.on(create("pods"), do=faults.call(lambda: {}["missing"]))
            with pytest.raises(ConnectionResetError):
                await ask(proxy, method="POST", body=b"{}")

    with pytest.raises(ExceptionGroup, match="in the fault proxy") as failed:
        await a_test(FaultProxy(kubeconfig))
    assert isinstance(failed.value.exceptions[0], KeyError)


async def test_an_apiserver_that_is_away_resets_the_client_and_the_log_says_why(kubeconfig):
    with FaultProxy(kubeconfig) as proxy:
        with pytest.raises(ConnectionResetError):
            await ask(proxy)
        (call,) = proxy.calls()
    assert (call.code, call.upstream_code, call.ending) == (None, None, "rst")
    assert "Cannot connect" in call.upstream_error


async def test_waiting_in_vain_ends_with_the_story_so_far(kubeconfig):
    with FaultProxy(kubeconfig) as proxy:
        with pytest.raises(AssertionError, match=r"not within 0.01 s \(no request at all\)"):
            await proxy.until(lambda: False, within=0.01)
        proxy.on(anything(), do=faults.fail(500))
        await ask(proxy)
        with pytest.raises(AssertionError, match=f"not within 0.01 s\n  #1 client GET {PODS} -> 500 clean fail"):
            await proxy.until(lambda: False, within=0.01)


async def test_a_fault_at_once_fails_where_no_watch_is_open(kubeconfig):
    with FaultProxy(kubeconfig) as proxy, pytest.raises(AssertionError, match="no open watch fits"):
        proxy.now(watch("pods"), do=faults.cut())
