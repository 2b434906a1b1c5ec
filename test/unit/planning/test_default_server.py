"""The program of default servers, run beside a stand-in for TensorFlow."""

import json
import subprocess
import sys

import pytest

from tf_operator.planning import default_server

TENSORFLOW = """
class train:
    ClusterSpec = dict
class distribute:
    pass
class Server:
    def __init__(self, cluster, **task):
        print(sorted(cluster.items()), sorted(task.items()), flush=True)
"""


@pytest.mark.documents("v1alpha1/default-server")
@pytest.mark.parametrize("place", [pytest.param("train", id="1"), pytest.param("distribute", id="2")])
def test_a_default_server_serves_its_place_in_the_cluster_until_it_is_ended_with_tensorflow_of_version(place, tmp_path):
    (tmp_path / "tensorflow.py").write_text(f"{TENSORFLOW}\n{place}.Server = Server", encoding="utf-8")
    (tmp_path / default_server.FILE).write_text(default_server.PROGRAM, encoding="utf-8")
    config = {"cluster": {"master": ["m:1"], "ps": ["p:1", "q:1"], "worker": []}, "task": {"type": "ps", "index": 1}}
    command, environment = [sys.executable, tmp_path / default_server.FILE], {"TF_CONFIG": json.dumps(config)}

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        served = server.stdout.readline()
        server.terminate()

    cluster, task = [("master", ["m:1"]), ("ps", ["p:1", "q:1"])], [("job_name", "ps"), ("task_index", 1)]
    assert (served, server.returncode) == (f"{cluster} {task}\n", 143)
