"""Jobs that the queue cannot deal with, because of a bug: the others are planned without them.

A job is tried again when it changes, and after a minute. Until then it starts no pods if it waits, and no room is kept
for its pods that are on no node. Each time is logged and counted.
"""

from collections.abc import Collection
from typing import Final

from tf_operator.controller.metrics_hooks import QueueDecisions
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.planning.job_queue.jobs import QueueJob
from tf_operator.planning.job_queue.schedule import Cluster, make_schedule

_log = Logger(__name__)

RETRY_AFTER: Final = 60.0
"""Seconds after which such a job is tried again although it has not changed."""


class SetAside:
    """The jobs that are left out, by UID."""

    def __init__(self, clock: Clock, instruments: QueueDecisions) -> None:
        self._clock = clock
        self._instruments = instruments
        self._until: dict[str, tuple[str, float]] = {}
        """The version of the job, and the end on the monotonic clock."""

    def has(self, job: ObjectMeta) -> bool:
        version, until = self._until.get(job.uid, ("", 0.0))
        return version == job.resource_version and self._clock.monotonic() < until

    def add(self, job: ObjectMeta, error: Exception) -> None:
        """Leave a job out. ``error`` is what it has brought about."""
        self._until[job.uid] = job.resource_version, self._clock.monotonic() + RETRY_AFTER
        self._instruments.panicked()
        self._instruments.set_aside(len(self))
        _log.error(
            "the job queue panicked on a job; planning without it",
            job_namespace=job.namespace,
            job_name=job.name,
            job_uid=job.uid,
            retry_after=RETRY_AFTER,
            exc_info=error,
        )

    def keep(self, uids: Collection[str]) -> None:
        """Forget all but these jobs, and those whose time is over."""
        now = self._clock.monotonic()
        self._until = {uid: entry for uid, entry in self._until.items() if uid in uids and now < entry[1]}
        self._instruments.set_aside(len(self))

    @property
    def next_retry(self) -> float | None:
        """When the first of them is tried again, on the monotonic clock."""
        return min((until for _, until in self._until.values()), default=None)

    def __len__(self) -> int:
        return len(self._until)


async def find_culprit(cluster: Cluster, clock: Clock) -> QueueJob | None:
    """A job without which fewer plans panic: the last of the shortest beginning of the queue that does.

    ``None`` if it is no job's fault. Each try is a plan, and between two of them others get on.
    """
    jobs = sorted(cluster.jobs, key=lambda job: job.rank)
    fine, panics = -1, len(jobs)
    while panics - fine > 1:
        middle = (fine + panics) // 2
        await clock.sleep(0)
        if _is_fine(Cluster(cluster.now, cluster.nodes, tuple(jobs[:middle]), cluster.rules)):
            fine = middle
        else:
            panics = middle
    return jobs[panics - 1] if panics else None


def _is_fine(cluster: Cluster) -> bool:
    try:
        make_schedule(cluster)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 (that is the question)
        return False
    return True
