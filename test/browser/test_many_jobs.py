"""``tfjob ui`` with a thousand jobs: how soon its table is seen, and what a browser keeps for it."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from support.embedded.embedded_jobs import EmbeddedJobs
from support.partners.browser import ONE_BROWSER, Visitor, audit
from tf_operator.cli.ui import board, site
from tf_operator.cli.ui.guard import BrowserGuard
from tf_operator.dialects import registry
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport.requests import EVERYWHERE
from tf_operator.meta import rfc3339

pytestmark = [ONE_BROWSER, pytest.mark.timeout(400)]

JOBS = 1000
PAINTED_MILLISECONDS = 1000
HEAP_BYTES = 60_000_000
PAINT = """new Promise(done => new PerformanceObserver(list => done(list.getEntries().at(-1).startTime))
    .observe({type: "largest-contentful-paint", buffered: true}))"""


def report(cluster: EmbeddedJobs, number: int, step: int) -> None:
    """The program of a job has reported."""
    metrics = [{"name": "loss", "value": str(1 / step)}]
    time = rfc3339(cluster.clock.now() + timedelta(seconds=step))
    status = {"progressPercentage": step, "step": step, "metrics": metrics, "lastUpdatedTime": time}
    cluster.report(f"job-{number}", "Running", trainerStatus=status)


@pytest_asyncio.fixture(loop_scope="module")
async def cluster() -> EmbeddedJobs:
    embedded = EmbeddedJobs(SystemClock())
    for number in range(JOBS):
        embedded.job(f"job-{number}")
        report(embedded, number, 1)
    return embedded


@pytest_asyncio.fixture(loop_scope="module")
async def link(cluster: EmbeddedJobs) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        guard = BrowserGuard(listener.getsockname()[1])
        async with cluster.client() as jobs:
            table = board.of({registry.DEFAULT: (EVERYWHERE,)}, client=jobs.client, clock=cluster.clock, title="many")
            following = asyncio.ensure_future(table.run())
            async with site.serving(listener, guard=guard, board=table, connect=jobs.of_kind, clock=cluster.clock):
                yield guard.url
            following.cancel()


async def test_a_thousand_jobs_are_soon_seen_in_little_memory(
    cluster: EmbeddedJobs, link: str, visitor: Visitor
) -> None:
    page = await visitor.open(link)
    await page.get_by_text(f"{JOBS} jobs").wait_for()
    assert await page.evaluate(PAINT) < PAINTED_MILLISECONDS
    for step in range(2, 31):
        for number in range(0, JOBS, 10):
            report(cluster, number, step)
        await asyncio.sleep(0.02)
    await page.get_by_label("Search").fill("job-990")
    await page.get_by_role("row", name=re.compile("job-990 Running .* 30 % loss 0.03333")).wait_for()
    await page.get_by_label("Search").fill("")
    assert await page.get_by_role("row").count() == 101
    assert await audit(page) == []

    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Performance.enable")
    await devtools.send("HeapProfiler.collectGarbage")
    metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
    used = {metric["name"]: metric["value"] for metric in metrics}["JSHeapUsedSize"]
    assert used < HEAP_BYTES
