"""Training jobs from Python: submit, follow, change and delete them, on any operator that serves TFJob v1.

    from tf_operator.client import TFJobs

    with TFJobs(namespace="team") as jobs:
        job = jobs.submit(manifest)
        for line in jobs.logs(job, follow=True):
            print(line.replica, line.text)
        print(jobs.wait(job, timeout=3600).phase)

``AsyncTFJobs`` has the same methods as coroutines. Both find the cluster as ``tfjob`` does: ``kubeconfig`` and
``context``, or the variable KUBECONFIG, or the local server if it runs, or ``~/.kube/config``, or the account of the
pod that they run in; or they get a configured client of the ``kubernetes`` package (``api_client``). A change of a
cluster that is only what is left raises ``ClusterNotNamed``. A call that fails raises an ``ApiError``, such as
``NotFound``; without credentials ``ConfigurationError``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tf_operator.client.blocking import TFJobs
    from tf_operator.client.cluster import ClusterNotNamed
    from tf_operator.client.events import JobEvent
    from tf_operator.client.explanation.situation import Explanation
    from tf_operator.client.job import Job, NotPossible, ReplicaSummary, WaitTimeout
    from tf_operator.client.jobs import AsyncTFJobs
    from tf_operator.client.logs import LogLine
    from tf_operator.client.plan.job_plan import JobPlan, PlannedReplica
    from tf_operator.client.plan.manifest_plan import InvalidManifest
    from tf_operator.client.pods import JobPod
    from tf_operator.client.run.job_run import RunResult
    from tf_operator.client.usage import ReplicaUsage
    from tf_operator.job.record import JobPhase
    from tf_operator.machinery.transport.config import ConfigurationError
    from tf_operator.machinery.transport.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound

__all__ = [
    "AlreadyExists",
    "ApiError",
    "AsyncTFJobs",
    "ClusterNotNamed",
    "ConfigurationError",
    "Conflict",
    "Explanation",
    "Forbidden",
    "Invalid",
    "InvalidManifest",
    "Job",
    "JobEvent",
    "JobPhase",
    "JobPlan",
    "JobPod",
    "LogLine",
    "NotFound",
    "NotPossible",
    "PlannedReplica",
    "ReplicaSummary",
    "ReplicaUsage",
    "RunResult",
    "TFJobs",
    "WaitTimeout",
]

_TRANSPORT: Final = "tf_operator.machinery.transport"
_HOMES: Final = {
    "TFJobs": "tf_operator.client.blocking",
    "ClusterNotNamed": "tf_operator.client.cluster",
    "JobEvent": "tf_operator.client.events",
    "Explanation": "tf_operator.client.explanation.situation",
    **dict.fromkeys(("Job", "NotPossible", "ReplicaSummary", "WaitTimeout"), "tf_operator.client.job"),
    "AsyncTFJobs": "tf_operator.client.jobs",
    "LogLine": "tf_operator.client.logs",
    "JobPod": "tf_operator.client.pods",
    **dict.fromkeys(("JobPlan", "PlannedReplica"), "tf_operator.client.plan.job_plan"),
    "InvalidManifest": "tf_operator.client.plan.manifest_plan",
    "ReplicaUsage": "tf_operator.client.usage",
    "RunResult": "tf_operator.client.run.job_run",
    "JobPhase": "tf_operator.job.record",
    "ConfigurationError": f"{_TRANSPORT}.config",
    **dict.fromkeys(
        ("AlreadyExists", "ApiError", "Conflict", "Forbidden", "Invalid", "NotFound"), f"{_TRANSPORT}.errors"
    ),
}
"""Where each name is, because a command of ``tfjob`` waits for what it imports and needs few of them."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
