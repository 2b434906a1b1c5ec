"""The loop of the queue: what it counts, when it plans, what it writes, and what it waits for."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest
from structlog.testing import capture_logs

from support.embedded.queue_world import ADMITTED, QUEUED, READ_POD, RUNS, RUNS_WITH_TWO, SLOT, QueueWorld
from support.jobs import builders
from tf_operator.controller.job_queue import planner, set_aside
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue.schedule import Cluster, make_schedule
from tf_operator.planning.snapshot import Settings

HAS_WAITED = {"conditions": QUEUED, "queue": {"queuedTime": "2025-12-31T23:57:30Z"}}
DIGEST = "78da7e6645428a40"
"""Of pods with one slot: an operator that works it out in another way queues every job again."""


async def test_an_admission_is_written_once_and_guarded_by_the_version_that_it_was_decided_on():
    world = QueueWorld()
    world.node(3)
    world.job()
    await world.pass_seconds(20)

    (written,) = world.written
    queue = ADMITTED | {"node": "n", "admittedWorkers": 2, "admittedPodsDigest": DIGEST}
    assert written == ("j", "1", {"queue": queue})
    assert world.measured.decisions == 1


async def test_a_job_that_comes_while_the_queue_is_at_rest_is_admitted():
    world = QueueWorld()
    world.node(3)
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(5)
    world.job()
    await world.clock.advance(2)
    assert [name for name, *_ in world.written] == ["j"]
    task.cancel()


async def test_a_job_that_is_queued_again_before_it_has_started_is_admitted_again():
    """Its condition says all the time that it is queued, and nothing else happens in the cluster."""
    world = QueueWorld()
    world.node(3)
    world.job(queue=ADMITTED | {"admittedPodsDigest": "another"})
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(2)
    assert not world.written
    world.job(version="2", queue={"queuedTime": ADMITTED["queuedTime"]})
    await world.clock.advance(2)
    assert [version for _, version, _ in world.written] == ["2"]
    task.cancel()


async def test_a_resize_from_which_no_pod_comes_or_goes_is_followed_by_another_plan():
    """Its user takes a worker away, the queue gives it back, and five minutes later it belongs to who waits."""
    world = QueueWorld()
    world.node(3)
    for index in range(2):
        world.pod(f"j-worker-{index}", owner="uid-j")
    world.job("j", 1, **RUNS_WITH_TWO)
    world.waits(builders.tfjob("other").workers(2, template=SLOT), day=2, **HAS_WAITED)
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(62)
    (grown,) = (body["elastic"] for _, _, body in world.written)
    assert grown["workers"] == 2

    world.job("j", 1, version="2", **RUNS_WITH_TWO, elastic=grown)
    await world.clock.advance(303)
    assert [body["elastic"]["workers"] for _, _, body in world.written] == [2, 1]
    task.cancel()


async def test_a_job_gives_up_workers_soon_after_it_has_saved_its_work():
    world = QueueWorld()
    world.node(1)
    world.pod("j-worker-1", owner="uid-j")
    world.waits(builders.tfjob("other").workers(1, template=SLOT), **HAS_WAITED)
    task = asyncio.ensure_future(world.planner.run())
    for time, resizes in (("2025-12-31T23:50:50Z", []), ("2025-12-31T23:59:50Z", ["j"])):
        world.job(version=time[14:16], trainerStatus={"step": 7}, checkpoint={"step": 7, "time": time}, **RUNS_WITH_TWO)
        await world.clock.advance(15)
        assert [name for name, *_ in world.written] == resizes
    task.cancel()


async def test_why_a_job_cannot_fit_is_noted_once_and_taken_back_when_it_can():
    world = QueueWorld()
    world.node(2)
    world.job(workers=3, least=3)
    await world.pass_seconds(8)
    unfit = {"cause": "TooManyPods", "replicaType": "Worker"}
    assert world.written == [("j", "1", {"queue": {"unfit": unfit}})]

    world.job(workers=3, least=3, version="2", queue={"queuedTime": ADMITTED["queuedTime"], "unfit": unfit})
    await world.pass_seconds(8)
    assert len(world.written) == 1

    world.pod("theirs")
    world.node(3)
    await world.pass_seconds(8)
    assert world.written[1:] == [("j", "2", {"queue": {"unfit": None}})]
    assert (world.measured.length, world.measured.decisions) == (1, 0)


async def test_jobs_that_an_older_version_had_in_the_queue_go_on_where_they_were():
    """It kept what it decided in ``elastic``; the decision about a job takes it from there."""
    world = QueueWorld()
    world.node(6)
    older = ADMITTED | {"admittedWorkers": 2, "admittedPodsDigest": DIGEST, "node": "n"}
    world.job("admitted", conditions=QUEUED, elastic=older)
    world.job("waits", elastic={"queuedTime": ADMITTED["queuedTime"]})
    await world.pass_seconds(8)

    queue = older | {"admittedTime": world.written[0][2]["queue"]["admittedTime"]}
    assert world.written == [("waits", "1", {"queue": queue, "elastic": None})]


async def decided_without_the_caches():
    """The queue has admitted a job, which the caches do not show yet, and another one has come."""
    world = QueueWorld()
    world.node(3)
    world.job()
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(2)
    world.job("other", 1)
    return world, task


async def test_nothing_is_planned_before_the_caches_show_what_was_decided():
    world, task = await decided_without_the_caches()
    await world.clock.advance(5)
    assert [name for name, *_ in world.written] == ["j"]
    world.job(version="2", **RUNS)
    await world.clock.advance(2)
    assert [name for name, *_ in world.written] == ["j", "other"]
    task.cancel()


async def test_caches_are_waited_for_for_half_a_minute():
    world, task = await decided_without_the_caches()
    await world.clock.advance(30 - 3)
    assert [name for name, *_ in world.written] == ["j"]
    await world.clock.advance(1)
    assert [name for name, *_ in world.written] == ["j", "j", "other"]
    task.cancel()


def test_what_a_pod_asks_for_as_a_whole_is_what_it_holds_of_its_node():
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "resources": {"requests": {"cpu": "4"}}}}

    assert READ_POD(msgspec.json.encode(pod)).requests == (("cpu", 4000), ("pods", 1000))


@pytest.mark.parametrize(
    ("before", "after", "admitted"),
    [({}, {"phase": "Succeeded"}, ["j"]), ({"node": ""}, {}, []), ({}, {}, [])],
    ids=["it has ended", "it is bound", "nothing that counts"],
)
async def test_a_pod_holds_its_room_from_when_it_is_bound_until_it_ends(before, after, admitted):
    world = QueueWorld()
    world.node(2)
    world.pod("theirs", **before)
    world.pod("theirs", version="2", **after)
    world.job("j", 2, least=2)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == admitted


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (NotLeading("over"), []),
        (errors.Conflict(409, errors.Status()), ["a decision was not recorded"]),
        (RuntimeError("a bug"), ["planning the job queue panicked; retrying"]),
    ],
)
async def test_a_decision_that_was_not_written_is_made_again_and_the_log_says_why(error, logged):
    world = QueueWorld()
    world.node(3)
    world.job()
    world.fails = error
    with capture_logs() as logs:
        await world.pass_seconds(2)
    assert [*dict.fromkeys(record["event"] for record in logs)] == logged
    world.fails = None
    await world.pass_seconds(2)

    assert len(world.written) == 1


async def test_nobody_waits_for_room_that_is_given_in_vain_to_a_job_whose_status_is_refused():
    """Such as a job that is as large as an object may be: it needs no quota, and would keep idle nodes for ever."""
    world = QueueWorld()
    world.node(2)
    world.refused = {"big"}
    world.waits(builders.tfjob("big").workers(2, template=SLOT))
    world.waits(builders.tfjob("later").workers(1, template=SLOT), day=2)
    with capture_logs() as logs:
        await world.pass_seconds(8)
    assert [name for name, *_ in world.written] == ["later"]
    assert [record["job"] for record in logs if record["log_level"] == "warning"] == ["ns/big"]

    world.refused = set()
    world.node(3)
    await world.pass_seconds(60 + 2)
    assert "big" in {name for name, *_ in world.written}


async def test_a_job_that_runs_keeps_its_workers_while_decisions_about_it_are_refused():
    world = QueueWorld()
    world.node(6)
    world.refused = {"scaled"}
    world.pod("scaled-worker-0", owner="scaled")
    world.waits(builders.tfjob("scaled").workers(6, template=SLOT).dynamic_workers(), **RUNS_WITH_TWO)
    world.waits(builders.tfjob("later").workers(4, template=SLOT), day=2)
    world.waits(builders.tfjob("last").workers(1, template=SLOT), day=3)  # would get the room of its other worker
    await world.pass_seconds(8)

    assert [name for name, *_ in world.written] == ["later"]


async def test_an_outage_leaves_no_job_out():
    world = QueueWorld()
    world.node(2)
    world.job()
    world.fails = errors.Unavailable(503, errors.Status())
    await world.pass_seconds(10)
    world.fails = None
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == ["j"]


async def test_nothing_is_planned_while_it_is_not_known_which_pods_there_are():
    world = QueueWorld()
    world.node(3)
    world.job()
    world.planner.pods = SimpleNamespace(is_stale=lambda namespace: namespace == "")
    await world.pass_seconds(5)

    assert not world.written
    assert world.planner.usage.has_changed


async def test_who_drains_decides_nothing_more():
    world = QueueWorld()
    world.node(3)
    world.job()
    await world.planner.drain()
    await world.pass_seconds()

    assert not world.written


@pytest.mark.parametrize(
    ("status", "is_started"),
    [({}, True), ({"conditions": [{"type": "Suspended", "status": "True"}]}, False), ({"conditions": []}, False)],
    ids=["queued", "suspended", "not seen by a reconcile"],
)
async def test_only_a_job_that_is_queued_is_admitted(status, is_started):
    world = QueueWorld()
    world.node(3)
    world.job(**status)
    await world.pass_seconds()

    assert bool(world.written) == is_started


async def test_what_other_pods_hold_of_a_node_is_not_free_until_they_have_ended():
    world = QueueWorld()
    world.node(2)
    world.pod("theirs")
    world.job(workers=2)
    await world.pass_seconds()
    assert [body["elastic"]["workers"] for _, _, body in world.written] == [1]

    world = QueueWorld()
    world.node(2)
    world.pod("theirs")
    world.pod("theirs", phase="Succeeded", version="2")
    world.job(workers=2)
    await world.pass_seconds()
    assert "workers" not in world.written[0][2]


async def test_a_running_job_grows_and_its_number_is_recorded_beside_the_one_of_the_spec():
    world = QueueWorld(grow_after=timedelta(seconds=10))
    world.node(3)
    world.job(**RUNS)
    for index in range(2):
        world.pod(f"j-worker-{index}", owner="uid-j")
    await world.pass_seconds(9)
    assert not world.written
    await world.pass_seconds(3)

    (patch,) = [body for _, _, body in world.written]
    assert patch["elastic"].pop("resizedTime")
    assert patch == {"elastic": {"workers": 3, "specWorkers": 2}, "queue": {"admittedWorkers": 3}}


@pytest.mark.parametrize(
    ("slots", "workers", "is_resized"), [(4, 3, True), (7, 6, False)], ids=["some of them", "all of them"]
)
async def test_workers_that_an_edit_adds_wait_for_room_by_the_rank_of_their_job(slots, workers, is_resized):
    world = QueueWorld()
    world.node(slots)
    world.priority("high", 10)
    world.waits(builders.tfjob("before").workers(1, template=SLOT.spec(priorityClassName="high")), day=9)
    for index in range(2):
        world.pod(f"scaled-worker-{index}", owner="scaled")
    world.waits(builders.tfjob("scaled").workers(6, template=SLOT).dynamic_workers(), **RUNS_WITH_TWO)
    await world.pass_seconds(2)

    (first, *_), (name, _, patch) = world.written
    assert (first, name) == ("before", "scaled")
    assert bool(patch["elastic"].pop("resizedTime", None)) == is_resized
    assert patch == {"elastic": {"workers": workers, "specWorkers": 6}, "queue": {"admittedWorkers": workers}}


@pytest.mark.parametrize(
    ("slots", "status", "expected"),
    [
        (6, {"workers": 2, "specWorkers": 3}, {"queue": {"admittedParameterServers": 3}}),
        (
            5,
            {},
            {"queue": {"admittedParameterServers": 2}, "elastic": {"resizedTime": "2026-01-01T00:00:00Z"}},
        ),
    ],
    ids=["all of them", "one of them"],
)
async def test_parameter_servers_that_an_edit_adds_wait_for_room_by_the_rank_of_their_job(slots, status, expected):
    """The numbers of its workers stay as they were decided."""
    world = QueueWorld()
    world.node(slots)
    world.priority("high", 10)
    world.waits(builders.tfjob("before").workers(1, template=SLOT.spec(priorityClassName="high")), day=9)
    for pod in ("ps-0", "worker-0", "worker-1"):
        world.pod(f"scaled-{pod}", owner="scaled")
    job = builders.tfjob("scaled").workers(3 if status else 2, template=SLOT).parameter_servers(3, template=SLOT)
    job = job.elastic(1, 3, parameterServers={"minReplicas": 1, "maxReplicas": 3})
    queue = ADMITTED | {"admittedWorkers": 2, "admittedParameterServers": 1}
    world.waits(job, **RUNS | {"queue": queue, "elastic": status})
    await world.pass_seconds(2)

    (first, *_), (name, _, patch) = world.written
    assert (first, name, patch) == ("before", "scaled", expected)


async def test_a_job_remembers_for_how_many_parameter_servers_it_was_admitted():
    world = QueueWorld()
    world.node(3)
    policy = {"parameterServers": {"minReplicas": 1, "maxReplicas": 3}}
    world.waits(
        builders.tfjob("j").workers(2, template=SLOT).parameter_servers(1, template=SLOT).elastic(1, 4, **policy)
    )
    await world.pass_seconds(2)

    assert [patch["queue"]["admittedParameterServers"] for _, _, patch in world.written] == [1]


@pytest.mark.parametrize(("asked_for", "written"), [(3, []), (2, [("j", 3)])], ids=["no edit", "an edit"])
async def test_workers_that_an_edit_adds_come_at_once_and_those_that_the_queue_has_taken_later(asked_for, written):
    world = QueueWorld()
    world.node(3)
    for index in range(2):
        world.pod(f"j-worker-{index}", owner="uid-j")
    world.job("j", 3, **RUNS_WITH_TWO, elastic={"workers": 2, "specWorkers": asked_for})
    await world.pass_seconds(5)

    assert [(name, patch["queue"]["admittedWorkers"]) for name, _, patch in world.written] == written


async def test_a_job_that_was_admitted_without_workers_asks_for_room_for_those_that_an_edit_adds():
    world = QueueWorld()
    world.node(3)
    none = RUNS_WITH_TWO | {"queue": {"admittedWorkers": 0}}
    world.waits(builders.tfjob("scaled").workers(2, template=SLOT).dynamic_workers(), **none)
    await world.pass_seconds(2)

    assert [(name, patch["queue"]["admittedWorkers"]) for name, _, patch in world.written] == [("scaled", 2)]


@pytest.mark.parametrize(
    ("digest", "first"), [("another", "later"), (DIGEST, "edited")], ids=["something else", "the same"]
)
async def test_a_job_that_asks_for_something_else_than_it_was_admitted_with_gets_nothing_more_before_it_is_queued_again(
    digest, first
):
    world = QueueWorld()
    world.node(3)
    world.pod("edited-worker-0", owner="edited")
    queue = ADMITTED | {"admittedWorkers": 2, "admittedParameterServers": 0, "admittedPodsDigest": digest}
    job = builders.tfjob("edited").workers(3, template=SLOT).dynamic_workers()
    world.waits(job, **RUNS | {"queue": queue})
    world.waits(builders.tfjob("later").workers(2, template=SLOT), day=2)
    await world.pass_seconds(8)

    assert [name for name, *_ in world.written] == [first]


async def test_room_for_pods_that_nobody_places_is_kept_for_a_while():
    world = QueueWorld()
    world.node(2)
    world.job("stuck", 2, **RUNS)
    world.job("j", 2)
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(300 - 2)
    assert not world.written
    await world.clock.advance(2)
    assert [name for name, *_ in world.written] == ["j"]
    task.cancel()


@pytest.mark.parametrize(("phase", "resized"), [("Restarting", []), ("Running", ["whole"])])
@pytest.mark.parametrize("others", [0, 1], ids=["it might grow", "it might shrink"])
async def test_a_job_is_not_resized_by_the_queue_while_it_starts_again_as_a_whole(phase, resized, others):
    world = QueueWorld(shrink_after=timedelta(seconds=1), grow_after=timedelta(seconds=1))
    world.node(3)
    for index in range(2):
        world.pod(f"whole-worker-{index}", owner="whole", phase="Pending")
    job = builders.tfjob("whole").workers(2, template=SLOT).elastic(1, 4).restarts_as_a_whole()
    world.waits(job, **RUNS_WITH_TWO | {"conditions": [{"type": phase, "status": "True"}], "attempt": 2})
    for _ in range(others):
        since = {"queuedTime": RUNS["startTime"]}
        world.waits(builders.tfjob("later").workers(2, template=SLOT), day=9, conditions=QUEUED, queue=since)
    await world.pass_seconds(5)

    assert [name for name, *_ in world.written] == resized


async def test_a_job_that_starts_again_as_a_whole_keeps_its_room():
    world = QueueWorld()
    world.node(2)
    job = builders.tfjob("whole").workers(2, template=SLOT).restarts_as_a_whole()
    world.waits(job, **RUNS_WITH_TWO | {"conditions": [{"type": "Restarting", "status": "True"}], "attempt": 2})
    world.waits(builders.tfjob("later").workers(1, template=SLOT), day=9)
    await world.pass_seconds(5)

    assert not world.written


async def test_no_room_is_kept_for_workers_of_an_edit_that_is_ignored():
    world = QueueWorld()
    world.node(3)
    for index in range(2):
        world.pod(f"edited-worker-{index}", owner="edited")
    sizes = {"allRunningTime": RUNS["startTime"], "replicaStatuses": {"Worker": {"clusterSize": 2}}}
    world.waits(builders.tfjob("edited").workers(6, template=SLOT), **RUNS, **sizes)
    world.waits(builders.tfjob("later").workers(1, template=SLOT), day=9)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == ["later"]


@pytest.mark.parametrize(
    ("restart", "clean_pods", "status", "admitted"),
    [
        ("", "Some", {}, ["later"]),
        ("", "Some", RUNS, []),
        ("Maybe", "All", RUNS, ["later"]),
    ],
    ids=["it waits", "it runs, and may go on", "it runs, and fails"],
)
async def test_no_room_is_kept_for_a_job_that_fails_of_what_is_wrong_with_it(restart, clean_pods, status, admitted):
    """A job that an older operator has started goes on with what that one had allowed."""
    world = QueueWorld()
    world.node(2)
    job = builders.tfjob("wrong").workers(2, restart=restart, template=SLOT)
    world.waits(job.clean_pods(clean_pods), **status)
    world.waits(builders.tfjob("later").workers(1, template=SLOT), day=9)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == admitted


async def test_room_is_kept_for_a_pod_to_come_of_a_job_with_an_edit_that_is_ignored():
    """And the numbers of such a job stay as they are."""
    world = QueueWorld(grow_after=timedelta(0))
    world.node(3)
    world.pod("edited-worker-0", owner="edited")
    sizes = {"allRunningTime": RUNS["startTime"], "replicaStatuses": {"Worker": {"clusterSize": 2}}}
    status = RUNS_WITH_TWO | sizes
    world.waits(builders.tfjob("edited").workers(50, template=SLOT).elastic(1, 4), **status)
    world.waits(builders.tfjob("later").workers(2, template=SLOT), day=9)
    await world.pass_seconds(2)
    assert world.written == []

    world.pod("edited-worker-1", owner="edited")
    world.jobs.remove(ObjectKey("ns", "later"))
    world.node(9)
    await world.pass_seconds(2)
    assert world.written == []


@pytest.mark.parametrize(("count", "admitted"), [(999, []), (1000, ["later"])])
async def test_nodes_are_not_compared_with_very_many_rules_of_a_job_that_an_edit_gave_them(count, admitted):
    """It costs everybody's plans a second and more; so no room is kept for its pods to come."""
    world = QueueWorld()
    world.node(2)
    names = [f"node-{number}" for number in range(count)]
    term = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": names}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    edited = SLOT.spec(affinity={"nodeAffinity": required})
    world.waits(builders.tfjob("edited").workers(2, template=edited), **RUNS)
    world.waits(builders.tfjob("later").workers(2, template=SLOT), day=9)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == admitted


