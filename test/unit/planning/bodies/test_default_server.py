"""The program of default servers, run beside a stand-in for TensorFlow."""

import json
import subprocess
import sys

import pytest

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.planning.bodies import default_server, json_logs
from tf_operator.planning.snapshot import DEFAULT_SETTINGS

TENSORFLOW = r"""
import os
class train:
    ClusterSpec = dict
class distribute:
    pass
class Server:
    def __init__(self, cluster, **task):
        print(sorted(cluster.items()), sorted(task.items()), flush=True)
        os.write(2, b"2026-11-22 11:14:48.3: W tensorflow/core: slow\nE0000 00:00 1 port.cc] lost \xff\nand more\n")
"""


def serve(folder, lines, *, place="distribute", fields=""):
    """The first lines that a server writes, and what it ends with when it is told to."""
    (folder / "tensorflow.py").write_text(f"{TENSORFLOW}\n{place}.Server = Server", encoding="utf-8")
    (folder / default_server.FILE).write_text(default_server.PROGRAM, encoding="utf-8")
    config = {"cluster": {"master": ["m:1"], "ps": ["p:1", "q:1"], "worker": []}, "task": {"type": "ps", "index": 1}}
    environment = {"TF_CONFIG": json.dumps(config), json_logs.FIELDS_VARIABLE: fields}
    command = [sys.executable, folder / default_server.FILE]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        output = [server.stdout.readline().decode(errors="replace") for _ in range(lines)]
        server.terminate()
    return output, server.returncode


@pytest.mark.documents("v1alpha1/default-server")
@pytest.mark.parametrize("place", [pytest.param("train", id="1"), pytest.param("distribute", id="2")])
def test_a_default_server_serves_its_place_in_the_cluster_until_it_is_ended_with_tensorflow_of_version(place, tmp_path):
    cluster, task = [("master", ["m:1"]), ("ps", ["p:1", "q:1"])], [("job_name", "ps"), ("task_index", 1)]

    assert serve(tmp_path, 1, place=place) == ([f"{cluster} {task}\n"], 143)


def test_only_the_volume_of_its_name_is_another_one_in_the_pod_of_a_default_server():
    job = job_of(tfjob().parameter_servers(1))
    ours = {"name": "tensorflow", "image": "i", "volumeMounts": [{"name": "data"}, {"name": default_server.VOLUME}]}
    pod = {"volumes": ["x", {"name": "data"}, {"name": default_server.VOLUME}], "containers": ["y", ours]}
    changed = default_server.with_program(pod, job, DEFAULT_SETTINGS)

    assert changed["volumes"] == ["x", {"name": "data"}, changed["volumes"][-1]]
    assert "configMap" in changed["volumes"][-1]
    assert changed["containers"][0] == "y"
    mounts = [{"name": "data"}, {"name": default_server.VOLUME, "mountPath": default_server.FOLDER}]
    assert changed["containers"][1]["volumeMounts"] == mounts


@pytest.mark.documents("mlkube/log-fields-of-servers")
def test_with_json_logs_each_line_that_tensorflow_writes_is_an_object_that_names_the_replica(tmp_path):
    (_, *lines), code = serve(tmp_path, 4, fields='{"replica_type": "ps", "replica_index": 1}')

    records = [json.loads(line) for line in lines]
    assert [(it["severity"], it["message"]) for it in records] == [
        ("WARNING", "2026-11-22 11:14:48.3: W tensorflow/core: slow"),
        ("ERROR", "E0000 00:00 1 port.cc] lost \N{REPLACEMENT CHARACTER}"),
        ("INFO", "and more"),
    ]
    assert {(it["replica_type"], it["replica_index"]) for it in records} == {("ps", 1)}
    assert code == 143
