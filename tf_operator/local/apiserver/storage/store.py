"""What is stored: the current objects, the versions that they went through, and nothing about what they mean.

Each commit takes the next version of one counter, as a write to etcd does. A ``Collection`` keeps the objects of one
resource in the order of their keys and its last changes, from which the list of an earlier version and the events of a
watch are read. Bodies are never changed once they are stored; their JSON is encoded once.
"""

import bisect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from tf_operator.meta import Body, ObjectKey

HISTORY = 5_000
"""Changes that a collection remembers. A watch or a list of an earlier version is ``Expired``."""
HISTORY_BYTES: Final = 64 * 1024 * 1024
"""Or fewer, if objects are large: the JSON of all versions that only the history still has."""

Encoded = tuple[Body, bytes]
"""A body as one version of the API serves it, and its JSON."""


@dataclass(frozen=True, slots=True)
class Completion:
    """How objects are read that were written before their definition changed."""

    since: int
    """The version of the definition: what was written later is complete."""
    apply: Callable[[Body], Mapping[str, Any]]
    """Returns a body without unknown fields and with the defaults."""


class Stored:
    """One version of one object. Immutable, but for what is cached of it."""

    __slots__ = ("_encoded", "_other_forms", "body", "version")

    def __init__(self, body: Body, version: int) -> None:
        self.body = body
        self.version = version
        self._encoded: dict[tuple[str, int], Encoded] = {}
        self._other_forms: dict[str, bytes] = {}

    def served(
        self,
        api_version: str,
        convert: Callable[[Body, str], Mapping[str, Any]] | None,
        completion: Completion | None = None,
    ) -> Encoded:
        completion = completion if completion is not None and self.version < completion.since else None
        since = 0 if completion is None else completion.since
        entry = self._encoded.get((api_version, since))
        if entry is None:
            body = self.body
            if convert is not None and body.get("apiVersion") != api_version:
                version_body = convert(body, api_version)
                body = {"kind": version_body["kind"], "apiVersion": version_body["apiVersion"], **version_body}
            if completion is not None:
                body = completion.apply(body)
            entry = self._encoded[api_version, since] = body, msgspec.json.encode(body)
        return entry

    @property
    def size(self) -> int:
        """The length of its JSON."""
        return len(self.served(self.body["apiVersion"], None)[1])

    def encoded_as(self, form: str, make: Callable[[], bytes]) -> bytes:
        """Another form of it than JSON, made once."""
        if form not in self._other_forms:
            self._other_forms[form] = make()
        return self._other_forms[form]

    def at(self, version: int) -> "Stored":
        """The same body with the version at which it was deleted, or left a selection."""
        body = {**self.body, "metadata": {**self.body["metadata"], "resourceVersion": str(version)}}
        return Stored(body, version)


@dataclass(slots=True)
class Commit:
    """One commit: an object was created (no ``old``), changed, or deleted (no ``new``)."""

    version: int
    collection: str
    path: str
    old: Stored | None
    new: Stored | None
    _last: Stored | None = field(default=None, repr=False)

    @property
    def last(self) -> Stored:
        """What the object was before, with the version of this change: the object of a DELETED event."""
        if self._last is None:
            old = self.old or self.new
            self._last = old.at(self.version) if old else Stored({}, self.version)
        return self._last


class Journal(Protocol):
    """Keeps commits beyond the end of the process."""

    def load(self) -> tuple[int, Iterator[tuple[str, str, Body]]]:
        """The last version, and collection, path and body of each object."""

    def write(self, version: int, collection: str, path: str, body: Body | None) -> None:
        """Keep one commit (``None``: the object is deleted); when this returns, it is kept."""


def path_of(key: ObjectKey) -> str:
    """The key as it sorts, which is as in etcd: objects of ``a-b`` come before those of ``a``."""
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


