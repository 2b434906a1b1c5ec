"""The page of one job: what is sent, when, and how much of it is kept."""

import asyncio
import json
from datetime import UTC, datetime
from unittest.mock import AsyncMock, Mock

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.app.local_kinds.job_curves import JobCurves
from tf_operator.cli.ui import changes, job_feed, job_page, log_feed
from tf_operator.cli.ui.feed import MOST_FEEDS, SharedFeeds, TooMany
from tf_operator.cli.ui.job_feed import JobCursor, JobFeed
from tf_operator.cli.ui.log_feed import LogCursor, LogFeed
from tf_operator.client import usage
from tf_operator.client.cluster import ClusterChoice, Objection
from tf_operator.job.progress import Metric, Progress
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.in_process import InProcess
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.local_kinds import JOB_CURVES
from tf_operator.local.log_transport import LogTransport
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey

FAILED = [{"type": "Failed", "status": "True", "message": "It failed.", "lastTransitionTime": "2026-01-01T00:00:09Z"}]


@pytest.fixture
def cluster():
    return EmbeddedJobs(FakeClock())


@pytest.fixture
async def jobs(cluster):
    async with cluster.client() as client:
        yield client


@pytest.fixture
async def running(cluster):
    """Run feeds for as long as the test."""
    tasks = []

    async def run(feed):
        tasks.append(asyncio.ensure_future(feed.run()))
        await cluster.clock.idle()
        return feed

    yield run
    for task in tasks:
        task.cancel()


class Refusals(dict):
    def __init__(self):
        self.paths = []


@pytest.fixture
def refusals(monkeypatch):
    """Errors by a part of a path: requests for such paths end in it. ``paths`` are those asked for."""
    by_part, send = Refusals(), LogTransport.send

    def answer(transport, request, **options):
        by_part.paths.append(request.path)
        for part, error in by_part.items():
            if part in request.path:
                raise error
        return send(transport, request, **options)

    monkeypatch.setattr(LogTransport, "send", answer)
    return by_part


def read(cursor):
    """The value of each section that has news."""
    frames = [frame.decode().split("\n") for frame in cursor.news()]
    return {lines[0].removeprefix("event: "): json.loads(lines[1].removeprefix("data: ")) for lines in frames}


async def test_a_page_shows_the_job_its_replicas_and_its_first_failure(cluster, jobs, running):
    job = cluster.job("j")
    cluster.event(cluster.pod(job, "worker-0"), "FailedMount", "no secret \u202e<b>")
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock)))

    first = read(page)
    assert [row["state"] for row in first["replicas"]["rows"]] == ["has no pod", "is running"]
    assert [entry["message"] for entry in first["timeline"]] == ["no secret ?<b>"]
    assert first["job"]["waits"] == ["the operator, which has not seen it yet"]
    assert read(page) == {}

    ended = {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T00:00:09Z"}}
    cluster.move("j-worker-0", "Failed", containerStatuses=[{"name": "tensorflow", "restartCount": 0, "state": ended}])
    failure = {"pod": "j-worker-0", "exitCode": 3, "message": "Traceback:\nno\x00 data"}
    cluster.report("j", status=None, conditions=FAILED, firstFailure=failure)
    await cluster.clock.advance(1)

    second = read(page)
    ended = {
        "ended": "ended with exit code 3",
        "message": "no? data",
        "lines": ["Traceback:", "no? data"],
        "time": None,
    }
    assert second["job"]["failure"] == {"pod": "j-worker-0", "replica": "worker-0", **ended}
    assert (second["job"]["state"], second["job"]["chosen"]) == ("Failed", "worker-0")
    assert [row["tone"] for row in second["replicas"]["rows"]] == ["idle", "bad"]
    assert second["timeline"][0]["message"] == "It failed."


async def test_a_failure_that_left_no_message_has_the_end_of_its_log(cluster, jobs, running):
    job = cluster.job("j")
    ended = {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T00:00:09Z", "containerID": "c"}}
    statuses = [{"name": "tensorflow", "restartCount": 0, "state": ended}]
    cluster.pod(job, "worker-0", "Failed", containerStatuses=statuses)
    own = b"2026-01-01 10:00:00.1: I tensorflow/a.cc:1] fast\n"
    cluster.logs["j-worker-0"] = [own, b"Traceback (most recent call last):\n", b"ValueError: \x1b[1mno\x07\n"]
    cluster.report("j", status=None, conditions=FAILED, firstFailure={"pod": "j-worker-0", "exitCode": 3})
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock)))
    await cluster.clock.advance(1)
    failure = read(page)["job"]["failure"]
    assert failure["lines"][-1] == "worker-0 | ValueError: no?"
    count = len(cluster.log_options)
    await cluster.clock.advance(30)
    assert (count, len(cluster.log_options)) == (1, 1)


