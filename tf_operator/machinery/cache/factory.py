"""The informers of a process: one for each resource and scope, however many want to know.

A cache of all pods costs the same whether one part of the process reads it or five, but only if they share it. So
parts ask here, and get the same informer for the same question. All of them run in one task group: when one dies of
a bug, all end, and with them the process, instead of living on with a cache that stands still.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeVar

from tf_operator.machinery.cache.decoding import Decode
from tf_operator.machinery.cache.informer import Informer, check_scopes
from tf_operator.machinery.cache.reflector import Timing, WatchClient
from tf_operator.machinery.cache.store import Index, Item
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.metrics_hooks import ReflectorInstruments
from tf_operator.machinery.transport.requests import EVERYWHERE, Resource, Scope

T = TypeVar("T", bound=Item)


class Need(Enum):
    """What waits for an informer, whose resource may not be served yet, or not any more."""

    REQUIRED = auto()
    """Nothing begins before it has synced."""
    ALTERNATIVE = auto()
    """One of all alternatives has to sync. Nobody waits for another one that the apiserver has refused."""
    OPTIONAL = auto()
    """Nobody waits for it; whoever reads it asks ``has_synced``."""


_MOST_NAMED: Final = 3


class _Entry(NamedTuple):
    informer: Informer[Any]
    decode: Decode[Any]
    scopes: frozenset[Scope]
    needs: set[Need]


class SharedInformerFactory:
    """Makes informers and runs them. All have to be asked for before ``run``."""

    def __init__(
        self,
        *,
        client: WatchClient,
        clock: Clock,
        instruments: Callable[[str], ReflectorInstruments] = lambda _name: ReflectorInstruments(),
        timing: Timing | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``instruments`` makes the measures of one informer, from its name."""
        self._client = client
        self._clock = clock
        self._instruments = instruments
        self._timing = timing
        self._chance = chance
        self._entries: dict[str, _Entry] = {}
        self._has_run = False

    def get(
        self,
        resource: Resource,
        *,
        decode: Decode[T],
        scopes: Iterable[Scope] = (EVERYWHERE,),
        indexes: Mapping[str, Index[T]] | None = None,
        need: Need = Need.REQUIRED,
        on_demand: bool = False,
    ) -> Informer[T]:
        """The informer of a resource in these scopes: a new one, or the one that others have asked for.

        All its users must use the same projection; indexes are added to those that it has. One that all of them want
        ``on_demand`` does nothing before the first of them calls ``Informer.demand``.
        """
        scopes = check_scopes(scopes)
        name = name_of(resource, scopes)
        if name not in self._entries:
            informer = self._make(name, resource, scopes=scopes, decode=decode)
            self._entries[name] = _Entry(informer, decode, frozenset(scopes), set())
        informer, same_decode, same_scopes, needs = self._entries[name]
        needs.add(need)
        if not on_demand:
            informer.demand()
        if decode != same_decode:
            raise ValueError(f"the informer of {name} is shared, and decodes in another way")
        if same_scopes != set(scopes):
            raise ValueError(f"the informer of {name} reads other namespaces")
        for index_name, index in (indexes or {}).items():
            informer.store.add_index(index_name, index)
        return informer

    async def run(self) -> None:
        """Fill all stores until cancelled. A bug in one reflector ends all informers, loudly."""
        self._has_run = True
        async with asyncio.TaskGroup() as tasks:
            for name, entry in self._entries.items():
                tasks.create_task(entry.informer.run(), name=f"informer of {name}")

    @property
    def has_synced(self) -> bool:
        return not self.unsynced()

    def unsynced(self) -> list[str]:
        return [name for name, entry in self._entries.items() if self._is_waited_for(entry)]

    async def wait_synced(self) -> None:
        for informer in self._of(Need.REQUIRED):
            await informer.wait_synced()
        alternatives = self._of(Need.ALTERNATIVE)
        for informer in alternatives:
            await informer.wait_settled()
        if alternatives and not any(informer.has_synced for informer in alternatives):
            await _first([informer.wait_synced() for informer in alternatives])

    async def refresh(self) -> None:
        """Return once every store shows everything that was so when this was called, as far as it may be read.

        A watch may be late, so a cache never knows that it is current. Who begins to lead calls this before the first
        write: what the predecessor wrote last is in the new lists, whatever has become of the watches. Who acts on
        a namespace asks ``Informer.is_stale`` first: what is refused there must not keep all others waiting.
        """
        async with asyncio.TaskGroup() as tasks:
            for informer, *_, needs in self._entries.values():
                if needs != {Need.OPTIONAL} or informer.has_synced:
                    tasks.create_task(informer.refresh())

    def awaited(self) -> list[str]:
        """The names of those that somebody waits for in ``refresh`` now."""
        return [name for name, entry in self._entries.items() if entry.informer.is_awaited]

    def idle_seconds(self) -> dict[str, float]:
        """For each informer, by name, how long the quietest of its watches has heard nothing.

        There is nothing to hear of a resource that is not served, where it may be missing: it is optional, or another
        alternative is served.
        """
        return {
            name: 0.0 if self._is_dispensable(entry) else entry.informer.idle_seconds
            for name, entry in self._entries.items()
        }

    def stuck_seconds(self) -> dict[str, float]:
        """For each informer, by name, how long one of its reflectors has neither heard nor tried anything."""
        return {name: entry.informer.stuck_seconds for name, entry in self._entries.items()}

    def sizes(self) -> dict[str, int]:
        """For each informer, by name, how many objects are in its store."""
        return {name: len(entry.informer.store) for name, entry in self._entries.items()}

    def _of(self, need: Need) -> list[Informer[Any]]:
        return [entry.informer for entry in self._entries.values() if need in entry.needs]

    def _is_waited_for(self, entry: _Entry) -> bool:
        informer, *_, needs = entry
        if informer.has_synced or needs == {Need.OPTIONAL}:
            return False
        has_other = any(other.has_synced for other in self._of(Need.ALTERNATIVE))
        return Need.REQUIRED in needs or not (informer.has_settled and has_other)

    def _is_dispensable(self, entry: _Entry) -> bool:
        """Whether nothing is missed without it: its resource is not served, and is optional, or an alternative is."""
        if Need.REQUIRED in entry.needs or not entry.informer.is_absent:
            return False
        return entry.needs == {Need.OPTIONAL} or any(
            other.has_synced and not other.is_absent for other in self._of(Need.ALTERNATIVE)
        )

    def _make(
        self,
        name: str,
        resource: Resource,
        *,
        scopes: tuple[Scope, ...],
        decode: Decode[T],
    ) -> Informer[T]:
        if self._has_run:
            raise RuntimeError(f"the informers run already; ask for {name} before that")
        return Informer(
            resource,
            client=self._client,
            clock=self._clock,
            decode=decode,
            scopes=scopes,
            instruments=self._instruments(name),
            timing=self._timing,
            chance=self._chance,
            on_demand=True,
        )


