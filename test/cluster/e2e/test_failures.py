"""Trainings that are killed, and trainings that are suspended: each goes on from its last checkpoint."""

import pytest

from support.jobs.real_namespace import resumed_step, training

MIRRORED = "digits-mirrored"
# Enough that a training is far from its end when it has saved for the first time.
LONG = 1500


@pytest.mark.parametrize("policy", ["ExitCode", pytest.param("OnFailure", marks=pytest.mark.nightly)])
async def test_a_training_goes_on_from_its_checkpoint_when_a_worker_was_killed(here, images, policy):
    here.provide_volume(MIRRORED)
    sees_processes = {"shareProcessNamespace": True}
    here.kubectl.create(training(MIRRORED, steps=LONG, image=images.training, restart=policy, pod=sees_processes))
    await here.wait_log(MIRRORED, "worker-0", "Saved step")
    uids = here.uids(MIRRORED)

    here.kill(MIRRORED, "worker-1")
    await here.wait_state(MIRRORED, "Succeeded")

    # The other worker cannot go on alone; it ends too, as the example says, and whoever is back first may have to wait
    # for it by one more restart.
    assert 2 <= here.job(MIRRORED)["status"]["replicaStatuses"]["Worker"]["restarts"] <= 4
    is_replaced = [here.uids(MIRRORED)[worker] != uid for worker, uid in uids.items()]
    assert is_replaced == [policy == "ExitCode"] * 2
    for worker in uids:
        log = here.log(MIRRORED, worker)
        assert resumed_step(log) > 0
        assert "Accuracy on 360 held-out digits: 9" in log


@pytest.mark.nightly
async def test_a_training_goes_on_from_its_checkpoint_when_it_is_resumed(here, images):
    here.provide_volume(MIRRORED)
    here.kubectl.create(training(MIRRORED, steps=LONG, image=images.training))
    await here.wait_log(MIRRORED, "worker-0", "Saved step")

    here.kubectl.patch("tfjob", MIRRORED, {"spec": {"runPolicy": {"suspend": True}}})
    await here.wait_state(MIRRORED, "Suspended")
    await here.wait_pods(MIRRORED, only=set())
    assert here.kubectl.list("services") == []
    here.kubectl.patch("tfjob", MIRRORED, {"spec": {"runPolicy": {"suspend": False}}})
    await here.wait_state(MIRRORED, "Succeeded")

    assert resumed_step(here.log(MIRRORED, "worker-0")) > 0
    assert here.job(MIRRORED)["status"]["replicaStatuses"]["Worker"].get("restarts", 0) == 0
