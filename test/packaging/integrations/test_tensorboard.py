"""The example for TensorBoard: its program writes what a real TensorBoard, started as the example starts it, shows."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from lab.control_plane.servers import free_port
from lab.tools import environment
from support.settle import eventually

EXAMPLE = Path(__file__).resolve().parents[3] / "manifests/examples/integrations/tensorboard.yaml"


def container(kind):
    """The container of the example's job, or of its Deployment."""
    bodies = {body["kind"]: body["spec"] for body in yaml.load_all(EXAMPLE.read_text(), yaml.CSafeLoader)}
    spec = bodies[kind]["tfReplicaSpecs"]["Worker"] if kind == "TFJob" else bodies[kind]
    (only,) = spec["template"]["spec"]["containers"]
    return only


@pytest.fixture
def address(tmp_path):
    """A TensorBoard, started as the example starts it, of what the job has written."""
    python = environment.python_of("tensorboard")
    (program,) = container("TFJob")["args"]
    subprocess.run([python, "-c", program.replace("/summaries", str(tmp_path))], check=True, timeout=300)
    words = " ".join(container("Deployment")["command"]).replace("/summaries", str(tmp_path))
    port = free_port()
    name, *arguments = words.replace("0.0.0.0", "127.0.0.1").replace("6006", str(port)).split()
    process = subprocess.Popen([python.with_name(name), *arguments])
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(timeout=30)


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_tensorboard_shows_what_the_job_writes(address):
    def tags():
        try:
            with urllib.request.urlopen(f"{address}/data/plugin/scalars/tags", timeout=30) as answer:
                return json.load(answer).get("with-summaries")
        except urllib.error.URLError:
            return None

    assert "loss" in await eventually(tags, within=120)


def test_job_and_tensorboard_mean_the_same_folder():
    mounts = [container(kind)["volumeMounts"][0]["mountPath"] for kind in ("TFJob", "Deployment")]
    (logs,) = re.findall(r"--logdir=(\S+)", " ".join(container("Deployment")["command"]))

    assert mounts == [logs, logs]
    assert f'create_file_writer("{logs}/' in container("TFJob")["args"][0]
