"""What explains a failed end-to-end test: the jobs, pods, events and logs of its namespaces, as text.

It only reads, and says what it could not read; nothing in here can fail a test or hide why one has failed.
"""

import subprocess
from collections.abc import Iterable, Iterator

from support.partners.kubectl import Kubectl, KubectlError

_LOG_LINES = 40


def report(kubectl: Kubectl, namespaces: Iterable[str]) -> str:
    """Everything about these namespaces that helps to see what went wrong."""
    parts = [_output(kubectl, "get", "nodes", "--output=wide")]
    for namespace in namespaces:
        here = kubectl.within(namespace)
        parts.append(f"\n===== namespace {namespace}")
        parts += [_output(here, *question) for question in _QUESTIONS]
        parts += _logs(here)
    return "\n".join(parts)


_JOBS = "tfjobs,tfjobs.mlkube.io,tensorflowtrainingjobs"
_QUESTIONS = (
    ("get", _JOBS, "--output=wide", "--ignore-not-found"),
    ("get", _JOBS, "--output=jsonpath={range .items[*]}{.metadata.name}{': '}{.status}{'\\n'}{end}"),
    ("get", "pods,services,resourcequotas,persistentvolumeclaims", "--output=wide", "--ignore-not-found"),
    ("get", "events", "--sort-by=.metadata.creationTimestamp"),
)


def _logs(kubectl: Kubectl) -> Iterator[str]:
    """The end of what every container has said, and of what the one before it in its place has said."""
    try:
        pods = kubectl.list("pods")
    except (KubectlError, subprocess.SubprocessError) as error:
        yield f"(no pods to ask for logs: {error})"
        return
    for pod in pods:
        name, status = pod["metadata"]["name"], pod["status"]
        for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            question = ("logs", name, f"--container={container['name']}", f"--tail={_LOG_LINES}")
            yield _output(kubectl, *question)
            if container["restartCount"]:
                yield _output(kubectl, *question, "--previous")


def _output(kubectl: Kubectl, *question: str) -> str:
    try:
        process = kubectl.attempt(*question)
    except subprocess.SubprocessError as error:
        return f"--- kubectl {' '.join(question)}: {error}"
    return f"--- kubectl {' '.join(question)}\n{process.stdout}{process.stderr}".rstrip()
