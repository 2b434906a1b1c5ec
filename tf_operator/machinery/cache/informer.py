"""A shared cache of one resource: decodes, stores, and notifies its handlers, all in the same tick.

Step 3 of the path of a watch event. An informer owns a store and the reflectors that fill it: one for everything, or
one for each namespace that is watched. Handlers are plain functions, called in the very tick in which the store
changes, so that a worker woken by them finds the store as they saw it.

``cache_writer`` is the way of an object from a reflector into the store; ``factory`` makes informers that many share.
A handler that raises is logged and counted, and the others still get their call.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from tf_operator.machinery.cache.cache_writer import Added, CacheWriter, Change, Updated
from tf_operator.machinery.cache.decoding import Decode, ObjectDecoder
from tf_operator.machinery.cache.reflector import Reflector, Timing, WatchClient
from tf_operator.machinery.cache.store import Index, Item, Store
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.metrics_hooks import ReflectorInstruments
from tf_operator.machinery.transport.requests import EVERYWHERE, Resource, Scope

_log = Logger(__name__)

T = TypeVar("T", bound=Item)
T_contra = TypeVar("T_contra", bound=Item, contravariant=True)


class Handler(Protocol[T_contra]):
    """Is notified of every change. Plain functions: they cannot wait, and should not work long."""

    def on_add(self, item: T_contra) -> None:
        """An object is there that was not there before."""

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """An object has changed; it is the same one, with the same UID."""

    def on_delete(self, last: T_contra, *, final_state_known: bool) -> None:
        """An object is gone. ``last`` is its final state, or the last known one when the deletion was not seen."""


class Informer(Generic[T]):
    """The cache of one resource, in all namespaces or in some, shared by all who want to know.

    Each namespace has a watch of its own, and may have selectors of its own; no object is in two scopes.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        client: WatchClient,
        clock: Clock,
        decode: Decode[T],
        scopes: Iterable[Scope] = (EVERYWHERE,),
        indexes: Mapping[str, Index[T]] | None = None,
        instruments: ReflectorInstruments | None = None,
        timing: Timing | None = None,
        chance: Callable[[], float] = random.random,
        on_demand: bool = False,
    ) -> None:
        """``on_demand``: nothing is listed or watched before somebody has called ``demand``."""
        scopes = check_scopes(scopes)
        self._demanded = asyncio.Event()
        if not on_demand:
            self._demanded.set()
        self.resource = resource
        self.store: Store[T] = Store(indexes)
        self._instruments = instruments or ReflectorInstruments()
        self._handlers: tuple[Handler[T], ...] = ()
        self._synced, self._settled = asyncio.Event(), asyncio.Event()
        self._waits_for = {scope.namespace for scope in scopes}
        self._has_listed = False
        self._reader = ObjectDecoder(decode, store=self.store, instruments=self._instruments)
        self._reflectors = [
            Reflector(
                resource,
                scope,
                client=client,
                clock=clock,
                writer=self._make_writer(scope),
                chance=chance,
                instruments=self._instruments,
                timing=timing,
                on_refusal=self._stop_waiting_for,
            )
            for scope in scopes
        ]

    def add_handler(self, handler: Handler[T]) -> None:
        """Notify ``handler`` of every change from now on, beginning with all that is already there."""
        self._handlers += (handler,)
        self._notify_each([Added(item) for item in self.store], (handler,))

    @property
    def has_synced(self) -> bool:
        """Whether the store has held a list of each namespace that can be read; stays true while one is replaced."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once the store holds a list of each namespace that can be read, and the handlers were notified.

        ``is_stale`` says which could not be read.
        """
        await self._synced.wait()

    @property
    def has_settled(self) -> bool:
        """Whether each namespace has been listed or refused at least once; if all were refused, it has not synced."""
        return self._settled.is_set()

    async def wait_settled(self) -> None:
        """Return once each namespace has been listed or refused."""
        await self._settled.wait()

    @property
    def is_absent(self) -> bool:
        """Whether the apiserver has said last that there is no such resource."""
        return all(reflector.is_absent for reflector in self._reflectors)

    def demand(self) -> None:
        """Begin to list and watch; what was asked for before that has no effect again."""
        self._demanded.set()

    @property
    def idle_seconds(self) -> float:
        """How long the quietest of the watches has heard nothing."""
        return self._is_demanded * max(reflector.idle_seconds for reflector in self._reflectors)

    @property
    def stuck_seconds(self) -> float:
        """How long the most stuck of the reflectors has neither heard nor tried anything."""
        return self._is_demanded * max(reflector.stuck_seconds for reflector in self._reflectors)

    async def run(self) -> None:
        """Fill the store until cancelled. A bug in one reflector ends all of them, loudly."""
        await self._demanded.wait()
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(_kept_up(reflector), name=str(reflector))

    async def refresh(self) -> None:
        """Return once the store shows everything that was so when this was called, and the handlers were notified.

        Where the apiserver refuses to show it, or fails for long, return all the same; ``is_stale`` says where.
        """
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.refresh())

    def is_stale(self, namespace: str) -> bool:
        """Whether the list of this namespace, or its ``refresh``, has not come yet: do not act on what is stored."""
        return any(reflector.is_behind and reflector.covers(namespace) for reflector in self._reflectors)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits in ``refresh`` now."""
        return any(reflector.is_awaited for reflector in self._reflectors)

    @property
    def _is_demanded(self) -> bool:
        return self._demanded.is_set()

    def _make_writer(self, scope: Scope) -> CacheWriter[T]:
        return CacheWriter(
            self.store, self._reader, namespace=scope.namespace, notify=self._notify, on_list=self._on_listed
        )

    def _on_listed(self, namespace: str) -> None:
        self._has_listed = True
        self._stop_waiting_for(namespace)

    def _stop_waiting_for(self, namespace: str) -> None:
        """One namespace that cannot be read must not keep the others waiting; all of them together may."""
        self._waits_for.discard(namespace)
        if not self._waits_for:
            self._settled.set()
            if self._has_listed:
                self._synced.set()

    def _notify(self, changes: Sequence[Change[T]]) -> None:
        self._notify_each(changes, self._handlers)

    def _notify_each(self, changes: Sequence[Change[T]], handlers: tuple[Handler[T], ...]) -> None:
        """Notify these handlers, and not one that is added meanwhile: it sees the store, which has it all."""
        for change in changes:
            for handler in handlers:
                try:
                    _call(handler, change)
                except MemoryError:
                    raise  # nothing is wrong with the handler, and a handler that goes on without it misses changes
                except Exception:  # noqa: BLE001 (one handler's bug must not cost the others their call)
                    self._instruments.handler_failed()
                    _log.exception("a handler failed; the others are still notified", resource=str(self.resource))


async def _kept_up(reflector: Reflector) -> None:
    """Run a reflector. A task group does not miss a task that was cancelled, whoever did it: that would be silent."""
    try:
        await reflector.run()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            raise RuntimeError(f"the {reflector} was cancelled from within") from None
        raise


def check_scopes(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """The scopes, if no object can be in two of them; else ``ValueError``."""
    scope_list = tuple(scopes)
    namespaces = [scope.namespace for scope in scope_list]
    if not scope_list or len(set(namespaces)) < len(scope_list) or ("" in namespaces and len(scope_list) > 1):
        raise ValueError(f"one scope for everything, or one for each namespace; not {namespaces}")
    return scope_list


def _call(handler: Handler[T], change: Change[T]) -> None:
    if isinstance(change, Added):
        handler.on_add(change.item)
    elif isinstance(change, Updated):
        handler.on_update(change.old, change.new)
    else:
        handler.on_delete(change.last, final_state_known=change.final_state_known)
