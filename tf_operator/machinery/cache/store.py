"""The cache of one resource: objects by key, by UID and by indexes, and how far the watches have come.

Only ``cache_writer`` writes (``put``, ``remove``, ``set_resource_version``); everybody else reads. Objects are handed
out without a copy, so they are frozen by their type (``interning`` sees to that). Everything is a plain ``def`` on one
event loop: a reader never sees half a change.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import ObjectKey


class Item(Protocol):
    """What can be stored: anything frozen that has the metadata of an object."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, UID and version."""


T = TypeVar("T", bound=Item)
Index = Callable[[T], Iterable[str]]
"""From an object to the values under which it is to be found. Pure: the same for the same object, always."""


class Store(Generic[T]):
    """A keyed cache with indexes; ``len``, iteration and ``in`` work on its objects and keys."""

    def __init__(self, indexes: Mapping[str, Index[T]] | None = None) -> None:
        self._items: dict[str, dict[str, T]] = {}
        """By namespace and name, which the objects have anyhow: a hundred thousand keys would take 3 MB."""
        self._uids: dict[str, T] = {}
        self._indexes = dict(indexes or {})
        self._by_index: dict[str, dict[str, dict[str, T]]] = {name: {} for name in self._indexes}
        self._resource_versions: dict[str, str] = {}
        self._placed: tuple[T | None, list[tuple[str, str]]] = (None, [])
        """The object whose places were asked for last: each is placed when it is checked, and when it is stored."""

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def __iter__(self) -> Iterator[T]:
        """All objects as they are now; a caller that awaits between two of them still gets these."""
        return iter([item for items in self._items.values() for item in items.values()])

    def __contains__(self, key: ObjectKey) -> bool:
        return self.get(key) is not None

    def get(self, key: ObjectKey) -> T | None:
        items = self._items.get(key.namespace)
        return items.get(key.name) if items else None

    def by_uid(self, uid: str) -> T | None:
        return self._uids.get(uid)

    def version_of(self, uid: str) -> str | None:
        """The resource version of the object with this UID, ``None`` when there is none."""
        item = self._uids.get(uid)
        return item.metadata.resource_version if item is not None else None

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """The objects that the index finds under ``value``; what changed last is at the end."""
        if index not in self._indexes:
            raise KeyError(f"no index {index!r}; there are {sorted(self._indexes)}")
        return tuple(self._by_index[index].get(value, {}).values())

    def count(self, index: str, value: str) -> int:
        """How many objects the index finds under ``value``, without listing them."""
        return len(self._by_index[index].get(value, ()))

    def resource_version_in(self, namespace: str) -> str:
        """Every change in this namespace up to this version is in the store; ``""`` before the initial list."""
        return self._resource_versions.get(namespace) or self._resource_versions.get("", "")

    def add_index(self, name: str, index: Index[T]) -> None:
        """Find objects in one more way, also those that are already there. The same index again is fine."""
        if self._indexes.get(name, index) != index:
            raise ValueError(f"there is another index {name!r} already")
        by_value: dict[str, dict[str, T]] = {}
        for uid, item in self._uids.items():
            for value in index(item):
                by_value.setdefault(value, {})[uid] = item
        self._indexes[name], self._by_index[name] = index, by_value
        self._placed = (None, [])

    def places_of(self, item: T) -> list[tuple[str, str]]:
        """Every index and value under which an object is to be found; raises what an index raises."""
        if self._placed[0] is not item:
            self._placed = item, [(name, value) for name, index in self._indexes.items() for value in index(item)]
        return self._placed[1]

    def put(self, item: T) -> T | None:
        """Store an object and return the one that had its key before. If an index raises, nothing has changed."""
        places = self.places_of(item)
        metadata = item.metadata
        uid = metadata.uid
        items = self._items.setdefault(metadata.namespace, {})
        old = items.get(metadata.name)
        if old is not None:
            self._forget(old, but=places if old.metadata.uid == uid else ())
        # Each is taken out first: a dict keeps the key that it has, and with it a text of the version before.
        items.pop(metadata.name, None)
        items[metadata.name] = self._uids[uid] = item
        for name, value in places:
            entries = self._by_index[name].setdefault(value, {})
            entries.pop(uid, None)
            entries[uid] = item
        return old

    def remove(self, key: ObjectKey) -> T | None:
        items = self._items.get(key.namespace, {})
        old = items.pop(key.name, None)
        if old is not None:
            self._forget(old)
            if not items:
                del self._items[key.namespace]
        return old

    def set_resource_version(self, namespace: str, version: str) -> None:
        """Every change in this namespace (``""``: in all) is stored up to ``version``."""
        self._resource_versions[namespace] = version

    def _forget(self, old: T, *, but: Sequence[tuple[str, str]] = ()) -> None:
        """Leave no trace of an object, but in the places where its next version takes over."""
        uid = old.metadata.uid
        self._uids.pop(uid, None)
        for place in self.places_of(old):
            if place not in but:
                name, value = place
                entries = self._by_index[name].get(value, {})
                entries.pop(uid, None)
                if not entries:
                    self._by_index[name].pop(value, None)
