"""Keys of low priority in the work queue."""

import pytest

from support.fake_clock import FakeClock
from tf_operator.machinery.queue.workqueue import NORMAL_PER_LOW, WorkQueue


@pytest.fixture
def queue():
    return WorkQueue[str](FakeClock())


async def test_keys_of_low_priority_give_way_but_not_for_ever(queue):
    for key in ("low", "lower"):
        queue.lower_priority(key)
        queue.add(key)
    for number in range(NORMAL_PER_LOW + 1):
        queue.add(f"normal-{number}")

    order = [await queue.get() for _ in range(queue.depth)]

    first = [f"normal-{number}" for number in range(NORMAL_PER_LOW)]
    assert order == [*first, "low", f"normal-{NORMAL_PER_LOW}", "lower"]


async def test_a_restored_priority_and_a_pause_leave_no_key_behind_others(queue):
    queue.lower_priority("a")
    queue.restore_priority("a")
    queue.lower_priority("b")
    queue.pause()
    queue.resume()
    for key in "abc":
        queue.add(key)

    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
