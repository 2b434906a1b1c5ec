"""Reconciles of one job, by the parts of the process, with a fake apiserver and caches that lag."""

from contextlib import suppress
from itertools import pairwise

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from support.embedded.controller_harness import JOBS, KEY, Harness
from support.embedded.embedded_api import refused
from support.jobs import builders
from tf_operator.controller import resources
from tf_operator.machinery.cache.consistency import OwnerKey
from tf_operator.machinery.transport import errors, requests
from tf_operator.meta import ObjectKey, rfc3339
from tf_operator.planning.snapshot import Settings
from tf_operator.projections.pod_events import EVENTS

SIMPLE = builders.tfjob("j").chief().workers(1, restart="OnFailure").clean_pods("All")
RUNNING = {"phase": "Running", "containerStatuses": [{"name": "tensorflow", "state": {"running": {}}}]}


def ended(code):
    phase = "Failed" if code else "Succeeded"
    state = {"terminated": {"exitCode": code}}
    return {"phase": phase, "containerStatuses": [{"name": "tensorflow", "state": state}]}


def conditions(harness):
    return [f"{entry['type']}={entry['status']}" for entry in harness.job.get("status", {}).get("conditions", [])]


async def test_a_key_that_no_job_has_is_nothing_to_do():
    assert await Harness().reconcile() is None


async def test_every_service_is_made_before_its_pod_and_the_status_last():
    harness = Harness(SIMPLE)

    await harness.settle()

    creates = [call for call in harness.api.calls if call.startswith("create")]
    assert sorted(creates) == [
        "create pods j-chief-0",
        "create pods j-worker-0",
        "create services j-chief-0",
        "create services j-worker-0",
    ]
    for name in ("j-chief-0", "j-worker-0"):
        assert creates.index(f"create services {name}") < creates.index(f"create pods {name}")
    assert harness.api.calls[-1] == "patch tfjobs.kubeflow.org j/status"
    assert conditions(harness) == ["Created=True"]
    assert harness.recorder.events == [("Normal", "SuccessfulCreatePod", "Created 2 pods: j-chief-0, j-worker-0")]
    assert harness.counts.told == ["created ns"]


@pytest.mark.parametrize("cache", ["jobs", "pods", "services"])
async def test_a_job_is_left_alone_while_a_new_leader_may_not_see_what_is_in_its_namespace(cache):
    """The job may have ended, and its pods be gone; with one old list and one new they would be made again."""
    harness = Harness(SIMPLE)
    getattr(harness.caches, cache).lacking = True

    assert await harness.reconcile() == 10
    assert harness.api.calls == []

    getattr(harness.caches, cache).lacking = False
    await harness.reconcile()
    assert "create pods j-chief-0" in harness.api.calls


async def test_a_reconcile_waits_until_the_caches_show_what_the_last_one_wrote():
    harness = Harness(SIMPLE)
    await harness.reconcile()
    calls = len(harness.api.calls)

    wait = await harness.reconcile()

    assert wait > 5
    assert len(harness.api.calls) == calls, "nothing was decided from caches that are behind"


async def test_caches_that_stay_behind_are_replaced_by_a_live_read():
    harness = Harness(SIMPLE)
    await harness.reconcile()
    await harness.clock.advance(20)

    await harness.reconcile()

    assert "get tfjobs.kubeflow.org j" in harness.api.calls
    assert any(call.startswith("list pods training.kubeflow.org/job-name=j") for call in harness.api.calls)
    assert sum(call.startswith("create") for call in harness.api.calls) == 4, "nothing was made a second time"


@pytest.mark.parametrize("is_replaced", [True, False], ids=["another job of the name", "no job"])
async def test_a_live_read_that_does_not_find_the_job_does_nothing(is_replaced):
    harness = Harness(SIMPLE)
    await harness.reconcile()
    if is_replaced:
        harness.api.put(JOBS, {**harness.job, "metadata": {**harness.job["metadata"], "uid": "another"}})
    else:
        harness.api.remove(JOBS, KEY)
    await harness.clock.advance(20)
    creates = sum(call.startswith("create") for call in harness.api.calls)

    assert await harness.reconcile() is None

    assert sum(call.startswith("create") for call in harness.api.calls) == creates


async def test_a_failure_is_written_down_before_its_pod_is_deleted():
    harness = Harness(SIMPLE)
    await harness.settle()
    harness.set_pod("j-chief-0", **RUNNING)
    harness.set_pod("j-worker-0", **ended(1))
    harness.sync()
    harness.api.calls.clear()

    await harness.reconcile()

    assert harness.api.calls == ["patch tfjobs.kubeflow.org j/status", "delete pods j-worker-0"]
    assert harness.counts.told[-1] == "restarted ns Worker failed"
    assert harness.recorder.events[-1][1] == "TFJobRestarting"


