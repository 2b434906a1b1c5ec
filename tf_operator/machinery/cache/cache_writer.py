"""The way of one scope into the store: duplicates are dropped, and a relist replaces everything in one step.

Between ``reflector``, which knows the connection, and ``informer``, which knows the handlers. A writer changes the
store and reports what has changed, in one tick.

What the wire may do wrong ends here. Within one resource versions only grow, so an event that is not past what
was reached is a duplicate or a replay, and is dropped. A new list is the truth even when its version is lower:
then etcd was restored. The final state of an object that goes is kept wherever it was seen, because what became
of a pod may stand nowhere else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from tf_operator.machinery.cache import resource_version
from tf_operator.machinery.cache.decoding import ObjectDecoder
from tf_operator.machinery.cache.store import Item, Store
from tf_operator.meta import ObjectKey

T = TypeVar("T", bound=Item)


class Added(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object is in the store that was not there before."""

    item: T


class Updated(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The same object, with the same UID, in another state."""

    old: T
    new: T


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object has left the store. ``final_state_known``: ``last`` is the state in which it ended."""

    last: T
    final_state_known: bool


Change = Added[T] | Updated[T] | Deleted[T]


class CacheWriter(Generic[T]):
    """Writes the objects of one namespace, or of all with ``""``, into a store."""

    def __init__(
        self,
        store: Store[T],
        reader: ObjectDecoder[T],
        *,
        namespace: str,
        notify: Callable[[Sequence[Change[T]]], None],
        on_list: Callable[[str], None],
    ) -> None:
        """``notify`` gets every change when it is in the store; ``on_list`` the namespace of a new list."""
        self._store = store
        self._reader = reader
        self._namespace = namespace
        self._notify = notify
        self._on_list = on_list
        self._resource_version = ""

    def start_relist(self) -> "Relist[T]":
        """Begin a new list beside the present one."""
        return Relist(self, self._store, self._reader)

    def apply(self, kind: str, raw: msgspec.Raw) -> str:
        """Carry out one change and return its version; ``""`` when it is no news, or has none."""
        metadata, item = self._reader.read(raw)
        if not _is_past(metadata.resource_version, self._resource_version):
            return ""
        self._advance(metadata.resource_version)
        if kind != "DELETED" and item is not None:
            self._notify(self._put(item, {}))
            return metadata.resource_version
        current = self._store.get(metadata.key)
        if current is not None and current.metadata.uid == metadata.uid:
            # Gone; or there, but in a state that cannot be decoded: what was known of it is no longer so.
            self._store.remove(metadata.key)
            self._notify([Deleted(current if item is None else item, final_state_known=item is not None)])
        return metadata.resource_version

    def on_bookmark(self, version: str) -> bool:
        """There was no further change up to ``version``; false when it is less far than what has been."""
        if _is_past(version, self._resource_version):
            self._advance(version)
            return True
        return version in {"", self._resource_version}

    def replace(self, items: Mapping[ObjectKey, T], final_states: Mapping[str, T], version: str) -> None:
        """Make the store hold exactly ``items`` in this scope. ``final_states``: by UID, where seen.

        First everything changes, then all are notified: a handler never sees half a list.
        """
        changes: list[Change[T]] = []
        for current in self._store:
            key = current.metadata.key
            if key not in items and self._namespace in {"", key.namespace}:
                self._store.remove(key)
                changes += _deletion_of(current, final_states)
        for key, item in items.items():
            if self._store.get(key) is not item:
                changes += self._put(item, final_states)
        self._advance(version)
        self._notify(changes)
        self._on_list(self._namespace)

    def _put(self, item: T, final_states: Mapping[str, T]) -> list[Change[T]]:
        """Store an object. One that was created again under its old name is a deletion and an addition."""
        old = self._store.put(item)
        if old is None:
            return [Added(item)]
        if old.metadata.uid == item.metadata.uid:
            return [Updated(old, item)]
        return [*_deletion_of(old, final_states), Added(item)]

    def _advance(self, version: str) -> None:
        self._resource_version = version
        self._store.set_resource_version(self._namespace, version)


class Relist(Generic[T]):
    """A list that is being read."""

    def __init__(self, writer: CacheWriter[T], store: Store[T], reader: ObjectDecoder[T]) -> None:
        self._writer = writer
        self._store = store
        self._reader = reader
        self._items: dict[ObjectKey, T] = {}
        self._final_states: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._items)

    def apply(self, kind: str, raw: msgspec.Raw) -> None:
        """One object of the list, or what happened to one while the list was read."""
        metadata, item = self._reader.read(raw)
        newest = self._items.get(metadata.key, self._final_states.get(metadata.uid))
        if newest is not None and not _is_past(metadata.resource_version, newest.metadata.resource_version):
            return
        if kind == "DELETED" or item is None:
            self._items.pop(metadata.key, None)
            if item is not None:
                self._final_states[metadata.uid] = item
            return
        current = self._store.get(metadata.key)
        # What has not changed is no news, and not kept twice while the list is read. Compared by value: in a
        # restored etcd the same version may come to stand for something else.
        self._items[metadata.key] = current if current == item and current is not None else item

    def finish(self, version: str) -> None:
        """The list is complete as of ``version``: it replaces the old one in one step."""
        self._writer.replace(self._items, self._final_states, version)


def _deletion_of(item: T, final_states: Mapping[str, T]) -> list[Change[T]]:
    """What became of an object that a list does not have any more: also its last change, if it was seen.

    An owner that has lost it by that change hears of it, as the one that it had at last.
    """
    final = final_states.get(item.metadata.uid)
    if final is None:
        return [Deleted(item, final_state_known=False)]
    return [*([Updated(item, final)] if final != item else ()), Deleted(final, final_state_known=True)]


def _is_past(version: str, position: str) -> bool:
    """Whether a version is past another one. What cannot be compared counts as news; ``0`` is no object's version."""
    new, old = resource_version.parse(version), resource_version.parse(position)
    return version not in {"", "0"} if new is None or old is None else new > old
