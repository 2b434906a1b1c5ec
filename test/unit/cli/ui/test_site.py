"""What the pages of ``tfjob ui`` answer, request by request: data for the user's browser, and nothing for others."""

import asyncio
import json
import re
from importlib import resources
from unittest import mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from support.embedded.embedded_jobs import TFJOBS, EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli.ui import board, site
from tf_operator.cli.ui.feed import SharedFeeds
from tf_operator.cli.ui.guard import ASK_AGAIN, BrowserGuard
from tf_operator.dialects import registry
from tf_operator.local.log_transport import LogTransport
from tf_operator.machinery.serving.streaming import WRITE_WITHIN
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import EVERYWHERE

JOB = "tfjob.kubeflow.org/default/j"


class Browser:
    """Asks a site, with the cookie that it has got."""

    def __init__(self, app, guard):
        self.site = app
        self.guard = guard
        self.headers = {"Host": "127.0.0.1:8090"}
        self.entrance = guard.url.partition("8090")[2]
        self.streams = []

    async def ask(self, path, method="GET", *, writer=None, headers=None, body=None):
        payload = StreamReader(mock.Mock(), 2**16, loop=asyncio.get_running_loop())
        payload.feed_data(body or b"")
        if body is not None:
            payload.feed_eof()
        headers = {**self.headers, **(headers or {})}
        request = make_mocked_request(method, path, headers, writer=writer, payload=payload)
        self.transport = request.transport
        return await self.site.request_handler(request)

    def follow(self, path):
        """Ask for a stream; what comes."""
        wire = Wire()
        self.streams.append(asyncio.ensure_future(self.ask(self.guard.path + path, writer=wire.writer)))
        return wire

    async def enter(self):
        answer = await self.ask(self.entrance)
        self.headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
        return answer


@pytest.fixture
def cluster():
    embedded = EmbeddedJobs(FakeClock())
    embedded.job()
    return embedded


@pytest.fixture
async def browser(cluster):
    """A browser, and the site as it runs."""
    async with cluster.client() as jobs, asyncio.TaskGroup() as tasks:
        guard = BrowserGuard(8090)
        jobs_board = board.of({registry.DEFAULT: (EVERYWHERE,)}, client=jobs.client, clock=cluster.clock, title="t")
        running = tasks.create_task(jobs_board.run())
        feeds = SharedFeeds(tasks)
        visitor = Browser(
            site.Site(guard, board=jobs_board, connect=jobs.of_kind, feeds=feeds, clock=cluster.clock), guard
        )
        yield visitor
        for task in (running, *visitor.streams):
            task.cancel()


class Wire:
    """What is sent to a browser, byte by byte."""

    def __init__(self):
        self.data = b""
        self.writer = mock.Mock(write=self._write, write_headers=self._pass, write_eof=self._pass, drain=self._pass)

    async def _write(self, data):
        self.data += data

    async def _pass(self, *_):
        return None


async def test_a_stream_goes_on_until_the_server_ends(browser, cluster):
    await browser.enter()
    wire, of_job = browser.follow("stream"), browser.follow(f"stream/{JOB}")
    await cluster.clock.advance(1)
    assert wire.data.startswith(b'retry: 2000\n\nevent: head\ndata: {"title":"t"')
    assert b'event: rows\ndata: [{"id":"tfjob.kubeflow.org/default/j"' in wire.data
    assert of_job.data.index(b"event: job\n") < of_job.data.index(b"event: replicas\n")

    cluster.report("j", "Running")
    await cluster.clock.advance(20)
    assert (b'"state":"Running"' in wire.data, wire.data.endswith(b": here\n\n")) == (True, True)
    assert b'"state":"Running"' in of_job.data

    ending = asyncio.ensure_future(browser.site.end(1.0))
    await cluster.clock.advance(5)
    assert [stream.done() for stream in browser.streams] == [True, True]
    await ending


async def test_a_browser_that_does_not_read_is_left_with_what_it_has(browser, cluster):
    await browser.enter()
    wire = browser.follow("stream")
    wire.writer.write = lambda _: asyncio.Event().wait()
    await cluster.clock.advance(WRITE_WITHIN - 1)
    assert (browser.streams[0].done(), browser.transport.abort.called) == (False, False)
    await cluster.clock.advance(2)

    assert (browser.streams[0].done(), browser.transport.abort.called, browser.site.streams) == (True, True, set())
    with pytest.raises(ConnectionResetError, match="does not read"):
        await browser.streams.pop()


