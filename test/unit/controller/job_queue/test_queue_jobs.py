"""What the queue keeps of jobs and nodes between two plans: what is read again, held, and asked for."""

from datetime import timedelta
from functools import partial
from unittest.mock import Mock

import pytest

from support.embedded.queue_world import RUNS, SLOT, QueueWorld
from support.jobs import builders
from tf_operator.controller.job_queue import queue_jobs
from tf_operator.controller.job_queue.usage import OnNode
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue.shapes import ONE
from tf_operator.planning.snapshot import Settings


def test_room_that_is_kept_is_released_when_it_was_for_the_oldest_pods_that_nobody_has_placed():
    world = QueueWorld()
    jobs, began = world.planner.jobs, world.clock.now()
    minutes = [began + timedelta(minutes=number) for number in range(12)]
    for name, minute in (("first", 0), ("gone", 1), ("last", 2)):
        world.job(name, 1, **RUNS)
        jobs.at(minutes[minute])
    assert [jobs.next_release(minutes[minute]) for minute in (2, 5, 6, 7)] == [*minutes[5:8], None]

    world.jobs.remove(ObjectKey("ns", "gone"))
    world.pod("first-worker-0", owner="uid-first")
    jobs.at(minutes[3])
    assert jobs.next_release(minutes[3]) == minutes[7]
    world.pod("last-worker-0", owner="uid-last")
    jobs.at(minutes[3])
    assert jobs.next_release(minutes[3]) is None


@pytest.mark.parametrize(
    ("job", "status", "workers", "asks_for"),
    [
        (builders.tfjob("j").parameter_servers(1), RUNS, 0, (0, 0)),
        (builders.tfjob("j").workers(3, template=SLOT), RUNS, 3, (0, 0)),
        (builders.tfjob("j").workers(3, template=SLOT), {"admittedWorkers": 2}, 2, (3, 0)),
        (
            builders.tfjob("j").workers(3, template=SLOT).parameter_servers(2),
            {"admittedParameterServers": 1},
            3,
            (0, 2),
        ),
        (builders.tfjob("j").workers(3, template=SLOT), {"admittedWorkers": 2, "admittedPodsDigest": "x"}, 2, (0, 0)),
    ],
    ids=["no workers", "not in the queue", "more workers", "more servers", "other pods"],
)
def test_a_job_that_has_room_asks_the_queue_for_what_an_edit_adds(job, status, workers, asks_for):
    world = QueueWorld()
    world.waits(job, **status if status is RUNS else RUNS | {"queue": status})
    ((_, entry),) = world.planner.jobs.at(world.clock.now()).values()
    queue_job = entry.queue_job

    assert (queue_job.workers, (queue_job.requested_workers, queue_job.requested_servers)) == (workers, asks_for)


async def test_a_job_is_read_once_for_each_version_of_it_and_again_with_other_settings(monkeypatch):
    world = QueueWorld()
    read = Mock(side_effect=queue_jobs.job_of)
    monkeypatch.setattr(queue_jobs, "job_of", read)
    for index in range(2):
        world.pod(f"j-worker-{index}", owner="uid-j")
    for version, slots, reads in (("1", 3, 1), ("1", 4, 1), ("2", 4, 2)):
        world.job("j", 2, version=version, **RUNS)
        world.node(slots)
        await world.pass_seconds(2)
        assert read.call_count == reads

    world.settings, world.usage.has_changed = Settings(), True
    await world.pass_seconds(2)
    assert read.call_count == 3

    world.jobs.remove(ObjectKey("ns", "j"))
    world.usage.has_changed = True
    await world.pass_seconds(2)
    world.job("j", 2, version="2", **RUNS)
    await world.pass_seconds(2)
    assert read.call_count == 4


def test_a_node_holds_what_the_pods_ask_for_that_are_on_it():
    world = QueueWorld()
    world.node(9)
    (node,) = world.nodes
    for name in ("a", "b"):
        world.pod(name)
    for name, held in (("a", 1), ("b", 0)):
        world.usage.has_changed = False
        world.usage.on_delete(world.pods.get(ObjectKey("ns", name)), final_state_known=True)
        amounts = dict(world.usage.node(node).used)
        assert (amounts.get("example.com/slot", 0), world.usage.has_changed) == (held * ONE, True)
    assert not world.usage._requests


def test_a_node_that_comes_or_goes_is_a_reason_to_plan():
    world = QueueWorld()
    world.node(9)
    (node,), handler = world.nodes, OnNode(world.usage)
    for happens in (handler.on_add, partial(handler.on_delete, final_state_known=True)):
        world.usage.has_changed = False
        happens(node)
        assert world.usage.has_changed
