"""The curves of what programs report to the local server, from their beginning, for pages that are opened later.

In memory: of a job that reports, its last points, and of all jobs those that reported last.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tf_operator.job.curves import Curves
from tf_operator.job.progress import Progress
from tf_operator.local.local_kinds import JOB_CURVES
from tf_operator.meta import Body, ObjectKey, rfc3339

MOST_JOBS: Final = 32
"""Each has up to 0.4 MB."""


class JobCurves:
    def __init__(self) -> None:
        self._curves = dict[tuple[str, str], Curves]()
        """By namespace and UID; the one that was added to last is the last."""

    def add(self, key: ObjectKey, uid: str, report: Progress) -> None:
        curves = self._curves.pop((key.namespace, uid), None) or Curves()
        curves.add(report)
        self._curves[key.namespace, uid] = curves
        if len(self._curves) > MOST_JOBS:
            del self._curves[next(iter(self._curves))]

    def read(self, now: datetime) -> Iterator[Body]:
        for (namespace, uid), curves in self._curves.items():
            yield {
                "kind": JOB_CURVES.kind,
                "apiVersion": JOB_CURVES.api_version,
                "metadata": {"name": uid, "namespace": namespace, "creationTimestamp": rfc3339(now)},
                "curves": curves.copy(),
            }
