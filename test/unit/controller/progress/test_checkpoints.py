"""A program that was started again and does not go on from its last checkpoint: its job says so, once."""

from datetime import UTC, datetime

import pytest

from support.embedded.controller_harness import KEY, Harness
from support.embedded.progress import intake_of
from support.jobs.builders import tfjob
from tf_operator.controller import resources
from tf_operator.controller.progress.intake import Outcome, TokenOwner
from tf_operator.job.progress import Checkpoint, Progress
from tf_operator.machinery.transport import requests
from tf_operator.meta import ObjectKey

POD = f"{KEY.name}-worker-0"
MOMENT = datetime(2026, 3, 1, 8, 10, tzinfo=UTC)
MESSAGE = "resumed from step 7, although there is a checkpoint of step 3400 in /data"


@pytest.fixture
def harness():
    return Harness(tfjob(KEY.name).workers(2, restart="OnFailure"))


@pytest.fixture(params=["a pod", "no pod"])
def owner(request, harness):
    """Whose token comes with a report: without a cluster, it is the job's."""

    def of_now():
        pod = harness.caches.pods.store.get(ObjectKey(KEY.namespace, POD)).pod
        job = TokenOwner(harness.job["metadata"]["uid"])
        return job if request.param == "no pod" else TokenOwner(pod_uid=pod.uid, namespace=KEY.namespace)

    return of_now


async def begin(harness):
    harness.sync()
    await harness.settle()
    harness.set_pod(POD, phase="Running")
    harness.sync()
    await harness.settle()


async def report(harness, owner, **fields):
    assert intake_of(harness).take(KEY, owner(), Progress(time=MOMENT, **fields)) is Outcome.TAKEN
    await harness.clock.advance(1)
    await harness.settle()


async def save(harness, owner):
    """A run that has reported a checkpoint, which is in the status."""
    await begin(harness)
    await report(harness, owner, step=10)
    await report(harness, owner, step=3500, checkpoint=Checkpoint(3400, MOMENT, "/data"))
    await harness.clock.advance(30)
    await harness.settle()


async def replace_pod(harness):
    pod = harness.caches.pods.store.get(ObjectKey(KEY.namespace, POD)).pod
    harness.api.send(requests.delete(resources.PODS, ObjectKey(KEY.namespace, POD), uid=pod.uid))
    await begin(harness)


async def restart_in_place(harness):
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-03-01T08:09:00Z"}}
    running = {"running": {"startedAt": "2026-03-01T08:09:01Z"}}
    status = {"name": "tensorflow", "restartCount": 1, "state": running, "lastState": ended}
    harness.set_pod(POD, containerStatuses=[status])
    harness.sync()
    await harness.settle()


def told(harness, reason="ResumedBehindCheckpoint"):
    return [event for event in harness.recorder.events if event[1] == reason]


async def test_a_checkpoint_is_in_the_status_within_half_a_minute(harness, owner):
    await save(harness, owner)

    status = harness.job["status"]
    assert status["checkpoint"] == {"step": 3400, "time": "2026-03-01T08:10:00Z", "path": "/data"}
    assert "resumedFromStep" not in status


@pytest.mark.parametrize("restart", [replace_pod, restart_in_place])
@pytest.mark.parametrize("fields", [{"step": 7}, {"step": 9000, "resumed_from": 7}], ids=["step", "field"])
async def test_a_restart_from_behind_the_checkpoint_is_told_once_with_the_first_report(harness, owner, restart, fields):
    await save(harness, owner)
    await restart(harness)
    assert not told(harness)

    await report(harness, owner, **fields)
    assert told(harness) == [("Warning", "ResumedBehindCheckpoint", MESSAGE)]
    assert harness.counts.told.count("resumed behind ns") == 1
    assert harness.job["status"].get("resumedFromStep") == fields.get("resumed_from")

    await report(harness, owner, step=8)
    harness.notes.progress_reports.begin_term()  # another process leads, which knows the status
    await report(harness, owner, **fields)
    assert len(told(harness)) == 1


async def test_what_is_told_is_not_lost_when_something_else_has_the_status_written(harness, owner, monkeypatch):
    await save(harness, owner)
    await replace_pod(harness)
    monkeypatch.setattr(harness.notes.progress_reports, "_interval", lambda _: 1000.0)
    await report(harness, owner, step=7)
    assert not told(harness)

    harness.edit_job({"spec": {"runPolicy": {"ttlSecondsAfterFinished": 7}}})
    harness.sync()
    await harness.settle()
    assert len(told(harness)) == 1


@pytest.mark.parametrize("restart", [replace_pod, restart_in_place])
@pytest.mark.parametrize("fields", [{"step": 3400}, {"step": 7, "resumed_from": 3400}], ids=["step", "field"])
async def test_a_restart_that_goes_on_from_the_checkpoint_is_not_told(harness, owner, restart, fields):
    await save(harness, owner)
    await restart(harness)
    await report(harness, owner, **fields)
    await report(harness, owner, step=7)

    assert not told(harness)


async def test_a_program_that_saves_again_before_its_kubelet_has_reported_the_restart_has_not_begun_behind(
    harness, owner
):
    await save(harness, owner)
    await report(harness, owner, step=3500, resumed_from=3400, checkpoint=Checkpoint(3500, MOMENT, "/data"))
    await restart_in_place(harness)
    await report(harness, owner, step=3600, resumed_from=3400)
    assert not told(harness)

    await replace_pod(harness)
    await report(harness, owner, step=3600, resumed_from=3400)
    assert len(told(harness)) == 1


@pytest.mark.parametrize("owner", ["no pod"], indirect=True)
async def test_a_last_report_of_a_program_that_is_being_stopped_is_not_that_of_another_run(harness, owner):
    await save(harness, owner)
    await report(harness, owner, step=3600, resumed_from=0)
    key = ObjectKey(KEY.namespace, POD)
    harness.api.send(requests.merge_patch(resources.PODS, key, {"metadata": {"finalizers": ["its/kubelet"]}}))
    harness.api.send(requests.delete(resources.PODS, key, uid=harness.caches.pods.store.get(key).pod.uid))
    harness.sync()
    assert harness.caches.pods.store.get(key).pod.is_terminating
    await report(harness, owner, step=3700, resumed_from=0)

    assert not told(harness)


async def test_a_save_that_takes_longer_than_pods_have_to_stop_is_told_once(harness, owner):
    await save(harness, owner)
    await report(harness, owner, percentage=7, step=3600, longest_save=30)
    await harness.clock.advance(60)
    await harness.settle()
    assert harness.job["status"]["longestSaveSeconds"] == 30
    assert not told(harness, "GraceTooShort")

    for seconds in (31, 3, 95):
        await report(harness, owner, percentage=7, step=3600 + seconds, longest_save=seconds)
        await harness.clock.advance(60)
        await harness.settle()
    assert harness.job["status"]["longestSaveSeconds"] == 95
    message = (
        "saving a checkpoint took 31 s, and a pod that is evicted or deleted is killed after 30 s:"
        " set spec.tfReplicaSpecs.Worker.template.spec.terminationGracePeriodSeconds to more than 31"
    )
    assert told(harness, "GraceTooShort") == [("Warning", "GraceTooShort", message)]

    harness.notes.progress_reports.begin_term()  # another process leads, which knows the status
    await replace_pod(harness)
    await report(harness, owner, step=3700, longest_save=40)
    await harness.clock.advance(60)
    await harness.settle()
    assert harness.job["status"]["longestSaveSeconds"] == 95
    assert len(told(harness, "GraceTooShort")) == 1
