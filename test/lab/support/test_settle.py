"""Waiting until it is quiet, and until a condition holds, in virtual time."""

import asyncio
import json

import pytest

from lab.control_plane.etcd import Change
from support.fake_clock import FakeClock
from support.settle import NotSettledError, eventually, wait_quiet

POD = "/registry/pods/ns/a"


class FakeSource:
    """A recording that a test writes."""

    def __init__(self) -> None:
        self.written: list[Change] = []
        self.unseen: list[Change] = []
        self._progress = asyncio.Event()

    def write(self, key: str = POD, value: dict | None = None, previous: dict | None = None) -> None:
        coded = [None if body is None else json.dumps(body).encode() for body in (value or {}, previous)]
        self.written.append(Change(len(self.written) + 2, key, *coded, is_creation=previous is None))
        self._progress.set()

    def changes(self, first: int) -> list[Change]:
        return self.written[first:]

    async def next_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    async def caught_up(self) -> int:
        self.written += self.unseen
        self.unseen = []
        return len(self.written) + 1


def waiting(source, clock, counts=lambda place: True, within=60):
    """A wait that runs beside the test."""
    return asyncio.ensure_future(wait_quiet(source, counts, quiet_for=5, within=within, clock=clock))


async def test_every_write_starts_the_time_again():
    source, clock = FakeSource(), FakeClock()
    task = waiting(source, clock)

    for _ in range(4):
        await clock.advance(4)
        source.write()
    await clock.advance(4.9)
    assert not task.done()
    await clock.advance(0.2)

    assert task.result() == 5


async def test_a_write_that_does_not_count_is_passed_over():
    source, clock = FakeSource(), FakeClock()
    task = waiting(source, clock, lambda place: place.namespace == "ns")

    await clock.advance(4)
    source.write("/registry/pods/other/a")
    await clock.advance(1.1)

    assert task.done()
    assert task.result() == 2


async def test_silence_is_not_believed_when_the_watch_was_behind():
    source, clock = FakeSource(), FakeClock()
    task = waiting(source, clock)
    source.unseen = [Change(2, POD, b"{}", None, is_creation=True)]

    await clock.advance(9.9)
    assert not task.done()
    await clock.advance(0.2)

    assert task.done()


async def test_time_out_says_who_kept_writing_what():
    source, clock = FakeSource(), FakeClock()
    task = waiting(source, clock, within=20)
    key = "/registry/kubeflow.org/tfjobs/ns/j"
    entries = [{"manager": "kubectl", "time": "2026-01-01T00:00:00Z"}, {"manager": "op", "time": "2026-01-02"}]

    for second in range(10):
        source.write(key, {"metadata": {"managedFields": entries}}, {"metadata": {}})
        await clock.advance(2)
        if second == 1:
            source.write(POD)

    with pytest.raises(NotSettledError) as failure:
        await task
    assert str(failure.value).splitlines() == [
        "never quiet for 5 s within 20 s: 11 writes to 2 objects",
        "  10 x tfjobs.kubeflow.org/ns/j: updated by op",
        "  1 x pods/ns/a: created by unknown",
    ]


async def test_eventually_takes_an_assertion_as_not_yet_and_awaits_what_must_be():
    tries = []

    async def check():
        tries.append(1)
        assert len(tries) == 3, "too early"
        return len(tries)

    assert await eventually(check, clock=FakeClock(), every=0) == 3


def three_of_four():
    raise AssertionError("3 of 4 pods")


def nothing_yet():
    return []


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (three_of_four, "three_of_four did not hold within 10 s: 3 of 4 pods"),
        (nothing_yet, r"nothing_yet did not hold within 10 s: it returned \[\]"),
    ],
    ids=["assertion", "false value"],
)
async def test_eventually_says_why_not_when_the_time_is_over(check, reason):
    clock = FakeClock()
    task = asyncio.ensure_future(eventually(check, within=10, every=1, clock=clock))

    await clock.advance(9.9)
    assert not task.done()
    await clock.advance(0.2)

    with pytest.raises(AssertionError, match=reason):
        await task
