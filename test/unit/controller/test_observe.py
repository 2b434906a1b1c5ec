"""The snapshot of a job, from caches and live."""

from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import patch

import msgspec
import pytest
from structlog.testing import capture_logs

from support.embedded.controller_harness import JOBS, KEY, FakeInformer, Harness
from support.embedded.embedded_api import refused
from support.jobs import builders
from tf_operator.controller import resources
from tf_operator.controller.caches import OWNER, owner_of
from tf_operator.job.constants import GANG_SCHEDULER_ANNOTATION
from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.machinery.cache.consistency import Freshness, OwnerKey
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.transport import errors, list_body, responses
from tf_operator.meta import ObjectKey
from tf_operator.planning.actions import Patch, Stage
from tf_operator.planning.bodies.gang_schedulers import VOLCANO
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.child_kinds.kind import DIGEST
from tf_operator.planning.snapshot import ChildObject, ChildState, Settings
from tf_operator.projections.jobs import FieldManager, JobMeta, StoredJob


@pytest.fixture
async def harness():
    harness = Harness(builders.tfjob("j").workers(3), settings=Settings(gang_scheduler="other"))
    await harness.settle()
    return harness


async def live(harness):
    owner = OwnerKey(KEY, harness.job["metadata"]["uid"])
    return await harness.reconciler.observer.live(owner, harness.pending_writes)


async def test_live_and_cached_observations_are_the_same(harness):
    observer = harness.reconciler.observer
    stored = observer.stored(KEY)

    assert await live(harness) == observer.from_caches(stored)


async def looked_for(harness, name):
    observer = harness.reconciler.observer
    return await observer.looked_for(observer.from_caches(observer.stored(KEY)), [name])


UNREAD = {kind: f"{kind.resource} cannot be read; is it installed, and may it be listed?" for kind in kinds.ALL}


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.resource.kind)
@pytest.mark.parametrize(
    ("fields", "state"),
    [
        (None, lambda kind: ChildState(unserved=kind.off, is_off=True)),
        ({"has_settled": False, "has_synced": False}, lambda _: ChildState(is_known=False)),
        ({"is_absent": True}, lambda kind: ChildState(unserved=UNREAD[kind])),
        ({"has_synced": False}, lambda kind: ChildState(unserved=UNREAD[kind])),
        ({"lacking": True}, lambda kind: ChildState(unserved=UNREAD[kind])),
        ({}, lambda _: ChildState()),
    ],
    ids=["it is off", "it is not known yet", "it is absent", "it was never read", "it cannot be read again", "none"],
)
async def test_of_what_a_job_has_beside_its_replicas_is_known_what_the_informer_knows(harness, kind, fields, state):
    informer = None if fields is None else FakeInformer(kind.resource, Store({OWNER: owner_of}), **fields)
    observer = replace(harness.reconciler.observer, caches=replace(harness.caches, extras={kind: informer}))

    assert observer.from_caches(observer.stored(KEY)).extras == {kind: state(kind)}


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.resource.kind)
async def test_the_extra_that_the_job_controls_is_its_own_with_what_is_kept_of_its_kind(harness, kind):
    """Of several it is that of its name. And with what was refused of it."""
    reference = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "controller": True}
    annotations, body = {DIGEST: "d", "a": "b"}, {"spec": {"image": "i"}, "status": {"phase": "Running"}}
    own = harness.job["metadata"]["uid"]
    for uid, name in ((own, "a"), (own, "j"), ("other", "k")):
        metadata = {"name": name, "labels": {OPERATOR_LABEL: "tfjob-controller"}, "annotations": annotations}
        metadata |= {"uid": name, "ownerReferences": [reference | {"uid": uid}], "namespace": KEY.namespace}
        harness.api.put(kind.resource, {"metadata": metadata, **body})
    harness.sync()
    change = Patch(kind.resource, "j", "j", "x", {}, Stage.EXTRAS)
    harness.notes.rejections.note(own, change, refused(403, "Forbidden", "not allowed"))

    observer = harness.reconciler.observer
    state = observer.from_caches(observer.stored(KEY)).extras[kind]
    assert state.current == ChildObject("j", "j", "d", **(body if kind.is_whole else {}))
    assert state.rejected.message == "not allowed"


@pytest.mark.parametrize("resource", [resources.PODS, resources.SERVICES, resources.pod_groups("other")])
async def test_what_is_read_live_is_awaited_no_more(harness, resource):
    owner = OwnerKey(KEY, harness.job["metadata"]["uid"])
    harness.pending_writes.outcome_unknown(owner, str(resource))
    assert harness.pending_writes.cache_state(owner).freshness is Freshness.READ_LIVE
    harness.create_job(builders.tfjob("other").workers(1))
    await live(harness)
    harness.sync()

    assert harness.pending_writes.cache_state(owner).freshness is Freshness.CAUGHT_UP


async def test_what_was_written_for_the_last_job_of_a_name_is_forgotten(harness):
    """A late reply for it came when its namesake was cached already."""
    harness.pending_writes.outcome_unknown(OwnerKey(KEY, "the last"), str(resources.PODS))

    await harness.reconcile()

    assert harness.pending_writes.owners == 0


