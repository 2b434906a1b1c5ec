"""The life of one container so far: each method of ``Runtime`` is what happens to it, and returns the next value.

``lifecycle`` decides by it what to do, ``pod_report`` writes it down. Pure.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tf_operator.job.restart_rules import RESTARTING_ALL
from tf_operator.local.node.pod import READINESS, STARTUP, LocalContainer

LONGEST_BACKOFF = 300.0
RESET_AFTER = timedelta(minutes=10)
_REMOVED = "The container is removed because RestartAllContainers in place"


@dataclass(frozen=True, slots=True)
class End:
    """How a container has ended."""

    code: int
    finished_at: datetime
    started_at: datetime | None = None
    signal: int = 0
    reason: str = ""
    message: str = ""
    container_id: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a container waits: the reason and the message of its status."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """The life of one container so far. ``end`` is that of the latest run, ``previous`` that of the one before."""

    container_id: str = ""
    is_starting: bool = False
    started_at: datetime | None = None
    """While it runs."""
    end: End | None = None
    previous: End | None = None
    restarts: int = 0
    backoff: float = 0.0
    """Seconds between the latest end and the next start."""
    problem: Problem | None = None
    retry_at: datetime | None = None
    """When to try again after a ``problem``."""
    has_started: bool = False
    """Runs, and its startup probe has succeeded."""
    is_ready: bool = False
    is_stopping: bool = False
    is_killed: bool = False
    """Because all containers of the pod are started again."""
    is_reset: bool = False
    """All containers are started again, as if the pod were new, and this one has not started since."""

    @property
    def is_active(self) -> bool:
        """Whether there is a process, or one is asked for."""
        return self.is_starting or self.started_at is not None

    def starting(self) -> "Runtime":
        return replace(self, is_starting=True, problem=None, retry_at=None)

    def refused(self, problem: Problem, retry_at: datetime) -> "Runtime":
        """It cannot be started as things are; its next start is no restart."""
        return replace(self, is_starting=False, problem=problem, retry_at=retry_at)

    def began(self, container_id: str, now: datetime, container: LocalContainer) -> "Runtime":
        """The process runs. Without probes it has started, and is ready, at once."""
        has_started = STARTUP not in container.probes
        return replace(
            self,
            container_id=container_id,
            is_starting=False,
            started_at=now,
            end=None,
            previous=self.end or self.previous,
            restarts=self.restarts + (self.end is not None),
            has_started=has_started,
            is_ready=has_started and READINESS not in container.probes,
        )

    def ended(self, end: End, first_backoff: float) -> "Runtime":
        """The process has ended, or could not be started.

        The first restart comes at once, the next after ``first_backoff`` seconds, then after twice as many each time,
        until a run has lasted for ten minutes.
        """
        duration = end.finished_at - (end.started_at or end.finished_at)
        if (self.end is None and self.previous is None) or duration >= RESET_AFTER:
            backoff = 0.0
        elif self.is_killed:
            backoff = self.backoff
        else:
            backoff = min(max(2 * self.backoff, first_backoff), LONGEST_BACKOFF)
        return replace(
            self,
            is_starting=False,
            started_at=None,
            end=replace(end, reason=RESTARTING_ALL) if self.is_killed else end,
            previous=self.previous if self.end is None else self.end,
            restarts=self.restarts + (self.end is not None and self.started_at is None),
            backoff=backoff,
            has_started=False,
            is_ready=False,
            is_stopping=False,
            is_killed=False,
            is_reset=False,
        )

    def reset(self, now: datetime, retry_at: datetime | None) -> "Runtime":
        """All containers of the pod begin again. How this one ended is forgotten, as the kubelet does."""
        if self.end is None:
            return self
        return replace(
            self,
            end=None,
            previous=End(137, now, reason=RESTARTING_ALL, message=_REMOVED),
            restarts=self.restarts + 1,
            problem=Problem(RESTARTING_ALL, _REMOVED),
            retry_at=retry_at,
            is_reset=True,
        )

    def restart_at(self) -> datetime | None:
        """When it may be started, as far as it has to wait for that."""
        if self.problem:
            return self.retry_at
        return self.end.finished_at + timedelta(seconds=self.backoff) if self.end else None