async def test_what_replicas_use_is_shown_where_somebody_measures_it(cluster, jobs, running, monkeypatch):
    pod = cluster.pod(cluster.job("j"), "worker-0")
    feed = await running(JobFeed(jobs, "j", cluster.clock))
    page = JobCursor(feed)
    missing = "there is no metrics API: a cluster needs the metrics-server, this machine Linux"
    assert read(page)["usage"] == {"rows": {}, "note": missing}

    figures = {"metadata": pod["metadata"], "containers": [{"usage": {"cpu": "250m", "memory": "512Mi"}}]}
    measured = usage.UsageList(usage.usage_of(feed._pods, [figures]))
    monkeypatch.setattr(usage, "read", AsyncMock(side_effect=[errors.NoReply("away for a moment"), measured]))
    await cluster.clock.advance(61)
    await cluster.clock.advance(5)
    row = {"cpu": "250m", "memory": "512Mi", "share": None, "gpu": "-", "gpuMemory": "-", "gpus": []}
    assert read(page)["usage"] == {"rows": {"worker-0": row}, "note": ""}


async def test_a_page_learns_which_changes_are_allowed_and_when_that_changes(cluster, jobs, running, monkeypatch):
    cluster.job("j")
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock, may_change=True)))
    await cluster.clock.advance(1)
    first = read(page)
    assert first["job"]["possible"] == ["suspend", "restart", "scale", "delete"]
    assert first["rights"] == {"verbs": ["suspend", "resume", "restart", "scale", "delete"], "note": ""}

    monkeypatch.setattr(changes, "allowed", AsyncMock(return_value=[]))
    await cluster.clock.advance(16)
    assert read(page)["rights"] == {"verbs": [], "note": "You have no permission to change this job."}
    monkeypatch.setattr(changes, "allowed", AsyncMock(side_effect=errors.Unreachable("gone")))
    await cluster.clock.advance(16)
    assert read(page)["rights"] == {"verbs": [], "note": "Your permissions cannot be checked: gone"}


async def test_where_only_looking_is_wanted_nothing_is_asked_or_allowed(cluster, jobs, running, refusals):
    cluster.job("j")
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock)))
    await cluster.clock.advance(60)

    assert read(page)["rights"] == {"verbs": [], "note": ""}
    assert not [path for path in refusals.paths if "reviews" in path]


async def test_a_cluster_that_nobody_has_named_is_not_changed(cluster, jobs, running):
    cluster.job("j")
    objection = Objection("the local server does not run", "", "prod")
    jobs.choice = ClusterChoice(None, None, "the current context", objection=objection)
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock, may_change=True)))
    await cluster.clock.advance(1)

    rights = read(page)["rights"]
    assert (rights["verbs"], "--context prod" in rights["note"]) == ([], True)


def test_memory_is_a_share_of_what_all_containers_may_have():
    used = usage.ReplicaUsage("worker-0", "j-worker-0", 0.5, 1024**3)
    limited = {"resources": {"limits": {"memory": "1Gi"}}}
    for containers, share in [([limited, limited], 50), ([limited, {}], None), ([limited], 100), ([], None)]:
        pod = Mock(replica="worker-0", body={"spec": {"containers": containers}})
        assert job_page.usages([used], [pod])["rows"]["worker-0"]["share"] == share


