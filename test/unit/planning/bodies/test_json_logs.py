"""JSON logs: what the programs of a job that asks for it really write, and that no other pod has a trace of it."""

import json
import os
import subprocess
import sys

import pytest

from support.jobs.builders import tfjob
from tf_operator.dialects.kubeflow.v1 import API
from tf_operator.job.constants import JSON_LOGS_ANNOTATION
from tf_operator.job.record import ReplicaType
from tf_operator.planning.bodies.children import ChildBuilder
from tf_operator.planning.snapshot import Settings

PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="ignored %(message)s")
logging.info("step %d", 10)
try:
    raise ValueError("no")
except ValueError:
    logging.getLogger("train").exception("failed")
"""


def pod(*, env=None, value="true", kind=ReplicaType.WORKER, beside=()):
    patch = {"metadata": {"annotations": {JSON_LOGS_ANNOTATION: value}}}
    body = tfjob("j").in_namespace("team").chief().workers(2).merged(patch).body()
    for replica in body["spec"]["tfReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][0]["env"] = env or []
        replica["template"]["spec"]["containers"].extend(beside)
    return ChildBuilder(API.read_object(body), Settings()).pod(kind, 1, name="j-worker-1")


def run(body, folder, *, path=""):
    """What Python writes where a kubelet has made this pod's volume and variables; as objects."""
    (volume,) = body["spec"]["volumes"]
    (item,) = volume["downwardAPI"]["items"]
    key = item["fieldRef"]["fieldPath"].removeprefix("metadata.annotations['").removesuffix("']")
    (folder / item["path"]).write_text(body["metadata"]["annotations"][key])
    (container,) = body["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert mount["name"] == volume["name"]
    env = {}
    for entry in container["env"]:
        env[entry["name"]] = entry.get("value", path).replace("$(PYTHONPATH)", env.get("PYTHONPATH", ""))
    env["PYTHONPATH"] = env["PYTHONPATH"].replace(mount["mountPath"], str(folder))
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    assert process.stderr == ""
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.documents("mlkube/log-fields")
def test_every_line_that_a_program_logs_is_an_object_that_names_its_replica(tmp_path):
    info, error = run(pod(), tmp_path)

    assert (info["severity"], info["message"], info["logger"]) == ("INFO", "step 10", "root")
    assert (error["severity"], error["logger"], error["lineno"]) == ("ERROR", "train", 8)
    assert error["message"].startswith("failed\nTraceback")
    assert error["message"].endswith("ValueError: no")
    replica = {"job": "j", "namespace": "team", "replica_type": "worker", "replica_index": 1, "runtime_id": ""}
    assert replica.items() <= info.items()


@pytest.mark.parametrize("entry", [{"value": "{}"}, {"valueFrom": {"configMapKeyRef": {}}}], ids=["value", "reference"])
def test_the_modules_of_the_program_and_its_own_sitecustomize_are_still_found(tmp_path, entry):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import logging\nlogging.warning('mine')\n")
    variable = {name: str(own) if name == "value" else value for name, value in entry.items()}
    ours = tmp_path / "ours"
    ours.mkdir()

    lines = run(pod(env=[{"name": "PYTHONPATH", **variable}]), ours, path=str(own))

    assert [line["message"].splitlines()[0] for line in lines] == ["mine", "step 10", "failed"]


def test_other_containers_of_the_pod_and_other_pods_have_no_trace_of_it():
    sidecar = {"name": "sidecar", "image": "i"}
    assert pod(beside=[sidecar])["spec"]["containers"][1] == sidecar

    text = json.dumps(pod(value="false"))

    assert "json-logs" not in text
    assert "PYTHONPATH" not in text


def test_a_program_without_modules_of_its_own_gets_no_reference_to_them():
    assert "$(PYTHONPATH)" not in json.dumps(pod(env=[{"name": "OTHER", "value": "x"}]))
