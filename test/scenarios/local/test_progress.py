"""Programs that report how far they are to ``tfjob local``, and the example of the how-to page with TensorFlow."""

import asyncio
import json
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from demonstration import training
from lab.tools.progress import Progress
from support.local_machine import LocalMachine
from support.settle import eventually
from tf_operator.cli.ui.job_feed import JobFeed
from tf_operator.client import AsyncTFJobs, cluster
from tf_operator.machinery.clock import SystemClock

EXAMPLE = training.ROOT / "manifests/examples/how-to/progress.yaml"
STEPS = (3401, 3402, 3403)
REPORTER = """\
import json, os, pathlib, sys, time, urllib.error, urllib.request

def report(url, token, **status):
    body = json.dumps({"trainerStatus": status}).encode()
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}"})
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code

url = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL")
if not url:
    sys.exit()
token = pathlib.Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text()
metrics = [{"name": "loss", "value": "0.21"}]
good = report(url, token, progressPercentage=34, estimatedRemainingSeconds=7200, step=3400, metrics=metrics)
other = report(url.replace("/tfjobs/first/", "/tfjobs/second/"), token, progressPercentage=99)
forged = report(url, token.partition(".")[0] + "." + "0" * 64, progressPercentage=99)
print("replies", good, other, forged)
while not os.path.exists("/done/done"):
    time.sleep(0.05)
"""


@pytest.fixture
def machine(tmp_path):
    return LocalMachine(tmp_path)


def job(name, folder, program):
    container = {
        "name": "tensorflow",
        "image": "none",
        "command": ["python", "-c", program],
        "volumeMounts": [{"name": "done", "mountPath": "/done"}],
    }
    volume = {"name": "done", "hostPath": {"path": str(folder)}}
    template = {"spec": {"containers": [container], "volumes": [volume]}}
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}


def has_points(feed):
    return bool(feed.curves.points)


async def test_reports_are_shown_and_nobody_reports_about_the_job_of_another(machine, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    jobs = (job("second", folder, "import time; time.sleep(600)"), job("first", folder, REPORTER))
    assert (await machine.run("local", "up"))[0] == 0
    try:
        assert (await machine.run("submit", "-", manifest=yaml.dump_all(jobs)))[0] == 0

        async def table():
            lines = (await machine.run("get"))[1].splitlines()
            assert lines[0].split()[5:] == ["PROGRESS", "ETA"], lines
            return {line.split()[0]: line.split()[5:] for line in lines[1:]}

        assert await eventually(table) == {"first": ["34", "%", "120m"], "second": ["-", "-"]}
        assert "step 3400, loss 0.21" in (await machine.run("explain", "first"))[1]
        assert "replies 200 403 401" in (await machine.run("logs", "first"))[1]
        stored = json.loads((await machine.run("get", "second", "-o", "json"))[1])
        assert "trainerStatus" not in stored["status"]
        (folder / "done").touch()
        assert (await machine.run("wait", "first"))[0] == 0
    finally:
        await machine.run("local", "down", "--purge")


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_a_page_that_is_opened_late_has_the_curve_from_its_beginning(machine, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "done").touch()
    program = "\n".join(
        (REPORTER, *(f"time.sleep(1.1); report(url, token, step={step}, metrics=metrics)" for step in STEPS))
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert (await machine.run("local", "up"))[0] == 0
    try:
        manifest = yaml.dump(job("first", folder, f"{program}; time.sleep(600)"))
        assert (await machine.run("submit", "-", manifest=manifest))[0] == 0

        async def has_reported():
            status = json.loads((await machine.run("get", "first", "-o", "json"))[1]).get("status", {})
            return status.get("trainerStatus", {}).get("step") == STEPS[-1]

        await eventually(has_reported)
        async with AsyncTFJobs(choice=cluster.choose(None, None)) as jobs, asyncio.TaskGroup() as tasks:
            for _ in range(2):  # and again after a reload
                feed = JobFeed(jobs, "first", SystemClock())
                looking = tasks.create_task(feed.run())
                await eventually(partial(has_points, feed))
                assert [(step, loss) for _, step, loss in feed.curves.points] == [
                    (step, 0.21) for step in (3400, *STEPS)
                ]
                looking.cancel()
    finally:
        await machine.run("local", "down", "--purge")


@pytest.mark.timeout(900)  # eight thousand steps of TensorFlow, which may have to be installed
async def test_the_example_of_the_page_reports_to_its_end(machine):
    tfjob = str(training.prepare(Progress(sys.stderr, prefix="tests")) / "bin" / "tfjob")
    assert (await machine.run("local", "up"))[0] == 0
    try:
        process = await machine.start("run", str(EXAMPLE), command=(tfjob,))
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        assert b"was not reported" not in output
        whole_status = json.loads((await machine.run("get", "progress", "-o", "json"))[1])["status"]
        status = whole_status["trainerStatus"]
        assert whole_status["longestSaveSeconds"] in range(1, 60)
        saved = whole_status["checkpoint"]
        assert (saved["step"], Path(saved["path"]).parts[-2:]) == (8000, ("checkpoint", "model.keras"))
        assert (status["progressPercentage"], status["step"]) == (100, 8000)
        assert [metric["name"] for metric in status["metrics"]] == ["loss"]
    finally:
        await machine.run("local", "down", "--purge")
