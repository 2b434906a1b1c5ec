"""Whether a pod is killed before its program has saved a checkpoint: that of the replica which saves counts."""

import pytest

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.job.progress import Checkpoint, Progress
from tf_operator.planning.pods import grace_period

SAVED = Checkpoint(3400)


def job(chief, worker):
    specs = {
        kind: {"template": {"spec": {"terminationGracePeriodSeconds": seconds}}}
        for kind, seconds in (("Chief", chief), ("Worker", worker))
    }
    return job_of(tfjob().chief().workers(2).merged({"spec": {"tfReplicaSpecs": specs}}))


@pytest.mark.parametrize(
    ("progress", "chief", "is_told"),
    [
        (Progress(checkpoint=SAVED, longest_save=31), 30, True),
        (Progress(checkpoint=SAVED, longest_save=30), 30, False),
        (Progress(checkpoint=SAVED, longest_save=31), "soon", True),
        (Progress(checkpoint=SAVED, longest_save=1), 0, True),
        (Progress(checkpoint=SAVED, longest_save=0), 0, False),
        (Progress(checkpoint=SAVED), 0, False),
        (Progress(longest_save=31), 30, False),
        (None, 0, False),
    ],
)
def test_only_a_program_that_saves_longer_than_its_pod_has_to_stop_is_told(progress, chief, is_told):
    assert ("spec.tfReplicaSpecs.Chief." in grace_period.too_short(job(chief, 7), progress)) is is_told


def test_nothing_is_said_of_a_job_without_the_replica_that_reports():
    servers = job_of(tfjob().parameter_servers(1))

    assert grace_period.too_short(servers, Progress(checkpoint=SAVED, longest_save=31)) == ""
