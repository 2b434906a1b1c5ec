"""What an explanation is made from, and what it is."""

from dataclasses import dataclass
from datetime import datetime

from tf_operator.client import Job, JobEvent, JobPod


@dataclass(frozen=True, slots=True)
class Situation:
    """A job, its pods and what was reported about them, at one moment."""

    job: Job
    pods: tuple[JobPod, ...]
    events: tuple[JobEvent, ...]
    """The oldest first."""
    now: datetime
    are_pods_known: bool = True
    """Whether the pods may be read; if not, ``pods`` is empty."""
    log: tuple[str, ...] = ()
    """The last lines of a program that failed, where nothing else says why."""

    @property
    def age(self) -> float | None:
        """Seconds since the job was created."""
        return (self.now - self.job.created).total_seconds() if self.job.created else None

    def last_warning(self, *names: str) -> JobEvent | None:
        """The last warning about one of these objects."""
        return next((event for event in reversed(self.events) if event.is_warning and event.name in names), None)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job in words. ``state`` continues a sentence that begins with its name."""

    state: str
    reasons: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
