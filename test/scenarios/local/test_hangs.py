"""Real programs that stop in the middle of their training, on a machine without a cluster."""

import asyncio
import json
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from support.jobs.builders import merge, tfjob
from support.resources import TFJOBS, Json
from support.settle import eventually
from tf_operator.app import local
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import Conversion, Crd
from tf_operator.job import constants
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.state import StateFolder
from tf_operator.machinery.transport.requests import Request

DEADLINE = 5
PATIENCE = 60
FIFTY = 50
PROGRAM = """\
import json, os, pathlib, time, urllib.error, urllib.request

token = pathlib.Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text()
pathlib.Path("/folder/pid").write_text(str(os.getpid()))
step = 0
while not os.path.exists("/folder/done"):
    step += 1
    body = json.dumps({"trainerStatus": {"step": step}}).encode()
    headers = {"Authorization": f"Bearer {token}"}
    try:
        urllib.request.urlopen(urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], body, headers))
    except urllib.error.HTTPError as refusal:
        print(refusal)
    time.sleep(1)
"""


@dataclass(frozen=True, slots=True)
class Hasty(Crd):
    """The CRD, where a program may hang for less than a minute."""

    def load(self, *versions: str) -> Json:
        body = Crd.load(self, *versions)
        (version,) = body["spec"]["versions"]
        policy = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["runPolicy"]
        policy["properties"]["progressPolicy"]["properties"]["deadlineSeconds"]["minimum"] = 1
        return body


@dataclass(frozen=True, slots=True)
class Training:
    """A job whose program says in a folder which process it is, and ends when it finds a file there."""

    server: ApiServer
    name: str
    folder: Path

    @property
    def status(self) -> Json:
        return self.ask("GET", TFJOBS.path("default", self.name)).get("status", {})

    @property
    def message(self) -> str:
        return str(self.status["conditions"][-1]["message"])

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        content = None if body is None else json.dumps(body).encode()
        answer = self.server.handle(Request("", method, path, body=content))
        assert answer.code < 300, answer.body
        reply: Json = json.loads(answer.body)
        return reply

    def submit(self) -> None:
        self.folder.mkdir()
        container = {
            "name": "tensorflow",
            "image": "none",
            "command": ["python", "-c", PROGRAM],
            "volumeMounts": [{"name": "folder", "mountPath": "/folder"}],
        }
        volume = {"name": "folder", "hostPath": {"path": str(self.folder)}}
        template = {"spec": {"containers": [container], "volumes": [volume]}}
        worker = {"replicas": 1, "template": template}
        job = tfjob(self.name).progress_deadline(DEADLINE).body()
        self.ask("POST", TFJOBS.path("default"), merge(job, {"spec": {"tfReplicaSpecs": {"Worker": worker}}}))

    async def stop(self) -> float:
        """Stop its program until that is noticed, and return how many seconds that took."""
        await eventually(lambda: self.status.get("progressClock", {}).get("hasReported"), within=PATIENCE)
        program, began = int((self.folder / "pid").read_text()), time.monotonic()
        os.kill(program, signal.SIGSTOP)
        try:
            await eventually(lambda: self.status.get("hung"), within=PATIENCE)
            assert f"No progress for more than {DEADLINE} s; last: step " in self.message
            return time.monotonic() - began
        finally:
            os.kill(program, signal.SIGCONT)

    async def end(self) -> None:
        await eventually(lambda: not self.status.get("hung"), within=PATIENCE)
        (self.folder / "done").touch()
        await eventually(lambda: "successfully completed" in self.message, within=PATIENCE)


@pytest.fixture
async def make_training(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "LEAST_PROGRESS_DEADLINE", 1)
    (tmp_path / "state").mkdir()
    api = replace(v1.API, crd=Hasty(v1.API.crd.package), conversion=Conversion())
    options = local.LocalOptions(StateFolder(tmp_path / "state"), local.this_interpreter(), apis=(api,))
    async with local.live(options) as cluster:
        yield lambda name: Training(cluster.server, name, tmp_path / name)


async def test_a_program_that_is_stopped_hangs_until_it_goes_on(make_training):
    training = make_training("stops")
    training.submit()
    await training.stop()
    await training.end()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_fifty_of_fifty_programs_that_are_stopped_are_found_ten_seconds_after_the_deadline(make_training, capsys):
    """Three at once, one of which goes on: else it could be the network that is silent."""
    seconds = []
    for number in range(FIFTY // 2):
        trainings = [make_training(f"stops-{number}-{place}") for place in range(3)]
        for training in trainings:
            training.submit()
        seconds += await asyncio.gather(*(training.stop() for training in trainings[:2]))
        for training in trainings:
            await training.end()

    with capsys.disabled():
        print(f"\nhangs found after {sorted(round(it, 1) for it in seconds)} s")  # noqa: T201 (that is the result)
    assert [it for it in seconds if it > DEADLINE + 10] == []