@pytest.mark.parametrize(("terms", "expected"), [(1, ["later"]), (333, ["later"]), (334, [])])
async def test_no_room_is_kept_on_a_node_that_a_job_avoids_unless_it_would_cost_too_much(terms, expected):
    world = QueueWorld()
    world.node(2)
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}] * terms}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    avoids = (
        builders.tfjob("avoids")
        .workers(2, template=SLOT.spec(affinity=affinity, tolerations=[{"operator": "Exists"}]))
        .avoid_nodes(1)
    )
    node = {"node": "n", "failures": 1, "time": "2026-01-01T00:00:00Z", "avoided": True}
    world.waits(avoids, **RUNS, avoidedNodes=[node])
    world.waits(builders.tfjob("later").workers(2, template=SLOT), day=9)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == expected


async def test_no_room_is_kept_for_pods_that_are_refused():
    """Else who has no quota at all keeps idle nodes from everybody, by one job after the other."""
    world = QueueWorld()
    world.node(2)
    world.job("refused", 2, version="7", **RUNS, pending={"type": "Rejected", "object": "pod refused-worker-0"})
    world.job("j", 2, least=2)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == ["j"]


async def test_a_job_ranks_by_the_class_that_all_its_pods_carry():
    """No quota for a class, and no admission, sees what only the job says."""
    world = QueueWorld()
    world.node(2)
    world.job("early", 1)
    high, low = (SLOT.spec(priorityClassName=name) for name in ("high", "low"))
    world.priority("high", 10)
    world.waits(builders.tfjob("claims").workers(1, template=SLOT).scheduling(priority_class="high"))
    world.waits(builders.tfjob("mixed").workers(1, template=low).parameter_servers(1, template=high))
    world.waits(builders.tfjob("urgent").workers(1, template=high).scheduling(priority_class="unknown"), day=9)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == ["urgent", "claims"]