def test_each_gpu_has_shares_of_its_time_and_its_memory():
    whole, part = usage.GpuUsage("1", 0.704, 6 << 30, 24 << 30), usage.GpuUsage("0:2\x1b", None, 1 << 30, 0)
    used = usage.ReplicaUsage("worker-0", "j-worker-0", 0.5, 1, gpu=0.704, gpu_memory=7 << 30, gpus=(whole, part))
    row = job_page.usages([used], [])["rows"]["worker-0"]
    first = {"index": "1", "gpu": "70%", "gpuMemory": "6144Mi", "gpuShare": 70, "gpuMemoryShare": 25}
    second = {"index": "0:2?", "gpu": "-", "gpuMemory": "1024Mi", "gpuShare": None, "gpuMemoryShare": None}
    assert (row["gpu"], row["gpuMemory"], row["gpus"]) == ("70%", "7168Mi", [first, second])


async def test_commands_name_job_namespace_and_cluster(cluster, jobs, running):
    cluster.job("j", status={"conditions": FAILED})
    feed = await running(JobFeed(jobs, "j", cluster.clock, naming=" --context 'a b'"))
    commands = dict(read(JobCursor(feed))["job"]["commands"])

    assert commands["Follow the logs"] == "tfjob logs j -f -n default --context 'a b'"
    assert commands["Run it again"] == "tfjob retry j -n default --context 'a b'"


def reported(step, **metrics):
    values = [{"name": name, "value": value} for name, value in metrics.items()]
    time = f"2026-01-01T00:00:{step:02}Z"
    return {"trainerStatus": {"progressPercentage": 40, "step": step, "metrics": values, "lastUpdatedTime": time}}


async def test_a_page_gets_the_curves_of_its_job_and_then_each_point(cluster, jobs, running):
    saved = {"step": 2, "time": "2026-01-01T00:00:02Z", "path": "/data\u202e"}
    cluster.job("j", status={**reported(4, loss="2", note="\x1bgood"), "checkpoint": saved, "resumedFromStep": 1})
    page = JobCursor(feed := await running(JobFeed(jobs, "j", cluster.clock)))
    first = read(page)
    shown = first["job"]["progress"]
    assert shown["metrics"] == [["loss", "2"], ["note", "?good"]]
    assert (shown["percentage"], shown["mark"], shown["resumed"]) == (40, 20, 1)
    assert (shown["saved"], shown["path"]) == ("2026-01-01T00:00:02Z", "/data?")
    assert (first["curves"]["points"], first["curves"]["isMore"]) == ([[1767225604.0, 4, 2.0]], False)
    assert first["curves"]["uid"] == first["job"]["uid"]  # by which the page tells another job of the name

    cluster.report("j", "Running", **reported(5, loss="1"))
    await cluster.clock.advance(1)
    second = read(page)["curves"]
    assert (second["points"], second["isMore"]) == ([[1767225605.0, 5, 1.0]], True)
    assert (len(read(JobCursor(feed))["curves"]["points"]), read(page)) == (2, {})


async def test_a_page_of_a_local_server_begins_with_what_was_reported_before_it_was_opened(
    cluster, jobs, running, monkeypatch
):
    uid = cluster.job("j", status=reported(4, loss="2"))["metadata"]["uid"]
    known = JobCurves()
    for step in (3, 4):
        report = Progress(step=step, metrics=(Metric("loss", "7"),), time=datetime(2026, 1, 1, 0, 0, step, tzinfo=UTC))
        known.add(ObjectKey("default", "j"), uid, report)
    kind, send = Kind(JOB_CURVES, "jobcurves", read=known.read), LogTransport.send
    server = ApiServer(cluster.clock, kinds=(*catalog.KINDS, kind))

    def answer(transport, request, **options):
        source = InProcess(server, cluster.clock) if JOB_CURVES.group in request.path else transport
        return send(source, request, **options) if source is transport else source.send(request, **options)

    monkeypatch.setattr(LogTransport, "send", answer)
    monkeypatch.setattr(job_feed.cluster, "is_local", lambda choice, _: choice.reason == "a test")
    jobs.choice = ClusterChoice(None, None, "a test")
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock)))
    points = read(page)["curves"]["points"]
    assert points == [[1767225603.0, 3, 7.0], [1767225604.0, 4, 7.0]]

    cluster.report("j", "Running", **reported(5, loss="1"))
    await cluster.clock.advance(1)
    assert read(page)["curves"]["points"] == [[1767225605.0, 5, 1.0]]


