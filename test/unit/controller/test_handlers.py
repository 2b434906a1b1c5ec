"""From a change in a cache to the key of a job."""

import pytest
from msgspec import structs

from support.embedded.controller_harness import KEY, Harness
from support.jobs import builders
from tf_operator.controller import reconciler, resources
from tf_operator.machinery.cache.consistency import OwnerKey
from tf_operator.planning.snapshot import Container, Host, MainContainer
from tf_operator.projections.children import Child
from tf_operator.projections.pods import CachedPod

PROGRESS_WAITS, SHORTEST = 0.5, 0.1


@pytest.fixture
def harness():
    return Harness(builders.tfjob("j").workers(1))


def child(harness, owner=""):
    return Child("j-worker-0", "ns", "p", "9", owner or harness.job["metadata"]["uid"])


async def queued(harness):
    return harness.queue.depth == 1 and await harness.queue.get() == KEY


async def test_every_change_of_a_job_leads_to_it(harness):
    stored = harness.jobs.get(KEY)

    for tell in (
        lambda: harness.on_job.on_add(stored),
        lambda: harness.on_job.on_delete(stored, final_state_known=True),
    ):
        tell()
        assert await queued(harness)
        harness.queue.done(KEY)


async def test_changes_that_follow_each_other_at_once_are_one_look(harness):
    stored = harness.jobs.get(KEY)
    looks = 0
    for _ in range(40):
        harness.on_job.on_update(stored, stored)
        await harness.clock.advance(0.05)
        if harness.queue.depth:
            assert await queued(harness)
            harness.queue.done(KEY)
            looks += 1

    assert 10 <= looks <= 20, "one in a tenth of a second, not one for each change"


async def test_every_change_of_a_child_leads_to_its_job(harness):
    handler = harness.on_child

    for tell, wait in (
        (lambda: handler.on_add(child(harness)), PROGRESS_WAITS),
        (lambda: handler.on_update(child(harness), child(harness)), SHORTEST),
        (lambda: handler.on_delete(child(harness), final_state_known=True), SHORTEST),
    ):
        tell()
        assert harness.queue.depth == 0, "more is likely to follow at once"
        await harness.clock.advance(wait)
        assert await queued(harness)
        harness.queue.done(KEY)


async def test_pods_that_begin_to_run_cost_one_look_after_which_the_status_says_so_at_once(harness):
    await harness.settle()
    pod = next(iter(harness.caches.pods.store))
    harness.set_pod(pod.metadata.name, phase="Running")

    harness.on_pod.on_update(pod, structs.replace(pod, pod=pod.pod.changed(phase="Running")))
    await harness.clock.advance(PROGRESS_WAITS - 0.01)
    assert harness.queue.depth == 0
    await harness.clock.advance(0.01)
    assert await queued(harness)

    harness.sync()
    harness.api.calls.clear()
    await harness.reconcile()
    assert harness.api.calls == ["patch tfjobs.kubeflow.org j/status"]


async def test_what_follows_from_a_reconcile_that_goes_on_is_collected_from_its_end(harness):
    """Else a job whose pods are created slowly has its status written as soon as the last of them is."""
    uid = harness.job["metadata"]["uid"]
    harness.queue.add(KEY)
    assert await queued(harness)

    harness.on_child.on_add(child(harness))
    await harness.clock.advance(2 * PROGRESS_WAITS)

    assert harness.notes.status_batches.time_left(uid, PROGRESS_WAITS) == PROGRESS_WAITS
    assert harness.queue.depth == 0, "a plan would find that it is too early"
    harness.queue.done(KEY)
    await harness.clock.advance(PROGRESS_WAITS)
    assert await queued(harness)


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Failed"},
        {"phase": "Succeeded"},
        {"is_terminating": True},
        {"is_disrupted": True},
        {"is_restarting": True},
        {"is_stopped": True},
        {"restarts": 1},
        {"host": Host("n1", has_unhealthy_device=True)},
        {"main": MainContainer(exit_code=1)},
        {"others": (Container("other", MainContainer(exit_code=0), None),)},
    ],
    ids=str,
)
async def test_a_pod_that_does_anything_but_run_is_looked_at_without_that_wait(harness, change):
    await harness.settle()
    pod = next(iter(harness.caches.pods.store))
    newer = structs.replace(pod, pod=structs.replace(pod.pod, **{"phase": "Running", **change}))

    for tell in (lambda: harness.on_pod.on_update(pod, newer), lambda: harness.on_pod.on_add(newer)):
        tell()
        await harness.clock.advance(SHORTEST)
        assert await queued(harness)
        harness.queue.done(KEY)


@pytest.mark.parametrize("owner", ["nobody-we-know", ""])
def test_a_child_of_nobody_we_know_leads_nowhere(harness, owner):
    harness.on_child.on_add(Child("j-worker-0", "ns", "p", "9", owner))

    assert (harness.queue.depth, harness.queue.delayed) == (0, 0)


async def test_the_more_a_reconcile_costs_the_longer_are_changes_collected(harness):
    """Twenty changes a second of a job whose plan takes 65 ms take a twentieth of the loop, and not all of it."""
    uid, stored = harness.job["metadata"]["uid"], harness.jobs.get(KEY)
    reconciles = 0
    for _ in range(400):
        harness.on_job.on_update(stored, stored)
        harness.on_child.on_add(child(harness))
        await harness.clock.advance(0.05)
        if harness.queue.depth:
            assert await queued(harness)
            harness.debounce.note(uid, 0.065)
            harness.queue.done(KEY)
            reconciles += 1

    assert 10 <= reconciles <= 20, "in twenty seconds"