async def test_a_job_that_has_pods_ranks_by_their_class_whatever_its_template_says_now():
    """An edit of the template takes nobody's turn, and protects no worker that runs."""
    world = QueueWorld()
    world.node(3)
    world.priority("high", 10)
    for index in range(2):
        world.pod(f"edited-worker-{index}", owner="edited")
    high = SLOT.spec(priorityClassName="high")
    world.waits(builders.tfjob("edited").workers(6, template=high).dynamic_workers(), day=9, **RUNS_WITH_TWO)
    world.waits(builders.tfjob("before").workers(1, template=SLOT))
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == ["before"]


async def test_a_class_that_the_operator_gives_to_pods_counts():
    """Pods of a native gang get it."""
    world = QueueWorld()
    world.settings = Settings(gang_scheduler="native")
    world.node(1)
    world.priority("high", 10)
    world.waits(builders.tfjob("early").workers(1, template=SLOT))
    world.waits(builders.tfjob("urgent").workers(1, template=SLOT).scheduling(priority_class="high"), day=9)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == ["urgent"]


async def test_what_the_operator_adds_to_a_pod_is_counted_for_as_long_as_it_adds_it():
    world = QueueWorld()
    world.settings = Settings(restarts_in_place=True)
    world.node(2, more={"cpu": "15m", "memory": "1Gi"})
    world.job("j", 2, least=2, policy={"restartInPlace": True})
    await world.pass_seconds(3)
    assert [body["queue"].keys() for _, _, body in world.written] == [{"unfit"}]

    world.settings, world.usage.has_changed = Settings(), True
    world.job("j", 2, version="2", least=2, policy={"restartInPlace": True})
    await world.pass_seconds(3)
    assert world.written[1][2]["queue"]["admittedWorkers"] == 2


