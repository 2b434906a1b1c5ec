"""The queue: its golden cases, and what holds for every schedule."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from golden import case, job_queue_case
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import ElasticRange
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_queue.capacity import Node
from tf_operator.planning.job_queue.jobs import Admit, BoundPod, QueueJob, ReplicaNeed, Resize, Schedule
from tf_operator.planning.job_queue.limits import Limits
from tf_operator.planning.job_queue.schedule import Cluster, QueueRules, make_schedule

ROOT = Path(__file__).resolve().parents[4]
NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
WORKER = ReplicaType.WORKER


@pytest.mark.parametrize("name", case.topics(ROOT, job_queue_case.FOLDER))
def test_the_schedule_of_a_case_is_the_one_in_its_file(name):
    path = ROOT / job_queue_case.FOLDER / f"{name}{case.PLAN}"

    assert path.read_text(encoding="utf-8") == job_queue_case.text(job_queue_case.read(ROOT, name))


def test_a_namespace_with_very_many_waiting_jobs_costs_no_more_than_its_first_hundred():
    shape = shapes.Shape(shapes.amounts({"gpu": 1}))
    needs = (ReplicaNeed(WORKER, 1, shape),)
    jobs = [QueueJob(ObjectKey("many", f"{number}"), f"{number:05}", NOW, needs, workers=1) for number in range(300)]
    jobs.append(QueueJob(ObjectKey("other", "j"), "z", NOW + timedelta(hours=1), needs, workers=1))
    schedule = make_schedule(Cluster(NOW, (Node("n", shapes.amounts({"gpu": 150})),), tuple(jobs)))

    assert Counter(decision.job.key.namespace for decision in schedule.decisions) == {"many": 100, "other": 1}
    assert schedule.waiting == 200


def test_jobs_that_can_never_fit_keep_no_later_one_of_their_namespace_waiting():
    """Of these, too, no more than a hundred are looked at, and not all of them noted at once."""
    small, large = (shapes.Shape(shapes.amounts({"gpu": number})) for number in (1, 8))
    jobs = [
        QueueJob(ObjectKey("team", f"{number}"), f"{number:03}", NOW, (ReplicaNeed(WORKER, 1, large),), workers=1)
        for number in range(99)
    ]
    jobs += [replace(jobs[0], uid=f"z{number}", needs=(ReplicaNeed(WORKER, 1, small),)) for number in range(4)]
    schedule = make_schedule(Cluster(NOW, (Node("n", shapes.amounts({"gpu": 4})),), tuple(jobs)))

    assert [decision.job.uid for decision in schedule.decisions] == ["z0", "z1", "z2", "z3"]
    assert len(schedule.notes) == 99


def test_jobs_with_many_rules_about_nodes_are_left_out_of_their_namespace():
    """A thousand are compared with each node; those that several jobs have count once."""

    def waiting(number, rules, namespace="team", first=0):
        keys = (shapes.Toleration(f"{first + key}") for key in range(rules))
        needs = (ReplicaNeed(WORKER, 1, shapes.Shape((), shapes.Places(tolerations=tuple(keys)))),)
        return QueueJob(ObjectKey(namespace, f"{number}"), f"{number}", NOW, needs, workers=1)

    jobs = waiting(1, 600), waiting(2, 600), waiting(3, 400, first=5), waiting(4, 1, first=7), waiting(5, 9, "other")
    schedule = make_schedule(Cluster(NOW, (Node("n"),), jobs))

    assert [decision.job.uid for decision in schedule.decisions] == ["1", "2", "3", "5"]


def test_room_is_kept_for_a_job_where_pods_of_another_one_are_still_to_come():
    shape = shapes.Shape(shapes.amounts({"gpu": 1}))
    needs = (ReplicaNeed(WORKER, 2, shape),)
    runs, waits = (QueueJob(ObjectKey(uid, uid), uid, NOW - timedelta(hours=2), needs, workers=2) for uid in "ab")
    runs = replace(runs, is_admitted=True)
    waits = replace(waits, queued_time=NOW - timedelta(hours=1))
    schedule = make_schedule(Cluster(NOW, (Node("n", shapes.amounts({"gpu": 2})),), (runs, waits)))

    assert (schedule.decisions, schedule.kept_for) == ((), waits)


GPU = shapes.Shape(shapes.amounts({"gpu": 1}))


def elastic(uid, workers, *, pods, resized=None):
    """A job that has run for an hour, and can do with one worker."""
    bound = tuple(BoundPod(WORKER, index, "n", GPU.requests) for index in range(pods))
    started, resized_time = NOW - timedelta(hours=1), resized and NOW - resized
    needs, allowed = (ReplicaNeed(WORKER, workers, GPU),), ElasticRange(WORKER, 1, workers)
    job = QueueJob(ObjectKey(uid, uid), uid, started, needs, elastic=allowed, workers=workers, pods=bound)
    return replace(job, is_admitted=True, admitted_time=started, resized_time=resized_time)


def waiting(uid, workers, waited, age=None):
    needs, queued = (ReplicaNeed(WORKER, workers, GPU),), NOW - timedelta(seconds=waited)
    created = NOW - timedelta(seconds=age or waited)
    return QueueJob(ObjectKey(uid, uid), uid, created, needs, workers=workers, queued_time=queued)


def decided(*jobs, gpus):
    """What becomes of jobs on one node: their workers."""
    used = sum(len(job.pods) for job in jobs)
    node = Node("n", shapes.amounts({"gpu": gpus}), shapes.amounts({"gpu": used}))
    return {decision.job.uid: decision.workers for decision in make_schedule(Cluster(NOW, (node,), jobs)).decisions}


@pytest.mark.parametrize(
    ("jobs", "workers"),
    [
        ((waiting("old", 3, 200, age=220), waiting("small", 1, 200, age=210)), 3),
        ((waiting("old", 3, 300), waiting("small", 1, 290)), 1),
        ((waiting("small", 1, 180, age=3600), waiting("old", 2, 360)), 2),
    ],
    ids=["for who needs the fewest", "for who has waited for five minutes", "also beside an older one"],
)
def test_workers_are_given_up_for_one_job(jobs, workers):
    assert decided(elastic("runs", 4, pods=4), *jobs, gpus=4) == {"runs": workers}


@pytest.mark.parametrize(
    ("saved", "workers"), [((30, 30), {"a": 1, "b": 1}), ((60, 30), {"a": 1, "b": 1}), ((61, 30), {}), ((30, 61), {})]
)
def test_workers_stay_until_the_last_of_their_jobs_has_saved_its_work(saved, workers):
    times = (NOW - timedelta(seconds=seconds) for seconds in saved)
    runs = [replace(elastic(uid, 2, pods=2), checkpoint_time=time) for uid, time in zip("ab", times, strict=True)]

    assert decided(*runs, waiting("waits", 2, 200), gpus=4) == workers


def test_nobody_gives_up_workers_while_others_that_were_given_up_still_leave():
    leaves = elastic("leaves", 2, pods=3, resized=timedelta(minutes=1))

    assert decided(leaves, elastic("runs", 2, pods=2), waiting("waits", 1, 200), gpus=5) == {}


def test_a_worker_that_does_not_leave_is_not_given_up_again():
    stuck = elastic("stuck", 2, pods=3, resized=timedelta(minutes=10))

    assert decided(stuck, waiting("waits", 1, 200), gpus=3) == {"stuck": 1}


def test_nobody_takes_the_room_of_the_job_for_which_workers_are_leaving():
    leaves = elastic("leaves", 2, pods=3, resized=timedelta(seconds=1))

    assert decided(leaves, waiting("first", 2, 120), waiting("second", 1, 0), gpus=4) == {}
    assert decided(leaves, waiting("first", 2, 119), waiting("second", 1, 0), gpus=4) == {"second": 1}


def test_workers_that_a_job_can_do_without_need_no_node():
    """Their size is no reason to say that it can never fit."""
    large = shapes.Shape(shapes.amounts({"gpu": 8}))
    job = QueueJob(ObjectKey("team", "j"), "j", NOW, (ReplicaNeed(WORKER, 1, large),), workers=1)
    limits = Limits([Node("n", shapes.amounts({"gpu": 4}))])

    assert limits.unfit(job, 0) is None
    assert limits.unfit(job, 1) is not None


def test_what_one_node_has_just_enough_of_is_not_what_a_job_lacks():
    shape = shapes.Shape(shapes.amounts({"cpu": 4, "gpu": 1}))
    job = QueueJob(ObjectKey("team", "j"), "j", NOW, (ReplicaNeed(WORKER, 1, shape),), workers=1)
    limits = Limits([Node("a", shapes.amounts({"cpu": 4})), Node("b", shapes.amounts({"cpu": 2, "gpu": 1}))])

    assert limits.unfit(job, 1).resource == ""


def test_where_only_some_resources_count_nobody_waits_for_others():
    shape = shapes.Shape(shapes.amounts({"cpu": 64, "nvidia.com/gpu": 2}))
    jobs = tuple(
        QueueJob(ObjectKey("team", name), name, NOW, (ReplicaNeed(WORKER, 1, shape),), workers=1) for name in "abc"
    )
    node = Node("n", shapes.amounts({"cpu": 8, "nvidia.com/gpu": 4}), shapes.amounts({"cpu": 8}))
    schedule = make_schedule(Cluster(NOW, (node,), jobs, QueueRules(counts=("nvidia.com/",))))

    assert [decision.job.uid for decision in schedule.decisions] == ["a", "b"]
    assert schedule.waiting == 1


@some.composite
def clusters(draw, waited=(timedelta(0), timedelta(minutes=3))):
    """Nodes with GPUs, jobs that run on them, some with more workers by an edit, and jobs that wait."""
    free = draw(some.lists(some.integers(0, 8), min_size=1, max_size=5))
    total, jobs = list(free), []
    for number in range(draw(some.integers(0, 8))):
        gpus, workers, least = (draw(some.integers(1, most)) for most in (2, 5, 5))
        shape = shapes.Shape(shapes.amounts({"gpu": gpus}))
        job = QueueJob(
            key=ObjectKey(f"team-{number % 2}", f"job-{number}"),
            uid=f"{number}",
            created=NOW + timedelta(seconds=number),
            needs=(ReplicaNeed(WORKER, workers, shape),),
            priority=draw(some.integers(0, 1)),
            elastic=ElasticRange(WORKER, min(least, workers), workers + draw(some.integers(0, 4))),
            workers=workers,
            queued_time=NOW - draw(some.sampled_from(waited)),
            longest=draw(some.sampled_from([None, timedelta(hours=1), timedelta(hours=2)])),
        )
        if draw(some.booleans()):
            pods = [draw(some.integers(0, len(free) - 1)) for _ in range(workers)]
            for node in pods:  # what runs has room
                total[node] += gpus
            resized = draw(some.sampled_from([None, NOW - timedelta(minutes=2), NOW - timedelta(hours=1)]))
            started = NOW - draw(some.sampled_from([timedelta(0), timedelta(minutes=3)]))
            bound = tuple(BoundPod(WORKER, index, f"{node}", shape.requests) for index, node in enumerate(pods))
            edited = draw(some.sampled_from([0, workers + 1, workers + 9]))
            job = replace(
                job, is_admitted=True, pods=bound, admitted_time=started, resized_time=resized, requested_workers=edited
            )
        jobs.append(job)
    nodes = tuple(
        Node(f"{index}", shapes.amounts({"gpu": size}), shapes.amounts({"gpu": size - left}))
        for index, (size, left) in enumerate(zip(total, free, strict=True))
    )
    return Cluster(NOW, nodes, tuple(jobs)), sum(free)


LONG = tuple(timedelta(minutes=minutes) for minutes in (0, 3, 6, 12, 90))


@given(clusters(LONG))
def test_what_is_decided_fits_and_keeps_every_bound(cluster_and_room):
    cluster, free = cluster_and_room
    schedule = make_schedule(cluster)
    taken = Counter[type]()
    for decision in schedule.decisions:
        job, gpus = decision.job, decision.job.worker.requests[0][1]
        assert job.elastic.least <= decision.workers <= max(job.elastic.most, job.requested_workers)
        if isinstance(decision, Resize):
            is_due = job.resized_time is None or cluster.now - job.resized_time >= cluster.rules.resize_interval
            assert is_due or decision.is_as_asked
            taken[Resize] += max(decision.workers - job.workers, 0) * gpus
            taken["shrinks"] += decision.workers < job.workers
            taken["grows"] += decision.workers > job.workers
        else:
            assert decision.workers in {job.workers, job.elastic.least}
            taken[Admit] += decision.workers * gpus

    assert taken[Resize] + taken[Admit] <= free
    assert not (taken["shrinks"] and (taken["grows"] or taken[Admit]))
    assert len({decision.job.uid for decision in schedule.decisions}) == len(schedule.decisions)


@given(clusters())
def test_nobody_is_left_waiting_for_whom_something_could_be_done(cluster_and_room):
    """If a job would start, or others would shrink for it, were it the only one that waits, then something is done."""
    cluster, _ = cluster_and_room
    running = tuple(job for job in cluster.jobs if job.is_admitted)
    for job in cluster.jobs:
        alone = make_schedule(replace(cluster, jobs=(*running, job))) if not job.is_admitted else Schedule()
        if any(isinstance(done, Admit) or done.workers < done.job.workers for done in alone.decisions):
            assert make_schedule(cluster).decisions


@given(clusters(LONG))
def test_the_same_cluster_has_the_same_schedule_in_any_order(cluster_and_room):
    cluster, _ = cluster_and_room
    backwards = replace(cluster, jobs=cluster.jobs[::-1])

    assert make_schedule(backwards) == make_schedule(cluster)


SAVED = some.sampled_from([None, *(timedelta(seconds=seconds) for seconds in (-30, 30, 120, 9 * 3600))])
"""How long ago programs say that they have saved their work, the future being one of their lies."""


@some.composite
def crowded(draw, waited):
    """A node that is full of elastic jobs, which may report checkpoints, and jobs that wait."""
    shape, jobs = shapes.Shape(shapes.amounts({"gpu": 1})), []
    for number in range(draw(some.integers(2, 7))):
        workers = draw(some.integers(1, 4))
        job = QueueJob(
            key=ObjectKey("team", f"job-{number}"),
            uid=f"{number}",
            created=NOW - timedelta(days=1) + timedelta(seconds=number),
            needs=(ReplicaNeed(WORKER, workers, shape),),
            priority=draw(some.integers(0, 1)),
            elastic=ElasticRange(WORKER, 1, workers),
            workers=workers,
            queued_time=NOW - draw(some.sampled_from(waited)),
        )
        if number % 2 == 0:
            pods = tuple(BoundPod(WORKER, index, "n", shape.requests) for index in range(workers))
            saved = draw(SAVED)
            saved_time = None if saved is None else NOW - saved
            job = replace(job, is_admitted=True, pods=pods, admitted_time=job.created, checkpoint_time=saved_time)
        else:
            job = replace(job, elastic=None)
        jobs.append(job)
    used = shapes.amounts({"gpu": sum(len(job.pods) for job in jobs)})
    return Cluster(NOW, (Node("n", used, used),), tuple(jobs), QueueRules(reserve_after=None))


NEARLY = timedelta(minutes=6, seconds=57)
"""How long a job has waited three seconds before it waits for no checkpoint any more."""


def silent(cluster):
    """The same, where nobody reports checkpoints."""
    return replace(cluster, jobs=tuple(replace(job, checkpoint_time=None) for job in cluster.jobs))


@given(crowded((timedelta(0), timedelta(minutes=7), timedelta(minutes=90))))
def test_nobody_who_has_waited_long_enough_waits_for_a_checkpoint(cluster):
    assert bool(make_schedule(cluster).decisions) == bool(make_schedule(silent(cluster)).decisions)


@given(crowded((timedelta(minutes=2), timedelta(minutes=3), timedelta(minutes=12), NEARLY)))
def test_who_waits_for_a_checkpoint_is_looked_at_again_as_soon_as_that_takes_too_long(cluster):
    schedule = make_schedule(cluster)
    if make_schedule(silent(cluster)).decisions and not schedule.decisions:
        waited = (cluster.now - job.queued_time for job in cluster.jobs if not job.is_admitted)
        times = [timedelta(minutes=7) - time for time in waited]
        assert timedelta(0) < schedule.wake_at - cluster.now <= min(time for time in times if time > timedelta(0))
        assert schedule.wake_at - cluster.now <= timedelta(seconds=10)


def test_pods_that_ask_for_nothing_have_room_on_any_node():
    needs = (ReplicaNeed(WORKER, 1, shapes.Shape()),)
    schedule = make_schedule(
        Cluster(NOW, (Node("n", ()),), (QueueJob(ObjectKey("team", "j"), "u", NOW, needs, workers=1),))
    )

    assert [decision.job.key.name for decision in schedule.decisions] == ["j"]
