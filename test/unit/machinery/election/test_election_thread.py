"""The elector in its thread, as the main loop sees it.

These tests run in real time, and wait for nothing but each other: a retry period is 20 ms.
"""

import asyncio
import errno
import threading
import time
from contextlib import asynccontextmanager

import pytest

from support.leases.lease_model import KEY, LeaseApi, LeaseStore
from tf_operator.machinery.election import election_thread
from tf_operator.machinery.election.election_thread import ElectionThread, make_identity
from tf_operator.machinery.election.fence import LeaseClock, NotLeading
from tf_operator.machinery.election.leaderelection import ElectionConfig, LossReason
from tf_operator.machinery.election.lease import LeaseLock, LeaseRecord

CONFIG = ElectionConfig(lease_duration=60, renew_deadline=30, retry_period=0.02)


class Election(ElectionThread):
    """An election on a Lease in memory, which records who opened and closed its lock."""

    def __init__(self, store, **config):
        self.threads = []
        self.closed = 0
        self.store = store
        super().__init__(self._open, identity="me", config=ElectionConfig(**config) if config else CONFIG)

    @asynccontextmanager
    async def _open(self):
        self.threads.append(threading.current_thread())
        try:
            yield LeaseLock(LeaseApi(self.store, LeaseClock()), KEY)
        finally:
            self.closed += 1


@pytest.fixture
def store():
    return LeaseStore()


def steal(store):
    store.put(LeaseRecord("thief", seconds=60, transitions=9).spec())


async def wait_until(is_so):
    while not is_so():
        await asyncio.sleep(0.001)


async def test_a_term_begins_with_an_open_fence_and_ends_with_a_released_lease(store):
    election = Election(store)
    assert election.lease is None
    with pytest.raises(NotLeading):
        election.fence.check()

    async with election.term():
        election.fence.check()
        assert store.holder == "me"
        assert election.lease.record.holder == "me"
        (thread,) = election.threads
        assert (thread.daemon, thread.name) == (True, "leader-election")
        assert thread is not threading.current_thread()

    assert store.holder == ""
    assert election.closed == 1
    with pytest.raises(NotLeading):
        election.fence.check()


async def test_a_cancelled_wait_for_the_end_of_a_term_does_not_end_it(store):
    election = Election(store)

    async with election.term() as term:
        waiting = asyncio.ensure_future(term.wait_over())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        steal(store)
        assert await term.wait_over() is LossReason.TAKEN


async def test_an_error_in_the_work_releases_the_lease(store):
    with pytest.raises(ZeroDivisionError):
        async with Election(store).term():
            raise ZeroDivisionError

    assert store.holder == ""


async def test_a_connection_that_cannot_be_made_is_reported_to_the_candidate():
    @asynccontextmanager
    async def refuse():
        raise ConnectionRefusedError
        yield

    with pytest.raises(ConnectionRefusedError):
        async with ElectionThread(refuse, identity="me").term():
            pytest.fail("it leads")


async def test_a_thread_that_gets_no_event_loop_is_reported_to_the_candidate(store, monkeypatch):
    """A process that has run out of file descriptors must end and not hang, deaf to SIGTERM."""
    election = Election(store)
    async with election.term():
        pass

    def too_many_files():
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(asyncio.events, "new_event_loop", too_many_files)
    with pytest.raises(OSError, match="Too many open files"):
        async with election.term():
            pytest.fail("it leads")


async def test_a_candidacy_that_has_ended_can_be_resigned_even_if_its_event_loop_fails_to_close(monkeypatch):
    class Brittle(asyncio.Runner):
        def close(self):
            super().close()
            raise OSError

    async def serve(on_leading):
        return LossReason.DEADLINE

    monkeypatch.setattr(asyncio, "Runner", Brittle)
    candidacy = election_thread._Candidacy(serve)

    assert await candidacy.over is LossReason.DEADLINE
    for _ in range(2):
        await candidacy.resign()
    candidacy.raise_failure()


