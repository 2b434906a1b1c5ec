"""Training jobs from Python: submit, follow, change and delete them, on any operator that serves TFJob v1.

    from tf_operator.client import TFJobs

    with TFJobs(namespace="team") as jobs:
        job = jobs.submit(manifest)
        for line in jobs.logs(job, follow=True):
            print(line.replica, line.text)
        print(jobs.wait(job, timeout=3600).phase)

``AsyncTFJobs`` has the same methods as coroutines. Both find the cluster as ``tfjob`` does: ``kubeconfig`` and
``context``, or the variable KUBECONFIG, or the local server if it runs, or ``~/.kube/config``, or the account of the
pod that they run in. A change of a cluster that is only what is left raises ``ClusterNotNamed``. A call that fails
raises an ``ApiError``, such as ``NotFound``; without credentials ``ConfigurationError``.
"""

from tf_operator.client.blocking import TFJobs
from tf_operator.client.cluster import ClusterNotNamed
from tf_operator.client.events import JobEvent
from tf_operator.client.job import Job, NotPossible, ReplicaSummary
from tf_operator.client.jobs import AsyncTFJobs, WaitTimeout
from tf_operator.client.logs import LogLine
from tf_operator.client.pods import JobPod
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
    "Forbidden",
    "Invalid",
    "Job",
    "JobEvent",
    "JobPhase",
    "JobPod",
    "LogLine",
    "NotFound",
    "NotPossible",
    "ReplicaSummary",
    "TFJobs",
    "WaitTimeout",
]