class Collection:
    """The objects of one resource, of all namespaces."""

    def __init__(self, name: str, *, floor: int, history: int) -> None:
        self.name = name
        self.objects: dict[str, Stored] = {}
        self.changes: deque[Commit] = deque()
        self.forgotten = 0
        """How many changes are no longer in ``changes``: the first one has this position."""
        self.floor = floor
        """The oldest version of which everything that followed is known."""
        self.listeners: dict[object, Callable[[], object]] = {}
        """Called after each change: the watches."""
        self._paths: list[str] = []
        self._history = history
        self._bytes = 0
        """What the history keeps of objects that are others by now."""

    @property
    def end(self) -> int:
        """The position of the next change."""
        return self.forgotten + len(self.changes)

    def paths(self, namespace: str = "", *, after: str = "") -> Iterator[str]:
        """The sorted paths of all objects, or of a namespace's; those behind ``after`` only."""
        prefix = f"{namespace}/" if namespace else ""
        start = bisect.bisect_right(self._paths, after) if after > prefix else bisect.bisect_left(self._paths, prefix)
        for index in range(start, len(self._paths)):
            if not self._paths[index].startswith(prefix):
                return
            yield self._paths[index]

    def at(self, version: int) -> "dict[str, Stored]":
        """The objects as they were at a version that is not below the floor."""
        objects = dict(self.objects)
        for change in reversed(self.changes):
            if change.version <= version:
                break
            if change.old is None:
                objects.pop(change.path, None)
            else:
                objects[change.path] = change.old
        return objects

    def position_after(self, version: int) -> int:
        return self.forgotten + bisect.bisect_right(self.changes, version, key=lambda change: change.version)

    def apply(self, change: Commit) -> None:
        """Take a change over, and wake who waits for it."""
        if change.new is None:
            del self.objects[change.path]
            del self._paths[bisect.bisect_left(self._paths, change.path)]
        else:
            if change.old is None:
                bisect.insort(self._paths, change.path)
            self.objects[change.path] = change.new
        self.changes.append(change)
        self._bytes += change.old.size if change.old else 0
        while len(self.changes) > self._history or self._bytes > HISTORY_BYTES:
            forgotten = self.changes.popleft()
            self.floor = forgotten.version
            self.forgotten += 1
            self._bytes -= forgotten.old.size if forgotten.old else 0
        self.notify()

    def notify(self) -> None:
        for listener in tuple(self.listeners.values()):
            listener()

    def load(self, path: str, entry: Stored) -> None:
        self.objects[path] = entry
        bisect.insort(self._paths, path)


class NotStored(Exception):
    """A commit could not be written to disk, so it has not happened."""


class VersionedStore:
    def __init__(self, journal: Journal | None = None, *, history: int = HISTORY) -> None:
        self.version = 1
        self.listeners: list[Callable[[Commit], object]] = []
        """Called after each commit, in order."""
        self._collections: dict[str, Collection] = {}
        self._journal = journal
        self._history = history
        if journal is not None:
            self._load(journal)

    def collection(self, name: str) -> Collection:
        """The objects of a resource by its short name: ``pods``, ``tfjobs.kubeflow.org``."""
        objects = self._collections.get(name)
        if objects is None:
            # Nothing of this resource is older than the collection, so nothing has been forgotten.
            floor = self._started_at
            objects = self._collections[name] = Collection(name, floor=floor, history=self._history)
        return objects

    @property
    def collections(self) -> tuple[Collection, ...]:
        """Those that have ever been used."""
        return tuple(self._collections.values())

    def commit(self, collection: str, path: str, body: dict[str, Any] | None) -> Commit:
        """Create, replace or (``None``) delete an object; the body gets its new version.

        When the journal fails, nothing has changed.
        """
        stored_in = self.collection(collection)
        version = self.version + 1
        new = None
        if body is not None:
            body["metadata"]["resourceVersion"] = str(version)
            new = Stored(body, version)
        change = Commit(version, collection, path, stored_in.objects.get(path), new)
        if self._journal is not None:
            self._journal.write(version, collection, path, body)
        self.version = version
        stored_in.apply(change)
        for listener in self.listeners:
            listener(change)
        return change

    _started_at = 0

    def _load(self, journal: Journal) -> None:
        last, objects = journal.load()
        self.version = max(self.version, last)
        self._started_at = last
        for collection, path, body in objects:
            self.collection(collection).load(path, Stored(body, int(body["metadata"]["resourceVersion"])))