async def test_a_job_without_pods_is_not_in_the_queue_and_stops_nobody():
    world = QueueWorld()
    world.node(3)
    world.job("empty", 0)
    world.job("j", 2)
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == ["j"]
    assert not world.measured.panics


def panic_on(world, monkeypatch, *names):
    """Have plans panic in which one of these jobs waits."""

    def plan(cluster):
        if any(job.key.name in names for job in cluster.jobs):
            raise IndexError("a bug")
        return make_schedule(cluster)

    for module in (planner, set_aside):
        monkeypatch.setattr(module, "make_schedule", plan)


async def test_a_job_on_which_plans_panic_is_left_out_until_it_changes_or_a_minute_is_over(monkeypatch):
    world = QueueWorld()
    panic_on(world, monkeypatch, "bad")
    world.node(9)
    for name in ("a", "bad", "z"):
        world.job(name, 1)
    with capture_logs() as logs:
        await world.pass_seconds(2)
    assert [name for name, *_ in world.written] == ["a", "z"]
    assert [record["job_name"] for record in logs if record["log_level"] == "error"] == ["bad"]
    assert (world.measured.panics, world.measured.left_out) == (1, 1)

    world.job("bad", 1, version="2")
    await world.pass_seconds(40)
    assert world.measured.panics == 2
    monkeypatch.undo()
    await world.pass_seconds(60)
    assert "bad" in {name for name, *_ in world.written}
    assert world.measured.left_out == 0