async def test_a_pod_that_ends_before_its_delete_arrives_stays_readable():
    """The policy Running is about what runs when it is deleted, and not about what ran when that was decided."""
    harness = Harness(builders.tfjob("j").chief().workers(2).clean_pods("Running"))
    await harness.settle()
    for name in ("j-chief-0", "j-worker-0", "j-worker-1"):
        harness.set_pod(name, **RUNNING)
    harness.sync()
    await harness.settle()
    harness.set_pod("j-chief-0", **ended(0))
    harness.sync()
    harness.set_pod("j-worker-0", **ended(0))  # what the cache does not know yet

    assert await harness.reconcile() == 0
    assert [pod["metadata"]["name"] for pod in harness.api.of(resources.PODS)] == ["j-chief-0", "j-worker-0"]
    await harness.reconcile()

    assert [pod["metadata"]["name"] for pod in harness.api.of(resources.PODS)] == ["j-chief-0", "j-worker-0"]
    assert harness.api.calls.count("delete pods j-worker-0") == 1


async def test_a_conflict_leaves_everything_as_it_was():
    """The status could not be written down, so nothing may be deleted, told or counted."""
    harness = Harness(SIMPLE)
    await harness.settle()
    harness.set_pod("j-worker-0", **ended(1))
    harness.sync()
    harness.api.put(JOBS, {**harness.job, "metadata": {**harness.job["metadata"], "labels": {"a": "b"}}})
    harness.api.calls.clear()
    events = list(harness.recorder.events)

    with pytest.raises(errors.Conflict):
        await harness.reconcile()

    assert harness.api.calls == ["patch tfjobs.kubeflow.org j/status"]
    assert harness.recorder.events == events


async def test_a_whole_life_ends_with_no_child_left():
    harness = Harness(SIMPLE)
    await harness.settle()
    for name in ("j-chief-0", "j-worker-0"):
        harness.set_pod(name, **RUNNING)
    harness.sync()
    await harness.settle()
    assert conditions(harness) == ["Created=True", "Running=True"]

    harness.set_pod("j-chief-0", **ended(0))
    harness.sync()
    harness.api.calls.clear()
    await harness.settle()

    assert conditions(harness) == ["Created=True", "Running=False", "Succeeded=True"]
    assert harness.api.of(resources.PODS) == harness.api.of(resources.SERVICES) == []
    assert [call.split()[0] for call in harness.api.calls] == ["patch", "delete", "delete", "deletecollection"]
    assert "succeeded ns" in harness.counts.told
    assert harness.pending_writes.owners == 0


async def test_a_pod_that_vanished_is_known_by_its_last_state():
    """Nobody has to see the pod itself: its failure, and that it succeeded, are in the event of its deletion."""
    harness = Harness(builders.tfjob("j").workers(2, restart="OnFailure").success_policy("AllWorkers"))
    await harness.settle()
    harness.set_pod("j-worker-1", **ended(0))
    harness.sync()
    harness.api.remove(resources.PODS, ObjectKey("ns", "j-worker-1"))
    harness.sync()

    await harness.settle()

    assert harness.job["status"]["replicaStatuses"]["Worker"]["completedIndexes"] == "1"
    assert [body["metadata"]["name"] for body in harness.api.of(resources.PODS)] == ["j-worker-0"]
    assert harness.notes.departed_pods.of(harness.job["metadata"]["uid"]) == ()


async def test_deadlines_count_although_every_create_fails_on_the_server():
    harness = Harness(builders.tfjob("j").workers(1).deadline(60))
    harness.api.fail("create services", *[refused(500, "InternalError", "no quota controller")] * 100)

    for _ in range(100):
        with suppress(errors.ApiError):
            await harness.reconcile()
        harness.sync()
        await harness.clock.advance(1)

    assert conditions(harness)[-1] == "Failed=True"
    assert harness.job["status"]["conditions"][-1]["reason"] == "TFJobDeadlineExceeded"


async def test_a_job_is_looked_at_when_somebody_takes_its_pod_away_from_it():
    harness = Harness(builders.tfjob("j").workers(1))
    await harness.settle()
    (pod,) = harness.caches.pods.store

    harness.on_pod.on_update(pod, structs.replace(pod, owner=""))

    assert harness.queue.delayed == 1


