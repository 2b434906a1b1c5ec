"""Gangs on real schedulers: a job has all the pods that it needs, or none, at every revision of the store."""

import os
import random
import statistics
import time

import pytest

from support.jobs import builders
from support.pods.gangs import GangCluster
from support.settle import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
WINDOW = 10.0
"""Seconds for which a gang may be bound in part: a scheduler binds pod by pod once it has decided on all."""


async def test_of_two_jobs_for_one_room_the_second_waits_whole(gang_cluster):
    async with gang_cluster(room=6, seconds=2.0) as cluster:
        for job in ("first", "second"):
            cluster.expect(job, 4)
            await cluster.jobs.submit(builders.tfjob(job).workers(4))
            if job == "first":
                await eventually(lambda: len(cluster.gangs["first"].bound) == 4, within=60)
        for job in ("first", "second"):
            await cluster.jobs.wait(job, "Succeeded", within=540)
    earlier = cluster.events[: cluster.events.index(("second", "bound"))]
    assert earlier.count(("first", "ended")) >= 2, "the second had a pod while there was no room for all of its pods"


async def test_a_hundred_gangs_in_room_for_six_are_never_bound_in_part_and_all_end(gang_cluster, record_property):
    async with gang_cluster(room=50) as cluster:
        names = [f"gang-{number:02}" for number in range(100)]
        began = time.monotonic()
        await _submit(cluster, dict.fromkeys(names, 8))
        await _all_end(cluster, names, within=540)
        took = time.monotonic() - began
    _report(cluster, took, record_property)


async def test_jobs_of_many_sizes_are_never_bound_in_part_for_long_and_all_end(gang_cluster, record_property):
    seed = int(os.environ.get("GANGS_SEED") or time.time_ns() % 1_000_000)
    print(f"\nGANGS_SEED={seed}")  # noqa: T201
    chance = random.Random(seed)
    sizes = {f"job-{number:02}": chance.randint(1, 20) for number in range(30)}
    async with gang_cluster(room=25) as cluster:
        began = time.monotonic()
        await _submit(cluster, sizes)
        await _all_end(cluster, [*sizes], within=540)
        took = time.monotonic() - began
    _report(cluster, took, record_property)


async def _submit(cluster: GangCluster, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        cluster.expect(name, size)
        await cluster.jobs.submit(builders.tfjob(name).workers(size))


async def _all_end(cluster: GangCluster, names: list[str], *, within: float) -> None:
    """Each job, and its PodGroup."""
    deadline = time.monotonic() + within
    for name in names:
        patience = max(deadline - time.monotonic(), 1.0)
        try:
            await cluster.jobs.wait(name, "Succeeded", within=patience)
        except AssertionError as failure:
            raise AssertionError(f"{failure}; {cluster.unfinished()}") from None

    async def are_released():
        left = await cluster.groups()
        assert not left, [(g["metadata"].get("deletionTimestamp"), g["metadata"].get("finalizers")) for g in left][:3]
        return True

    # Under cleanPodPolicy None, too: what is left of a group would hold the place of a job that has ended.
    assert await eventually(are_released, within=60)


def _report(cluster: GangCluster, took: float, record_property) -> None:
    """Every gang became whole within the window; the figures for those who choose a scheduler."""
    windows = [gang.window for gang in cluster.gangs.values()]
    assert all(gang.whole_at for gang in cluster.gangs.values())
    figures = {
        "scheduler": cluster.scheduler,
        "gangs": len(windows),
        "seconds": round(took, 1),
        "longest window": round(max(windows), 2),
        "median window": round(statistics.median(windows), 3),
        "most pods bound": cluster.most_bound,
        "changes of pods": cluster.revisions,
    }
    for name, value in figures.items():
        record_property(name, value)
    print("\n", figures)  # noqa: T201
    assert max(windows) <= WINDOW