async def test_of_jobs_that_are_left_out_for_several_reasons_the_first_is_tried_again_first(monkeypatch):
    world = QueueWorld()
    panic_on(world, monkeypatch, "bad")
    world.node(9)
    world.job("bad", 1)
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(30)
    world.refused = {"big"}
    world.job("big", 1)
    await world.clock.advance(20)
    monkeypatch.undo()
    assert not world.written

    await world.clock.advance(60 - 50)
    assert [name for name, *_ in world.written] == ["bad"]
    task.cancel()


async def test_a_namespace_whose_every_job_panics_is_left_out_as_a_whole(monkeypatch):
    world, names = QueueWorld(), [f"bad-{number:02}" for number in range(30)]
    panic_on(world, monkeypatch, *names)
    world.node(3)
    for name in names:
        world.job(name, 1)
    world.job("theirs", 1, namespace="others")
    tried = []
    monkeypatch.setattr(planner, "find_culprit", lambda *args: tried.append(1) or set_aside.find_culprit(*args))
    await world.pass_seconds(2)

    assert [name for name, *_ in world.written] == ["theirs"]
    assert len(tried) == 10
    assert world.measured.left_out == 30


async def test_a_queue_that_cannot_plan_says_for_how_long_and_one_that_does_not_lead_is_not_late(monkeypatch):
    world = QueueWorld()
    world.node(3)
    world.job()
    monkeypatch.setattr(planner.QueuePlanner, "_schedule", lambda *_: 1 / 0)
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(100)
    assert world.planner.stalled_seconds == pytest.approx(100, abs=2)
    assert world.measured.panics == pytest.approx(100, abs=2)
    assert not world.measured.left_out
    monkeypatch.undo()
    await world.clock.advance(2)
    assert world.planner.stalled_seconds == 0
    task.cancel()
    await asyncio.wait([task])
    assert world.planner.stalled_seconds == 0