async def test_the_timeline_marks_the_attempts_of_a_job_that_starts_again_as_a_whole(cluster, jobs, running):
    job = cluster.job("j", status={"attempt": 3, "attemptTime": "2026-01-01T00:00:09Z"})
    cluster.event(job, "JobRestarted", "worker-1 exited with code 137; attempt 2 begins")
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock)))

    marks = [entry["what"] for entry in read(page)["timeline"] if entry["tone"] == "attempt"]
    assert marks == ["Attempt 3", "JobRestarted"]


async def test_a_job_that_is_deleted_or_was_never_there_is_said_to_be(cluster, jobs, running):
    cluster.job("j")
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock)))
    await jobs.delete("j")
    await cluster.clock.advance(1)
    assert (read(page)["job"]["state"], page.is_ended) == ("Deleted", True)

    page = JobCursor(await running(JobFeed(jobs, "other", cluster.clock)))
    assert (read(page)["problem"], page.is_ended) == ('tfjobs.kubeflow.org "other" not found; was it deleted?', True)


CANNOT = errors.Forbidden(403, errors.Status(message="you may not"))


async def test_what_may_not_be_read_is_named_and_the_rest_shown_and_a_right_that_comes_is_seen(
    cluster, jobs, running, refusals
):
    cluster.pod(cluster.job("j", status={"replicaStatuses": {"Worker": {"active": 1}}}), "worker-0")
    cluster.report("j", "Running")
    refusals |= {"/pods": CANNOT, "/events": CANNOT}
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock)))

    first = read(page)
    notes = "Pods may not be read here: you may not.", "Events may not be read here: you may not."
    assert first["job"]["note"] in {" ".join(notes), " ".join(reversed(notes))}
    assert (first["job"]["explanation"], first["problem"]) == ("is running: 1 of 2 replicas run", "")
    assert first["job"]["waits"] == ["its end: it succeeds when the chief has exited with code 0"]
    assert [row["state"] for row in first["replicas"]["rows"]] == ["may not be read"] * 2
    assert [entry["what"] for entry in first["timeline"]] == ["Running", "Created"]

    del refusals.paths[:]
    await cluster.clock.advance(600)
    assert len(refusals.paths) < 100
    refusals.clear()
    await cluster.clock.advance(20)
    later = read(page)
    assert (later["job"]["note"], later["replicas"]["rows"][1]["state"]) == ("", "is running")


GONE = (errors.Unreachable("gone"), "the API server cannot be reached: gone; ")
EXPIRED = (
    errors.Unauthorized(401, errors.Status(message="no")),
    "the API server does not accept the credentials: no; ",
)


@pytest.mark.parametrize(
    "case",
    [(*GONE, True), (*GONE, False), (*EXPIRED, True), (*EXPIRED, False), (CANNOT, "you may not; ", False)],
    ids=["gone", "not there yet", "expired", "not logged in", "no right"],
)
async def test_a_page_says_why_it_may_be_old_and_recovers_by_itself(cluster, jobs, running, refusals, case):
    error, words, is_open = case
    cluster.job("j")
    feed = JobFeed(jobs, "j", cluster.clock)
    page = JobCursor(feed)
    if is_open:
        await running(feed)
        read(page)
    refusals |= {"/tfjobs": error, "/events": error}
    if not is_open:
        await running(feed)
    await cluster.clock.advance(300)
    problem = read(page)["problem"]
    assert (problem.startswith(words), "The data may be out of date" in problem) == (True, is_open)

    del refusals.paths[:]
    await cluster.clock.advance(600)
    assert (len(refusals.paths) < 900, page.is_ended) == (True, False)
    refusals.clear()
    await cluster.clock.advance(30)
    later = read(page)
    assert (later["problem"], later["job"]["state"]) == ("", "New")


async def test_a_log_that_was_refused_begins_again_when_the_right_comes(cluster, jobs, running, refusals):
    cluster.pod(cluster.job("j"), "worker-0")
    cluster.logs["j-worker-0"] = [b"one\n", errors.Unauthorized(401, errors.Status(message="no"))]
    feed = await running(LogFeed(jobs, "j", "", cluster.clock))
    page = LogCursor(feed)
    assert read(page)["lines"] == [["worker-0", "one"]]
    assert "does not accept the credentials: no" in read(page)["logend"]

    cluster.logs["j-worker-0"] = [b"one\n", b"two\n"]
    await cluster.clock.advance(5)
    later = read(page)
    assert (later["log"]["beginning"], later["lines"]) == (2, [["worker-0", "one"], ["worker-0", "two"]])


