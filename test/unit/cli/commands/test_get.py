"""``tfjob get -w``: jobs as they change."""

import asyncio
import json

import pytest

from support.embedded.embedded_jobs import TFJOBS, EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli import main
from tf_operator.cli.commands import get
from tf_operator.machinery.transport import requests
from tf_operator.meta import ObjectKey


@pytest.fixture
async def watch(capsys):
    """A cluster with jobs ``a`` and ``b``, and a function that watches them, and returns what is printed."""
    cluster = EmbeddedJobs(FakeClock())
    cluster.job("a")
    cluster.job("b")
    tasks = []

    async def follow(line, *names):
        arguments = main.make_parser("get").parse_args(["get", *line.split()])
        async with cluster.client() as jobs:
            await get.watch(jobs, arguments, names, clock=cluster.clock)

    async def begin(line, *names):
        tasks.append(asyncio.ensure_future(follow(line, *names)))
        await cluster.clock.idle()

        async def printed():
            await cluster.clock.idle()
            return capsys.readouterr()

        return printed

    yield cluster, begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def names_of(text: str) -> list[list[str]]:
    return [line.split()[:2] for line in text.splitlines()]


async def test_jobs_are_printed_and_each_again_when_something_that_is_shown_changes(watch):
    cluster, begin = watch
    printed = await begin("-w")
    assert names_of((await printed()).out) == [["NAME", "STATE"], ["a", "-"], ["b", "-"]]

    cluster.report("b", "Running")
    assert names_of((await printed()).out) == [["b", "Running"]]

    cluster.report("b", "Running", startTime="2026-01-01T00:00:00Z")
    assert (await printed()).out == ""

    cluster.job("a-much-longer-name")
    cluster.report("a", "Failed")
    new, failed = (await printed()).out.splitlines()
    assert new.index(" - ") + 1 == failed.index("Failed")


async def test_only_those_that_are_named_are_printed(watch):
    cluster, begin = watch
    printed = await begin("a -w -o name", "a")
    cluster.report("a", "Running")
    cluster.report("b", "Running")

    assert (await printed()).out == "tfjob.kubeflow.org/a\n" * 2


async def test_whole_objects_are_printed_after_each_change(watch):
    _, begin = watch
    printed = await begin("-w -o json -l no=such")
    assert (await printed()).out == ""
    printed = await begin("a -w -o json", "a")
    assert json.loads((await printed()).out)["metadata"]["name"] == "a"
    printed = await begin("a -w -o yaml", "a")
    assert (await printed()).out.startswith("---\napiVersion: kubeflow.org/v1\n")


async def test_a_job_that_is_deleted_is_said_beside_the_table(watch):
    cluster, begin = watch
    printed = await begin("-w")
    await printed()
    uid = cluster.find(TFJOBS, "a")["metadata"]["uid"]
    cluster._send(requests.delete(TFJOBS, ObjectKey("default", "a"), uid=uid))

    output, notes = await printed()
    assert (output, notes) == ("", "TFJob default/a was deleted\n")