async def test_a_queue_that_may_not_read_nodes_is_late_too():
    world = QueueWorld()
    world.job()
    world.planner.nodes = SimpleNamespace(store=world.nodes, is_stale=lambda _namespace: True)
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(50)
    assert world.planner.stalled_seconds == pytest.approx(50, abs=2)
    task.cancel()
    await asyncio.wait([task])
    assert world.planner.stalled_seconds == 0


async def test_what_is_no_fault_of_a_job_is_blamed_on_none(monkeypatch, clock):
    cluster = Cluster(clock.now(), (), ())
    for module in (planner, set_aside):
        monkeypatch.setattr(module, "make_schedule", lambda _cluster: 1 / 0)

    assert await set_aside.find_culprit(cluster, clock) is None
    with pytest.raises(ZeroDivisionError):
        await QueueWorld().planner._schedule(cluster, {})


@pytest.mark.parametrize(("seconds", "starts"), [(300, True), (900, False), (2**62, False)])
async def test_room_that_is_kept_is_lent_to_a_job_whose_deadline_comes_first(seconds, starts):
    """Also a deadline past the end of the calendar is one."""
    world = QueueWorld()
    world.node(3)
    world.waits(builders.tfjob("runs").workers(2, template=SLOT).deadline(600), **RUNS)
    for index in range(2):
        world.pod(f"runs-worker-{index}", owner="runs")
    large = builders.tfjob("large").workers(3, template=SLOT)
    world.waits(large, conditions=QUEUED, queue={"queuedTime": "2025-12-31T23:50:00Z"})
    small = builders.tfjob("small").workers(1, template=SLOT).deadline(seconds)
    world.waits(small, day=2, conditions=QUEUED, queue={"queuedTime": "2025-12-31T23:59:00Z"})
    await world.pass_seconds(10)
    assert [name for name, *_ in world.written] == ["small"] * starts


