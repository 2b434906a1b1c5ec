"""The kinds that only the local server serves; their objects have the UIDs of jobs as names, and are only read."""

from typing import Final

from tf_operator.meta import GroupVersionResource

_GROUP: Final = "local.tf-operator.kubeflow.org"
ENDED_JOBS: Final = GroupVersionResource(_GROUP, "v1", "endedjobs", "EndedJob")
"""Jobs that have ended, whether they are deleted or not: ``resource``, and ``record`` as the operator logs it."""
JOB_CURVES: Final = GroupVersionResource(_GROUP, "v1", "jobcurves", "JobCurves")
"""What the program of a job has reported: ``curves``, as they are kept."""
