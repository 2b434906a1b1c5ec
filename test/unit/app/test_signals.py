"""The first signal asks, the second one insists."""

import asyncio
import os
import signal

import pytest

from tf_operator.app import signals

pytestmark = pytest.mark.usefixtures("own_signals")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_asks_the_process_to_stop(number):
    with signals.stopping() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), 10)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_the_second_signal_ends_the_process_even_when_its_loop_is_stuck(second, monkeypatch):
    codes = []
    monkeypatch.setattr(signals.os, "_exit", codes.append)
    with signals.stopping() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 10)
        os.kill(os.getpid(), second)  # handled before this returns to the loop
        assert codes == [128 + second]


async def test_a_process_that_never_got_a_signal_is_left_as_it_was():
    handler = signal.getsignal(signal.SIGTERM)
    with signals.stopping():
        pass

    assert signal.getsignal(signal.SIGTERM) == handler
