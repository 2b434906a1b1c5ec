"""The rows of the table: one watch, however many pages, and no page that grows because it is not read."""

import asyncio
import json

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli.ui import board
from tf_operator.dialects import registry
from tf_operator.local.log_transport import LogTransport
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import EVERYWHERE

KIND = "tfjob.kubeflow.org"


def read(frames):
    """Events and their values."""
    lines = [frame.decode().split("\n") for frame in frames]
    return [(line[0].removeprefix("event: "), json.loads(line[1].removeprefix("data: "))) for line in lines]


@pytest.fixture
def cluster():
    return EmbeddedJobs(FakeClock())


@pytest.fixture
async def live_board(cluster):
    """The board, while it runs."""
    async with cluster.client() as jobs:
        scopes = {registry.DEFAULT: (EVERYWHERE,)}
        jobs_board = board.of(scopes, client=jobs.client, clock=cluster.clock, title="here")
        running = asyncio.ensure_future(jobs_board.run())
        await cluster.clock.idle()
        yield jobs_board
        running.cancel()


async def test_a_page_gets_all_rows_then_what_changes(cluster, live_board):
    cluster.job("a")
    await cluster.clock.idle()
    page = live_board.opened()

    assert read(page.news()) == [
        ("head", {"title": "here", "note": "", "kinds": [KIND]}),
        ("rows", [row := {
            "id": f"{KIND}/default/a", "kind": KIND, "namespace": "default", "name": "a", "state": "New",
            "ready": "0/2", "restarts": 0, "created": "2026-01-01T00:00:00Z",
            "progress": None, "message": "",
        }]),
        ("complete", True),
    ]  # fmt: skip
    assert page.news() == []

    cluster.report("a", "Running")
    await cluster.clock.idle()
    assert read(page.news()) == [("rows", [row | {"state": "Running", "message": "It is Running."}])]
    async with cluster.client() as jobs:
        await jobs.delete("a")
    await cluster.clock.idle()
    assert read(page.news()) == [("gone", [f"{KIND}/default/a"])]


def reported(percentage, step, time="2026-01-01T00:00:01Z", **metrics):
    """The status of a job whose program has reported this."""
    values = [{"name": name, "value": value} for name, value in metrics.items()]
    status = {"progressPercentage": percentage, "step": step, "metrics": values, "lastUpdatedTime": time}
    return {"trainerStatus": status | {"estimatedRemainingSeconds": 90}, "checkpoint": {"step": 300}}


async def test_what_programs_report_is_a_bar_and_a_small_curve_of_the_first_number(cluster, live_board):
    cluster.job("a", status=reported(40, 400, phase="warm", loss="2.5"))
    await cluster.clock.idle()
    first = dict(read(live_board.opened().news()))
    bar = {"percentage": 40, "left": "90s", "step": 400, "checkpoint": 300, "mark": 30, "hung": False}
    assert first["rows"][0]["progress"] == bar
    assert first["curves"] == [[f"{KIND}/default/a", "loss", [2.5]]]

    page = live_board.opened()
    page.news()
    cluster.report("a", "Running", **reported(50, 500, "2026-01-01T00:00:02Z", loss="1.5"))
    await cluster.clock.idle()
    later = dict(read(page.news()))
    assert (later["rows"][0]["progress"]["mark"], later["curves"][0][2]) == (30, [2.5, 1.5])


async def test_another_job_of_the_name_has_a_curve_of_its_own(cluster, live_board):
    cluster.job("a", status=reported(40, 400, loss="2.5"))
    await cluster.clock.idle()
    page = live_board.opened()
    page.news()
    async with cluster.client() as jobs:
        await jobs.delete("a")
    cluster.job("a")
    await cluster.clock.idle()

    assert "curves" not in dict(read(live_board.opened().news()))
    assert [event for event, _ in read(page.news())] == ["gone", "rows"]  # so the page forgets the curve that it has
    assert live_board._curves == {}


async def test_what_a_page_has_not_read_is_one_name_for_each_job(cluster, live_board):
    cluster.job("a")
    page, closed = live_board.opened(), live_board.opened()
    live_board.closed(closed)
    for number in range(50):
        cluster.report("a", "Running", restarts=number)
        cluster.report("a", "Created")
        await cluster.clock.idle()

    assert (len(page.waiting), len(closed.waiting)) == (1, 0)


async def test_the_text_of_a_tenant_is_cut_and_made_visible(cluster, live_board):
    hostile = "\x1b[2J\u202e\x07<script>" + "x" * 5000
    cluster.job("a", status={"conditions": [{"type": "Running", "status": "True", "message": hostile}]})
    await cluster.clock.idle()

    ((_, (row,)),) = [section for section in read(live_board.opened().news()) if section[0] == "rows"]
    assert row["message"] == f"??<script>{'x' * 187}..."


async def test_rows_that_may_be_old_are_said_to_be(cluster, live_board, monkeypatch):
    page = live_board.opened()
    page.news()

    def refuse(*_, **__):
        raise errors.Unreachable("refused")

    with monkeypatch.context() as patched:
        patched.setattr(LogTransport, "send", refuse)
        await cluster.clock.advance(800)
        ((event, text),) = read(page.news())
        assert (event, text.startswith("the API server cannot be reached: refused; ")) == ("problem", True)
        assert text.endswith("The data may be out of date.")
    await cluster.clock.advance(60)
    assert read(page.news()) == [("problem", "")]
