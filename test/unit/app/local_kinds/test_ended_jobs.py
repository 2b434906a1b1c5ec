"""The history of the local server: the last jobs that have ended, also after they were deleted."""

import sqlite3
from datetime import timedelta

import msgspec
import pytest
from structlog.testing import capture_logs

from support.embedded.embedded_jobs import TFJOBS, EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.app.local_kinds import ended_jobs
from tf_operator.app.local_kinds.ended_jobs import EndedJobs
from tf_operator.dialects import registry
from tf_operator.machinery.transport import requests
from tf_operator.meta import ObjectKey

WITHOUT_METADATA = b'{"metadata": null, "resource": "tfjobs.kubeflow.org", "record": {}}'
DEEP = b'{"metadata": ' + b"[" * 100_000
FAILURE = {"pod": "a-worker-0", "exitCode": 137, "reason": "OOMKilled", "message": "too large"}


@pytest.fixture
def jobs():
    return EmbeddedJobs(FakeClock())


@pytest.fixture
def remembering(jobs, tmp_path):
    """A process that remembers. The one before is not told to end, as after SIGKILL."""
    opened, listeners = [], jobs.server.store.listeners
    of_server = len(listeners)

    def start():
        del listeners[of_server:]
        opened.append(EndedJobs(tmp_path / "history.sqlite", jobs.clock, registry.SERVED))
        opened[-1].open(jobs.server.store)
        return opened[-1]

    yield start
    for ended in opened:
        ended.close()


def end(jobs, name="a", kind="Succeeded", **status):
    jobs.job(name, status={"startTime": "2026-01-01T00:00:00Z"})
    return jobs.report(name, "Running", kind, completionTime="2026-01-01T00:02:00Z", **status)


def delete(jobs, name="a"):
    uid = jobs.find(TFJOBS, name)["metadata"]["uid"]
    assert jobs.server.handle(requests.delete(TFJOBS, ObjectKey("default", name), uid=uid)).code == 200


def names(ended, jobs):
    return [body["record"]["job_name"] for body in ended.read(jobs.clock.now())]


def test_a_job_that_has_ended_is_remembered_when_it_is_deleted(jobs, remembering):
    ended = remembering()
    job = end(jobs, kind="Failed", firstFailure=FAILURE, lostSeconds=7)
    jobs.job("b", status={"startTime": "2026-01-01T00:00:00Z"})
    delete(jobs)
    delete(jobs, "b")

    (body,) = ended.read(jobs.clock.now())
    uid = job["metadata"]["uid"]
    assert (body["metadata"]["name"], body["resource"]) == (uid, "tfjobs.kubeflow.org")
    record = body["record"]
    assert (record["job_uid"], record["to"], record["time"]) == (uid, "Failed", "2026-01-01T00:02:00Z")
    assert (record["duration_seconds"], record["lost_seconds"]) == (120.0, 7)
    assert record["first_failure"] == {
        "pod": "a-worker-0",
        "exit_code": 137,
        "reason": "OOMKilled",
        "message": "too large",
    }


def test_a_job_is_there_once_as_it_was_last(jobs, remembering):
    ended = remembering()
    end(jobs)
    jobs.report("a", "Running", "Succeeded", completionTime="2026-01-01T00:02:00Z", lostSeconds=9)
    delete(jobs)

    assert [body["record"]["lost_seconds"] for body in ended.read(jobs.clock.now())] == [9]


def test_the_next_process_knows_it_all_and_what_the_one_before_had_no_time_to_write(jobs, remembering):
    remembering()
    end(jobs)
    delete(jobs)
    jobs.server.store.listeners.pop()  # killed
    end(jobs, "b")

    assert names(remembering(), jobs) == ["a", "b"]


def test_only_the_last_jobs_of_a_month_are_kept(jobs, remembering, monkeypatch):
    monkeypatch.setattr(ended_jobs, "MOST_JOBS", 3)
    ended = remembering()
    for number, name in enumerate("abcde"):
        jobs.job(name)
        jobs.report(name, "Succeeded", completionTime=f"2026-01-0{number + 1}T00:00:00Z")
        delete(jobs, name)
    assert names(ended, jobs) == ["c", "d", "e"]

    later = jobs.clock.now() + timedelta(days=30) + timedelta(days=2, seconds=1)
    assert [body["record"]["job_name"] for body in ended.read(later)] == ["d", "e"]


async def test_what_is_too_old_is_deleted_with_the_next_end(jobs, remembering, tmp_path):
    remembering()
    end(jobs)
    await jobs.clock.advance(31 * 24 * 3600)
    jobs.job("b")
    jobs.report("b", "Succeeded", completionTime="2026-02-01T00:00:00Z")

    with sqlite3.connect(tmp_path / "history.sqlite") as connection:
        assert connection.execute("select count(*) from ended").fetchone() == (1,)
    connection.close()


def test_a_job_is_remembered_in_little_room_whatever_it_was(jobs, remembering):
    ended = remembering()
    usage = {f"{'x' * 60}.example/{number}": 2**53 for number in range(200)}
    end(jobs, kind="Failed", firstFailure=FAILURE | {"message": "\u20ac" * 4096}, usage=usage)
    delete(jobs)

    (body,) = ended.read(jobs.clock.now())
    assert len(msgspec.json.encode(body)) < 1500


@pytest.mark.parametrize("raw", [b"", b"\xff", b"[]", b"{}", 7, WITHOUT_METADATA, DEEP])
def test_a_row_that_is_no_job_is_passed_over(jobs, remembering, tmp_path, raw):
    ended = remembering()
    end(jobs)
    with sqlite3.connect(tmp_path / "history.sqlite") as connection:
        connection.execute("insert into ended values ('other', 2e9, ?)", (raw,))
    connection.close()

    assert names(ended, jobs) == ["a"]


def test_a_file_that_cannot_be_used_costs_no_job(jobs, tmp_path):
    (tmp_path / "history.sqlite").write_bytes(b"no database, but something else" * 100)
    ended = EndedJobs(tmp_path / "history.sqlite", jobs.clock, registry.SERVED)
    with capture_logs() as logs:
        ended.open(jobs.server.store)
    assert "the history of ended jobs is not kept" in str(logs)

    end(jobs)
    delete(jobs)
    assert list(ended.read(jobs.clock.now())) == []
    ended.close()


def test_a_disk_that_is_full_costs_no_job(jobs, remembering, tmp_path):
    ended = remembering()
    with sqlite3.connect(tmp_path / "history.sqlite") as connection:
        connection.execute("drop table ended")
    connection.close()
    with capture_logs() as logs:
        end(jobs)
    delete(jobs)

    assert "no such table" in str(logs)
    assert list(ended.read(jobs.clock.now())) == []
