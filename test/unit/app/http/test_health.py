"""The probes: alive as long as a restart would not help, ready once the caches have been complete."""

import pytest

from support.operators.config_source import ConfigSource
from tf_operator.app.http.health import DEAD_WATCH, STUCK_LOOP, Health
from tf_operator.machinery.election.heartbeat import Heartbeat
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.machinery.transport.shared_config import SharedConfig


class Informers:
    """Two caches, whose watches had their last events at known moments."""

    def __init__(self, clock):
        self.clock = clock
        self.heard_at = {"pods": clock.monotonic(), "tfjobs": clock.monotonic()}
        self.missing = ["pods", "tfjobs"]
        self.waited_for = []

    def unsynced(self):
        return self.missing

    def awaited(self):
        return self.waited_for

    def stuck_seconds(self):
        return {name: self.clock.monotonic() - moment for name, moment in self.heard_at.items()}

    def hear(self, *names):
        for name in names:
            self.heard_at[name] = self.clock.monotonic()


@pytest.fixture
def informers(clock):
    return Informers(clock)


@pytest.fixture
def health(clock, informers):
    """Health of a process whose caches are known, and whose loop beats."""
    health = Health(clock, Heartbeat(clock))
    health.watch(informers)
    return health


def test_a_process_that_is_only_just_starting_is_alive_and_not_ready(clock):
    health = Health(clock, Heartbeat(clock))

    assert health.why_not_alive() == []
    assert health.why_not_ready() == ["starting"]


def test_it_is_ready_once_all_caches_have_synced_and_none_is_being_relisted(health, informers):
    assert len(health.why_not_ready()) == 2
    informers.missing, informers.waited_for = ["tfjobs"], ["pods", "tfjobs"]
    assert health.why_not_ready() == ["the cache of tfjobs has not synced", "the cache of pods is being relisted"]
    informers.missing = informers.waited_for = []
    assert health.why_not_ready() == []


def test_a_cache_that_is_read_through_its_own_webhook_is_named_and_not_waited_for(health, informers):
    served_first = {"tfjobs.x"}
    health.wait_for_no_cache_of(lambda: served_first)
    informers.missing, informers.waited_for = ["tfjobs.x in a, b"], ["tfjobs.x hub"]
    assert health.why_not_ready() == []
    assert health.notes() == [
        "the cache of tfjobs.x in a, b has not synced: it is read through the webhook",
        "the cache of tfjobs.x hub is being relisted: it is read through the webhook",
    ]

    informers.missing.append("pods")
    assert health.why_not_ready() == ["the cache of pods has not synced"]
    served_first.clear()
    assert len(health.why_not_ready()) == 3
    assert health.notes() == []


async def test_it_is_not_ready_while_its_credentials_cannot_be_read(clock, informers):
    config = SharedConfig(ConfigSource(ConfigurationError("the plugin failed")), clock=clock)
    health = Health(clock, Heartbeat(clock))
    informers.missing = []
    health.watch(informers, config=config)
    assert health.why_not_ready() == []

    with pytest.raises(ConfigurationError):
        await config.first()
    assert health.why_not_ready() == ["the credentials cannot be read: the plugin failed"]


async def test_a_loop_that_beats_is_alive_and_one_that_is_stuck_is_not_within_ten_seconds(clock):
    heartbeat = Heartbeat(clock)
    health = Health(clock, heartbeat)
    with heartbeat.beating():
        await clock.advance(100)
        assert health.why_not_alive() == []
    clock._monotonic += 9

    assert STUCK_LOOP < 9
    assert health.why_not_alive() == ["the event loop has been blocked for 9 s"]


async def test_a_process_with_a_watch_that_has_stalled_is_not_alive(clock, health, informers):
    with health._heartbeat.beating():
        for _ in range(10):
            await clock.advance(60)
            informers.hear("pods", "tfjobs")
            assert health.why_not_alive() == []

        await clock.advance(DEAD_WATCH - 1)
        informers.hear("pods")
        assert health.why_not_alive() == []
        await clock.advance(2)
        assert health.why_not_alive() == ["the watch of tfjobs has stalled for 91 s"]


def test_a_loop_that_stands_still_is_named_and_leaves_the_process_ready_and_alive(health, informers):
    informers.missing, ages = [], {"job queue": 59.0}
    health.watch_loop("job queue", lambda: ages["job queue"])
    assert health.stalled_loops() == []
    ages["job queue"] = 61.0

    assert health.stalled_loops() == ["the job queue has stood still for 61 s"]
    assert health.why_not_ready() == health.why_not_alive() == []
