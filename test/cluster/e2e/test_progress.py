"""Clients of Kubeflow Trainer, as PyPI has them, report from a pod: by Helm's certificate, the kubelet's token, DNS."""

import subprocess
import sys

import pytest

from lab.tools.build import REQUIREMENTS
from support.jobs.real_namespace import PATIENCE_SECONDS, Program, small_job
from support.settle import eventually

LOCK = REQUIREMENTS.with_name("clients.txt")
# Each calls its client as long as a report may be kept from the status: one is kept in five seconds.
SDK = """
import time
from kubeflow.trainer import update_trainjob_status

while not update_trainjob_status(34, 7200, {"loss": 0.21, "epoch": 3}):
    time.sleep(1)
"""
# Without PyTorch, which is too large, nothing trains: this calls what a Trainer calls.
TRANSFORMERS = """
import time
from transformers import TrainerControl, TrainerState
from transformers.integrations import get_reporting_integration_callbacks

(callback,) = (kind() for kind in get_reporting_integration_callbacks("all"))
state, control = TrainerState(max_steps=10_000, epoch=1.7), TrainerControl()
callback.on_train_begin(None, state, control)
callback.on_log(None, state, control, logs={"loss": 0.19, "learning_rate": 5e-05})
state.global_step = 5600
for _ in range(15):
    time.sleep(1)
    callback.on_step_end(None, state, control)
"""


def install(folder, version):
    """The packages of the lock, for this version of Python."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    pinned = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version", version, "-r", str(LOCK)]
    subprocess.run([*pip, *pinned, "--target", str(folder)], check=True, timeout=PATIENCE_SECONDS)


@pytest.fixture
async def reporting_pod(here, images, sleeps, tmp_path):
    """The pod of a running job that may report, where the clients are installed: what runs a program in it."""
    job = small_job("reports", Program(images.training, sleeps.lines))  # the operator's image cannot load numpy
    job["spec"]["runPolicy"]["progressPolicy"] = {"reports": True}
    here.kubectl.create(job)
    await here.wait_state("reports", "Running")
    execute = ("exec", "reports-worker-0", "--container=tensorflow", "--", "env", "PYTHONPATH=/tmp/clients", "python3")

    def run(program):
        return here.kubectl.run(*execute, "-c", program)

    install(tmp_path / "clients", run("import sys; print(*sys.version_info[:2], sep='.')").strip())
    here.kubectl.run("cp", "--container=tensorflow", str(tmp_path / "clients"), "reports-worker-0:/tmp/clients")
    return run


async def test_clients_of_kubeflow_trainer_report_from_a_pod(here, reporting_pod):
    def reported():
        status = here.job("reports")["status"].get("trainerStatus", {})
        return status.get("progressPercentage"), {it["name"]: it["value"] for it in status.get("metrics", ())}

    async def shows(percentage, **metrics):
        def is_shown():
            assert reported() == (percentage, metrics)
            return True

        await eventually(is_shown, within=PATIENCE_SECONDS, every=1.0)

    reporting_pod(SDK)
    await shows(34, loss="0.21", epoch="3")
    assert here.job("reports")["status"]["trainerStatus"]["estimatedRemainingSeconds"] == 7200
    reporting_pod(TRANSFORMERS)
    steps = {"current_step": "5600", "total_steps": "10000", "current_epoch": "1.7"}
    await shows(56, loss="0.19", learning_rate="5e-05", **steps)
    here.end("reports", "worker-0")
    await here.wait_state("reports", "Succeeded")
    assert reported()[0] == 56
