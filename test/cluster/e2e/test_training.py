"""Distributed TensorFlow in real pods, from the manifests that users have: both trainings succeed and learn."""

import asyncio
import os
import re
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from support.jobs.real_namespace import accuracy, training
from support.settle import eventually

PARAMETER_SERVERS, MIRRORED = "digits-parameter-servers", "digits-mirrored"
TFJOB = Path(sys.executable).with_name("tfjob")
PROGRAM = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "start" / "train.py"


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


async def test_a_program_that_goes_along_from_a_laptop_learns_and_goes_with_its_job(here, images, tmp_path):
    shutil.copy(PROGRAM, tmp_path)
    environment = os.environ | {"KUBECONFIG": str(here.kubectl.kubeconfig), "XDG_STATE_HOME": str(tmp_path / "state")}

    async def tfjob(*words):
        process = await asyncio.create_subprocess_exec(
            *(TFJOB, *words), cwd=tmp_path, env=environment, stdout=PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output = (await process.communicate())[0].decode()
        assert process.returncode == 0, output
        return output

    def uploads():
        return [it for it in here.kubectl.list("configmaps") if it["metadata"]["name"].startswith("laptop-upload-")]

    await tfjob("init", "job.yaml", "--name", "laptop", "--program", "train.py", "--image", images.training)
    printed = await tfjob("run", "job.yaml", "--upload", "-n", here.name)

    (digest,) = re.findall(r"2 files, .* packed, (sha256:\w{12})", printed)
    assert re.search(r"Accuracy on 360 held-out digits: 9\d\.\d%", printed), printed
    assert digest in await tfjob("explain", "laptop", "-n", here.name)
    assert "Accuracy on 360" in await tfjob("debug", "laptop", "-n", here.name)
    assert len(uploads()) == 1
    await tfjob("delete", "laptop", "-n", here.name)
    await eventually(lambda: not uploads(), within=60)