async def test_room_is_kept_for_who_has_waited_long_and_said_once():
    world = QueueWorld()
    world.node(3)
    world.job("runs", 2, version="7", **RUNS)
    for index in range(2):
        world.pod(f"runs-worker-{index}", owner="uid-runs")
    world.job("large", 3, least=3, queue={"queuedTime": "2025-12-31T23:50:00Z"})
    world.job("small", 1, queue={"queuedTime": "2025-12-31T23:59:00Z"})
    with capture_logs() as logs:
        for _ in range(3):
            world.node(3)
            await world.pass_seconds(10)

    assert world.written == []
    assert [record["job"] for record in logs if record["event"] == "keeping room"] == ["ns/large"]


async def test_an_idle_cluster_is_not_planned_again():
    world = QueueWorld()
    world.node(1)
    world.job("waits")
    world.job("runs", **RUNS)
    await world.pass_seconds(2)
    planned = []
    world.planner.jobs.at = lambda now: planned.append(now) or {}
    task = asyncio.ensure_future(world.planner.run())
    await world.clock.advance(1)
    world.node(1)  # a heartbeat
    world.job("waits", version="2")  # a label
    world.job("runs", version="2", **RUNS, ready="1/2")
    await world.clock.advance(30)
    assert len(planned) == 1  # at the beginning of the term
    world.node(1, unschedulable=True)
    await world.clock.advance(2)
    assert len(planned) == 2
    world.usage.on_delete(READ_POD(b'{"metadata":{"name":"p"}}'), final_state_known=True)
    task.cancel()
