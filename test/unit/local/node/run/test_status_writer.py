"""When a status counts as written, and what becomes of requests that fail."""

import asyncio
from types import SimpleNamespace

import pytest

from tf_operator.local.node.pod import pod_of
from tf_operator.local.node.run.status_writer import PodStatusWriter
from tf_operator.machinery.transport import errors

BODY = {"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1"}}


async def test_a_read_that_fails_after_a_conflict_is_repeated(clock):
    answers = [errors.Conflict(409, errors.Status()), errors.ServerFailed(500, errors.Status()), BODY]

    async def answer(*_request, **_options):
        reply = answers.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    parts = SimpleNamespace(client=SimpleNamespace(merge_patch=answer, get=answer), clock=clock)
    writer = PodStatusWriter(parts, pod_of(BODY))
    running = asyncio.create_task(writer.run())
    writer.want(lambda _body: {"phase": "Failed"})
    await clock.advance(1)
    assert answers == []
    await writer.wait_written()
    running.cancel()


@pytest.mark.parametrize("refusal", [errors.NotFound(404, errors.Status()), errors.Conflict(409, errors.Status())])
async def test_of_a_pod_that_is_gone_every_status_counts_as_written(clock, refusal):
    patches = []

    async def merge_patch(*request, **_options):
        patches.append(request)
        raise refusal

    async def get(*_request):
        raise errors.NotFound(404, errors.Status())

    parts = SimpleNamespace(client=SimpleNamespace(merge_patch=merge_patch, get=get), clock=clock)
    writer = PodStatusWriter(parts, pod_of(BODY))
    running = asyncio.create_task(writer.run())
    for phase in ("Running", "Failed"):
        writer.want(lambda _body, phase=phase: {"phase": phase})
        async with asyncio.timeout(30):
            await writer.wait_written()
    assert len(patches) == 2
    running.cancel()
