"""The record answers what has happened to a job."""

import pytest

from tf_operator.api.record import JobPhase, JobRecord, ReplicaRecord, ReplicaType


@pytest.mark.parametrize("phase", JobPhase)
def test_a_job_has_ended_when_it_succeeded_or_failed(phase):
    assert JobRecord(phase).is_finished is (phase in {JobPhase.SUCCEEDED, JobPhase.FAILED})


def test_restarts_are_summed_and_a_type_that_is_not_known_has_none():
    record = JobRecord(replicas={ReplicaType.PS: ReplicaRecord(2), ReplicaType.CHIEF: ReplicaRecord(1)})

    assert record.restarts == 3
    assert record.of(ReplicaType.WORKER) == ReplicaRecord()


def test_the_label_of_a_type_is_in_lower_case():
    assert [kind.label for kind in ReplicaType] == ["chief", "master", "ps", "worker", "evaluator"]