def test_one_reconcile_that_was_interrupted_delays_nothing_and_no_wait_is_without_end(harness):
    harness.debounce.note("u", 3.0)
    assert harness.debounce.wait("u") == SHORTEST
    harness.debounce.note("u", 3.0)
    assert harness.debounce.wait("u") == 10


async def test_what_observing_and_planning_cost_is_noted(harness, monkeypatch):
    plan = reconciler.make_plan

    def slow(snapshot):
        harness.clock._monotonic += 0.05
        return plan(snapshot)

    monkeypatch.setattr(reconciler, "make_plan", slow)
    for _ in range(2):
        await harness.reconcile()
        harness.sync()

    assert harness.debounce.wait(harness.job["metadata"]["uid"]) == pytest.approx(1.0)


async def test_changes_of_many_children_at_once_are_one_look(harness):
    handler = harness.on_child
    for _ in range(1000):
        handler.on_update(child(harness), child(harness))

    await harness.clock.advance(SHORTEST)

    assert await queued(harness)
    harness.queue.done(KEY)
    assert (harness.queue.depth, harness.queue.delayed) == (0, 0)


async def test_a_pod_in_which_nothing_that_matters_has_changed_wakes_nobody(harness):
    await harness.settle()
    pod = next(iter(harness.caches.pods.store))
    newer = structs.replace(pod, resource_version="999", pod=pod.pod.changed(version="999"))

    harness.on_pod.on_update(pod, newer)
    assert harness.queue.delayed == 0

    harness.on_pod.on_update(pod, structs.replace(newer, pod=pod.pod.changed(phase="Running")))
    assert harness.queue.delayed == 1


async def test_the_last_state_of_a_deleted_pod_is_kept_for_its_job(harness):
    await harness.settle()
    pod = next(iter(harness.caches.pods.store))

    harness.on_pod.on_delete(pod, final_state_known=False)

    assert [gone.name for gone in harness.notes.departed_pods.of(harness.job["metadata"]["uid"])] == ["j-worker-0"]


async def test_a_pod_of_another_namespace_is_no_successor_of_a_deleted_one(harness):
    """Whoever may create pods there can write any owner into them."""
    await harness.settle()
    pod = next(iter(harness.caches.pods.store))
    harness.on_pod.on_delete(pod, final_state_known=True)
    forged = structs.replace(
        pod, namespace="theirs", uid="forged", resource_version="9", pod=pod.pod.changed(uid="forged")
    )

    harness.on_pod.on_add(forged)
    assert len(harness.notes.departed_pods.of(pod.owner)) == 1

    harness.on_pod.on_add(structs.replace(forged, namespace="ns", uid="next"))
    assert harness.notes.departed_pods.of(pod.owner) == ()


async def test_a_pod_that_failed_and_was_deleted_before_anybody_looked_has_failed(harness):
    await harness.settle()
    ran = next(iter(harness.caches.pods.store))
    failed = structs.replace(ran, pod=structs.replace(ran.pod, phase="Failed"))
    leaving = structs.replace(ran, pod=structs.replace(failed.pod, is_terminating=True))

    for old, new in ((ran, failed), (failed, leaving)):
        harness.on_pod.on_update(old, new)
    harness.on_pod.on_delete(leaving, final_state_known=True)

    (gone,) = harness.notes.departed_pods.of(harness.job["metadata"]["uid"])
    assert (gone.phase, gone.is_terminating) == ("Failed", False)


async def test_what_becomes_known_of_a_pod_after_its_end_is_in_its_last_state(harness):
    await harness.settle()
    ran = next(iter(harness.caches.pods.store))
    failed = structs.replace(ran, pod=structs.replace(ran.pod, phase="Failed"))
    known = structs.replace(ran, pod=structs.replace(failed.pod, main=MainContainer(exit_code=3)))

    for old, new in ((ran, failed), (failed, known)):
        harness.on_pod.on_update(old, new)
    harness.on_pod.on_delete(known, final_state_known=True)

    (gone,) = harness.notes.departed_pods.of(harness.job["metadata"]["uid"])
    assert gone.main.exit_code == 3


def test_a_deleted_pod_that_is_no_replica_is_not_kept(harness):
    harness.on_pod.on_delete(
        CachedPod("x", "ns", "p", "9", harness.job["metadata"]["uid"], None), final_state_known=True
    )

    assert harness.notes.departed_pods.of(harness.job["metadata"]["uid"]) == ()


async def test_with_a_job_everything_that_was_remembered_of_it_goes(harness):
    await harness.settle()
    harness.on_pod.on_delete(next(iter(harness.caches.pods.store)), final_state_known=True)
    stored = harness.jobs.get(KEY)
    harness.debounce.note(stored.metadata.uid, 1.0)
    harness.pending_writes.outcome_unknown(OwnerKey(KEY, stored.metadata.uid), str(resources.PODS))
    harness.queue.add_rate_limited(KEY)

    harness.on_job.on_delete(stored, final_state_known=True)

    kept = len(harness.notes), len(harness.debounce), harness.pending_writes.owners, harness.queue.retries(KEY)
    assert kept == (0, 0, 0, 0)


async def test_a_new_pod_leads_to_its_job_and_takes_the_place_of_the_last_one(harness):
    await harness.settle()
    pod = next(iter(harness.caches.pods.store))
    harness.notes.departed_pods.note_deleted(pod.owner, pod.pod.changed(uid="last", phase="Succeeded"))

    harness.on_pod.on_add(pod)

    assert harness.queue.delayed == 1
    assert harness.notes.departed_pods.of(pod.owner) == ()
