"""What a node knows of the containers of a pod: what they are by the pod's spec, and how each of them is. Pure.

``LocalContainer`` is read from the spec. ``Runtime`` is the life of one container so far; each of its methods is one
thing that happens to it, and returns the next value. ``lifecycle`` decides what to do, ``pod_report`` writes it down.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from tf_operator.job import restart_rules
from tf_operator.job.restart_rules import RESTARTING_ALL, RestartRules
from tf_operator.meta import Body, ObjectKey, key_of, metadata_of, parse_time, text_of, uid_of

LONGEST_BACKOFF = 300.0
RESET_AFTER = timedelta(minutes=10)
DEFAULT_GRACE = 30
_REMOVED = "The container is removed because RestartAllContainers in place"


class Role(Enum):
    """What a container is there for."""

    INIT = auto()
    """Ends before the next one starts."""
    SIDECAR = auto()
    """Starts before the next one, and runs until the main containers have ended."""
    MAIN = auto()


class Restart(Enum):
    """When a container is started again."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class LocalContainer:
    """One container of a pod's spec."""

    name: str
    role: Role
    restart: Restart
    spec: Body
    rules: RestartRules | None = None

    def has_probe(self, kind: str) -> bool:
        """Whether it has a ``startupProbe``, a ``readinessProbe`` or a ``livenessProbe``."""
        return isinstance(self.spec.get(kind), Mapping)

    def restarts_after(self, code: int) -> bool:
        """Whether it is started again after an exit code: by a rule of its own, or by its policy."""
        is_by_rule = self.rules is not None and self.rules.has_rule(code)
        return is_by_rule or self.restart is Restart.ALWAYS or (self.restart is Restart.ON_FAILURE and code != 0)

    def restarts_all(self, code: int) -> bool:
        """Whether all containers of the pod are started again after an exit code of this one."""
        return self.rules is not None and self.rules.restarts_all(code)


@dataclass(frozen=True, slots=True)
class LocalPod:
    """A pod, as far as a node acts on it."""

    key: ObjectKey
    uid: str
    body: Body
    containers: tuple[LocalContainer, ...]
    """In the order in which they start."""
    grace_seconds: float
    deletion: datetime | None
    """When a deleted pod has to be gone."""
    deadline_seconds: float | None
    """``activeDeadlineSeconds``."""

    def of_role(self, *roles: Role) -> tuple[LocalContainer, ...]:
        """The containers of these roles."""
        return tuple(container for container in self.containers if container.role in roles)

    @property
    def spec(self) -> Body:
        """The pod's spec."""
        return spec_of(self.body)


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
        """A start was asked for."""
        return replace(self, is_starting=True, problem=None, retry_at=None)

    def refused(self, problem: Problem, retry_at: datetime) -> "Runtime":
        """It cannot be started as things are; its next start is no restart."""
        return replace(self, is_starting=False, problem=problem, retry_at=retry_at)

    def began(self, container_id: str, now: datetime, container: LocalContainer) -> "Runtime":
        """The process runs. Without probes it has started, and is ready, at once."""
        has_started = not container.has_probe("startupProbe")
        return replace(
            self,
            container_id=container_id,
            is_starting=False,
            started_at=now,
            end=None,
            previous=self.end or self.previous,
            restarts=self.restarts + (self.end is not None),
            has_started=has_started,
            is_ready=has_started and not container.has_probe("readinessProbe"),
        )

    def ended(self, end: End, first_backoff: float) -> "Runtime":
        """The process has ended, or could not be started.

        The first restart comes at once, the next after ``first_backoff`` seconds, then after twice as many each time,
        until a run has lasted for ten minutes.
        """
        lasted = end.finished_at - (end.started_at or end.finished_at)
        if (self.end is None and self.previous is None) or lasted >= RESET_AFTER:
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


def spec_of(body: Body) -> Body:
    """``spec``, or an empty mapping when it is missing or no mapping."""
    return mapping_of(body, "spec")


def status_of(body: Body) -> Body:
    """``status``, or an empty mapping when it is missing or no mapping."""
    return mapping_of(body, "status")


def mapping_of(body: Body, field: str) -> Body:
    """A field that is an object, or an empty one."""
    value = body.get(field)
    return value if isinstance(value, Mapping) else {}


def list_of(body: Body, field: str) -> list[Any]:
    """The objects in a list; anything else in it is passed over."""
    entries = body.get(field)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def local_pod(body: Body) -> LocalPod:
    """A pod from its JSON."""
    spec, metadata = spec_of(body), metadata_of(body)
    own_grace, pod_grace = metadata.get("deletionGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")
    grace = next((seconds for seconds in (own_grace, pod_grace) if isinstance(seconds, int)), DEFAULT_GRACE)
    deadline = spec.get("activeDeadlineSeconds")
    return LocalPod(
        key=key_of(body),
        uid=uid_of(body),
        body=body,
        containers=tuple(_containers(spec)),
        grace_seconds=float(max(grace, 1)),
        deletion=parse_time(metadata.get("deletionTimestamp")),
        deadline_seconds=float(deadline) if isinstance(deadline, int) else None,
    )


def _containers(spec: Body) -> Iterator[LocalContainer]:
    of_pod = _restart(spec, Restart.ALWAYS)
    for entry in list_of(spec, "initContainers"):
        is_sidecar = entry.get("restartPolicy") == Restart.ALWAYS.value
        again = Restart.NEVER if of_pod is Restart.NEVER else Restart.ON_FAILURE
        role, restart = (Role.SIDECAR, Restart.ALWAYS) if is_sidecar else (Role.INIT, _restart(entry, again))
        yield LocalContainer(text_of(entry, "name"), role, restart, entry, restart_rules.read(entry))
    for entry in list_of(spec, "containers"):
        name, restart = text_of(entry, "name"), _restart(entry, of_pod)
        yield LocalContainer(name, Role.MAIN, restart, entry, restart_rules.read(entry))


def _restart(body: Body, default: Restart) -> Restart:
    policy = body.get("restartPolicy")
    return Restart(policy) if policy in {entry.value for entry in Restart} else default