async def _first(waits: Sequence[Coroutine[Any, Any, object]]) -> None:
    has_one = asyncio.Event()

    async def until(wait: Coroutine[Any, Any, object]) -> None:
        await wait
        has_one.set()

    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(until(wait)) for wait in waits]
        await has_one.wait()
        for task in waiting:
            task.cancel()


def name_of(resource: Resource, scopes: Iterable[Scope]) -> str:
    """What it is called in metrics and logs: ``pods``, ``pods in a, b``, ``pods in several namespaces (job=x)``.

    No two of a process have the same name: a version is named unless it is ``v1``. Of many namespaces none is:
    databases of metrics refuse long labels, and a namespace more is no reason for new series.
    """
    kind = str(resource) if resource.version == "v1" else f"{resource} {resource.version}"
    places = [(scope.namespace, _selectors(scope)) for scope in sorted(scopes, key=lambda scope: scope.namespace)]
    if len(places) > _MOST_NAMED and len({selectors for _, selectors in places}) == 1:
        places = [("several namespaces", places[0][1])]
    listing = ", ".join(" ".join(filter(None, place)) for place in places if any(place))
    return f"{kind} in {listing}" if listing else kind


def _selectors(scope: Scope) -> str:
    by_fields = scope.field_selector and f"fields {scope.field_selector}"
    selectors = "; ".join(filter(None, (scope.label_selector, by_fields)))
    return selectors and f"({selectors})"