async def test_a_reply_that_is_cut_short_is_no_bug(harness):
    harness.api.garbles = "get"

    with pytest.raises(errors.Garbled, match="no TFJob"):
        await live(harness)
    with pytest.raises(errors.Garbled, match="not a pod"):
        await looked_for(harness, "j-worker-0")


async def test_live_lists_are_read_to_their_last_page(harness, monkeypatch):
    monkeypatch.setattr("tf_operator.controller.observe._FIRST_PAGE", 1)
    harness.api.calls.clear()

    snapshot = await live(harness)

    assert [pod.name for pod in snapshot.pods] == ["j-worker-0", "j-worker-1", "j-worker-2"]
    assert [call.split()[:2] for call in harness.api.calls] == [
        ["get", "tfjobs.kubeflow.org"],
        *[["list", "pods"]] * 2,
        *[["list", "services"]] * 2,
        ["list", "podgroups.scheduling.x-k8s.io"],
    ]


async def test_of_a_live_list_only_so_many_bytes_are_held(harness, monkeypatch):
    """Whoever may create pods in a namespace may make them as large as the labels of a job are small."""
    decoded = []
    monkeypatch.setattr(list_body, "MOST_HELD", 100)
    monkeypatch.setattr(responses, "read_page", lambda body, own=responses.read_page: decoded.append(body) or own(body))

    client = type(harness.reconciler.observer.client)
    in_one_piece = []
    monkeypatch.setattr(client, "send", lambda *args, own=client.send: in_one_piece.append(args[1].verb) or own(*args))

    snapshot = await live(harness)

    assert [pod.name for pod in snapshot.pods] == ["j-worker-0", "j-worker-1", "j-worker-2"]
    assert "list" not in in_one_piece
    assert not any(b"j-worker-" in body for body in decoded), "each object was taken out of its list before"


async def test_a_live_list_that_expires_begins_again(harness, monkeypatch):
    monkeypatch.setattr("tf_operator.controller.observe._FIRST_PAGE", 1)
    calls = []

    async def expires_once(call):
        calls.append(call)
        if [call.startswith("list pods") for call in calls].count(True) == 2:
            raise refused(410, "Expired")

    harness.api.on_way = expires_once

    assert [pod.name for pod in (await live(harness)).pods] == ["j-worker-0", "j-worker-1", "j-worker-2"]


async def test_the_api_server_says_when_the_status_was_last_changed(harness):
    observer = harness.reconciler.observer
    stored = observer.stored(KEY)
    assert observer.from_caches(stored).status_time is None

    times = (("status", "2026-03-01T09:00:00Z"), ("status", "no time"), ("", "2026-03-01T10:00:00Z"))
    managers = tuple(FieldManager("operator", subresource, time) for subresource, time in times)
    replace_parts = msgspec.structs.replace
    stored = replace_parts(stored, metadata=replace_parts(stored.metadata, managed_fields=managers))
    assert observer.from_caches(stored).status_time == datetime(2026, 3, 1, 9, tzinfo=UTC)


async def test_what_has_our_labels_and_another_owner_is_not_ours(harness):
    foreign = harness.api.of(resources.PODS)[0]
    labels = foreign["metadata"]["labels"]
    metadata = {"name": "j-worker-7", "namespace": "ns", "labels": labels}
    harness.api.put(resources.PODS, {"metadata": metadata})
    harness.sync()

    observer = harness.reconciler.observer
    stored = observer.stored(KEY)
    names = {"j-worker-0", "j-worker-1", "j-worker-2"}
    assert {pod.name for pod in observer.from_caches(stored).pods} == names
    assert {pod.name for pod in (await live(harness)).pods} == names


@pytest.mark.parametrize("resource", [resources.PODS, resources.SERVICES], ids=str)
async def test_an_object_of_another_namespace_is_never_a_child(harness, resource):
    """Who may create pods in one namespace may write any owner reference, also one to a job in another one."""
    observer = harness.reconciler.observer
    snapshot = observer.from_caches(observer.stored(KEY))
    forged = harness.api.of(resource)[0]
    status = {
        "phase": "Failed",
        "containerStatuses": [{"name": "tensorflow", "state": {"terminated": {"exitCode": 1}}}],
    }
    harness.api.put(
        resource, {"metadata": forged["metadata"] | {"namespace": "evil", "uid": "forged"}, "status": status}
    )
    harness.sync()
    assert observer.from_caches(observer.stored(KEY)) == snapshot

    harness.api.remove(resource, ObjectKey("evil", forged["metadata"]["name"]))
    harness.sync()
    assert observer.from_caches(observer.stored(KEY)) == snapshot


async def test_a_job_that_cannot_be_read_is_a_job_with_a_problem(harness):
    harness.jobs.put(StoredJob(JobMeta("x", "ns", "u", "9"), problem="it is too deep"))

    stored = harness.reconciler.observer.stored(responses.ObjectMeta("x", "ns").key)

    problems = harness.reconciler.observer.from_caches(stored).job.problems
    assert [str(problem) for problem in problems] == ["spec: cannot be read: it is too deep"]


