"""Resizes and attempts in place: which pods they are told to, and which are given up because they cannot take them."""

from datetime import timedelta

import pytest
from msgspec import structs

from support.embedded.simulator import MORNING
from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of, snapshot_of
from tf_operator.job.record import ElasticRecord, ReplicaType
from tf_operator.planning import in_place
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss
from tf_operator.planning.resizing import SizeChange
from tf_operator.planning.snapshot import MainContainer, Pod, Settings

WORKER = ReplicaType.WORKER
ELASTIC = tfjob("j").workers(3).elastic(1, 4, restartInPlace=True)
AS_A_WHOLE = tfjob("j").workers(3).restarts_as_a_whole("InPlace")
SETTINGS = Settings(restarts_in_place=True)
BEFORE, AFTER = MORNING - timedelta(seconds=1), MORNING + timedelta(seconds=1)
POD = Pod("j-worker-0", "u", WORKER, 0, "Running", cluster_size="Worker=2", version="7")
DEAF = POD.changed(cluster_size="Worker=3", is_deaf=True, restarts_together=1, main=MainContainer(started_at=BEFORE))


def replica(pod=POD, **fields):
    spec = job_of(ELASTIC).replicas[0]
    values = {"outcome": None, "is_completed": False, "was_completed": False, "was_failed": False} | fields
    return Replica(spec, 0, "j-worker-0", "", pod, record=None, **{"loss": None} | values)


def after_a_resize(builder=ELASTIC, resized_time=MORNING):
    snapshot = snapshot_of(builder, settings=SETTINGS)
    record = snapshot.job.record.changed(elastic=ElasticRecord(resized_time=resized_time))
    return snapshot.changed(job=structs.replace(snapshot.job, record=record))


@pytest.mark.parametrize(
    ("builder", "attempt", "of", "told"),
    [
        (ELASTIC, 1, replica(), [("the change of TF_CONFIG of pod j-worker-0", "")]),
        (ELASTIC, 1, replica(POD.changed(cluster_size="Worker=3")), []),
        (ELASTIC, 1, replica(None), []),
        (ELASTIC, 1, replica(POD.changed(is_terminating=True)), []),
        (ELASTIC, 1, replica(is_completed=True), []),
        (ELASTIC, 1, replica(is_given_up=True), []),
        (tfjob("j").workers(3).elastic(1, 4), 1, replica(), []),
        (
            AS_A_WHOLE,
            2,
            replica(POD.changed(cluster_size="attempt=1")),
            [("the restart in place of pod j-worker-0", "7")],
        ),
        (AS_A_WHOLE, 2, replica(POD.changed(cluster_size="attempt=2")), []),
    ],
)
def test_a_pod_is_told_what_is_new_if_it_stays(builder, attempt, of, told):
    snapshot = snapshot_of(builder, settings=SETTINGS)
    after = snapshot.job.record.changed(attempt=attempt, attempt_time=MORNING)

    assert [(patch.subject, patch.version) for patch in in_place.actions(snapshot, [of], after)] == told


@pytest.mark.parametrize(
    ("workers", "cluster_size", "is_outdated"),
    [
        (3, "Worker=3,PS=1", False),
        (3, "Worker=03,PS=1", False),
        (3, "Worker=3,PS=2", True),
        (3, "Worker=2,PS=1", True),
        (3, "Worker=4,PS=1", False),
        (3, "Worker=99999,PS=1", False),
        (3, "Worker=100000,PS=1", True),
        (3, "Worker=\u0664,PS=1", True),
        (3, "Worker=many,PS=1", True),
        (1, "PS=1", True),
        (3, "attempt=1", False),
        (3, "", False),
    ],
)
def test_beside_parameter_servers_a_pod_is_outdated_that_knows_fewer_workers_or_other_servers(
    workers, cluster_size, is_outdated
):
    job = tfjob("j").workers(workers).parameter_servers(1)
    job = job_of(job.elastic(1, 4, restartInPlace=True, parameterServers={"maxReplicas": 2}))

    assert in_place.is_outdated(job, POD.changed(cluster_size=cluster_size)) is is_outdated


@pytest.mark.parametrize(
    ("replaces_pods", "settings", "resized_time"),
    [([False, True], SETTINGS, MORNING), ([False], SETTINGS, None), ([True], Settings(), None)],
)
def test_the_time_of_a_resize_is_noted_where_it_keeps_the_pods(replaces_pods, settings, resized_time):
    snapshot = snapshot_of(ELASTIC, settings=settings)
    changes = [SizeChange(WORKER, 2, 3, replaces_pods=replaces) for replaces in replaces_pods]

    assert in_place.with_resize_time(snapshot, changes, ElasticRecord()).resized_time == resized_time


@pytest.mark.parametrize(
    ("of", "is_new", "is_given_up"),
    [
        (replica(), True, False),
        (replica(POD.changed(cluster_size="")), True, True),
        (replica(POD.changed(cluster_size="")), False, False),
        (replica(None), True, False),
        (replica(DEAF), False, True),
        (replica(DEAF.changed(is_deaf=False)), False, False),
        (replica(DEAF.changed(restarts_together=0)), False, False),
        (replica(DEAF.changed(main=MainContainer(started_at=MORNING))), False, False),
        (replica(DEAF.changed(main=MainContainer())), False, False),
        (replica(DEAF.changed(main=None)), False, False),
        (replica(DEAF.changed(cluster_size="Worker=2")), False, False),
        (replica(DEAF.changed(cluster_size="attempt=1")), False, False),
    ],
)
def test_a_pod_that_cannot_take_a_resize_is_given_up(of, is_new, is_given_up):
    (changed,) = in_place.resized(after_a_resize(), [of], is_new=is_new)

    assert changed.is_given_up is is_given_up


@pytest.mark.parametrize(
    ("resized_time", "main", "cluster_size", "is_lost"),
    [
        (MORNING, MainContainer(1, started_at=BEFORE, finished_at=AFTER), "Worker=2", True),
        (BEFORE, MainContainer(1, started_at=BEFORE, finished_at=AFTER), "Worker=2", True),
        (AFTER, MainContainer(1, started_at=BEFORE, finished_at=AFTER), "Worker=2", True),
        (BEFORE, MainContainer(1, started_at=MORNING, finished_at=AFTER), "Worker=2", False),
        (AFTER, MainContainer(1, started_at=BEFORE, finished_at=MORNING), "Worker=2", False),
        (None, MainContainer(1, started_at=BEFORE, finished_at=AFTER), "Worker=2", False),
        (MORNING, MainContainer(0, started_at=BEFORE, finished_at=AFTER), "Worker=2", False),
        (MORNING, MainContainer(1, finished_at=AFTER), "Worker=2", False),
        (MORNING, MainContainer(1, started_at=BEFORE), "Worker=2", False),
        (MORNING, None, "Worker=2", False),
        (MORNING, MainContainer(1, started_at=BEFORE, finished_at=AFTER), "", False),
    ],
)
def test_an_error_of_a_program_is_no_loss_if_the_others_went_to_another_cluster_meanwhile(
    resized_time, main, cluster_size, is_lost
):
    pod = POD.changed(main=main, cluster_size=cluster_size)
    lost = replica(pod, loss=ReplicaLoss(WORKER, 0, PodState.FAILED, pod))
    (changed,) = in_place.resized(after_a_resize(resized_time=resized_time), [lost], is_new=False)

    assert (changed.loss is None, changed.is_given_up) == (is_lost, is_lost)
