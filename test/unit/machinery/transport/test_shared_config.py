"""The configuration that connections share: when it is read again, by whom, and what stays when that fails."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import trustme

from support.operators.config_source import ConfigSource
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport.config import ClientConfig, ConfigurationError
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.shared_config import SharedConfig

ONE, TWO, THREE = (ClientConfig("http://h", f"Bearer {name}") for name in ("one", "two", "three"))


async def started(source, clock):
    config = SharedConfig(source, clock=clock)
    await config.first()
    return config


async def test_credentials_are_read_again_when_they_are_a_minute_old(clock):
    source = ConfigSource(ONE, TWO, THREE)
    config = await started(source, clock)

    configs = []
    for seconds in (59.9, 0.1, 59.9):
        await clock.advance(seconds)
        configs.append(await config.get())

    assert configs == [ONE, TWO, TWO]
    assert source.refusals == [False, False]


async def test_a_slow_read_delays_only_the_caller_that_began_it(clock):
    source = ConfigSource(ONE, TWO, THREE)
    config = await started(source, clock)
    source.gate = asyncio.Event()
    await clock.advance(60)
    first = asyncio.ensure_future(config.get())
    await clock.idle()

    assert [await config.get() for _ in range(100)] == [ONE] * 100
    assert not first.done()
    source.gate.set()
    assert await first is TWO
    assert source.refusals == [False, False]


async def test_a_read_that_hangs_is_given_up_and_tried_again_after_ten_seconds(clock):
    source = ConfigSource(ONE, TWO)
    config = await started(source, clock)
    source.gate = asyncio.Event()
    await clock.advance(60)
    first = asyncio.ensure_future(config.get())
    await clock.advance(30)

    assert await first is ONE
    assert config.problem == "nothing within 30 s"
    assert await config.get() is ONE
    await clock.advance(10)
    source.gate.set()
    assert await config.get() is TWO
    assert config.problem == ""


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ConfigurationError("no file"), "no file"),
        (OSError(5, "Input/output error"), "OSError: Input/output error"),
        (OSError("s3cr3t"), "OSError: no reason given"),
        (ValueError("s3cr3t"), "reading them failed with ValueError"),
        (LookupError("s3cr3t"), "reading them failed with LookupError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_whatever_a_source_raises_leaves_the_old_credentials_in_use_and_shows_none(clock, error, problem):
    source = ConfigSource(ONE, error, TWO)
    config = await started(source, clock)

    await clock.advance(60)
    assert await config.get() is ONE
    assert config.problem == problem
    await clock.advance(10)
    assert await config.get() is TWO
    with pytest.raises(ConfigurationError, match=problem):
        await SharedConfig(ConfigSource(error), clock=clock).first()


@pytest.mark.parametrize("token", [b" \n", b"half\na token", None], ids=["blank", "half written", "missing"])
async def test_an_invalid_token_file_leaves_the_old_token_in_use(tmp_path, clock, token):
    path = tmp_path / "token"
    path.write_text("old")
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    environment = {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
    config = await started(InCluster(environment, directory=tmp_path), clock)
    path.unlink() if token is None else path.write_bytes(token)
    await clock.advance(60)
    assert (await config.get()).authorization == "Bearer old"
    assert str(path) in config.problem

    path.write_text("new")
    assert (await config.get()).authorization == "Bearer old"
    await clock.advance(60)
    assert (await config.get()).authorization == "Bearer new"


@pytest.mark.parametrize("second", [TWO, ClientConfig(ONE.host, ONE.authorization)], ids=["new", "the same"])
async def test_many_calls_with_the_same_401_share_one_read(clock, second):
    source = ConfigSource(ONE, second)
    config = await started(source, clock)
    source.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(config.renewed(ONE)) for _ in range(50)]
    await clock.idle()
    source.gate.set()

    assert await asyncio.gather(*waiting) == [second] * 50
    assert (await config.get() is ONE) == (second is not TWO)
    assert source.refusals == [False, True]


async def test_an_account_that_is_refused_for_good_causes_one_read_in_ten_seconds(clock):
    source = ConfigSource(ONE)
    config = await started(source, clock)

    for _ in range(100):
        assert await config.renewed(ONE) is ONE
    assert source.refusals == [False, True]

    await clock.advance(10)
    await config.renewed(ONE)
    assert source.refusals == [False, True, True]


async def test_a_401_for_credentials_that_have_been_replaced_causes_no_read(clock):
    source = ConfigSource(ONE, TWO)
    config = await started(source, clock)
    await clock.advance(60)
    await config.get()

    assert await config.renewed(ONE) is TWO
    assert source.refusals == [False, False]


async def test_a_read_after_a_401_counts_as_the_one_of_the_minute(clock):
    config = await started(ConfigSource(ONE, TWO, THREE), clock)
    await clock.advance(59)
    await config.renewed(ONE)
    await clock.advance(59)

    assert await config.get() is TWO


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        pytest.param(ConfigurationError("the plugin is gone"), "the plugin is gone", id="failure"),
        pytest.param(
            ClientConfig("http://other", "Bearer other"),
            "the API server is now http://other: restart this program to use it",
            id="another apiserver",
        ),
    ],
)
async def test_a_useless_read_after_a_401_leaves_the_credentials_and_says_why(clock, second, problem):
    config = await started(ConfigSource(ONE, second), clock)

    assert await config.renewed(ONE) is ONE
    assert config.problem == problem


@pytest.mark.parametrize("trouble", ["fails", "hangs"])
async def test_a_connection_that_is_opened_while_a_plugin_is_in_trouble_starts_with_the_old_credentials(clock, trouble):
    source = ConfigSource(ONE, ConfigurationError("the plugin failed"))
    config = await started(source, clock)
    source.gate = asyncio.Event() if trouble == "hangs" else None

    async with asyncio.timeout(30), Connection(config, clock=clock) as connection:
        assert connection.host == ONE.host


async def test_a_first_read_that_hangs_has_an_end(clock):
    source = ConfigSource(ONE)
    source.gate = asyncio.Event()
    config = SharedConfig(source, clock=clock)
    first = asyncio.ensure_future(config.first())
    await clock.advance(120)

    async with asyncio.timeout(30):
        with pytest.raises(ConfigurationError, match="nothing within 120 s"):
            await first


async def test_connections_in_several_threads_share_one_read_of_a_token_that_is_good_once(monkeypatch):
    used, reads = threading.Event(), threading.Semaphore(0)

    class Issuer:
        """Gives a token for each read but the second of one refresh token, and takes a moment."""

        async def read(self, *, refused=False):
            if refused:
                if used.is_set():
                    raise ConfigurationError("the refresh token was used already")
                used.set()
                await asyncio.to_thread(wait_until_all_have_asked)
            return TWO if refused else ONE

    config = await started(Issuer(), SystemClock())
    read_or_join = config._read_or_join

    def wait_until_all_have_asked():
        for _ in range(3):
            assert reads.acquire(timeout=30)

    def noted(*, refused):
        reads.release()
        return read_or_join(refused=refused)

    monkeypatch.setattr(config, "_read_or_join", noted)
    with ThreadPoolExecutor(3) as threads:
        configs = list(threads.map(lambda _: asyncio.run(config.renewed(ONE)), range(3)))

    assert all(renewed is TWO for renewed in configs)
    assert config.problem == ""


async def test_a_read_that_its_caller_gave_up_goes_on_for_the_others(clock):
    """A refresh token that is good once would be lost with it."""
    source = ConfigSource(ONE, TWO)
    config = await started(source, clock)
    source.gate = asyncio.Event()
    given_up = asyncio.ensure_future(config.renewed(ONE))
    waiting = asyncio.ensure_future(config.renewed(ONE))
    await clock.idle()
    given_up.cancel()
    await clock.idle()
    reads = len(source.refusals)
    source.gate.set()

    assert await waiting is TWO
    assert len(source.refusals) == reads


async def test_a_loop_that_ends_waits_for_the_read_that_it_has_begun(clock):
    """The election's loop ends with each term; a refresh token that it had used up would be lost for all."""
    source = ConfigSource(ONE, TWO, THREE)
    config = await started(source, clock)
    await clock.advance(60)

    async def serve():
        source.gate = asyncio.Event()
        async with Connection(config, clock=SystemClock()):
            reading = asyncio.ensure_future(config.get())
            while len(source.refusals) < 2:
                await asyncio.sleep(0)
            reading.cancel()
            asyncio.get_running_loop().call_later(0.01, source.gate.set)

    await asyncio.to_thread(asyncio.run, serve())

    assert await config.get() is TWO
    assert source.refusals == [False, False]
