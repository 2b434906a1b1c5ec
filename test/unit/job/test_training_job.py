"""How many workers are in force: what the spec says, or what the job queue has decided; and who leads them."""

import pytest
from msgspec import structs

from support.embedded.simulator import simulate
from support.jobs.builders import tfjob
from tf_operator.job.record import ElasticRecord, ReplicaType

WORKERS = tfjob().workers(2).parameter_servers()
ELASTIC = WORKERS.elastic(2, 4)


@pytest.mark.parametrize(
    ("builder", "decided", "count"),
    [
        pytest.param(ELASTIC, None, 2, id="nothing is decided"),
        pytest.param(ELASTIC, 3, 3, id="decided"),
        pytest.param(ELASTIC, 9, 4, id="more than the policy allows by now"),
        pytest.param(ELASTIC, 1, 2, id="fewer than the policy allows by now"),
        pytest.param(WORKERS, 3, 2, id="not elastic any more"),
        pytest.param(WORKERS.elastic(2, 4, metrics=[{"type": "Pods"}]), 3, 2, id="resized by its metrics alone"),
    ],
)
def test_the_job_queue_decides_within_the_policy(builder, decided, count):
    job = simulate(builder).job
    job = structs.replace(job, record=job.record.changed(elastic=ElasticRecord(workers=decided))).in_force()

    assert job.spec_of(ReplicaType.WORKER).count == count
    assert job.spec_of(ReplicaType.PS).count == 1


@pytest.mark.parametrize(
    ("builder", "waits"),
    [
        (WORKERS, True),
        (WORKERS.chief(), False),
        (WORKERS.master(), False),
        (WORKERS.dynamic_workers(), False),
        (tfjob().workers(2), False),
        (tfjob().parameter_servers(), False),
    ],
    ids=["both", "with a chief", "with a master", "dynamic workers", "only workers", "only servers"],
)
def test_workers_and_servers_may_wait_for_a_chief_that_their_job_does_not_have(builder, waits):
    assert simulate(builder).job.has_servers_without_chief is waits
