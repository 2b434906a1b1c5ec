"""Distributed TensorFlow in real pods, from the manifests that users have: both trainings succeed and learn."""

import asyncio

import pytest

from support.jobs.real_namespace import accuracy, training

PARAMETER_SERVERS, MIRRORED = "digits-parameter-servers", "digits-mirrored"


@pytest.mark.nightly
async def test_parameter_servers_and_mirrored_workers_learn_to_read_digits(here, images):
    jobs = [training(name, steps=1000, image=images.training) for name in (PARAMETER_SERVERS, MIRRORED)]
    # On a busy machine the chief may be done before the evaluator has read a checkpoint; here it may finish.
    jobs[0]["spec"]["runPolicy"]["cleanPodPolicy"] = "None"
    for job in jobs:
        here.provide_volume(job["metadata"]["name"])
        here.kubectl.create(job)

    last = "Step 1000: "
    await asyncio.gather(
        *(here.wait_state(name, "Succeeded") for name in (PARAMETER_SERVERS, MIRRORED)),
        here.wait_log(PARAMETER_SERVERS, "evaluator-0", last),
    )

    assert accuracy(here.log(PARAMETER_SERVERS, "chief-0")) >= 90
    assert [accuracy(here.log(MIRRORED, worker)) >= 90 for worker in ("worker-0", "worker-1")] == [True, True]
    for name in (PARAMETER_SERVERS, MIRRORED):
        assert not any("restarts" in it for it in here.job(name)["status"]["replicaStatuses"].values())
