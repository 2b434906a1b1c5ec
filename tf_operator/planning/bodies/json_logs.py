"""Logs of training programs as JSON, for jobs that ask for it by an annotation.

What a Python program writes with ``logging`` becomes one JSON object a line on its standard output, which says which
replica it is from. Python imports ``sitecustomize`` by itself before the program. The pod carries this module as an
annotation and mounts it from there: so there is no object beside the pod that has to be made, watched or removed.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from tf_operator.job.constants import JSON_LOGS_ANNOTATION
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import list_of

SOURCE_ANNOTATION: Final = "tf-operator.kubeflow.org/sitecustomize"
VOLUME: Final = "tf-operator-json-logs"
FOLDER: Final = "/etc/tf-operator/json-logs"
FIELDS_VARIABLE: Final = "TF_OPERATOR_LOG_FIELDS"
PYTHONPATH: Final = "PYTHONPATH"
SITECUSTOMIZE: Final = '''\
"""Writes what a program logs as one JSON object a line. For Python 2.7 and 3; comes from the tf-operator."""
import json
import logging
import os
import sys
import time

FIELDS = json.loads(os.environ.get("TF_OPERATOR_LOG_FIELDS", "{}"))
HERE = os.path.dirname(os.path.abspath(__file__))


class JsonFormatter(logging.Formatter):
    def format(self, record):
        message = record.getMessage()
        if record.exc_info:
            message += "\\n" + self.formatException(record.exc_info)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        own = {
            "severity": record.levelname,
            "message": message,
            "timestamp": "%s.%03dZ" % (moment, record.msecs),
            "logger": record.name,
            "pathname": record.pathname,
            "lineno": record.lineno,
        }
        return json.dumps(dict(FIELDS, **own))


class JsonHandler(logging.Handler):
    def emit(self, record):
        try:
            sys.stdout.write(self.format(record) + "\\n")
            sys.stdout.flush()
        except Exception:
            self.handleError(record)


def basic_config(**options):
    """The program may choose the level; where the lines go and what they look like is chosen already."""
    if options.get("level") is not None:
        logging.root.setLevel(options["level"])


handler = JsonHandler()
handler.setFormatter(JsonFormatter())
logging.root.addHandler(handler)
logging.basicConfig = basic_config

for folder in sys.path:  # the image's own sitecustomize, which this one hides
    path = os.path.join(folder, "sitecustomize.py")
    if os.path.abspath(folder) != HERE and os.path.isfile(path):
        with open(path) as source:
            exec(compile(source.read(), path, "exec"), {"__name__": "sitecustomize", "__file__": path})
        break
'''


def is_wanted(job: TrainingJob) -> bool:
    return job.annotations.get(JSON_LOGS_ANNOTATION) == "true"


def added(pod: Mapping[str, Any], job: TrainingJob, kind: ReplicaType, index: int) -> dict[str, Any]:
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = {**metadata.get("annotations", {}), SOURCE_ANNOTATION: SITECUSTOMIZE}
    source = {"fieldPath": f"metadata.annotations['{SOURCE_ANNOTATION}']"}
    volume = {
        "name": VOLUME,
        "downwardAPI": {"items": [{"path": "sitecustomize.py", "fieldRef": source}]},
    }
    fields = {
        "job": job.key.name,
        "namespace": job.key.namespace,
        "replica_type": kind.label,
        "replica_index": index,
        "runtime_id": job.runtime_id,
    }
    containers = [_logging(entry, json.dumps(fields), job.profile.container) for entry in spec["containers"]]
    return {
        **pod,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**spec, "volumes": [*list_of(spec.get("volumes")), volume], "containers": containers},
    }


def _logging(container: object, fields: str, name: str) -> object:
    if not isinstance(container, Mapping) or container.get("name") != name:
        return container
    env = list_of(container.get("env"))
    has_path = any(isinstance(entry, Mapping) and entry.get("name") == PYTHONPATH for entry in env)
    # The kubelet puts the value of before in place of $(...), wherever that came from; the last one is in force.
    path = f"{FOLDER}:$({PYTHONPATH})" if has_path else FOLDER
    more = [{"name": FIELDS_VARIABLE, "value": fields}, {"name": PYTHONPATH, "value": path}]
    mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
    return {**container, "env": [*env, *more], "volumeMounts": [*list_of(container.get("volumeMounts")), mount]}