async def test_a_pod_that_is_listed_is_not_gone(harness):
    """An event of its deletion and a list may overtake each other."""
    pod = next(iter(harness.caches.pods.store))
    harness.on_pod.on_delete(pod, final_state_known=True)

    assert not any(live_pod.is_gone for live_pod in (await live(harness)).pods)


@pytest.mark.parametrize(("is_absent", "has_group"), [(False, True), (True, False)])
async def test_a_job_has_the_pod_group_of_the_scheduler_that_it_asks_for_where_that_is_installed(is_absent, has_group):
    harness = Harness(settings=Settings(gang_scheduler="volcano"))
    harness.create_job(builders.tfjob("j").workers(2).annotations({GANG_SCHEDULER_ANNOTATION: "theirs"}))
    uid = harness.job["metadata"]["uid"]
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": uid, "controller": True}
    metadata = {"name": "j", "namespace": "ns", "uid": "g", "resourceVersion": "1", "ownerReferences": [owner]}
    store = Store({OWNER: owner_of})
    store.put(harness.readers.group(msgspec.json.encode({"metadata": metadata, "spec": {"minMember": 2}})))
    harness.caches.groups["theirs"] = FakeInformer(VOLCANO.resource, store, is_absent=is_absent)

    with patch.object(FakeInformer, "demand") as demand:
        snapshot = harness.reconciler.observer.from_caches(harness.reconciler.observer.stored(KEY))

    assert (snapshot.pod_group is not None) == has_group
    demand.assert_called_with()


async def test_a_job_has_the_pod_group_of_its_name_whichever_of_several_has_changed_last():
    """Another one would keep its pods from being made."""
    harness = Harness(builders.tfjob("j").workers(1), settings=Settings(gang_scheduler="volcano"))
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "controller": True,
        "uid": harness.job["metadata"]["uid"],
    }
    groups, observer = harness.caches.groups["volcano"].store, harness.reconciler.observer

    for version, name in enumerate(("j", "a", "j", "z"), start=1):
        metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": str(version)}
        groups.put(harness.readers.group(msgspec.json.encode({"metadata": metadata | {"ownerReferences": [owner]}})))
        assert observer.from_caches(observer.stored(KEY)).pod_group.name == "j"


async def test_when_the_kind_of_a_pod_group_is_no_longer_served_jobs_are_looked_after_and_nothing_is_made():
    harness = Harness(settings=Settings(gang_scheduler="volcano"))
    harness.caches.groups["volcano"].lacking = True
    harness.create_job(builders.tfjob("j").workers(2))

    await harness.settle()

    assert harness.api.calls == ["patch tfjobs.kubeflow.org j/status"]
    assert "podgroups.scheduling.volcano.sh cannot be read" in harness.job["status"]["conditions"][-1]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"<html>no such backend</html>",
        b"404 page not found",
        b'{"kind": "Status", "reason": "NotFound", "details": {"name": "other"}}',
    ],
    ids=["a proxy", "a resource that is not served", "another name"],
)
async def test_a_404_that_is_not_about_the_object_does_not_mean_that_it_is_gone(harness, body):
    for kind in ("tfjobs", "pods"):
        harness.api.fail(f"get {kind}", errors.refused(404, body))

    with pytest.raises(errors.NotFound):
        await live(harness)
    with pytest.raises(errors.NotFound):
        await looked_for(harness, "j-worker-0")


async def test_a_pod_that_is_looked_for_is_found_if_it_is_there_and_the_job_s(harness):
    pod = harness.api.of(resources.PODS)[0]
    (owner,) = pod["metadata"]["ownerReferences"]
    changes = {"name": "j-worker-7", "uid": "theirs", "ownerReferences": [owner | {"uid": "a job of before"}]}
    harness.api.put(resources.PODS, pod | {"metadata": pod["metadata"] | changes})
    cached = harness.reconciler.observer.from_caches(harness.reconciler.observer.stored(KEY))

    for name, pods in (("j-worker-1", ["j-worker-1"]), ("j-worker-7", []), ("gone", [])):
        snapshot = await looked_for(harness, name)
        assert ([pod.name for pod in snapshot.pods[len(cached.pods) :]], snapshot.looked_for) == (pods, {name})


async def test_a_job_that_the_apiserver_does_not_know_is_gone(harness):
    owner = OwnerKey(KEY, harness.job["metadata"]["uid"])
    harness.api.remove(JOBS, KEY)

    assert await harness.reconciler.observer.live(owner, harness.pending_writes) is None


async def test_an_object_that_cannot_be_read_costs_a_live_read_only_itself(harness):
    pod = harness.api.of(resources.PODS)[0]
    harness.api.put(resources.PODS, pod | {"status": {"phase": 5}})

    with capture_logs() as logs:
        assert [pod.name for pod in (await live(harness)).pods] == ["j-worker-1", "j-worker-2"]
    assert [(entry["event"], entry["resource"]) for entry in logs] == [("an object cannot be decoded", "pods")]
