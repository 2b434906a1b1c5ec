"""The last states of deleted pods, until a status records them."""

import pytest

from tf_operator.controller.departed_pods import DepartedPods
from tf_operator.job.record import ReplicaType
from tf_operator.planning.snapshot import Pod

POD = Pod("j-worker-0", "p", ReplicaType.WORKER, 0, phase="Failed")


@pytest.fixture
def departed():
    return DepartedPods({"u"}.__contains__)


def test_a_departed_pod_is_remembered_as_gone_until_it_is_in_the_status(departed):
    departed.note_deleted("u", POD)

    (pod,) = departed.of("u")
    assert pod.is_gone
    assert departed.note_recorded("u", (pod,))
    assert departed.of("u") == ()


def test_a_status_that_records_another_state_or_another_pod_leaves_what_came_since(departed):
    departed.note_deleted("u", POD)
    (pod,) = departed.of("u")
    assert not departed.note_recorded("u", (pod.changed(phase="Running"), pod.changed(index=1)))
    assert not departed.note_recorded("another job", (pod,))

    assert departed.of("u") == (pod,)


def test_there_is_one_last_state_for_each_replica_and_success_stays(departed):
    """A standby sees pods come and go for months."""
    for uid, phase in (("p1", "Failed"), ("p2", "Succeeded"), ("p3", "Failed")):
        departed.note_deleted("u", Pod("j-worker-0", uid, ReplicaType.WORKER, 0, phase=phase))

    assert [pod.uid for pod in departed.of("u")] == ["p2"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_had_ended_when_it_was_deleted_was_not_told_to_stop(departed, phase):
    ended = POD.changed(phase=phase)
    departed.note_terminating("u", ended)
    departed.note_deleted("u", ended.changed(is_terminating=True))

    assert departed.of("u") == (ended.changed(is_gone=True),)


def test_a_pod_that_ran_when_it_was_deleted_was_told_to_stop(departed):
    departed.note_terminating("u", POD.changed(phase="Running"))
    departed.note_deleted("u", POD.changed(is_terminating=True))

    (gone,) = departed.of("u")
    assert gone.is_terminating


def test_how_a_pod_was_says_nothing_of_the_next_one(departed):
    departed.note_terminating("u", POD)
    departed.note_deleted("u", POD.changed(uid="another", is_terminating=True))

    (gone,) = departed.of("u")
    assert (gone.uid, gone.is_terminating) == ("another", True)


def test_a_success_is_forgotten_when_its_replica_runs_again(departed):
    """It was scaled away and is wanted again, or the job was resumed; a standby sees no status that says so."""
    departed.note_deleted("u", POD.changed(phase="Succeeded"))
    departed.note_created("u", POD.changed(phase="Succeeded"))
    assert departed.of("u"), "the same pod, from a list that is older than its deletion"

    departed.note_created("u", POD.changed(uid="another", phase="Pending"))

    assert departed.of("u") == ()


def test_a_new_leader_counts_no_failure_that_its_predecessor_has_counted(departed):
    departed.note_deleted("u", POD)
    departed.note_deleted("u", Pod("j-worker-1", "p1", ReplicaType.WORKER, 1, phase="Succeeded"))

    departed.note_terminating("u", POD.changed(uid="another"))

    departed.begin_term()

    assert [pod.name for pod in departed.of("u")] == ["j-worker-1"]
    departed.note_deleted("u", POD.changed(uid="another", is_terminating=True))
    assert [pod.is_terminating for pod in departed.of("u") if pod.index == 0] == [True]