async def test_of_a_line_without_an_end_the_beginning_is_kept_and_no_more(cluster, jobs, running):
    cluster.pod(cluster.job("j"), "worker-0")
    cluster.logs["j-worker-0"] = [*[b"x" * 1_000_000] * 20, b"\nnext\n"]
    page = LogCursor(await running(LogFeed(jobs, "j", "", cluster.clock)))

    assert read(page)["lines"] == [["worker-0", f"{'x' * 3997}..."], ["worker-0", "next"]]


async def test_of_a_log_the_last_lines_are_kept_and_the_others_counted(cluster, jobs, running, monkeypatch):
    monkeypatch.setattr(log_feed, "_MOST_LINES", 3)
    cluster.pod(cluster.job("j"), "worker-0")
    cluster.logs["j-worker-0"] = [b"\x1b[31mred\x1b[0m <i>\n", b"x" * 5000 + b"\n"]
    feed = await running(LogFeed(jobs, "j", "", cluster.clock))
    page, late = LogCursor(feed), LogCursor(feed)

    assert read(page)["lines"] == [["worker-0", "red <i>"], ["worker-0", f"{'x' * 3997}..."]]
    for number in range(5):
        feed._add("worker-0", str(number))
    news = read(page)
    assert (news["skipped"], news["lines"]) == (2, [["worker-0", str(number)] for number in (2, 3, 4)])
    assert (read(late)["lines"][0], len(feed.lines)) == (["worker-0", "2"], 3)


async def test_lines_that_tensorflow_writes_of_itself_are_marked(cluster, jobs, running):
    cluster.pod(cluster.job("j"), "worker-0")
    line = "2026-01-01 10:00:00.1: I tensorflow/a.cc:1] fast"
    cluster.logs["j-worker-0"] = [f"{line}\n".encode(), b"step 1\n"]
    page = LogCursor(await running(LogFeed(jobs, "j", "", cluster.clock)))

    assert read(page)["lines"] == [["worker-0", line, True], ["worker-0", "step 1"]]


async def test_long_lines_are_kept_by_their_size(cluster, jobs, running):
    cluster.job("j")
    feed = await running(LogFeed(jobs, "j", "", cluster.clock))
    for _ in range(2000):
        feed._add("worker-0", "x" * 4000)

    assert sum(len(text) for _, text in feed.lines) <= log_feed._MOST_CHARACTERS


async def test_of_a_large_job_one_log_is_read_and_a_bounded_number_of_replicas_shown(cluster, jobs, running):
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    cluster.job("j", tfReplicaSpecs={"Worker": {"replicas": 1500, "template": template}})
    logs = LogCursor(await running(LogFeed(jobs, "j", "", cluster.clock)))
    page = JobCursor(await running(JobFeed(jobs, "j", cluster.clock)))

    assert read(logs)["log"]["replica"] == "chief-0"
    replicas = read(page)["replicas"]
    assert (len(replicas["rows"]), replicas["count"]) == (1000, 1501)


class Endless(LogFeed):
    is_running = False

    async def run(self):
        self.is_running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_running = False


async def test_pages_of_one_job_share_what_they_read_until_the_last_one_is_closed(cluster, jobs):
    async with asyncio.TaskGroup() as tasks:
        feeds = SharedFeeds(tasks)
        async with feeds.reading("j", lambda: Endless(jobs, "j", "", cluster.clock)) as first:
            async with feeds.reading("j", lambda: Endless(jobs, "j", "", cluster.clock)) as second:
                await cluster.clock.idle()
            assert (first is second, first.is_running) == (True, True)
        await cluster.clock.idle()
        assert not first.is_running


async def test_a_number_of_jobs_is_looked_at_and_no_more(cluster, jobs):
    async with asyncio.TaskGroup() as tasks:
        feeds = SharedFeeds(tasks)
        opened = [feeds.reading(number, lambda: Endless(jobs, "j", "", cluster.clock)) for number in range(MOST_FEEDS)]
        for one in opened:
            await one.__aenter__()
        with pytest.raises(TooMany):
            await feeds.reading("more", lambda: Endless(jobs, "j", "", cluster.clock)).__aenter__()
        for one in opened:
            await one.__aexit__(None, None, None)
