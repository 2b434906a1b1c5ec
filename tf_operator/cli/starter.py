"""The manifest that ``tfjob init`` writes: text, because its comments are what it is for."""

from collections.abc import Iterator
from typing import Final

IMAGE: Final = "tensorflow/tensorflow:2.19.0"
_TEMPLATE: Final = """\
      # ExitCode: codes from 128 on (killed) run it again; 1 to 127 (its own error) fail the job.
      restartPolicy: ExitCode
      template:
        spec:
          containers:
          # A container of this name decides: its exit is the replica's.
          - name: tensorflow
            image: IMAGE
"""
_RESOURCES: Final = """\
            # resources:
            #   limits: {cpu: 2, memory: 4Gi, nvidia.com/gpu: 1}
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
_WORK: Final = """\
              for step in range(1, 4):
                  time.sleep(1)
                  print("step", step)
"""
_SERVE: Final = """\
              while True:
                  time.sleep(60)
"""


def manifest(name: str, *, image: str, workers: int, ps: int, has_chief: bool) -> str:
    """The manifest of a job with these replicas."""
    return "".join(_lines(name, image=image, workers=workers, ps=ps, has_chief=has_chief))


def _lines(name: str, *, image: str, workers: int, ps: int, has_chief: bool) -> Iterator[str]:
    decides = "the chief" if has_chief else "worker 0"
    yield "# Check it: tfjob plan -f FILE. Run it: tfjob run FILE. What the fields mean: docs/api.md.\n"
    yield f"apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata:\n  name: {name}\nspec:\n  runPolicy:\n"
    yield f"    # When {decides} has succeeded, pods that still run are deleted; the others stay, for their logs.\n"
    yield "    # None keeps all of them, All deletes all.\n"
    yield "    cleanPodPolicy: Running\n"
    yield "    # So many restarts after failures, of all replicas together, until the job fails.\n"
    yield "    backoffLimit: 3\n"
    yield "    # The job fails after so many seconds.\n    # activeDeadlineSeconds: 86400\n"
    yield "  tfReplicaSpecs:\n"
    types = (
        ("Chief", int(has_chief), "It alone decides whether the job succeeds.", _WORK),
        ("Worker", workers, "They work for the chief." if has_chief else "The job succeeds with worker 0.", _WORK),
        ("PS", ps, "They hold the variables, and serve until the job has ended.", _SERVE),
    )
    comments = iter((True,))
    for kind, count, about, ending in types:
        if count:
            yield f"    # {about}\n    {kind}:\n      replicas: {count}\n"
            yield from _pod(image, ending, is_first=next(comments, False))


def _pod(image: str, ending: str, *, is_first: bool) -> Iterator[str]:
    """The template of a type; what is the same in all of them is explained in the first."""
    for line in (_TEMPLATE.replace("IMAGE", image) + _PROGRAM + ending + _RESOURCES).splitlines(keepends=True):
        if is_first or not line.lstrip().startswith("#"):
            yield line
