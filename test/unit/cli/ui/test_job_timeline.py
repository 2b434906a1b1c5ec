"""The picture of a job's life: lanes with what is known of the job and its pods."""

from datetime import timedelta

import pytest

from support.embedded.embedded_jobs import PODS, EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli.ui import job_timeline
from tf_operator.client.explanation import reading
from tf_operator.job.curves import Saved


def at(second):
    return f"2026-01-01T00:00:{second:02}Z"


@pytest.fixture
def cluster():
    return EmbeddedJobs(FakeClock())


async def picture(cluster, *checkpoints):
    async with cluster.client() as jobs:
        situation = await reading.read(jobs, await jobs.get("j"), cluster.clock.now() + timedelta(seconds=30))
    return job_timeline.picture(situation, checkpoints)


def lanes(shown):
    return {lane["name"]: (list(map(tuple, lane["spans"])), list(map(tuple, lane["marks"]))) for lane in shown["lanes"]}


async def test_a_job_that_waits_has_a_lane(cluster):
    cluster.job("j")
    shown = await picture(cluster)

    assert (shown["begin"], shown["end"], shown["more"]) == (at(0), at(30), 0)
    assert lanes(shown) == {"job": ([(at(0), None, "idle", "waits")], [])}


async def test_a_restart_in_place_a_failure_and_a_checkpoint_are_seen(cluster):
    job = cluster.job("j")
    before = {"exitCode": 137, "startedAt": at(2), "finishedAt": at(5)}
    status = {"name": "tensorflow", "restartCount": 1, "lastState": {"terminated": before}}
    statuses = [status | {"state": {"running": {"startedAt": at(7)}}}]
    cluster.pod(job, "worker-0", containerStatuses=statuses)
    first = {"pod": "j-worker-0", "exitCode": 137, "time": at(5)}
    times = {"startTime": at(1), "firstRunTime": at(2)}
    cluster.report("j", "Running", **times, firstFailure=first)
    cluster.event(cluster.find(PODS, "j-worker-0"), "BackOff", "no \u202e<b>")
    shown = lanes(await picture(cluster, Saved(cluster.clock.now() + timedelta(seconds=9), 300)))

    spans, marks = shown["job"]
    assert spans[-1][1:] == (None, "run", "runs")
    assert marks == [(at(5), "bad", "first failure: j-worker-0"), (at(9), "saved", "checkpoint of step 300")]
    spans, marks = shown["worker-0"]
    assert spans == [
        (at(0), at(2), "idle", "starts"),
        (at(2), at(5), "bad", "exited with code 137"),
        (at(5), at(7), "idle", "starts"),
        (at(7), None, "run", "runs"),
    ]
    assert [mark[1:] for mark in marks] == [("warn", "BackOff: no ?<b>")]


async def test_a_job_that_is_put_aside_waits_again(cluster):
    suspended = {"type": "Suspended", "status": "True", "lastTransitionTime": at(9)}
    cluster.job("j", status={"conditions": [suspended], "startTime": at(1), "allRunningTime": at(2)})
    spans, _ = lanes(await picture(cluster))["job"]

    assert spans[-1] == (at(9), None, "idle", "suspended")
    assert all(span[1] for span in spans[:-1])


async def test_a_large_job_has_some_lanes_and_an_object_with_many_events_some_marks(cluster):
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    job = cluster.job("j", tfReplicaSpecs={"Worker": {"replicas": 30, "template": template}})
    for index in range(30):
        cluster.pod(job, f"worker-{index}", "Pending")
    for number in range(80):
        cluster.event(job, "Odd", f"{number}")
    shown = await picture(cluster)

    assert (len(shown["lanes"]), shown["more"]) == (21, 10)
    assert len(shown["lanes"][0]["marks"]) == 50
