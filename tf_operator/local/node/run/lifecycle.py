"""What a node does next for a pod: which containers it starts, which it stops, and until when it waits. Pure.

The rules are the kubelet's: init containers one after the other, sidecars among them from their place on; main
containers together; each started again by a rule of its own or by its restart policy, after a back-off. A rule may also
have all containers killed, and the pod begin again. When the pod is over, deleted or past its deadline, main containers
are stopped first, then sidecars in reverse order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from tf_operator.job.restart_rules import RESTARTING_ALL
from tf_operator.local.node.pod import LocalContainer, LocalPod, Role
from tf_operator.local.node.runtime import Runtime

Runtimes = Mapping[str, Runtime]


class Ending(Enum):
    DELETED = auto()
    DEADLINE = auto()
    NODE = auto()
    """The node ends. The pod does not: the next node takes it over."""
    INTERRUPTED = auto()
    """The last node ended while programs of the pod ran, and its controller makes another one."""
    COMPLETED = auto()
    """The main containers have ended for good, or an init container has failed for good."""


@dataclass(frozen=True, slots=True)
class PodStep:
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    """To be stopped without a grace period."""
    wake_at: datetime | None = None
    """When to ask again, if nothing happens before."""
    ending: Ending | None = None
    is_over: bool = False
    """Nothing runs, and nothing will."""
    is_restarting: bool = False
    """A rule starts all containers again; those that still run are killed first."""
    resets: bool = False
    """None of them runs any more, so all begin again, not before ``resets_at``."""
    resets_at: datetime | None = None


def next_step(pod: LocalPod, runtimes: Runtimes, *, since: datetime, now: datetime, node_ends: bool = False) -> PodStep:
    """The next step of a pod that the node has had since ``since``."""
    ending = Ending.NODE if node_ends else ending_of(pod, runtimes, since=since, now=now)
    if ending:
        return _end(pod, runtimes, ending)
    deadline = _deadline(pod, since)
    if sources := [runtimes[member.name] for member in pod.containers if _restarts_all(member, runtimes[member.name])]:
        return _restart_all(runtimes, sources, deadline)
    start, times = [], [deadline] if deadline else []
    for container in _open(pod, runtimes):
        runtime = runtimes[container.name]
        if not _is_wanted(container, runtime):
            continue
        wait = runtime.restart_at()
        if wait is None or wait <= now:
            start.append(container.name)
        else:
            times.append(wait)
    return PodStep(start=tuple(start), wake_at=min(times, default=None))


def ending_of(pod: LocalPod, runtimes: Runtimes, *, since: datetime, now: datetime) -> Ending | None:
    """Why all containers of the pod have to end, if they have to."""
    if pod.deletion:
        return Ending.DELETED
    if (deadline := _deadline(pod, since)) and now >= deadline:
        return Ending.DEADLINE
    return Ending.COMPLETED if _is_completed(pod, runtimes) else None


def _deadline(pod: LocalPod, since: datetime) -> datetime | None:
    seconds = pod.spec.active_deadline_seconds
    return None if seconds is None else since + timedelta(seconds=seconds)


def is_initialized(pod: LocalPod, runtimes: Runtimes) -> bool:
    """Whether every init container has succeeded and every sidecar has started."""
    return all(_lets_pass(container, runtimes[container.name]) for container in pod.of_role(Role.INIT, Role.SIDECAR))


def has_failed_init(pod: LocalPod, runtimes: Runtimes) -> bool:
    inits = ((container, runtimes[container.name]) for container in pod.of_role(Role.INIT))
    ends = ((container, runtime) for container, runtime in inits if not runtime.is_active)
    return any(runtime.end and runtime.end.code and not _is_wanted(container, runtime) for container, runtime in ends)


def _restarts_all(container: LocalContainer, runtime: Runtime) -> bool:
    """Whether it has ended so that all containers of its pod are started again."""
    return runtime.end is not None and not runtime.is_active and container.restarts_all(runtime.end.code)


def _restart_all(runtimes: Runtimes, sources: list[Runtime], deadline: datetime | None) -> PodStep:
    active = {name: runtime for name, runtime in runtimes.items() if runtime.is_active}
    kill = tuple(name for name, runtime in active.items() if runtime.started_at and not runtime.is_killed)
    resets_at = max((restart_time for source in sources if (restart_time := source.restart_at())), default=None)
    return PodStep(kill=kill, wake_at=deadline, is_restarting=True, resets=not active, resets_at=resets_at)


def _open(pod: LocalPod, runtimes: Runtimes) -> list[LocalContainer]:
    """The containers that may run: up to the first init container that the rest waits for."""
    containers = []
    for container in pod.of_role(Role.INIT, Role.SIDECAR):
        containers.append(container)
        if not _lets_pass(container, runtimes[container.name]):
            return containers
    return [*containers, *pod.of_role(Role.MAIN)]


def _lets_pass(container: LocalContainer, runtime: Runtime) -> bool:
    """Whether the containers after this one need not wait for it. A sidecar that is started again stops nobody."""
    if container.role is Role.INIT:
        return runtime.end is not None and runtime.end.code == 0
    return runtime.has_started or runtime.end is not None or (runtime.previous is not None and not runtime.is_reset)


def _is_wanted(container: LocalContainer, runtime: Runtime) -> bool:
    if runtime.is_active:
        return False
    if runtime.end is None or runtime.end.reason == RESTARTING_ALL:
        return True
    return container.restarts_after(runtime.end.code)


def _is_completed(pod: LocalPod, runtimes: Runtimes) -> bool:
    if has_failed_init(pod, runtimes):
        return True
    mains = [(container, runtimes[container.name]) for container in pod.of_role(Role.MAIN)]
    return all(
        runtime.end and not _is_wanted(container, runtime) and not runtime.is_active for container, runtime in mains
    )


def _end(pod: LocalPod, runtimes: Runtimes, ending: Ending) -> PodStep:
    """Stop the main and init containers; when none is left, the last sidecar; and so on."""
    first = [container.name for container in pod.of_role(Role.MAIN, Role.INIT) if runtimes[container.name].is_active]
    sidecars = [container.name for container in pod.of_role(Role.SIDECAR) if runtimes[container.name].is_active]
    wave = first or sidecars[-1:]
    stop = tuple(name for name in wave if not runtimes[name].is_stopping)
    return PodStep(stop=stop, ending=ending, is_over=not wave)