async def test_a_number_of_pages_is_kept_up_to_date_and_no_more(browser, monkeypatch):
    await browser.enter()
    monkeypatch.setattr(site, "MOST_STREAMS", 0)

    answer = await browser.ask(f"{browser.guard.path}stream")
    assert (answer.status, answer.text) == (503, "Too many pages are open: close some.\n")


PATHS = ["", "static/jobs.js", "stream", f"jobs/{JOB}", f"stream/{JOB}", f"yaml/{JOB}", "nothing"]


@pytest.mark.parametrize("path", PATHS)
async def test_without_the_cookie_nothing_is_answered_even_at_the_right_path(browser, path):
    answer = await browser.ask(browser.guard.path + path)

    assert (answer.status, answer.text) == (403, f"{ASK_AGAIN}\n")


async def test_the_token_gets_a_cookie_and_a_page_that_leads_on_once(browser):
    first, second = await browser.enter(), await browser.ask(browser.entrance)

    assert (first.status, f"url={browser.guard.path}" in first.text) == (200, True)
    assert (second.status, "Set-Cookie" in second.headers) == (403, False)


ANSWERS = {
    ("GET", "{path}"): (200, "<h1>Jobs</h1>"),
    ("HEAD", "{path}"): (200, ""),
    ("HEAD", "{path}stream"): (200, ""),
    ("GET", f"{{path}}jobs/{JOB}"): (200, "First failure"),
    ("GET", f"{{path}}yaml/{JOB}"): (200, "kind: TFJob"),
    ("GET", "{path}yaml/tfjob.kubeflow.org/default/other"): (404, "not found"),
    ("GET", "{path}yaml/pod.v1/default/j"): (404, "there is no kind 'pod.v1'"),
    ("GET", f"{{path}}stream/{JOB}?replica=../../x"): (400, "worker-0"),
    ("GET", "{path}static/../guard.py"): (404, "no such page"),
    ("GET", "{path}static/%2e%2e/guard.py"): (404, "no such page"),
    ("GET", "{path}static//etc/passwd"): (404, "no such page"),
    ("GET", "{path}yaml/tfjob.kubeflow.org/default/..%2f..%2fpods"): (404, "no such page"),
    ("GET", "{path}yaml/tfjob.kubeflow.org/%2e%2e/j"): (404, "no such page"),
    ("GET", "/elsewhere/"): (404, "no such page"),
    ("POST", "{path}"): (405, "Nothing can be changed"),
    ("POST", f"{{path}}yaml/{JOB}"): (405, "Nothing can be changed"),
    ("POST", f"{{path}}change/{JOB}"): (403, "needs the token"),
    ("GET", f"{{path}}change/{JOB}"): (404, "no such page"),
    ("DELETE", f"{{path}}yaml/{JOB}"): (405, "Nothing can be changed"),
}


@pytest.mark.parametrize(("question", "outcome"), ANSWERS.items(), ids=map(str, ANSWERS))
async def test_a_request_is_answered_without_a_way_out_of_the_pages(browser, question, outcome):
    await browser.enter()
    method, path = question

    answer = await browser.ask(path.format(path=browser.guard.path), method)

    assert (answer.status, outcome[1] in (answer.text or "")) == (outcome[0], True), answer.text
    assert "default-src 'none'; script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def change(browser, order, *, job=JOB, page=JOB, **headers):
    """Change a job as its page does; a header that is empty is left out."""
    token = browser.guard.token_of(page)
    usual = {"Origin": "http://127.0.0.1:8090", "Content-Type": "application/json", "X-Tfjob-Page": token}
    headers_by_name = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {name: value for name, value in {**usual, **headers_by_name}.items() if value}
    body = order if isinstance(order, bytes) else json.dumps(order).encode()
    return await browser.ask(f"{browser.guard.path}change/{job}", "POST", headers=sent, body=body)


@pytest.fixture
def suspend(cluster):
    return {"verb": "suspend", "uid": cluster.find(TFJOBS, "j")["metadata"]["uid"]}


def is_suspended(cluster):
    return cluster.find(TFJOBS, "j")["spec"].get("runPolicy", {}).get("suspend", False)


async def test_a_page_has_the_token_with_which_its_job_is_changed(browser, cluster, suspend):
    await browser.enter()
    page = await browser.ask(f"{browser.guard.path}jobs/{JOB}")
    assert f'<meta name="token" content="{browser.guard.token_of(JOB)}">'.encode() in page.body

    answer = await change(browser, suspend)
    assert (answer.status, json.loads(answer.text)) == (200, {"text": "j is suspended.", "isDone": True})
    assert is_suspended(cluster)
    answer = await change(browser, {**suspend, "uid": "other"})
    assert (answer.status, json.loads(answer.text)["isDone"]) == (200, False)


