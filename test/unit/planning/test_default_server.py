"""The program of default servers, run beside a stand-in for TensorFlow."""

import json
import subprocess
import sys

import pytest

from tf_operator.planning import default_server, json_logs

TENSORFLOW = """
class train:
    ClusterSpec = dict
class distribute:
    pass
class Server:
    def __init__(self, cluster, **task):
        print(sorted(cluster.items()), sorted(task.items()), flush=True)
"""
CONFIG = {"cluster": {"master": ["m:1"], "ps": ["p:1", "q:1"], "worker": []}, "task": {"type": "ps", "index": 1}}


@pytest.mark.documents("v1alpha1/default-server")
@pytest.mark.parametrize("place", [pytest.param("train", id="1"), pytest.param("distribute", id="2")])
def test_a_default_server_serves_its_place_in_the_cluster_until_it_is_ended_with_tensorflow_of_version(place, tmp_path):
    (tmp_path / "tensorflow.py").write_text(f"{TENSORFLOW}\n{place}.Server = Server", encoding="utf-8")
    (tmp_path / default_server.FILE).write_text(default_server.PROGRAM, encoding="utf-8")
    command, environment = [sys.executable, tmp_path / default_server.FILE], {"TF_CONFIG": json.dumps(CONFIG)}

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        served = server.stdout.readline()
        server.terminate()

    cluster, task = [("master", ["m:1"]), ("ps", ["p:1", "q:1"])], [("job_name", "ps"), ("task_index", 1)]
    assert (served, server.returncode) == (f"{cluster} {task}\n", 143)


NATIVE = """
import os
os.write(2, b"I tensorflow/core: Started server with target: grpc://q:1\\n")
os.write(1, b'{"message": "of logging"}\\n')
"""


def lines_of(folder, program):
    """What a server writes whose job asks for JSON, as objects, and its exit code."""
    (folder / "tensorflow.py").write_text(program, encoding="utf-8")
    (folder / default_server.FILE).write_text(default_server.PROGRAM, encoding="utf-8")
    environment = {"TF_CONFIG": json.dumps(CONFIG), json_logs.FIELDS_VARIABLE: '{"job": "j", "replica_type": "ps"}'}
    command = [sys.executable, folder / default_server.FILE]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        found = []
        for line in server.stdout:
            found.append(json.loads(line))
            if "('job_name', 'ps')" in found[-1]["message"]:
                server.terminate()
    return found, server.returncode


@pytest.mark.documents("mlkube/log-fields-of-servers")
def test_every_line_of_a_default_server_is_json_if_the_job_asks_for_it(tmp_path):
    (first, second, _), code = lines_of(tmp_path, f"{NATIVE}{TENSORFLOW}train.Server = Server")

    assert first.pop("timestamp")
    message = "I tensorflow/core: Started server with target: grpc://q:1"
    assert first == {"job": "j", "replica_type": "ps", "severity": "INFO", "message": message}
    assert second == {"message": "of logging"}
    assert code == 143


def test_the_error_that_ends_a_default_server_is_its_last_line(tmp_path):
    found, code = lines_of(tmp_path, "raise ImportError('no such file: libcuda.so')")

    assert (found[-1]["message"], code) == ("ImportError: no such file: libcuda.so", 1)
