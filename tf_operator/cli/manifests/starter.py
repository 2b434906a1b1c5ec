"""The manifest that ``tfjob init`` writes: text, because its comments are what it is for."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tf_operator.client.images import image_name
from tf_operator.local.node.machine import PYTHON_ANNOTATION

_TEMPLATE: Final = """\
      # ExitCode: codes from 128 on (killed) run it again; 1 to 127 (its own error) fail the job.
      restartPolicy: ExitCode
      template:
"""
_PYTHON: Final = """\
        metadata:
          annotations:
            # The Python of the program on this machine; a cluster uses that of the image.
            ANNOTATION: PYTHON
"""
_CONTAINER: Final = """\
        spec:
          containers:
          # A container of this name decides: its exit is the replica's.
          - name: tensorflow
            image: IMAGE
            # If it fails, the end of its log says why in the job's status, in events and in tfjob explain.
            terminationMessagePolicy: FallbackToLogsOnError
"""
_RESOURCES: Final = """\
            # resources:
            #   limits: {cpu: 2, memory: 4Gi, nvidia.com/gpu: 1}
"""
_GPUS: Final = """\
            # GPUs of each replica. One without this line sees none, on this machine as in a cluster.
            resources:
              limits: {nvidia.com/gpu: NUMBER}
"""
_PROGRAM: Final = """\
            # The program of every replica; put your own here, or into the image. TF_CONFIG says which replica it is.
            command: [python, -u, -c]
            args:
            - |
              import json, os, time
              config = json.loads(os.environ.get("TF_CONFIG", "{}"))
              task = config.get("task", {"type": "worker", "index": 0})
              print("I am", task["type"], task["index"], "of", config.get("cluster", "one"))
"""
_OWN_PROGRAM: Final = """\
            # The program of every replica; TF_CONFIG says which one it is. On this machine it is found from the folder
            # in which tfjob is typed. To a cluster, tfjob run --upload sends the folder along. Or push an image that
            # has the folder in it, without docker, and name it above:
            #   tfjob image push registry.example.com/team/NAME:1 --base IMAGE
            command: [python, -u, PROGRAM]
            # args: [--epochs, "3"]
            # Packages that the image lacks: pip install --target packages NAME, in this folder.
            # env: [{name: PYTHONPATH, value: packages}]
            # Files that it writes are lost with its pod, unless they are on a volume (docs/how-to/volumes.md). For a
            # claim that exists, or is in this file as in manifests/examples/start/job.yaml, use this line and the last:
            # volumeMounts: [{name: output, mountPath: /output}]
"""
_OUTPUT: Final = """\
          # volumes: [{name: output, persistentVolumeClaim: {claimName: NAME}}]
"""
_PLAIN: Final = re.compile(r"[\w/.][\w/.-]*")
_WORK: Final = """\
              for step in range(1, 4):
                  time.sleep(1)
                  print("step", step)
"""
_SERVE: Final = """\
              while True:
                  time.sleep(60)
"""


@dataclass(frozen=True, slots=True)
class Starter:
    name: str
    image: str = ""
    """Empty: the one of TensorFlow."""
    workers: int = 1
    ps: int = 0
    has_chief: bool = False
    program: str = ""
    """A Python program of the user; empty for one that only says which replica it is."""
    python: str = ""
    """Interpreter or virtual environment of the program on this machine."""
    gpus: int = 0
    """Of each replica that computes."""

    def manifest(self) -> str:
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        decides = "the chief" if self.has_chief else "worker 0"
        yield "# Check it: tfjob plan -f FILE. Run it: tfjob run FILE. What the fields mean: docs/api.md.\n"
        yield f"apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata:\n  name: {self.name}\nspec:\n  runPolicy:\n"
        yield f"    # When {decides} has succeeded, pods that still run are deleted; the others stay, for their logs.\n"
        yield "    # None keeps all of them, All deletes all.\n"
        yield "    cleanPodPolicy: Running\n"
        yield "    # So many restarts after failures, of all replicas together, until the job fails.\n"
        yield "    backoffLimit: 3\n"
        yield "    # The job fails after so many seconds.\n    # activeDeadlineSeconds: 86400\n"
        yield "  tfReplicaSpecs:\n"
        workers = "They work for the chief." if self.has_chief else "The job succeeds with worker 0."
        types = (
            ("Chief", int(self.has_chief), "It alone decides whether the job succeeds.", self.gpus),
            ("Worker", self.workers, workers, self.gpus),
            ("PS", self.ps, "They hold the variables, and serve until the job has ended.", None),
        )
        comments = iter((True,))
        for kind, count, about, gpus in types:
            if count:
                yield f"    # {about}\n    {kind}:\n      replicas: {count}\n"
                yield from self._pod(gpus, is_first=next(comments, False))

    def _pod(self, gpus: int | None, *, is_first: bool) -> Iterator[str]:
        """The template of a type; what is the same in all of them is explained in the first.

        ``gpus`` is ``None`` for one that serves, and computes nothing.
        """
        ending = _SERVE if gpus is None else _WORK
        base = f"{image_name.TENSORFLOW}-gpu" if gpus else image_name.TENSORFLOW
        image = self.image or base
        python = _PYTHON.replace("ANNOTATION", PYTHON_ANNOTATION).replace("PYTHON", _scalar(self.python))
        program = _OWN_PROGRAM.replace("NAME", self.name).replace("IMAGE", image)
        program = program.replace("PROGRAM", _scalar(self.program))
        text = _TEMPLATE + (python if self.python else "") + _CONTAINER.replace("IMAGE", image)
        text += program if self.program else _PROGRAM + ending
        text += _GPUS.replace("NUMBER", str(gpus)) if gpus else _RESOURCES
        text += _OUTPUT.replace("NAME", self.name) if self.program else ""
        for line in text.splitlines(keepends=True):
            if is_first or not line.lstrip().startswith("#"):
                yield line


def _scalar(text: str) -> str:
    """A text as it may stand in YAML: JSON where it would need thought."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
