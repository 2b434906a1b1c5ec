"""The room of a single machine: how much of it is asked for, and what jobs that wait in the queue wait for."""

import asyncio
import json

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli.ui import room
from tf_operator.cli.ui.room import RoomCursor, RoomFeed
from tf_operator.client import queue_notes
from tf_operator.machinery.transport import errors

GPU = "nvidia.com/gpu"
NODE = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", GPU: "4", "pods": "110", "hugepages-1Gi": "0"}}}


def pod(name, owner="", *, phase="Running", **requests):
    owners = [{"kind": "TFJob", "name": owner, "uid": "u", "controller": True}] if owner else []
    containers = [
        {"name": "c", "resources": {"requests": {GPU if key == "gpu" else key: v for key, v in requests.items()}}}
    ]
    return {
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"nodeName": "n", "containers": containers},
        "status": {"phase": phase},
    }


def test_what_pods_ask_for_is_a_share_of_what_the_machine_has():
    pods = [
        pod("a-0", "a\u202e", cpu="500m", memory="2Gi", gpu="2"),
        pod("b", gpu="1"),
        pod("c", "c", phase="Succeeded", gpu="1"),
    ]
    amounts = list(room.resources_of(NODE, pods))

    assert [each["name"] for each in room.resources_of(NODE, [])] == [GPU]
    assert amounts == [
        {"name": GPU, "share": 75, "text": "3 of 4", "holders": ["a?", "b"]},
        {"name": "cpu", "share": 12, "text": "0.5 of 4", "holders": ["a?"]},
        {"name": "memory", "share": 25, "text": "2.0 GiB of 8.0 GiB", "holders": ["a?"]},
    ]


@pytest.fixture
def cluster():
    return EmbeddedJobs(FakeClock())


async def shown(cluster, jobs, *, has_waiting=True):
    feed = RoomFeed(jobs, lambda: has_waiting, cluster.clock)
    running = asyncio.ensure_future(feed.run())
    await cluster.clock.idle()
    cursor = RoomCursor(feed)
    news = [json.loads(frame.partition(b"data: ")[2]) for frame in cursor.news()]
    assert cursor.news() == []
    running.cancel()
    return news


async def test_a_job_in_the_queue_says_who_has_what_it_waits_for(cluster, monkeypatch):
    limits = {"containers": [{"name": "tensorflow", "image": "i", "resources": {"limits": {GPU: 2}}}]}
    cluster.job("j", tfReplicaSpecs={"Worker": {"replicas": 1, "template": {"spec": limits}}})
    cluster.report("j", "Queued")

    async def machine(_client):
        return NODE, [pod("a-0", "a", gpu="3")]

    monkeypatch.setattr(queue_notes, "machine", machine)
    async with cluster.client() as jobs:
        (line,) = await shown(cluster, jobs)
        assert line["notes"] == {"tfjob.kubeflow.org/default/j": f"waits for 2 {GPU}; 1 of 4 are free; a has them"}
        (line,) = await shown(cluster, jobs, has_waiting=False)
        assert line["notes"] == {}


async def test_of_a_cluster_and_to_who_may_not_read_nodes_nothing_is_said(cluster, monkeypatch):
    async with cluster.client() as jobs:
        assert await shown(cluster, jobs) == []

        async def machine(_client):
            raise errors.Forbidden(403, errors.Status(message="no"))

        monkeypatch.setattr(queue_notes, "machine", machine)
        assert await shown(cluster, jobs) == []


async def test_a_server_that_is_away_for_a_moment_leaves_what_is_shown(cluster, monkeypatch):
    replies = [(NODE, [pod("a", gpu="1")]), errors.NoReply("gone"), (NODE, [pod("a", gpu="2")])]

    async def machine(_client):
        if isinstance(reply := replies.pop(0), Exception):
            raise reply
        return reply

    monkeypatch.setattr(queue_notes, "machine", machine)
    async with cluster.client() as jobs:
        feed = RoomFeed(jobs, lambda: False, cluster.clock)
        running = asyncio.ensure_future(feed.run())
        texts = []
        for _ in range(3):
            await cluster.clock.idle()
            texts.append(feed.text)
            await cluster.clock.advance(5)
        running.cancel()
    assert [b"1 of 4" in texts[0], texts[1] == texts[0], b"2 of 4" in texts[2]] == [True, True, True]
