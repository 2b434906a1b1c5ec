"""The last states of deleted pods, until a status records them."""

from unittest.mock import Mock

import pytest

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.controller.departed_pods import DepartedPods
from tf_operator.job.record import ReplicaType
from tf_operator.planning.snapshot import Pod

POD = Pod("j-worker-0", "p", ReplicaType.WORKER, 0, phase="Failed")
SUCCESS = Pod("j-worker-1", "p1", ReplicaType.WORKER, 1, phase="Succeeded")


class Jobs:
    """One job, as it is cached."""

    def __init__(self):
        self.phase = "Running"
        self.workers = 2

    def phase_of(self, uid):
        return self.phase if uid == "u" else None

    def job_of(self, uid):
        assert uid == "u"
        job = tfjob("j").chief()
        return job_of(job.workers(self.workers) if self.workers else job)


@pytest.fixture
def jobs():
    return Jobs()


@pytest.fixture
def standing_by(jobs):
    return DepartedPods(jobs.phase_of, jobs.job_of)


@pytest.fixture
def departed(standing_by):
    """Of a process that leads."""
    standing_by.begin_term()
    return standing_by


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


def test_a_new_leader_counts_no_failure_that_its_predecessor_has_counted(standing_by):
    departed = standing_by
    departed.note_deleted("u", POD)
    departed.note_deleted("u", Pod("j-worker-1", "p1", ReplicaType.WORKER, 1, phase="Succeeded"))

    departed.note_terminating("u", POD.changed(uid="another"))

    departed.begin_term()

    assert [pod.name for pod in departed.of("u")] == ["j-worker-1"]
    departed.note_deleted("u", POD.changed(uid="another", is_terminating=True))
    assert [pod.is_terminating for pod in departed.of("u") if pod.index == 0] == [True]


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_who_stands_by_keeps_only_how_pods_have_succeeded(standing_by, phase):
    standing_by.note_deleted("u", POD.changed(phase=phase))

    assert len(standing_by) == 0


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_of_a_job_that_has_ended_nothing_is_kept_while_standing_by(standing_by, jobs, phase):
    """Jobs may be there for months after that."""
    standing_by.note_deleted("u", SUCCESS)
    jobs.phase = phase
    standing_by.note_changed("u")
    assert standing_by.of("u") == ()

    standing_by.note_deleted("u", SUCCESS)
    assert standing_by.of("u") == ()


def test_who_leads_knows_how_pods_were_of_a_job_that_has_ended(departed, jobs):
    jobs.phase = "Succeeded"
    departed.note_deleted("u", SUCCESS)
    departed.note_changed("u")

    assert departed.of("u") == (SUCCESS.changed(is_gone=True),)


def test_who_has_led_stands_by_as_before(departed, jobs):
    departed.note_deleted("u", POD)
    departed.note_deleted("u", SUCCESS)
    departed.end_term()
    assert departed.of("u") == (SUCCESS.changed(is_gone=True),)

    jobs.phase = "Succeeded"
    departed.note_deleted("u", Pod("j-worker-0", "p2", ReplicaType.WORKER, 0, phase="Succeeded"))
    departed.note_changed("u")
    assert departed.of("u") == ()


def test_however_many_successes_are_kept_a_job_is_decoded_once_for_a_change(departed, jobs, monkeypatch):
    jobs.workers = 9
    for index in range(9):
        departed.note_deleted("u", SUCCESS.changed(index=index))
    decoded = Mock(side_effect=jobs.job_of)
    monkeypatch.setattr(departed, "_job_of", decoded)
    departed.note_changed("u")

    assert (len(departed.of("u")), decoded.call_count) == (9, 1)


def test_the_success_of_a_replica_goes_with_its_type(departed, jobs):
    departed.note_deleted("u", SUCCESS)
    jobs.workers = 0
    departed.note_changed("u")

    assert departed.of("u") == ()


@pytest.mark.parametrize("is_first_deleted", [True, False], ids=["the pod is deleted first", "the job is edited first"])
@pytest.mark.parametrize("leads", [True, False])
def test_the_success_of_a_replica_that_is_scaled_away_says_nothing_of_the_next_one(
    request, jobs, leads, is_first_deleted
):
    departed = request.getfixturevalue("departed" if leads else "standing_by")
    if is_first_deleted:
        departed.note_deleted("u", SUCCESS)
        assert departed.of("u")
    jobs.workers = 1
    departed.note_changed("u")
    if not is_first_deleted:
        departed.note_deleted("u", SUCCESS)
    jobs.workers = 2
    departed.note_changed("u")

    assert departed.of("u") == ()
