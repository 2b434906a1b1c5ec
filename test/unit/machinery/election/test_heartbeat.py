"""The heartbeat: young while the loop turns, older and older while it does not."""

from tf_operator.machinery.election.heartbeat import Heartbeat


async def test_a_heartbeat_stays_young_while_the_loop_runs(clock):
    heartbeat = Heartbeat(clock, every=1)

    with heartbeat.beating():
        for _ in range(50):
            await clock.advance(0.7)
            assert heartbeat.age() < 1


async def test_a_heartbeat_gets_old_when_nothing_beats(clock):
    heartbeat = Heartbeat(clock, every=1)

    with heartbeat.beating():
        await clock.advance(3)
    await clock.advance(20)

    assert heartbeat.age() == 20
    assert clock.pending == 0
