"""The standard TensorFlow server: what replicas run for which the user has brought no program.

A ConfigMap of the job holds the program, and all its default servers mount it. It goes with the job. No cache of
ConfigMaps is needed for it: it is created again, which changes nothing, before each pod that needs it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from tf_operator.job import naming
from tf_operator.job.profile import JOB_UID_LABEL
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.actions import Create
from tf_operator.planning.snapshot import Settings

CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps", "ConfigMap")
FOLDER: Final = "/ps-server"
VOLUME: Final = "ps-config-volume"
FILE: Final = "grpc_tensorflow_server.py"
PROGRAM: Final = '''\
"""Runs the TensorFlow server of one replica, until its pod is deleted. For Python 2.7 and 3, TensorFlow 1 and 2."""

import io
import json
import os
import re
import signal
import sys
import time

SEVERITIES = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}


def write_as_json(fields):
    # TensorFlow's C++ writes to standard error. The server is a child, so that its last lines are read in any case.
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(target, 2)
        return
    os.close(target)
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    with io.open(source, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            letter = re.match("(?:[-0-9]+ [:.0-9]+: )?([IWEF])(?:[0-9]{4})? ", line)
            own = {
                "severity": SEVERITIES[letter.group(1)] if letter else "INFO",
                "message": line.rstrip("\\n"),
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            sys.stdout.write(json.dumps(dict(fields, **own)) + "\\n")
            sys.stdout.flush()
    status = os.waitpid(child, 0)[1]
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


if os.environ.get("TF_OPERATOR_LOG_FIELDS"):
    write_as_json(json.loads(os.environ["TF_OPERATOR_LOG_FIELDS"]))

import tensorflow as tf

# The kernel ends the first process of a container by a signal only if it handles that, and join() lets no handler run.
signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
config = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec({str(name): hosts for name, hosts in config["cluster"].items() if hosts})
make_server = getattr(getattr(tf, "distribute", None), "Server", None) or tf.train.Server
task = config["task"]
server = make_server(cluster, job_name=str(task["type"]), task_index=task["index"])
while True:
    signal.pause()
'''


def config_map(job: TrainingJob, settings: Settings) -> Create:
    """Make the ConfigMap, unless the job has it."""
    name = naming.config_map_name(job)
    return Create(CONFIG_MAPS, name, f"ConfigMap {name}", partial(_body, job, name, settings.server_program or PROGRAM))


def with_program(pod: Mapping[str, Any], job: TrainingJob, settings: Settings) -> dict[str, Any]:
    volume = {"name": VOLUME, "configMap": {"name": naming.config_map_name(job)}}
    images = {job.profile.server_image: settings.server_image} if settings.server_image else {}
    containers = [
        _with_command(entry, images)
        if isinstance(entry, Mapping) and entry.get("name") == job.profile.container
        else entry
        for entry in pod["containers"]
    ]
    return {**pod, "volumes": _with_entry(pod.get("volumes"), volume), "containers": containers}


def _with_command(container: Mapping[str, Any], images: Mapping[str, str]) -> dict[str, Any]:
    """``images``: those that others take the place of."""
    image = images.get(container["image"], container["image"])
    mounts = _with_entry(container.get("volumeMounts"), {"name": VOLUME, "mountPath": FOLDER})
    return {**container, "image": image, "command": ["python", f"{FOLDER}/{FILE}"], "volumeMounts": mounts}


def _with_entry(value: object, entry: Mapping[str, Any]) -> list[object]:
    entries = value if isinstance(value, list) else []
    return [*(other for other in entries if not isinstance(other, Mapping) or other.get("name") != VOLUME), entry]


def _body(job: TrainingJob, name: str, program: str) -> dict[str, Any]:
    labels = naming.job_labels(job) | {JOB_UID_LABEL: job.uid}
    return {"metadata": naming.metadata(job, name, labels), "data": {FILE: program}}