ATTACKS = {
    "no origin": (403, {"Origin": ""}),
    "a page of another site": (403, {"Origin": "http://evil.example"}),
    "a page of another port": (403, {"Origin": "http://127.0.0.1:8091"}),
    "a name that was bound to this machine": (403, {"Host": "evil.example:8090", "Origin": "http://evil.example:8090"}),
    "no token": (403, {"X_Tfjob_Page": ""}),
    "the token of another job": (403, {"page": "tfjob.kubeflow.org/default/other"}),
    "a cookie of somebody else": (403, {"Cookie": "tfjob-ui=forged"}),
    "a request that another site caused": (403, {"Sec_Fetch_Site": "cross-site"}),
    "a form": (415, {"Content_Type": "application/x-www-form-urlencoded"}),
    "text": (415, {"Content_Type": "text/plain"}),
}


@pytest.mark.parametrize(("status", "headers"), ATTACKS.values(), ids=ATTACKS)
async def test_nobody_else_changes_a_job(browser, cluster, suspend, status, headers):
    await browser.enter()
    answer = await change(browser, suspend, **headers)

    assert (answer.status, is_suspended(cluster)) == (status, False)


@pytest.mark.parametrize(
    "body", [b"x" * 2000, b"{}", b'{"verb": "exec", "uid": "u"}'], ids=["long", "empty", "unknown"]
)
async def test_what_is_no_change_is_refused(browser, body):
    await browser.enter()
    answer = await change(browser, body)

    assert (answer.status, "This is no change" in answer.text) == (400, True)


async def test_a_change_that_breaks_off_is_refused(browser, suspend, monkeypatch):
    monkeypatch.setattr(StreamReader, "read", mock.AsyncMock(side_effect=web.RequestPayloadError("not gzip")))
    await browser.enter()
    answer = await change(browser, suspend)

    assert (answer.status, "This is no change" in answer.text) == (400, True)


async def test_a_change_that_does_not_end_is_not_waited_for(browser, cluster):
    await browser.enter()
    headers = {"Origin": "http://127.0.0.1:8090", "Content-Type": "application/json"}
    headers["X-Tfjob-Page"] = browser.guard.token_of(JOB)
    path = f"{browser.guard.path}change/{JOB}"
    asked = asyncio.ensure_future(browser.ask(path, "POST", headers=headers))
    await cluster.clock.advance(10)

    assert (await asked).status == 400


async def test_where_only_looking_is_wanted_nothing_is_changed(browser, cluster, suspend):
    browser.site._is_read_only = True
    await browser.enter()
    page = await browser.ask(f"{browser.guard.path}jobs/{JOB}")
    answer = await change(browser, suspend)

    assert b'<meta name="token" content="">' in page.body
    assert (answer.status, is_suspended(cluster)) == (405, False)


async def test_a_refusal_of_the_api_server_is_said(browser, cluster, suspend, monkeypatch):
    def refuse(*_, **__):
        raise errors.Forbidden(403, errors.Status(message="you may not \u202e"))

    await browser.enter()
    monkeypatch.setattr(LogTransport, "send", refuse)
    answer = json.loads((await change(browser, suspend)).text)

    assert (answer["isDone"], answer["text"].startswith("you may not ?; tfjob doctor")) == (False, True)


def test_the_pages_need_nothing_that_their_policy_forbids():
    folder = resources.files("tf_operator.cli.ui").joinpath("static")
    texts = {entry.name: entry.read_text() for entry in folder.iterdir()}

    pages = "".join(text for name, text in texts.items() if name.endswith(".html"))
    assert not re.search(r"<style|<script(?! type=\"module\" src=\")|\son\w+=|\sstyle=|javascript:", pages)
    scripts = "".join(text for name, text in texts.items() if name.endswith(".js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", scripts)
    addresses = set(re.findall(r"https?://[^\"'/]+", pages + scripts + texts["style.css"]))
    assert addresses == {"http://localhost:6006", "http://www.w3.org"}  # a link, and the name that drawings have


def test_all_files_of_the_pages_are_as_large_as_a_picture():
    folder = resources.files("tf_operator.cli.ui").joinpath("static")
    assert sum(len(entry.read_bytes()) for entry in folder.iterdir()) <= 60_000
