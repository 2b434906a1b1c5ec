"""What a function that was trained has returned: its launcher has left it as the message of the deciding replica."""

import json
from collections.abc import Iterable
from typing import Any, Final

from tf_operator.client.job import Job, NotPossible
from tf_operator.client.pods import JobPod
from tf_operator.job.record import JobPhase
from tf_operator.meta import mapping_of, objects_of, text_of

_DECIDING: Final = ("chief-0", "worker-0")


def message_of(pods: Iterable[JobPod]) -> str:
    """What the program of the deciding replica has left; empty if nothing."""
    there = {pod.replica: pod for pod in pods}
    pod = next((there[name] for name in _DECIDING if name in there), None)
    if pod is None:
        return ""
    statuses = objects_of(mapping_of(pod.body.get("status")).get("containerStatuses"))
    states = [mapping_of(it.get("state")) for it in statuses if it.get("name") == pod.container]
    return next((text_of(mapping_of(state.get("terminated")), "message") for state in states), "")


def value(job: Job, message: str) -> Any:  # noqa: ANN401 (JSON)
    """The value; ``NotPossible`` where there is none, with the reason."""
    about = f"{job.kind} {job.namespace}/{job.name}"
    if job.phase is not JobPhase.SUCCEEDED:
        raise NotPossible(f"{about} has no result: {job.message if job.is_finished else 'it has not ended'}")
    try:
        content = json.loads(message)
    except (ValueError, RecursionError):
        content = {}
    if isinstance(content, dict) and "returned" in content:
        return content["returned"]
    if isinstance(content, dict) and isinstance(missing := content.get("missing"), str):
        raise NotPossible(f"{about} has no result: {missing}")
    raise NotPossible(f"{about} has no result: its pods are gone, or it runs no function of train()")
