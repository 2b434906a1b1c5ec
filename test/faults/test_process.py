"""Bugs, limits and a wrong clock, as the process meets them. The next process does the rest."""

import resource
import signal
from pathlib import Path

import pytest

from support import oracle
from support.disturbances.fault_proxy.trigger import watch
from support.operators import operator_process
from support.settle import eventually

ARGUMENTS = ("--leader-elect=false",)


async def test_a_worker_that_dies_ends_the_process(proxy, field, start):
    """A bug that only one call brings out ends it, with an exit code that says so."""
    first = await start()
    await field.reach(first, "good", 3)
    first.signal(signal.SIGUSR2)
    await field.want("bad", 2)

    assert await first.wait() == 1
    assert "ZeroDivisionError: a bug in a worker" in str(first.records[-1])
    await field.settled(await start())
    oracle.nothing_twice(proxy)


async def test_a_process_that_may_open_no_files_ends(field, start, control_plane):
    """EMFILE before it has what it needs."""
    first = await through_shell(control_plane, field, 'ulimit -n 8; exec "$@"')
    assert await first.wait() == 1
    assert "Too many open files" in str(first.records)

    await field.want("w", 3)
    await field.settled(await start())


async def test_a_process_that_can_write_no_log_works_without(field, control_plane):
    """ENOSPC, for each record."""
    process = await through_shell(control_plane, field, 'exec "$@" 2>/dev/full')
    await field.want("w", 2)
    await eventually(lambda: oracle.store_in_order(field.admin, field.namespace), within=60)

    assert process.records == []
    assert await process.terminate() == 0


async def through_shell(plane, field, script):
    """Start an operator by a shell script, past the proxy."""
    return await operator_process.start(
        plane, namespaces=[field.namespace], arguments=ARGUMENTS, wrapper=["sh", "-c", script, "sh"]
    )


async def test_a_process_that_may_open_no_more_files_for_a_while_goes_on_afterwards(proxy, field, start):
    """EMFILE in the middle of its life, when all its connections have just been cut."""
    operator = await start()
    await field.reach(operator, "w", 2)
    soft, hard = resource.prlimit(operator.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(operator.pid, resource.RLIMIT_NOFILE, (3, hard))
    with proxy.refusing():
        await proxy.until(lambda: proxy.open_watches(watch()) == 0)
    count = proxy.count()
    await field.want("w", 5)
    await field.quiet(2)
    assert proxy.count() == count, "it could open a connection"

    resource.prlimit(operator.pid, resource.RLIMIT_NOFILE, (soft, hard))
    await field.settled(operator)
    oracle.nothing_twice(proxy)


async def test_a_process_that_gets_no_more_memory_ends(proxy, field, start):
    """A watch event that does not fit ends it, with an exit code that says so."""
    await field.want("w", 3)
    first = await start()
    await field.settled(first)
    limit = address_space(first.pid) + (1 << 20)
    resource.prlimit(first.pid, resource.RLIMIT_AS, (limit, limit))
    for number in range(40):
        if first.exit_code is None:
            await field.want(f"large-{number}", 0, ballast=1_000_000)

    assert await first.wait() == 1
    assert "MemoryError" in str(first.records)
    await field.settled(await start())
    oracle.nothing_twice(proxy)


def address_space(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


@pytest.mark.parametrize("jumps", [3600, 366 * 86400], ids=["an hour", "a year"])
async def test_jumps_of_the_wall_clock_move_no_timer(proxy, field, start, jumps):
    """Back and forth, each second; everything gets done in its time."""
    field.waived |= {"conditions"}  # what it writes as times is what the clock says
    operator = await start(wall_jumps=jumps)
    for workers in (3, 5):
        await field.want("w", workers)
        await field.settled(operator, within=30)
    oracle.nothing_twice(proxy)
