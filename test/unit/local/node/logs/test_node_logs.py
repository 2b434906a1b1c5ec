"""Logs of containers: written in pieces, rotated, and read as ``kubectl logs`` asks for them."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tf_operator.local.log_source import LogGone
from tf_operator.local.node.logs import container_log
from tf_operator.local.node.logs.log_records import LONGEST_RECORD, rotated
from tf_operator.local.node.logs.node_logs import NodeLogs
from tf_operator.meta import ObjectKey

POD = ObjectKey("ns", "pod")


class Logs:
    def __init__(self, clock, folder):
        self.clock, self.folder = clock, folder / "uid/main"
        self.root = folder
        self.start()

    def start(self, **options):
        """A node begins, which has the pod."""
        self.node = NodeLogs(self.root, self.clock, **options)
        self.node.know(POD, "uid")

    def run(self, restarts=0, **options):
        if options:
            self.start(**options)
        return self.node.begin("uid", "main", restarts)

    async def read(self, **wish):
        return b"".join([piece async for piece in self.node.read("ns", "pod", "main", **wish)]).decode()


def fill_disk(log):
    log._file.close()
    log._file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 (the log closes it)


@pytest.fixture
def logs(clock, tmp_path):
    own_logs = Logs(clock, tmp_path)
    yield own_logs
    own_logs.node.remove(POD, "uid")


async def test_a_log_is_read_in_the_parts_that_are_asked_for(logs, clock):
    log = logs.run()
    log.write(b"one\ntw")
    log.write(b"o\n\n")
    await clock.advance(60)
    log.write(b"three\nfour")
    assert await logs.read() == "one\ntwo\n\nthree\n"
    log.close()
    assert await logs.read() == "one\ntwo\n\nthree\nfour\n"
    assert await logs.read(tail_lines=3) == "\nthree\nfour\n"
    assert await logs.read(tail_lines=0) == ""
    assert await logs.read(since_seconds=30) == "three\nfour\n"
    assert await logs.read(limit_bytes=5) == "one\nt"
    assert await logs.read(tail_lines=1, timestamps=True) == "2026-01-01T00:01:00.000000Z four\n"


async def test_the_previous_run_has_a_log_of_its_own_and_older_ones_are_removed(logs):
    for restarts in (0, 2, 3):
        log = logs.run(restarts)
        log.write(f"run {restarts}\n".encode())
        log.close()
    assert await logs.read() == "run 3\n"
    assert await logs.read(previous=True) == "run 2\n"
    assert sorted(file.name for file in logs.folder.iterdir()) == ["2.log", "3.log"]


async def test_a_log_that_is_gone_is_no_empty_one(logs):
    with pytest.raises(LogGone):
        await logs.read()
    logs.run()
    assert await logs.read() == ""
    with pytest.raises(LogGone):
        await logs.read(previous=True)


async def test_logs_outlive_their_node_and_are_removed_with_their_pod(logs):
    log = logs.run(most_bytes=60)
    log.write(b"one\n")
    log.write(b"two\n")
    log.close()
    log = logs.run(1)
    log.write(b"three\nfour\n")
    logs.node.close("uid")
    logs.start()
    logs.node.keep_only(["uid"])
    assert await logs.read(previous=True) == "one\ntwo\n"
    assert await logs.read(follow=True, tail_lines=1) == "four\n"
    assert oct(log.path.stat().st_mode & 0o777) == "0o600"
    (logs.root / "of-another").mkdir()
    logs.node.keep_only(["uid"])
    assert [file.name for file in logs.root.iterdir()] == ["uid"]
    logs.node.know(POD, "its successor")
    logs.node.begin("its successor", "main", 0)
    logs.node.remove(POD, "uid")
    assert await logs.read() == ""
    logs.node.remove(POD, "its successor")
    assert list(logs.root.iterdir()) == []


async def test_a_full_log_is_rotated_and_read_across_both_halves(logs):
    log = logs.run(most_bytes=400)
    for number in range(30):
        log.write(f"line {number:02}\n".encode())
    assert log.path.stat().st_size <= 400
    assert rotated(log.path).stat().st_size <= 400
    lines = (await logs.read()).splitlines()
    assert lines[-1] == "line 29"
    assert lines == [f"line {number:02}" for number in range(30 - len(lines), 30)]
    assert (await logs.read(tail_lines=12)).splitlines() == [f"line {number}" for number in range(18, 30)]


async def test_a_follower_reads_on_through_rotations_until_the_run_is_over(logs, clock):
    log = logs.run(most_bytes=200)
    log.write(b"begin\n")
    reading = asyncio.create_task(logs.read(follow=True, tail_lines=1))
    for number in range(20):
        await clock.idle()
        log.write(f"line {number:02}\n".encode())
    await clock.idle()
    assert not reading.done()
    log.close()
    assert (await reading).splitlines() == ["begin", *(f"line {number:02}" for number in range(20))]


async def test_long_lines_come_whole_and_are_written_before_they_end(logs, clock):
    log, end = logs.run(), "x" * 3 * LONGEST_RECORD
    log.write(b"short\n")
    for _ in range(3):
        log.write(b"x" * LONGEST_RECORD)
    assert log.path.stat().st_size > 2 * LONGEST_RECORD
    following = asyncio.create_task(logs.read(follow=True, tail_lines=1, timestamps=True))
    await clock.idle()
    await clock.advance(60)
    log.write(b"\n" + end.encode() + b"\nlast")
    log.close()
    times = [f"2026-01-01T00:0{minute}:00.000000Z" for minute in (0, 1, 1)]
    assert await following == f"{times[0]} {end}\n{times[1]} {end}\n{times[2]} last\n"
    assert (await logs.read()).splitlines() == ["short", end, end, "last"]
    assert (await logs.read(tail_lines=2)).splitlines() == [end, "last"]
    assert (await logs.read(since_seconds=30)).splitlines() == [end, "last"]


async def test_the_end_of_a_run_ends_a_long_line(logs):
    log = logs.run()
    log.write(b"x" * (LONGEST_RECORD + 1))
    log.close()
    assert await logs.read() == "x" * (LONGEST_RECORD + 1) + "\n"


@pytest.mark.parametrize("failing", ["rename", "open"])
async def test_a_log_that_cannot_be_rotated_goes_on_and_loses_nothing(logs, monkeypatch, failing):
    log = logs.run(most_bytes=100)

    def fail(*_):
        raise OSError("no")

    with monkeypatch.context() as patched:
        patched.setattr(*{"rename": (Path, "rename"), "open": (container_log, "_open")}[failing], fail)
        for number in range(6):
            log.write(f"line {number}\n".encode())
    log.write(b"line 6\n")
    assert await logs.read() == "".join(f"line {number}\n" for number in range(7))
    assert log.rotations == 1


async def test_a_record_that_was_written_in_part_spoils_no_other_one(logs):
    log = logs.run()
    log.write(b"one\n")
    whole = log._file

    class Full:
        def write(self, data):
            return whole.write(data[:-3])

        def __getattr__(self, name):
            return getattr(whole, name)

    log._file = Full()
    log.write(b"two\n")
    log._file = whole
    log.write(b"three\n")
    assert await logs.read() == "one\nthree\n"
    with log.path.open("ab") as file:
        file.write(b"no record\n")
    assert await logs.read(tail_lines=1, timestamps=True, since_seconds=1) == "no record\n"


async def test_the_end_of_a_long_log_is_found_from_its_end(logs):
    log = logs.run()
    log.write(b"".join(b"%06d %s\n" % (number, b"x" * 90) for number in range(3000)))
    assert [line[:6] for line in (await logs.read(tail_lines=1500)).splitlines()] == [
        f"{n:06}" for n in range(1500, 3000)
    ]
    words = log.last_words()
    assert len(words) == 2048
    assert words.splitlines()[-1].startswith("002999")


async def test_lines_for_which_there_is_no_room_are_lost_and_nothing_else(logs):
    log = logs.run()
    log.write(b"one\n")
    assert log.problem == ""
    fill_disk(log)
    log.write(b"two\n")
    log.close()
    assert await logs.read() == "one\n"
    assert log.problem == "No space left on device"


async def test_output_that_comes_after_the_end_of_a_run_is_lost_and_nothing_else(logs):
    log = logs.run()
    log.write(b"one\n")
    log.close()
    log.write(b"two\n")
    assert await logs.read() == "one\n"


def open_files(folder):
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # others, and the one that lists the folder, may be gone by now
            count += str(folder) in str(entry.readlink())
    return count


async def test_a_follower_holds_one_file_however_often_the_log_is_rotated(logs):
    log = logs.run(most_bytes=100)
    pieces = logs.node.read("ns", "pod", "main", follow=True)
    for number in range(20):
        log.write(f"line {number:02}, which fills most of a file of a hundred bytes\n".encode())
        await anext(pieces)
    assert open_files(log.path.parent) <= 3
    await pieces.aclose()


async def test_a_reader_may_ask_for_the_last_thousand_years(logs):
    logs.run().write(b"one\n")
    assert await logs.read(since_seconds=2**63 - 1) == "one\n"