async def test_a_refused_create_is_told_and_tried_again_with_growing_delays():
    harness = Harness(builders.tfjob("j").workers(1))
    quota = refused(403, "Forbidden", "exceeded quota: gpus")
    harness.api.fail("create pods", *[quota] * 3)

    times = []
    for _ in range(40):
        call_count = len(harness.api.calls)
        wait = await harness.reconcile()
        if "create pods j-worker-0" in harness.api.calls[call_count:]:
            times.append(harness.clock.monotonic())
        harness.sync()
        if harness.api.of(resources.PODS):
            break
        await harness.clock.advance(wait or 0.1)

    delays = [later - earlier for earlier, later in pairwise(times)]
    assert [round(delay) for delay in delays] == [1, 2, 4]
    events = [event for event in harness.recorder.events if event[1] == "FailedCreatePod"]
    assert events == [("Warning", "FailedCreatePod", "pod j-worker-0 was rejected: exceeded quota: gpus")]
    await harness.settle()
    assert harness.notes.rejections.get(harness.job["metadata"]["uid"]) is None
    assert "refused" not in harness.job["status"]["conditions"][-1]["message"]


async def test_a_create_that_can_never_be_accepted_fails_the_job():
    harness = Harness(builders.tfjob("j").workers(1))
    harness.api.fail("create pods", refused(422, "Invalid", "spec.containers[0].image: Required value"))

    await harness.settle()

    failed = harness.job["status"]["conditions"][-1]
    assert (failed["type"], failed["reason"]) == ("Failed", "TFJobInvalidSpec")
    assert "spec.containers[0].image" in failed["message"]
    assert "failed ns TFJobInvalidSpec" in harness.counts.told


async def test_a_child_of_ours_that_is_there_already_is_taken_as_made():
    """The reply to the create was lost, and the write had been carried out."""
    harness = Harness(builders.tfjob("j").workers(1))
    await harness.settle()
    uids = [body["metadata"]["uid"] for body in harness.api.of(resources.PODS)]

    again = builders.pod("j-worker-0").in_namespace("ns").body()
    await harness.executor.writer.create(_owner(harness), resources.PODS, again)

    assert [body["metadata"]["uid"] for body in harness.api.of(resources.PODS)] == uids


OPERATOR, JOB_NAME = "training.kubeflow.org/operator-name", "training.kubeflow.org/job-name"


def label(harness, name, labels):
    """As kubectl label --overwrite."""
    request = requests.merge_patch(resources.PODS, ObjectKey("ns", name), {"metadata": {"labels": labels}})
    harness.api.send(request)
    harness.sync()


async def a_minute(harness):
    """In which others write, too, and some replies are lost."""
    for _ in range(12):
        harness.api.put(resources.PODS, {"metadata": {"name": "other", "namespace": "ns"}})
        harness.sync()
        with suppress(errors.ReplyLost):
            await harness.reconcile()
        harness.sync()
        await harness.clock.advance(5)


@pytest.mark.parametrize("restart", ["Never", "OnFailure", "Always", "ExitCode"])
@pytest.mark.parametrize(
    "labels",
    [{JOB_NAME: "debug"}, {OPERATOR: None}, {OPERATOR: "mine"}, {JOB_NAME: None, OPERATOR: None}],
    ids=["another job", "no operator", "another operator", "no label"],
)
async def test_a_pod_that_has_lost_a_label_is_not_lost(labels, restart):
    """Also when the reply to the create of another pod is lost, and all is read live."""
    harness = Harness(builders.tfjob("j").chief(restart=restart).workers(1).dynamic_workers())
    await harness.settle()
    for name in ("j-chief-0", "j-worker-0"):
        harness.set_pod(name, **RUNNING)
    harness.sync()
    await harness.settle()
    chief = _uid(harness, "j-chief-0")

    label(harness, "j-chief-0", labels)
    harness.api.lose("create pods j-worker-0", errors.ReplyLost("the connection is gone"))
    harness.api.remove(resources.PODS, ObjectKey("ns", "j-worker-0"))
    harness.sync()
    await a_minute(harness)
    harness.set_pod("j-worker-0", **RUNNING)
    await a_minute(harness)

    assert _uid(harness, "j-chief-0") == chief
    assert conditions(harness) == ["Created=True", "Running=True"]
    assert not any("chief" in event[2] for event in harness.recorder.events if event[0] == "Warning")
    advice = f"Without the label {OPERATOR}=tfjob-controller, pod j-chief-0 cannot be watched; put the label back."
    assert (advice in harness.job["status"]["conditions"][-1]["message"]) is (OPERATOR in labels)


