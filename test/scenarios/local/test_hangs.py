"""A real program that stops in the middle of its training, on a machine without a cluster."""

import json
import os
import signal
from dataclasses import dataclass, replace

from support.jobs.builders import merge, tfjob
from support.resources import TFJOBS, Json
from support.settle import eventually
from tf_operator.app import local
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import Conversion, Crd
from tf_operator.job import constants
from tf_operator.local.state import StateFolder
from tf_operator.machinery.transport.requests import Request

DEADLINE = 5
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


async def test_a_program_that_is_stopped_hangs_until_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "LEAST_PROGRESS_DEADLINE", 1)
    folder, state = tmp_path / "folder", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    container = {
        "name": "tensorflow",
        "image": "none",
        "command": ["python", "-c", PROGRAM],
        "volumeMounts": [{"name": "folder", "mountPath": "/folder"}],
    }
    volume = {"name": "folder", "hostPath": {"path": str(folder)}}
    template = {"spec": {"containers": [container], "volumes": [volume]}}
    job = merge(
        tfjob("stops").progress_deadline(DEADLINE).body(),
        {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}}},
    )
    api = replace(v1.API, crd=Hasty(v1.API.crd.package), conversion=Conversion())
    options = local.LocalOptions(StateFolder(state), local.this_interpreter(), apis=(api,))
    async with local.live(options) as cluster:

        def ask(method: str, path: str, body: Json | None = None) -> Json:
            content = None if body is None else json.dumps(body).encode()
            answer = cluster.server.handle(Request("", method, path, body=content))
            assert answer.code < 300, answer.body
            return json.loads(answer.body)

        def status() -> Json:
            return ask("GET", TFJOBS.path("default", "stops")).get("status", {})

        def message() -> str:
            return status()["conditions"][-1]["message"]

        ask("POST", TFJOBS.path("default"), job)
        await eventually(lambda: status().get("progressClock", {}).get("hasReported"), within=60)
        program = int((folder / "pid").read_text())
        os.kill(program, signal.SIGSTOP)
        try:
            await eventually(lambda: status().get("hung"), within=60)
            assert f"No progress for more than {DEADLINE} s; last: step " in message()
        finally:
            os.kill(program, signal.SIGCONT)
        await eventually(lambda: not status().get("hung"), within=60)
        (folder / "done").touch()
        await eventually(lambda: "successfully completed" in message(), within=60)
