"""The configuration that connections share: when it is read again, by whom, and what stays when that fails."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest
import trustme

from support.fake_clock import FakeClock
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport.config import ClientConfig, ConfigurationError
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.shared_config import SharedConfig

TOKEN = "a-token"


class Given:
    """A source of what it is given, one after the other; the last one stays. A gate makes reads wait."""

    def __init__(self, *found):
        self.found = list(found)
        self.asked = []
        self.gate = None

    async def read(self, *, refused=False):
        self.asked.append(refused)
        if self.gate is not None:
            await self.gate.wait()
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return found


@asynccontextmanager
async def started(source, *, clock):
    config = SharedConfig(source, clock=clock)
    await config.first()
    yield config


ONE, TWO, THREE = (ClientConfig("http://h", f"Bearer {name}") for name in ("one", "two", "three"))


async def test_credentials_are_read_again_when_they_are_a_minute_old():
    clock, source = FakeClock(), Given(ONE, TWO, THREE)
    async with started(source, clock=clock) as config:
        await clock.advance(59.9)
        assert await config.get() is ONE
        await clock.advance(0.1)
        assert await config.get() is TWO
        await clock.advance(59.9)
        assert await config.get() is TWO

    assert source.asked == [False, False]


async def test_a_hundred_requests_at_the_end_of_the_minute_cause_one_reading():
    clock, source = FakeClock(), Given(ONE, TWO, THREE)
    async with started(source, clock=clock) as config:
        await clock.advance(60)
        found = await asyncio.gather(*(config.get() for _ in range(100)))

    assert set(map(id, found)) <= {id(ONE), id(TWO)}
    assert len(source.asked) == 2


async def test_a_slow_reading_holds_up_nobody_but_the_one_who_began_it():
    clock, source = FakeClock(), Given(ONE, TWO)
    async with started(source, clock=clock) as config:
        source.gate = asyncio.Event()
        await clock.advance(60)
        first = asyncio.ensure_future(config.get())
        await clock.idle()

        assert await config.get() is ONE
        assert not first.done()
        source.gate.set()
        assert await first is TWO


async def test_a_reading_that_hangs_is_given_up_and_what_there_was_stays():
    clock, source = FakeClock(), Given(ONE, TWO)
    async with started(source, clock=clock) as config:
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


@pytest.mark.parametrize("token", [b"", b" \n", b"half\na token", b"\x00\xff", None])
async def test_a_token_file_caught_half_written_leaves_the_old_token_in_use(tmp_path, token):
    clock = FakeClock()
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    environment = {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
    async with started(InCluster(environment, directory=tmp_path), clock=clock) as config:
        if token is None:
            (tmp_path / "token").unlink()
        else:
            (tmp_path / "token").write_bytes(token)
        await clock.advance(60)
        assert (await config.get()).authorization == f"Bearer {TOKEN}"
        assert str(tmp_path / "token") in config.problem

        (tmp_path / "token").write_text("new")
        assert (await config.get()).authorization == f"Bearer {TOKEN}"
        await clock.advance(60)
        assert (await config.get()).authorization == "Bearer new"


async def test_many_calls_that_meet_the_same_401_share_one_reading():
    source = Given(ONE, TWO, THREE)
    async with started(source, clock=FakeClock()) as config:
        old = await config.get()
        source.gate = asyncio.Event()
        waiting = [asyncio.ensure_future(config.renewed(old)) for _ in range(50)]
        await asyncio.sleep(0)
        source.gate.set()
        found = await asyncio.gather(*waiting)

    assert all(access is TWO for access in found)
    assert source.asked == [False, True]


async def test_many_calls_share_one_reading_even_if_it_brings_nothing_new():
    source = Given(ONE, ClientConfig(ONE.host, ONE.authorization))
    async with started(source, clock=FakeClock()) as config:
        old = await config.get()
        source.gate = asyncio.Event()
        waiting = [asyncio.ensure_future(config.renewed(old)) for _ in range(50)]
        await asyncio.sleep(0)
        source.gate.set()
        found = await asyncio.gather(*waiting)

        assert all(access is old for access in found)
        assert source.asked == [False, True]
        await config.renewed(old)
        assert source.asked == [False, True, True]


async def test_a_401_for_what_has_been_replaced_by_now_causes_no_reading():
    clock, source = FakeClock(), Given(ONE, TWO)
    async with started(source, clock=clock) as config:
        old = await config.get()
        await clock.advance(60)
        await config.get()

        assert await config.renewed(old) is TWO
    assert source.asked == [False, False]


async def test_a_reading_after_a_401_counts_as_the_one_of_the_minute():
    clock, source = FakeClock(), Given(ONE, TWO, THREE)
    async with started(source, clock=clock) as config:
        await clock.advance(59)
        await config.renewed(ONE)
        await clock.advance(59)
        assert await config.get() is TWO


async def test_a_reading_that_fails_after_a_401_says_why():
    source = Given(ONE, ConfigurationError("the plugin is gone"))
    async with started(source, clock=FakeClock()) as config:
        assert await config.renewed(ONE) is ONE
        assert config.problem == "the plugin is gone"


async def test_another_apiserver_is_never_gone_to_without_a_restart():
    source = Given(ONE, ClientConfig("http://other", "Bearer other"))
    async with started(source, clock=FakeClock()) as config:
        assert await config.renewed(ONE) is ONE
        assert config.problem == "the API server is now http://other: restart the operator to use it"


@pytest.mark.parametrize("trouble", ["fails", "hangs"])
async def test_a_connection_that_is_opened_while_a_plugin_is_in_trouble_starts_with_the_old_credentials(trouble):
    source = Given(ONE, ConfigurationError("the plugin failed"))
    async with started(source, clock=FakeClock()) as config:
        source.gate = asyncio.Event() if trouble == "hangs" else None

        async with asyncio.timeout(5), Connection(config, clock=FakeClock()) as connection:
            assert connection.host == ONE.host


async def test_a_first_read_that_hangs_has_an_end():
    clock, source = FakeClock(), Given(ONE)
    source.gate = asyncio.Event()
    config = SharedConfig(source, clock=clock)
    first = asyncio.ensure_future(config.first())
    await clock.advance(120)

    async with asyncio.timeout(5):
        with pytest.raises(ConfigurationError, match="nothing within 120 s"):
            await first


async def test_connections_in_several_threads_share_one_read_of_a_token_that_is_good_once():
    used = threading.Event()

    class Issuer:
        """Gives a token for each read but the second of one refresh token, and takes a moment."""

        async def read(self, *, refused=False):
            if refused:
                if used.is_set():
                    raise ConfigurationError("the refresh token was used already")
                used.set()
                await asyncio.sleep(0.05)
            return TWO if refused else ONE

    async with started(Issuer(), clock=SystemClock()) as config:
        together = threading.Barrier(3)

        def renew():
            async def on_a_loop_of_its_own():
                return await config.renewed(ONE)

            together.wait()
            return asyncio.run(on_a_loop_of_its_own())

        found = await asyncio.gather(*(asyncio.to_thread(renew) for _ in range(3)))

    assert all(renewed is TWO for renewed in found)
    assert config.problem == ""


async def test_a_read_that_its_caller_gave_up_goes_on_for_the_others():
    """A refresh token that is good once would be lost with it."""
    clock, source = FakeClock(), Given(ONE, TWO)
    async with started(source, clock=clock) as config:
        source.gate = asyncio.Event()
        given_up = asyncio.ensure_future(config.renewed(ONE))
        waiting = asyncio.ensure_future(config.renewed(ONE))
        await clock.idle()
        given_up.cancel()
        await clock.idle()
        reads = len(source.asked)
        source.gate.set()

        assert await waiting is TWO
        assert len(source.asked) == reads
