"""What the probes answer: whether the process is alive, and whether it is ready.

Alive means that a restart would not help. The event loop runs, and every watch receives something or is tried again. An
API server that is away makes no process less alive: the reflectors go on trying, and report each attempt. Only a watch
that does neither for longer than it should ever take has stalled, and only a restart brings it back.

Ready means that the caches have synced once. It does not depend on leading: a standby is ready, too, or a rollout would
wait for ever for a leader that must not change. A new leader relists before its workers start; while it does it is not
ready, or nobody would notice one that cannot. A cache that has to be read through the webhook of this process is named
and not waited for: the webhook's Service sends only to what is ready.

A loop that works for all jobs may stand still, such as the queue of a leader that cannot plan. Then this process is
still the one that leads, and its webhook converts: another one would stand still as well, and a webhook that is taken
out of its Service fails requests for all jobs. So ``/readyz`` says it and stays 200, and ``/readyz/loops`` is 500.

Called on the event loop of ``server``, so everything here is a read of a few numbers that the operator's loop changes.
"""

from collections.abc import Callable, Container, Iterator

from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.heartbeat import Heartbeat
from tf_operator.machinery.transport.shared_config import SharedConfig

STUCK_LOOP = 8.0
"""Beats come each second; a probe has to fail within 10 s."""
STALLED_LOOP = 60.0
"""Such a loop looks every second whether there is anything to do, and waits half a minute for its own writes."""
DEAD_WATCH = 90.0
"""A reflector itself notices after 80 s that nothing comes, and waits at most a minute before it tries again."""


class Health:
    """The answers to both probes: what is wrong, as sentences; none when nothing is."""

    def __init__(self, clock: Clock, heartbeat: Heartbeat) -> None:
        self._clock = clock
        self._heartbeat = heartbeat
        self._informers: SharedInformerFactory | None = None
        self._config: SharedConfig | None = None
        self._awaits: Callable[[], str] = str
        self._served_first: Callable[[], Container[str]] = tuple
        self._loops: dict[str, Callable[[], float]] = {}

    def watch(self, informers: SharedInformerFactory, *, config: SharedConfig | None = None) -> None:
        """From now on judge by these, none of which is made later."""
        self._informers, self._config = informers, config

    def wait_for(self, trouble: Callable[[], str]) -> None:
        """Not ready as long as there is this trouble; it is empty when there is none."""
        self._awaits = trouble

    def wait_for_no_cache_of(self, resources: Callable[[], Container[str]]) -> None:
        """Be ready without the caches of these resources: they cannot be read before this process is."""
        self._served_first = resources

    def watch_loop(self, name: str, stalled_seconds: Callable[[], float]) -> None:
        """Say when this loop stands still; ``stalled_seconds``: for how long it does, 0 when it has nothing to do."""
        self._loops[name] = stalled_seconds

    def stalled_loops(self) -> list[str]:
        """Which loops stand still. It makes the process neither dead nor unready."""
        ages = {name: seconds() for name, seconds in self._loops.items()}
        return [f"the {name} has stood still for {age:.0f} s" for name, age in ages.items() if age > STALLED_LOOP]

    def notes(self) -> list[str]:
        """What is not as it should be, and makes the process neither dead nor unready."""
        caches = self._incomplete_caches()
        waiting = [
            f"{problem}: it is read through the webhook" for name, problem in caches if self._is_served_first(name)
        ]
        return [*self.stalled_loops(), *waiting]

    def why_not_alive(self) -> list[str]:
        age = self._heartbeat.age()
        stuck = [f"the event loop has been blocked for {age:.0f} s"] if age > STUCK_LOOP else []
        return [*stuck, *self._dead_watches()]

    def why_not_ready(self) -> list[str]:
        if self._informers is None:
            return ["starting"]
        problem = self._config.problem if self._config else ""
        trouble = self._awaits()
        return [
            *([trouble] if trouble else []),
            *([f"the credentials cannot be read: {problem}"] if problem else []),
            *(reason for name, reason in self._incomplete_caches() if not self._is_served_first(name)),
        ]

    def _incomplete_caches(self) -> Iterator[tuple[str, str]]:
        unsynced = self._informers.unsynced() if self._informers else []
        awaited = self._informers.awaited() if self._informers else []
        yield from ((name, f"the cache of {name} has not synced") for name in unsynced)
        yield from ((name, f"the cache of {name} is being relisted") for name in awaited if name not in unsynced)

    def _is_served_first(self, cache: str) -> bool:
        return cache.partition(" ")[0] in self._served_first()

    def _dead_watches(self) -> Iterator[str]:
        stuck = self._informers.stuck_seconds() if self._informers else {}
        for name, seconds in stuck.items():
            if seconds > DEAD_WATCH:
                yield f"the watch of {name} has stalled for {seconds:.0f} s"
