"""How a plan is carried out: which calls, in which order, and what follows from their ends."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from support.embedded.controller_harness import KEY, Harness
from support.embedded.embedded_api import refused
from support.jobs import builders
from tf_operator.controller import debounce, resources
from tf_operator.controller.controller import Controller
from tf_operator.controller.metrics_hooks import ReconcileInstruments
from tf_operator.controller.result import DONE, Turn
from tf_operator.dialects.kubeflow import v1
from tf_operator.job.progress import Progress
from tf_operator.job.record import JobPhase
from tf_operator.job.tensorboard import RESOURCE
from tf_operator.machinery.cache.consistency import OwnerKey
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey
from tf_operator.planning import rejections
from tf_operator.planning.actions import Create, Delete, Patch, Plan, Stage
from tf_operator.planning.bodies import gang_schedulers
from tf_operator.planning.bodies.children import PODS, SERVICES
from tf_operator.planning.snapshot import Settings

POD = Create(PODS, "p", "pod p", builders.pod("p").in_namespace("ns").body, Stage.PODS)
EXTRA = Create(RESOURCE, "x", "the extra", lambda: named("x"), Stage.EXTRAS)
VOLCANO = Settings(gang_scheduler="volcano")
VOLCANO_GROUPS = gang_schedulers.VOLCANO.resource
PLUGINS = Settings(gang_scheduler="scheduler-plugins-scheduler")
GROUPS = gang_schedulers.SCHEDULER_PLUGINS.resource
PLUGIN_GROUPS = GROUPS
SUCCEEDED = {"name": "tensorflow", "state": {"terminated": {"exitCode": 0}}}


def make_controller(harness):
    """With one worker, which the test is."""
    parts = (harness.queue, harness.jobs, harness.reconciler, harness.notes, harness.clock)
    return Controller(*parts, ReconcileInstruments(), workers=1)


@pytest.fixture
def harness():
    return Harness(builders.tfjob("j").workers(3, restart="OnFailure"))


async def test_progress_within_half_a_second_is_one_write(harness):
    await harness.settle()
    harness.api.calls.clear()
    for name in ("j-worker-0", "j-worker-1", "j-worker-2"):
        harness.set_pod(name, phase="Running")
        harness.sync()
        wait = await harness.reconcile()
        assert 0 < wait <= 0.5

    await harness.settle()

    assert harness.api.calls == ["patch tfjobs.kubeflow.org j/status"]
    assert harness.job["status"]["replicaStatuses"]["Worker"]["active"] == 3


async def test_a_job_is_looked_at_again_when_pods_that_are_gone_are_forgotten_and_nothing_is_written(harness):
    """Nothing else wakes it, and what is to be done without them may be more."""
    await harness.settle()
    harness.edit_job({"spec": {"runPolicy": {"suspend": True}}})
    harness.sync()
    await harness.reconcile()
    harness.sync()
    harness.api.calls.clear()
    assert len(harness.notes.departed_pods.of(harness.job["metadata"]["uid"])) == 3

    assert [await harness.reconcile() for _ in range(2)] == [debounce.LONGEST, None]
    assert not harness.api.calls


async def test_what_a_program_reported_has_waited_for_its_turn_and_waits_for_no_other_progress(harness):
    await harness.settle()
    harness.set_pod("j-worker-0", phase="Running")
    harness.sync()
    harness.notes.progress_reports.add(harness.job["metadata"]["uid"], Progress(step=3))
    await harness.reconcile()

    assert harness.job["status"]["trainerStatus"]["step"] == 3
    assert harness.job["status"]["replicaStatuses"]["Worker"]["active"] == 1


async def test_a_status_that_waits_is_not_worked_out():
    written = []

    def write_status(report, stored):
        written.append(report.record.phase)
        return v1.API.write_status(report, stored)

    harness = Harness(builders.tfjob("j").workers(1), api=replace(v1.API, write_status=write_status))
    await harness.reconcile()
    harness.sync()
    assert written == []

    await harness.settle()
    assert set(written) == {JobPhase.CREATED}
    assert harness.api.calls.count("patch tfjobs.kubeflow.org j/status") == 1


async def test_an_api_with_a_large_status_writes_its_progress_later():
    """Pods that start within half a minute are no more than four writes."""
    harness = Harness(builders.tfjob("j").workers(30), api=replace(v1.API, progress_waits=lambda _: 10.0))
    await harness.settle()
    for index in range(30):
        harness.set_pod(f"j-worker-{index}", phase="Running")
        harness.sync()
        await harness.reconcile()
        await harness.clock.advance(1)
    await harness.clock.advance(10)
    await harness.settle()

    assert 2 <= harness.api.calls.count("patch tfjobs.kubeflow.org j/status") <= 4
    assert harness.job["status"]["ready"] == "30/30"


async def test_jobs_that_end_together_are_all_reported_before_the_first_is_cleaned_up():
    harness, names = Harness(), ("a", "b", "c", "d")
    controller = make_controller(harness)
    for name in names:
        harness.create_job(builders.tfjob(name).workers(1).parameter_servers(1).clean_pods("Running"))
        await harness.reconcile(ObjectKey("ns", name))
        harness.set_pod(f"{name}-worker-0", phase="Succeeded", containerStatuses=[SUCCEEDED])
        harness.set_pod(f"{name}-ps-0", phase="Running")
        harness.queue.add(ObjectKey("ns", name))
    harness.sync()
    harness.api.calls.clear()

    while harness.queue.depth:
        key = await harness.queue.get()
        with harness.queue.done_after(key):
            await controller.process(key)
        harness.sync()

    assert harness.api.calls[:4] == [f"patch tfjobs.kubeflow.org {name}/status" for name in names]
    assert {call for call in harness.api.calls[4:] if call.startswith("delete pods")} == {
        f"delete pods {name}-ps-0" for name in names
    }
    assert harness.api.of(SERVICES) == []


async def test_what_a_restart_deletes_waits_for_no_other_job(harness):
    await harness.settle()
    failed = {"name": "tensorflow", "state": {"terminated": {"exitCode": 1}}}
    harness.set_pod("j-worker-0", phase="Failed", containerStatuses=[failed])
    harness.sync()
    harness.api.calls.clear()
    harness.queue.add(ObjectKey("ns", "other"))

    result = await harness.reconciler.reconcile(KEY)

    assert result.turn is Turn.ITS_OWN
    assert harness.api.calls == ["patch tfjobs.kubeflow.org j/status", "delete pods j-worker-0"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("create services", errors.from_status(errors.Status(code=429, reason="TooManyRequests"))),
        ("create pods", refused(500, "InternalError", "etcd is away")),
        ("create pods", errors.Unreachable("refused")),
    ],
    ids=["throttled", "failed", "never sent"],
)
async def test_trouble_of_the_apiserver_is_passed_on_and_is_no_refusal(harness, call, error):
    harness.api.fail(call, error)

    with pytest.raises(type(error)):
        await harness.reconcile()

    assert harness.notes.rejections.get(harness.job["metadata"]["uid"]) is None


async def test_a_webhook_that_does_not_answer_is_a_refusal_that_is_told(harness):
    harness.api.fail("create pods", refused(500, "InternalError", 'failed calling webhook "istio": connection refused'))

    await harness.reconcile()

    refusal = harness.notes.rejections.get(harness.job["metadata"]["uid"])
    assert (refusal.subject, rejections.is_final(refusal)) == ("pod j-worker-0", False)
    assert refusal.message == 'failed calling webhook "istio": connection refused'


async def test_what_was_made_before_an_error_is_told_all_the_same(harness):
    harness.api.fail("create pods j-worker-2", errors.ReplyLost("reset"))

    with pytest.raises(errors.ReplyLost):
        await harness.reconcile()

    assert harness.recorder.events == [("Normal", "SuccessfulCreatePod", "Created 2 pods: j-worker-0, j-worker-1")]


@pytest.mark.parametrize(
    ("workers", "begin", "end"),
    [
        (1, "Created 1 pod: j-worker-0", "j-worker-0"),
        (8, "Created 8 pods: j-worker-0, j-worker-1,", ", j-worker-7"),
        (9, "Created 9 pods: j-worker-0,", ", j-worker-7 and 1 more"),
        (50, "Created 50 pods: j-worker-0,", " and 42 more"),
    ],
)
async def test_many_pods_are_reported_by_a_few_names(workers, begin, end):
    harness = Harness(builders.tfjob("j").workers(workers))

    await harness.settle()

    (event,) = harness.recorder.events
    assert event[2].startswith(begin)
    assert event[2].endswith(end)


async def test_a_pod_group_is_made_followed_and_deleted():
    harness = Harness(builders.tfjob("j").workers(2).clean_pods("All"), settings=VOLCANO)
    await harness.settle()
    assert [body["spec"]["minMember"] for body in harness.api.of(VOLCANO_GROUPS)] == [2]
    assert harness.api.of(resources.PODS) == [], "the group has not been admitted"

    group = harness.api.of(VOLCANO_GROUPS)[0]
    harness.api.put(VOLCANO_GROUPS, {**group, "status": {"phase": "Inqueue"}})
    harness.edit_job({"spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": 1}}}})
    harness.sync()
    await harness.settle()
    assert [body["spec"]["minMember"] for body in harness.api.of(VOLCANO_GROUPS)] == [1]
    assert len(harness.api.of(resources.PODS)) == 2

    state = {"terminated": {"exitCode": 0}}
    harness.set_pod("j-worker-0", phase="Succeeded", containerStatuses=[{"name": "tensorflow", "state": state}])
    harness.sync()
    await harness.settle()
    assert harness.api.of(VOLCANO_GROUPS) == []


@pytest.mark.parametrize(
    ("has_settled", "words"),
    [(True, "cannot be read; is the CRD of the gang scheduler installed?"), (False, "have not been read yet")],
)
async def test_without_the_kind_of_a_pod_group_a_job_waits_and_says_why(has_settled, words):
    harness = Harness(settings=VOLCANO)
    harness.caches.groups["volcano"].has_synced = False
    harness.caches.groups["volcano"].has_settled = has_settled
    harness.create_job(builders.tfjob("j").workers(2))

    assert await harness.reconcile() == 0.5
    await harness.clock.advance(0.5)
    assert await harness.reconcile() == 5

    assert harness.api.calls == ["patch tfjobs.kubeflow.org j/status"], "nothing is made"
    assert f"podgroups.scheduling.volcano.sh {words}" in harness.job["status"]["conditions"][-1]["message"]
    harness.sync()
    harness.caches.groups["volcano"].has_synced = True
    await harness.reconcile()
    assert "create podgroups.scheduling.volcano.sh j" in harness.api.calls


async def test_a_pod_group_that_is_refused_is_reported_and_no_pod_is_created():
    harness = Harness(builders.tfjob("j").workers(2), settings=PLUGINS)
    harness.api.fail("create podgroups", refused(403, "Forbidden", "not allowed"))

    assert await harness.reconcile() == 0
    await harness.reconcile()
    await harness.clock.advance(0.5)
    await harness.reconcile()

    assert "PodGroup was rejected: not allowed" in harness.job["status"]["conditions"][-1]["message"]
    assert harness.api.of(resources.PODS) == []


async def test_a_pod_group_that_cannot_be_changed_holds_up_no_pod_and_ends_no_job():
    harness = Harness(builders.tfjob("j").workers(1).dynamic_workers(), settings=PLUGINS)
    await harness.settle()
    harness.api.fail("patch podgroups", *[refused(422, "Invalid", "spec.queue: is closed")] * 3)
    harness.edit_job({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})
    harness.sync()
    harness.api.calls.clear()

    await harness.reconcile()
    harness.sync()
    assert len(harness.api.of(resources.PODS)) == 3
    refusal = harness.notes.rejections.get(harness.job["metadata"]["uid"])
    assert (refusal.subject, rejections.is_final(refusal)) == ("the change of its PodGroup", False)

    await harness.settle()
    assert harness.api.calls.count("patch podgroups.scheduling.x-k8s.io j") == 4, "one that was accepted"
    assert harness.api.of(PLUGIN_GROUPS)[0]["spec"]["minMember"] == 3
    text = "the change of its PodGroup was rejected: spec.queue: is closed"
    assert harness.recorder.events.count(("Warning", "FailedCreatePod", text)) == 1
    last = harness.job["status"]["conditions"][-1]
    assert (last["type"], "refused" in last["message"]) == ("Created", False)


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (409, "Conflict"), (429, "TooManyRequests")])
async def test_a_pod_group_that_is_another_by_now_or_cannot_be_changed_yet_is_no_refusal(code, reason):
    harness = Harness(builders.tfjob("j").workers(1), settings=PLUGINS)
    await harness.settle()
    harness.api.fail("patch podgroups", refused(code, reason))
    policy = {"schedulingPolicy": {"minAvailable": 5}}
    harness.edit_job({"spec": {"runPolicy": policy}})
    harness.sync()

    with pytest.raises(errors.Refused):
        await harness.reconcile()

    assert harness.notes.rejections.get(harness.job["metadata"]["uid"]) is None


async def test_services_of_an_older_operator_are_deleted_one_by_one(harness):
    await harness.settle()
    for body in harness.api.of(resources.SERVICES):
        labels = {**body["metadata"]["labels"]}
        labels.pop("training.kubeflow.org/job-uid")
        harness.api.put(resources.SERVICES, {**body, "metadata": {**body["metadata"], "labels": labels}})
    harness.edit_job({"spec": {"runPolicy": {"suspend": True}}})
    harness.sync()
    harness.api.calls.clear()

    await harness.settle()

    assert sorted(call for call in harness.api.calls if "services" in call) == [
        "delete services j-worker-0",
        "delete services j-worker-1",
        "delete services j-worker-2",
    ]


@pytest.mark.parametrize("is_live", [False, True], ids=["from caches", "live"])
async def test_a_service_with_copied_labels_that_is_not_the_job_s_stays(harness, is_live):
    await harness.settle()
    theirs = harness.api.of(resources.SERVICES)[0]["metadata"]["labels"]
    mine = {"name": "mine", "namespace": "ns", "labels": theirs}
    harness.api.put(resources.SERVICES, {"metadata": mine})
    harness.edit_job({"spec": {"runPolicy": {"suspend": True}}})
    harness.sync()
    if is_live:
        owner = OwnerKey(KEY, harness.job["metadata"]["uid"])
        harness.pending_writes.outcome_unknown(owner, str(resources.SERVICES))

    await harness.reconcile()

    assert [body["metadata"]["name"] for body in harness.api.of(resources.SERVICES)] == ["mine"]
    assert not any(call.startswith("deletecollection") for call in harness.api.calls)


async def test_whatever_the_order_in_a_plan_deletes_come_first_and_pods_last():
    harness = Harness(builders.tfjob("j").workers(1), settings=PLUGINS)
    old_uid, kept_uid = (harness.api.put(PLUGIN_GROUPS, named(name))["metadata"]["uid"] for name in ("old", "kept"))
    pod = structs.replace(POD, needs=Create(SERVICES, "p", "", builders.service("p").in_namespace("ns").body))
    actions = (
        pod,
        Create(GROUPS, "new", "PodGroup new", partial(named, "new")),
        Patch(GROUPS, "kept", kept_uid, "the change", {"spec": {"image": "other"}}),
        Delete(GROUPS, "old", old_uid),
    )

    await harness.executor.carry_out(seen_by(harness), Plan(actions=actions))

    assert harness.api.calls == [
        "delete podgroups.scheduling.x-k8s.io old",
        "create podgroups.scheduling.x-k8s.io new",
        "patch podgroups.scheduling.x-k8s.io kept",
        "create services p",
        "create pods p",
    ]
    assert [body["spec"]["image"] for body in harness.api.of(PLUGIN_GROUPS)] == ["other", "i"]


async def test_what_a_change_says_is_made_at_the_time_at_which_it_is_sent(harness):
    uid = harness.api.put(RESOURCE, named("x"))["metadata"]["uid"]
    plan = Plan(actions=(Patch(RESOURCE, "x", uid, "the change", lambda now: {"spec": {"image": str(now)}}),))
    snapshot = seen_by(harness)
    await harness.clock.advance(20)
    assert await harness.executor.carry_out(snapshot, plan) == DONE

    (body,) = harness.api.of(RESOURCE)
    assert body["spec"]["image"] == str(snapshot.now + timedelta(seconds=20))


async def test_after_a_dependency_that_is_refused_no_pod_is_created(harness):
    harness.api.fail("create services", refused(403, "Forbidden", "not allowed"))
    actions = (
        Create(SERVICES, "board", "Service board", partial(named, "board")),
        POD,
    )

    with capture_logs() as logs:
        await harness.executor.carry_out(seen_by(harness), Plan(actions=actions))

    assert [(entry["event"], entry["what"]) for entry in logs] == [("a create was rejected", "Service board")]
    assert harness.api.calls == ["create services board"]
    assert harness.notes.rejections.get(harness.job["metadata"]["uid"]).subject == "Service board"


async def test_what_the_job_continues_without_is_made_last_and_a_refusal_of_it_is_noted_apart(harness):
    actions = (EXTRA, POD)
    uid, notes = harness.job["metadata"]["uid"], harness.notes
    harness.api.fail("create tensorboards.tensorstack.dev", refused(403, "Forbidden", "not allowed"))
    harness.api.fail("patch tensorboards.tensorstack.dev", refused(422, "Invalid", "not so"))

    await harness.executor.carry_out(seen_by(harness), Plan(actions=actions))
    assert harness.api.calls == ["create pods p", "create tensorboards.tensorstack.dev x"]
    assert (notes.rejections.get(uid), notes.rejections.get(uid, str(RESOURCE)).message) == (None, "not allowed")

    await harness.executor.carry_out(seen_by(harness), Plan(actions=(EXTRA,)))
    assert notes.rejections.get(uid, str(RESOURCE)) is None
    extra_uid = harness.api.of(RESOURCE)[0]["metadata"]["uid"]
    change = Patch(RESOURCE, "x", extra_uid, "the change", {"metadata": {"a": "b"}}, Stage.EXTRAS)
    with capture_logs() as logs:
        await harness.executor.carry_out(seen_by(harness), Plan(actions=(change,)))
    assert [(entry["event"], entry["what"]) for entry in logs] == [("a change was rejected", "the change")]
    assert (notes.rejections.get(uid), notes.rejections.get(uid, str(RESOURCE)).code) == (None, 422)
    await harness.executor.carry_out(seen_by(harness), Plan(actions=(change,)))
    assert notes.rejections.get(uid, str(RESOURCE)) is None


@pytest.mark.parametrize(
    ("actions", "is_over"),
    [
        ((POD,), True),
        ((POD, EXTRA), True),
        ((EXTRA,), False),
        ((Delete(PODS, "old", "uid-of-old", "scaled down"),), False),
    ],
    ids=["a pod", "a pod and more", "only more", "no create"],
)
async def test_a_refusal_is_over_when_what_the_job_needs_is_made_and_waits_while_nothing_is(harness, actions, is_over):
    uid, notes = harness.job["metadata"]["uid"], harness.notes
    notes.rejections.note(uid, POD, refused(403, "Forbidden", "quota"))

    await harness.executor.carry_out(seen_by(harness), Plan(actions=actions))

    assert (notes.rejections.get(uid) is None) is is_over


async def test_an_extra_whose_name_is_taken_is_tried_again_once_it_is_free_and_forgotten_with_the_job(harness):
    harness.api.put(RESOURCE, named("x"))
    uid, place = harness.job["metadata"]["uid"], (str(RESOURCE), ObjectKey("ns", "x"))

    await harness.executor.carry_out(seen_by(harness), Plan(actions=(EXTRA,)))
    assert rejections.is_waiting(harness.notes.rejections.get(uid, str(RESOURCE)), harness.clock.now())
    assert harness.notes.rejections.note_freed(*place) == uid
    assert not rejections.is_waiting(harness.notes.rejections.get(uid, str(RESOURCE)), harness.clock.now())

    await harness.executor.carry_out(seen_by(harness), Plan(actions=(EXTRA,)))
    harness.notes.forget(uid)
    assert (harness.notes.rejections.note_freed(*place), len(harness.notes)) == ("", 0)


async def test_an_extra_that_cannot_be_deleted_holds_up_no_pod(harness):
    extra_uid = harness.api.put(RESOURCE, named("x"))["metadata"]["uid"]
    gone = Delete(RESOURCE, "x", extra_uid, "the deletion of the extra", stage=Stage.EXTRAS)
    uid = harness.job["metadata"]["uid"]
    harness.api.fail("delete tensorboards.tensorstack.dev", refused(403, "Forbidden", "not allowed"))

    with capture_logs() as logs:
        result = await harness.executor.carry_out(seen_by(harness), Plan(actions=(gone, POD)))
    assert result == DONE, "nothing more is to be done now"
    assert [(entry["event"], entry["what"]) for entry in logs] == [("a deletion was rejected", gone.reason)]
    assert harness.api.calls == ["create pods p", "delete tensorboards.tensorstack.dev x"]
    refusal = harness.notes.rejections.get(uid, str(RESOURCE))
    assert (refusal.subject, refusal.message) == ("the deletion of the extra", "not allowed")

    await harness.executor.carry_out(seen_by(harness), Plan(actions=(gone,)))
    assert (harness.api.of(RESOURCE), harness.notes.rejections.get(uid, str(RESOURCE))) == ([], None)


@pytest.mark.parametrize(
    ("stage", "error"),
    [(Stage.DELETES, refused(403, "Forbidden", "not allowed")), (Stage.EXTRAS, refused(500, "InternalError", "away"))],
    ids=["of what the job needs gone", "without an answer"],
)
async def test_a_deletion_that_is_refused_is_passed_on_unless_it_is_an_answer_about_an_extra(harness, stage, error):
    gone = Delete(RESOURCE, "x", harness.api.put(RESOURCE, named("x"))["metadata"]["uid"], "the deletion", stage=stage)
    harness.api.fail("delete tensorboards.tensorstack.dev", error)

    with pytest.raises(errors.Refused):
        await harness.executor.carry_out(seen_by(harness), Plan(actions=(gone,)))

    assert len(harness.notes.rejections) == 0


def named(name):
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"image": "i"}}


def seen_by(harness):
    observer = harness.reconciler.observer
    return observer.from_caches(observer.stored(KEY))