async def test_the_end_of_a_pod_that_cannot_be_watched_is_seen_all_the_same():
    harness = Harness(builders.tfjob("j").workers(1))
    await harness.settle()
    harness.set_pod("j-worker-0", **RUNNING)
    harness.sync()
    await harness.settle()
    label(harness, "j-worker-0", {OPERATOR: None})
    await a_minute(harness)
    wait = await harness.reconcile()
    harness.set_pod("j-worker-0", **ended(0))

    await harness.clock.advance(30)
    await harness.reconcile()

    assert wait == 30
    assert conditions(harness)[-1] == "Succeeded=True"


async def test_a_pod_that_has_lost_its_label_before_it_ran_is_named_until_the_label_is_back():
    harness = Harness(builders.tfjob("j").workers(2))
    await harness.settle()
    uids = [body["metadata"]["uid"] for body in harness.api.of(resources.PODS)]
    label(harness, "j-worker-0", {OPERATOR: None})
    another = Harness(world=harness.api)  # it has not seen the pod go
    another.sync()

    await a_minute(another)
    message = another.job["status"]["conditions"][-1]["message"]
    label(another, "j-worker-0", {OPERATOR: "tfjob-controller"})
    another.on_pod.on_add(next(pod for pod in another.caches.pods.store if pod.pod.index == 0))
    await another.settle()

    assert f"it is there, without the label {OPERATOR}=tfjob-controller; put the label back" in message
    assert "label" not in another.job["status"]["conditions"][-1]["message"]
    assert [body["metadata"]["uid"] for body in another.api.of(resources.PODS)][:2] == uids


async def test_a_service_that_has_lost_its_label_holds_nothing_up():
    harness = Harness(builders.tfjob("j").workers(2, restart="OnFailure"))
    await harness.settle()
    for name in ("j-worker-0", "j-worker-1"):
        request = requests.merge_patch(resources.SERVICES, ObjectKey("ns", name), {"metadata": {"labels": None}})
        harness.api.send(request)
    harness.api.remove(resources.PODS, ObjectKey("ns", "j-worker-1"))

    await a_minute(harness)

    assert harness.api.find(resources.PODS, ObjectKey("ns", "j-worker-1"))
    assert harness.notes.rejections.get(harness.job["metadata"]["uid"]) is None


def event_about(uid, number, message, **fields):
    return {
        "metadata": {"name": f"e{number}", "namespace": "ns"},
        "involvedObject": {"kind": "Pod", "name": "j-worker-0", "namespace": "ns", "uid": uid},
        "type": "Warning",
        "reason": "FailedMount",
        "message": message,
        "lastTimestamp": f"2026-03-01T08:00:0{number}Z",
    } | fields


@pytest.mark.parametrize("may_read", [True, False], ids=["events may be read", "events may not be read"])
async def test_what_keeps_a_pod_from_starting_is_said_with_the_words_of_its_events(may_read):
    harness = Harness(builders.tfjob("j").workers(1))
    await harness.settle()
    uid = _uid(harness, "j-worker-0")
    for body in (
        event_about(uid, 1, "an older one"),
        event_about(uid, 3, 'MountVolume.SetUp failed for volume "c": configmap "c" not found'),
        event_about(uid, 5, "Successfully assigned", type="Normal"),
        event_about("another", 9, "of a pod of before"),
        event_about(uid, 2, ["no text"]),
    ):
        harness.api.put(EVENTS, body)
    if not may_read:
        harness.api.fail("list events", *[refused(403, "Forbidden", "no")] * 9)
    since = rfc3339(harness.clock.now())
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
    waiting = {"name": "tensorflow", "state": {"waiting": {"reason": "ContainerCreating"}}}
    harness.set_pod("j-worker-0", phase="Pending", conditions=[scheduled], containerStatuses=[waiting])
    harness.sync()
    await harness.settle()
    await harness.clock.advance(121)
    with capture_logs() as logs:
        await harness.settle()
    assert ("the events of a pod cannot be read" in [entry["event"] for entry in logs]) is not may_read
    lists = harness.api.calls.count("list events")
    await harness.clock.advance(600)
    await harness.settle()

    cause = ' (FailedMount: MountVolume.SetUp failed for volume "c": configmap "c" not found)' if may_read else ""
    message = f"worker-0 (pod j-worker-0) waits: ContainerCreating{cause} for more than 2 min"
    assert harness.recorder.events[-1] == ("Warning", "ReplicaPending", message)
    assert harness.job["status"]["conditions"][-1]["message"] == f"TFJob j is created. {message}"
    assert harness.api.calls.count("list events") == lists > 0


