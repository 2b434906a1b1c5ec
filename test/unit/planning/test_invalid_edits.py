"""Which limits of a job stay in force beside an edit that is ignored; test/golden has the edits."""

import pytest
from msgspec import structs

from support.embedded.simulator import MORNING
from support.jobs.builders import tfjob
from tf_operator.dialects.kubeflow import v1
from tf_operator.job.record import ReplicaRecord, ReplicaType
from tf_operator.planning import invalid_edits
from tf_operator.planning.snapshot import Snapshot

MOST = 10


@pytest.mark.parametrize(
    ("limit", "possible", "impossible"),
    [
        ("backoff_limit", [0], [-1]),
        ("avoid_after", [1, MOST], [0, MOST + 1]),
        ("deadline_seconds", [0], [-1]),
        ("startup_deadline_seconds", [1], [0]),
    ],
)
def test_a_limit_stays_in_force_beside_an_edit_that_is_ignored_if_a_new_job_may_have_it(limit, possible, impossible):
    spec = tfjob("j").workers(9).elastic(1, 4).body()["spec"]
    job = v1.API.read_object({"metadata": {"name": "j", "namespace": "n", "uid": "j"}, "spec": spec})
    job = structs.replace(job, record=job.record.changed(start_time=MORNING))

    def in_force(value):
        edited = structs.replace(job, run_policy=structs.replace(job.run_policy, **{limit: value}))
        changed = invalid_edits.ignored(Snapshot(edited, now=MORNING))
        assert changed.ignored
        return getattr(changed.job.run_policy, limit)

    assert [in_force(value) for value in possible] == possible
    assert [in_force(value) for value in impossible] == [None] * len(impossible)


@pytest.mark.parametrize(
    ("size", "in_force"),
    [(3, {1: 3, 2: 2, 4: 4, 5: 3}), (None, {1: 2, 2: 2, 4: 4, 5: 4})],
    ids=["pods were made", "no pods were made"],
)
def test_a_number_outside_of_its_range_is_the_one_that_pods_were_made_for_or_else_the_nearest(size, in_force):
    def count_of(workers):
        spec = tfjob("j").workers(workers).elastic(2, 4).backoff_limit(-1).body()["spec"]
        job = v1.API.read_object({"metadata": {"name": "j", "namespace": "n", "uid": "j"}, "spec": spec})
        record = job.record.changed(start_time=MORNING, replicas={ReplicaType.WORKER: ReplicaRecord(size=size)})
        return invalid_edits.ignored(Snapshot(structs.replace(job, record=record), now=MORNING)).job.replicas[0].count

    assert {workers: count_of(workers) for workers in in_force} == in_force