@pytest.mark.parametrize("waits", [True, False])
async def test_a_failed_elector_is_reported_at_the_end_of_the_term(store, waits):
    election = Election(store)

    async def lead():
        async with election.term() as term:
            store.update = lambda body: 1 / 0
            await (term.wait_over() if waits else wait_until(lambda: not election.fence.is_open))

    with pytest.raises(ZeroDivisionError):
        await lead()
    assert not election.fence.is_open


async def test_a_candidate_that_is_cancelled_leaves_nothing_running(store):
    steal(store)
    election = Election(store)

    async def stand():
        async with election.term():
            pytest.fail("the Lease is somebody else's")

    standing = asyncio.ensure_future(stand())
    await wait_until(lambda: election.threads)
    standing.cancel()
    await asyncio.wait([standing])

    assert standing.cancelled()
    assert election.closed == 1
    await asyncio.to_thread(election.threads[0].join)


async def test_a_term_that_has_ended_leaves_no_thread_that_starts_others(store):
    """A thread that begins while the interpreter ends can crash it."""
    election = Election(store)
    lasting = []

    @asynccontextmanager
    async def open_lock():
        async with election._open() as lock:
            try:
                yield lock
            finally:  # as a lookup of the API server's name that nobody waits for
                lasting.append(asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.1))

    async with ElectionThread(open_lock, identity="me", config=CONFIG).term():
        pass

    assert lasting[0].get_loop().is_closed()


async def test_a_resignation_that_is_cancelled_is_waited_for_all_the_same(store):
    """The process would end beside the thread, and the Lease might not be released."""
    election, has_begun = Election(store), asyncio.Event()

    @asynccontextmanager
    async def open_lock():
        async with election._open() as lock:
            try:
                yield lock
            finally:
                loop.call_soon_threadsafe(has_begun.set)
                await asyncio.sleep(0.1)

    async def stand():
        async with ElectionThread(open_lock, identity="me", config=CONFIG).term():
            pass

    loop, standing = asyncio.get_running_loop(), asyncio.ensure_future(stand())
    await has_begun.wait()
    for _ in range(2):
        standing.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([standing])

    assert standing.cancelled()
    assert election.closed == 1


async def test_a_candidate_that_is_cancelled_before_its_thread_has_started_never_tries(store, monkeypatch):
    threads = []

    class Late(threading.Thread):
        def start(self):
            threads.append(self)

    monkeypatch.setattr(election_thread.threading, "Thread", Late)
    election = Election(store)
    standing = asyncio.ensure_future(election.term().__aenter__())
    await wait_until(lambda: threads)
    standing.cancel()
    await asyncio.sleep(0)
    super(Late, threads[0]).start()
    await asyncio.wait([standing])

    assert standing.cancelled()
    assert not election.threads


async def test_the_fence_can_be_read_while_another_thread_moves_it(store):
    # client-go: TestCheckMethodRace.
    election = Election(store, lease_duration=60, renew_deadline=30, retry_period=0.001)

    async with election.term():
        written = len(store.writes)
        while len(store.writes) < written + 20:
            election.fence.check()
            assert 0 < election.fence.remaining() <= 30
            await asyncio.sleep(0)


def test_a_thread_whose_main_loop_has_ended_ends_without_an_error(monkeypatch):
    failures = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    is_over = threading.Event()
    threads = []

    async def serve(on_leading):
        threads.append(threading.current_thread())
        await asyncio.to_thread(is_over.wait)
        on_leading()

    async def main():
        candidacy = election_thread._Candidacy(serve)
        await wait_until(lambda: threads)
        return candidacy

    candidacy = asyncio.run(main())
    is_over.set()
    threads[0].join()

    assert not failures
    assert not candidacy.over.done()


def test_no_two_runs_of_a_pod_have_the_same_identity():
    assert make_identity("pod-0").startswith("pod-0_")
    assert make_identity("pod-0") != make_identity("pod-0")