async def test_a_name_that_is_another_s_is_never_touched():
    harness = Harness()
    foreign = {"metadata": {"name": "j-worker-0", "namespace": "ns", "labels": {"whose": "mine"}}}
    foreign_pod = harness.api.put(resources.PODS, foreign)
    harness.create_job(builders.tfjob("j").workers(1))

    for _ in range(6):
        await harness.reconcile()
        harness.sync()
        await harness.clock.advance(1)

    assert harness.api.of(resources.PODS) == [foreign_pod]
    assert not any(call.startswith(("delete", "patch pods")) for call in harness.api.calls)
    assert harness.recorder.events[-1][1] == "FailedCreatePod"
    assert "belongs to nobody" in harness.recorder.events[-1][2]


async def test_a_job_whose_time_is_over_is_deleted_and_counted():
    harness = Harness(builders.tfjob("j").workers(1).ttl(30))
    await harness.settle()
    harness.set_pod("j-worker-0", **ended(0))
    harness.sync()
    await harness.settle()

    wait = await harness.reconcile()
    assert 25 < wait <= 30
    await harness.clock.advance(wait)
    await harness.reconcile()

    assert harness.api.calls[-1] == "delete tfjobs.kubeflow.org j"
    assert harness.counts.told[-1] == "deleted ns"


def _uid(harness, name):
    return next(body["metadata"]["uid"] for body in harness.api.of(resources.PODS) if body["metadata"]["name"] == name)


def _owner(harness):
    return OwnerKey(KEY, harness.job["metadata"]["uid"])


async def test_the_end_of_the_object_that_has_the_name_of_a_pod_wakes_the_job_whatever_its_delay():
    harness = Harness()
    key = ObjectKey("ns", "j-worker-0")
    labels = {OPERATOR: "tfjob-controller"}
    harness.api.put(resources.PODS, {"metadata": {"name": key.name, "namespace": "ns", "labels": labels}})
    harness.create_job(builders.tfjob("j").workers(1))
    for _ in range(20):
        wait = await harness.reconcile()
        harness.sync()
        await harness.clock.advance(wait or 0.1)
    await harness.reconcile()
    calls = len(harness.api.calls)
    assert harness.queue.delayed == 0

    harness.api.remove(resources.PODS, key)
    harness.sync()

    await harness.clock.advance(0.5)
    assert await harness.queue.get() == KEY
    await harness.reconcile()
    assert harness.api.calls[calls:] == ["create pods j-worker-0"]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_when_the_reply_to_a_status_is_lost_its_events_and_counts_are_told_once(is_stored):
    harness = Harness(builders.tfjob("j").workers(1))
    (harness.api.lose if is_stored else harness.api.fail)("patch", errors.ReplyLost("reset"))
    while True:
        try:
            await harness.clock.advance(await harness.reconcile() or 0.1)
        except errors.ReplyLost:
            break
        harness.sync()
    assert harness.counts.told == []

    await harness.settle()
    assert harness.counts.told == ["created ns"]


async def test_a_live_read_without_pod_groups_creates_nothing_and_keeps_the_deadline():
    """The reply to a create of a pod was lost, and the CRD of the gang scheduler is gone."""
    harness = Harness(SIMPLE.deadline(30), settings=Settings(gang_scheduler="other"))
    await harness.settle()
    for name in ("j-chief-0", "j-worker-0"):
        harness.set_pod(name, **RUNNING)
    harness.sync()
    await harness.settle()
    harness.api.remove(resources.PODS, ObjectKey("ns", "j-worker-0"))
    harness.pending_writes.outcome_unknown(OwnerKey(KEY, harness.job["metadata"]["uid"]), str(resources.PODS))
    harness.api.fail("list podgroups", *[refused(404, "")] * 3)
    harness.api.calls.clear()

    with capture_logs() as logs:
        for seconds in (6, 25, 0):
            await harness.reconcile()
            await harness.clock.advance(seconds)

    assert "the PodGroups cannot be listed" in [entry["event"] for entry in logs]
    assert not [call for call in harness.api.calls if call.startswith("create")]
    assert conditions(harness)[-1] == "Failed=True"
    assert harness.api.of(resources.PODS) == []
    assert "delete podgroups.scheduling.x-k8s.io j" in harness.api.calls, "the cached one"


@pytest.mark.parametrize("child", ["pods", "horizontalpodautoscalers"])
async def test_after_a_refusal_the_job_is_reconciled_at_once_to_report_it(child):
    harness = Harness(builders.tfjob("j").workers(1).elastic(1, 2, metrics=[{"type": "Pods"}]))
    harness.api.fail(f"create {child}", refused(403, "Forbidden", "not allowed"))

    assert await harness.reconcile() == 0
