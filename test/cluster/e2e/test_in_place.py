"""Jobs that restart as a whole, on a real kubelet: one program is killed, and all of them start again."""

import asyncio
import os
import time
from contextlib import asynccontextmanager
from statistics import median, quantiles

import pytest

from support.jobs.real_namespace import OF_JOB, accuracy, resumed_step, training

WORKERS = 4
RESTARTS = int(os.environ.get("E2E_RESTARTS", "100"))
TRAININGS = int(os.environ.get("E2E_TRAININGS", "1"))
PATIENCE = 300.0
IN_PLACE = {"scope": "Job", "method": "InPlace"}
MIRRORED = "digits-mirrored"
# The shell goes on, and exits as the kernel has ended its child: nothing can kill the first process of a container.
PROGRAM = "sleep 1000000 & echo $! > /tmp/pid; wait $!"
KILL = "kill -9 $(cat /tmp/pid)"


def job(image):
    container = {"name": "tensorflow", "image": image, "command": ["/bin/sh", "-c", PROGRAM]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "steps"},
        "spec": {
            "runPolicy": {"restarts": IN_PLACE},
            "tfReplicaSpecs": {"Worker": {"replicas": WORKERS, "restartPolicy": "ExitCode", "template": template}},
        },
    }


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["InPlace", "Recreate"])
@pytest.mark.parametrize("number", range(1, TRAININGS + 1))
async def test_a_training_goes_on_from_its_checkpoint_when_a_worker_was_killed(here, images, number, method):
    here.provide_volume(MIRRORED)
    # Far from its end when it has saved for the first time.
    body = training(MIRRORED, steps=3000, image=images.training, pod={"shareProcessNamespace": True})
    body["spec"]["runPolicy"] = body["spec"].get("runPolicy", {}) | {"restarts": {"scope": "Job", "method": method}}
    here.kubectl.create(body)
    await here.wait_log(MIRRORED, "worker-0", "Saved step")
    uids = here.uids(MIRRORED)

    here.kill(MIRRORED, "worker-1")
    await here.wait_state(MIRRORED, "Succeeded")

    status = here.job(MIRRORED)["status"]
    is_replaced = [here.uids(MIRRORED)[worker] != uid for worker, uid in uids.items()]
    assert is_replaced == [method == "Recreate"] * len(uids)
    assert (status["restarts"], status["attempt"], status.get("disruptions", 0)) == (1, 2, 0)
    for log in (here.log(MIRRORED, worker) for worker in uids):
        assert resumed_step(log) > 0, log
        assert accuracy(log) >= 90


@pytest.mark.nightly
@pytest.mark.timeout(7200)
async def test_a_worker_that_is_killed_restarts_all_in_their_pods(here, images, capsys):
    """A job for each few restarts: a kubelet waits before it starts a container that has failed in the last minutes."""
    seconds = []
    while len(seconds) < RESTARTS:
        seconds += await restarts_of_one_job(here, images.operator)
    p95 = quantiles(seconds, n=20)[-1]
    with capsys.disabled():
        print(f"\n{len(seconds)} restarts in place: p50 {median(seconds):.1f} s, p95 {p95:.1f} s")  # noqa: T201


async def restarts_of_one_job(here, image):
    """How long each restart took; each worker is killed once."""
    here.kubectl.create(job(image))
    names = {f"worker-{index}" for index in range(WORKERS)}
    await here.wait_pods("steps", only=names, phase="Running")
    await here.wait_state("steps", "Running")
    uids, seconds = here.uids("steps"), []
    async with changes(here) as lines:
        for number, name in enumerate(sorted(names), 1):
            here.kubectl.run("exec", f"steps-{name}", "--container=tensorflow", "--", "/bin/sh", "-c", KILL)
            begin = time.monotonic()
            await asyncio.wait_for(all_run_again(lines, number), PATIENCE)
            seconds.append(time.monotonic() - begin)
            await here.wait_state("steps", "Running")
            status = here.job("steps")["status"]
            assert (status["restarts"], status["attempt"], status.get("disruptions", 0)) == (number, number + 1, 0)
            assert here.uids("steps") == uids, "a pod was replaced"
    here.kubectl.run("delete", "tfjob/steps", "--wait=true")
    await here.wait_pods("steps", only=set())
    return seconds


@asynccontextmanager
async def changes(here):
    """A line for each change of a pod. One kubectl watches: a new one for each look would keep a core busy."""
    fields = "{.metadata.name} {.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state}{'\\n'}"
    command = here.kubectl.command(
        "get", "pods", "--watch", f"--selector={OF_JOB}=steps", f"--output=jsonpath={fields}"
    )
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


async def all_run_again(lines, number):
    """Each program has been started so many times again, and runs."""
    done = set()
    while len(done) < WORKERS:
        name, count, state = (await lines.readline()).decode().split(" ", 2)
        assert int(count) <= number
        if int(count) == number and "running" in state:
            done.add(name)
        else:
            done.discard(name)
