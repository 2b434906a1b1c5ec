"""A job that shows itself while it is waited for."""

import asyncio
import io
import os
import sys
from contextlib import asynccontextmanager, suppress

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from support.jobs.builders import tfjob
from tf_operator.client import WaitTimeout

REPORT = {
    "progressPercentage": 50,
    "lastUpdatedTime": "2026-03-01T08:00:00Z",
    "metrics": [{"name": "loss", "value": "0.5"}],
}

HALF = f"{'█' * 15}{'░' * 15} 50 %; loss 0.5"


@pytest.fixture
def cluster():
    return EmbeddedJobs(FakeClock())


@asynccontextmanager
async def waiting(cluster, **options):
    """A job that is waited for, and the wait."""
    async with cluster.client() as jobs:
        await jobs.submit(tfjob("j").workers(1).body())
        waits = asyncio.ensure_future(jobs.wait("j", **options))
        await cluster.clock.idle()
        yield waits
        await waits


async def live(cluster, **options):
    async with waiting(cluster, **options):
        for phases in ((), ("Running",), ("Running",), ("Succeeded",)):
            cluster.report("j", *phases, trainerStatus=REPORT if phases == ("Running",) else {})
            await cluster.clock.idle()


async def test_each_change_is_a_line_of_a_file(cluster, capsys):
    await live(cluster, progress=True)

    assert capsys.readouterr().out.splitlines() == [
        "j   -   0/1",
        "j   Created   0/1   It is Created.",
        f"j   Running   0/1   {HALF}   It is Running.",
        f"j   Succeeded   0/1   {HALF}   It is Succeeded.",
    ]


async def test_nothing_is_shown_unless_it_is_asked_for(cluster, capsys):
    await live(cluster)

    assert capsys.readouterr().out == ""


def text_of(master):
    """All that was written to a terminal that is closed: one read may return less."""
    text = b""
    with os.fdopen(master, "rb", buffering=0) as terminal, suppress(OSError):
        while part := terminal.read(10_000):
            text += part
    return text.decode()


@pytest.mark.parametrize("ends", [True, False], ids=["to the end", "too long"])
async def test_a_terminal_has_one_line_that_changes(cluster, monkeypatch, ends):
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        if ends:
            await live(cluster, progress=True)
        else:
            with pytest.raises(WaitTimeout):
                async with waiting(cluster, progress=True, timeout=60):
                    await cluster.clock.advance(60)
    written = text_of(master)

    assert written.count("\r\n") == 1
    assert written.endswith("\r\n")
    assert written.count("\r\x1b[K") == (4 if ends else 1)


async def test_a_line_is_no_wider_than_its_terminal(cluster, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        await live(cluster, progress=True)
    lines = text_of(master).strip().split("\r\x1b[K")

    assert max(map(len, lines)) == 29
    assert lines[-1].startswith("j   Succeeded   0/1   ")
    assert lines[-1].endswith("...")


async def test_an_encoding_without_the_characters_of_the_bar_does_not_end_the_wait(cluster, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    await live(cluster, progress=True)

    assert f"{'?' * 30} 50 %; loss 0.5".encode() in written.getvalue()
