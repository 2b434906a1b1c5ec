"""What controllers of a cluster do: garbage collection, the end of namespaces, CRDs and events, the status of quotas.

They also put into each namespace what it has to have: the service account ``default``.

By the rules of Kubernetes' garbage collector: an object goes when its last owner has gone, owners are known by UID, and
the finalizers ``orphan`` and ``foregroundDeletion`` say what becomes of dependents. The collector follows commits by
``on_change``, which only notes what is to be examined; ``step`` examines it. What fails by a defect or a full disk
stays due, and is tried again a second later.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.registry import Registry
from tf_operator.local.apiserver.requests.routes import Route
from tf_operator.local.apiserver.storage.store import Commit, Stored, VersionedStore, path_of
from tf_operator.local.apiserver.writes.deletes import CLEAN_UP, FOREGROUND, ORPHAN, DeleteOptions, Deleter
from tf_operator.local.apiserver.writes.writer import ObjectWriter, WriteOptions
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.meta import Body, ObjectKey, OwnerRef, key_of, owners_of, uid_of

MOST_AT_ONCE = 200
"""Objects that one step examines, or deletes of a namespace: others share the event loop, and must not wait long."""
RETRY_AFTER: Final = 1.0
"""Seconds until what has failed is examined again."""
Place = tuple[str, str]
"""Collection and path of an object."""
_log = Logger(__name__)


class Collector:
    """Deletes what has lost its owners, its namespace or its definition."""

    def __init__(
        self,
        store: VersionedStore,
        registry: Registry,
        *,
        writer: ObjectWriter,
        deleter: Deleter,
        clock: Clock,
        has_controllers: bool,
    ) -> None:
        """Without ``has_controllers`` it does no more than a lone kube-apiserver: definitions end, and events."""
        self._has_controllers = has_controllers
        self._store = store
        self._clock = clock
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._dependents: dict[str, dict[Place, None]] = {}
        """By the UID of an owner, which need not exist."""
        self._deleted_uids: set[str] = set()
        """UIDs of owners that have gone, while dependents are left: their kind may be gone, too."""
        self._due: dict[Place, None] = {}
        self._terminating: dict[Place, bool] = {}
        """Objects that end step by step, and whether all of their content has been deleted or marked."""
        self._expiring: deque[tuple[float, Place, int]] = deque()
        """When which version of which object has outlived its time, in the order of the writes."""
        self._observers = tuple(kind for kind in registry.stored if kind.observe is not None)
        self._furniture = tuple(kind for kind in registry.stored if kind.in_each_namespace)
        self._failures: dict[Place, None] = {}
        """Due again at ``retry_at``."""
        self._is_reported = False
        """Whether the log says that something fails: one record until all of it has succeeded."""
        self.retry_at: float | None = None
        """When something that has failed is due again, by the monotonic clock: nobody calls ``wake`` for that."""
        self.wake: Callable[[], object] | None = None
        """Called, from inside of the write, when there may be something to do."""

    def on_change(self, change: Commit) -> None:
        place = change.collection, change.path
        old_owners = set() if change.old is None else {owner.uid for owner in owners_of(change.old.body)}
        new_owners = set() if change.new is None else {owner.uid for owner in owners_of(change.new.body)}
        for uid in old_owners - new_owners:
            self._dependents[uid].pop(place, None)
            if not self._dependents[uid]:
                del self._dependents[uid]
                self._deleted_uids.discard(uid)
        for uid in new_owners - old_owners:
            self._dependents.setdefault(uid, {})[place] = None
        self._note_observers(change.path)
        self._note_furniture(change)
        if change.new is None:
            self._on_gone(place, change.last.body)
        else:
            if new_owners:
                self._due[place] = None
            self._note_end(place, change.version)
            if change.new.body["metadata"].get("deletionTimestamp"):
                self._on_terminating(place, change.new.body)
        if self.wake is not None and (self._due or self._terminating or self._has_expired()):
            self.wake()

    def _note_observers(self, path: str) -> None:
        namespace, is_in_one, _ = path.partition("/")
        for kind in self._observers if is_in_one else ():
            name = str(kind.storage)
            self._due.update(((name, path_in_it), None) for path_in_it in self._store.collection(name).paths(namespace))

    def _note_furniture(self, change: Commit) -> None:
        """A namespace that is new may lack something, and so may one that has lost something."""
        namespaces = self._registry.namespaces
        if namespaces is None or not self._furniture:
            return
        collection = str(namespaces.storage)
        if change.collection == collection and change.new is not None:
            self._due[collection, change.path] = None
        elif change.new is None and any(str(kind.storage) == change.collection for kind in self._furniture):
            self._due[collection, key_of(change.last.body).namespace] = None

    def _note_end(self, place: Place, version: int) -> None:
        kind = self._registry.stored_in(place[0])
        if kind is not None and kind.seconds_to_live is not None:
            self._expiring.append((self._clock.monotonic() + kind.seconds_to_live, place, version))

    def _on_gone(self, place: Place, body: Body) -> None:
        uid = uid_of(body)
        if uid in self._dependents:
            self._deleted_uids.add(uid)
            self._due.update(self._dependents[uid])
        self._due.pop(place, None)
        self._terminating.pop(place, None)

    def _on_terminating(self, place: Place, body: Body) -> None:
        kind = self._registry.stored_in(place[0])
        finalizers = body["metadata"].get("finalizers", ())
        if kind is not None and (kind.is_namespace or not {ORPHAN, FOREGROUND, CLEAN_UP}.isdisjoint(finalizers)):
            self._terminating.setdefault(place, False)
            if FOREGROUND in finalizers:
                self._due.update(self._dependents.get(uid_of(body), {}))
        else:
            self._terminating.pop(place, None)

    def step(self) -> bool:
        """Examine some of what is due; whether that has changed anything, or more is due now. Never raises."""
        version = self._store.version
        self._retry()
        places = tuple(islice(self._due, MOST_AT_ONCE))
        for place in places:
            del self._due[place]
        for place in dict.fromkeys((*places, *self._terminating)):
            if not self._is_done(place, self._examine):
                self._failures[place] = None
        self._expire()
        if not self._failures:
            self._is_reported = False
        elif self.retry_at is None:
            self.retry_at = self._clock.monotonic() + RETRY_AFTER
        return bool(self._due) or self._store.version != version

    def _retry(self) -> None:
        if self.retry_at is not None and self.retry_at <= self._clock.monotonic():
            self.retry_at = None
            self._due.update(self._failures)
            self._failures.clear()

    def _expire(self) -> None:
        def delete(kind: Kind, _: Place, entry: Stored) -> None:
            if entry.version == version:
                self._delete(kind, entry, "Background")

        failures = []
        while self._has_expired():
            moment, place, version = self._expiring.popleft()
            if not self._is_done(place, delete):
                failures.append((moment, place, version))
                self._failures[place] = None
        self._expiring.extendleft(reversed(failures))

    def _is_done(self, place: Place, act: Callable[[Kind, Place, Stored], object]) -> bool:
        """Do something with the object of a place, if it is there; false if it has to be tried again."""
        kind, entry = self._registry.stored_in(place[0]), self._entry_at(place)
        if kind is None or entry is None:
            return True
        try:
            act(kind, place, entry)
        except ApiFailure:
            return True  # what may not be deleted stays, as in a cluster
        except Exception:  # noqa: BLE001 (what is due must not be lost, whatever has failed)
            if not self._is_reported:
                _log.exception("an object cannot be collected; trying again", object="/".join(place))
            self._is_reported = True
            return False
        return True

    def _has_expired(self) -> bool:
        return bool(self._expiring) and self._expiring[0][0] <= self._clock.monotonic()

    def _listing(self, resource: str, namespace: str) -> list[Body]:
        if self._registry.stored_in(resource) is None:  # a quota can count anything
            return []
        collection = self._store.collection(resource)
        return [collection.objects[path].body for path in collection.paths(namespace)]

    def _entry_at(self, place: Place) -> Stored | None:
        return self._store.collection(place[0]).objects.get(place[1])

    def _examine(self, kind: Kind, place: Place, entry: Stored) -> None:
        metadata = entry.body["metadata"]
        if not self._has_controllers and CLEAN_UP not in metadata.get("finalizers", ()):
            return
        if not metadata.get("deletionTimestamp"):
            self._keep(kind, entry)
            return
        finalizers = metadata.get("finalizers", ())
        if kind.is_namespace:
            self._end_namespace(kind, place, entry)
        elif CLEAN_UP in finalizers:
            self._end_definition(kind, place, entry)
        elif ORPHAN in finalizers:
            self._release(entry)
            self._drop_finalizer(kind, entry, ORPHAN)
        elif FOREGROUND in finalizers and not any(self._blocking(entry)):
            self._drop_finalizer(kind, entry, FOREGROUND)

    def _keep(self, kind: Kind, entry: Stored) -> None:
        if kind.observe is not None:
            status = kind.observe(entry.body, self._listing)
            self._writer.amend(_route(kind, entry), lambda body: body.update(status=status))
        if kind.is_namespace:
            self._furnish(key_of(entry.body).name)
        self._examine_owners(kind, entry)

    # Owners

    def _examine_owners(self, kind: Kind, entry: Stored) -> None:
        owners = tuple(owners_of(entry.body))
        if not owners or not all(self._is_known(owner, kind) for owner in owners):
            return
        by_uid = {owner.uid: self._owner(owner, entry.body) for owner in owners}
        terminating = {uid for uid, owner in by_uid.items() if owner is not None and _deletes_dependents(owner)}
        solid = {uid for uid, owner in by_uid.items() if owner is not None} - terminating
        if solid:
            if len(solid) < len(by_uid):
                self._disown(kind, entry, by_uid.keys() - solid)
            return
        finalizers = entry.body["metadata"].get("finalizers", ())
        if (terminating and self._dependents.get(uid_of(entry.body))) or FOREGROUND in finalizers:
            propagation = "Foreground"
        else:
            propagation = "Orphan" if ORPHAN in finalizers else "Background"
        self._delete(kind, entry, propagation)

    def _is_known(self, owner: OwnerRef, dependent: Kind) -> bool:
        """Whether it can be known if the owner exists.

        It cannot for a kind that is not served, nor if the reference does not say in which namespace the owner is.
        """
        kind = self._registry.of_kind(owner.api_version, owner.kind)
        if kind is None:
            return owner.uid in self._deleted_uids
        return dependent.resource.is_namespaced or not kind.resource.is_namespaced

    def _owner(self, reference: OwnerRef, dependent: Body) -> Body | None:
        """The owner that a reference names, if it exists where it can own this object."""
        kind = self._registry.of_kind(reference.api_version, reference.kind)
        if kind is None:
            return None
        namespace = key_of(dependent).namespace if kind.resource.is_namespaced else ""
        entry = self._entry_at((str(kind.storage), path_of(ObjectKey(namespace, reference.name))))
        return entry.body if entry is not None and uid_of(entry.body) == reference.uid else None

    def _blocking(self, entry: Stored) -> Iterator[Place]:
        """The dependents that keep a foreground deletion waiting."""
        uid = uid_of(entry.body)
        for place in self._dependents.get(uid, {}):
            dependent = self._entry_at(place)
            if dependent is not None:
                yield from (
                    place for owner in owners_of(dependent.body) if owner.uid == uid and owner.block_owner_deletion
                )

    def _release(self, entry: Stored) -> None:
        uid = uid_of(entry.body)
        for place in tuple(self._dependents.get(uid, {})):
            kind, dependent = self._registry.stored_in(place[0]), self._entry_at(place)
            if kind is not None and dependent is not None:
                self._disown(kind, dependent, {uid})

    def _disown(self, kind: Kind, entry: Stored, uids: set[str]) -> None:
        def change(metadata: Json) -> None:
            metadata["ownerReferences"] = [
                owner for owner in metadata["ownerReferences"] if owner.get("uid") not in uids
            ]

        self._writer.amend(_route(kind, entry), lambda body: change(body["metadata"]))

    # Namespaces and definitions

    def _furnish(self, namespace: str) -> None:
        for kind in self._furniture:
            objects = self._store.collection(str(kind.storage)).objects
            for name in kind.in_each_namespace:
                if path_of(key := ObjectKey(namespace, name)) not in objects:
                    body = {"metadata": {"name": name}}
                    self._writer.create(Route("create", kind, key.namespace), body, WriteOptions())

    def _end_namespace(self, kind: Kind, place: Place, entry: Stored) -> None:
        name = key_of(entry.body).name
        kinds = [each for each in self._registry.stored if each.resource.is_namespaced]
        if not self._terminating.get(place):
            self._terminating[place] = all(self._delete_some(each, name) for each in kinds)
        if not any(self._has_objects(each, name) for each in kinds):
            self._writer.amend(_route(kind, entry), lambda body: body.update(spec={}))

    def _end_definition(self, kind: Kind, place: Place, entry: Stored) -> None:
        kinds = {str(each.storage): each for each in self._registry.defined_by(*place)}
        if not self._terminating.get(place):
            self._terminating[place] = all(self._delete_some(each, "") for each in kinds.values())
        if not any(self._has_objects(each, "") for each in kinds.values()):
            self._drop_finalizer(kind, entry, CLEAN_UP)

    def _has_objects(self, kind: Kind, namespace: str) -> bool:
        return any(self._store.collection(str(kind.storage)).paths(namespace))

    def _delete_some(self, kind: Kind, namespace: str) -> bool:
        """Delete some objects that are not terminating; whether these were all."""
        collection = self._store.collection(str(kind.storage))
        objects = map(collection.objects.__getitem__, collection.paths(namespace))
        alive = (entry for entry in objects if not entry.body["metadata"].get("deletionTimestamp"))
        some = tuple(islice(alive, MOST_AT_ONCE))
        for entry in some:
            self._delete(kind, entry, "Background")
        return len(some) < MOST_AT_ONCE

    # Writes

    def _delete(self, kind: Kind, entry: Stored, propagation: str) -> None:
        self._deleter.delete(_route(kind, entry), DeleteOptions(uid=uid_of(entry.body), propagation=propagation))

    def _drop_finalizer(self, kind: Kind, entry: Stored, finalizer: str) -> None:
        def change(metadata: Json) -> None:
            metadata["finalizers"] = [name for name in metadata["finalizers"] if name != finalizer]

        self._writer.amend(_route(kind, entry), lambda body: change(body["metadata"]))


def _deletes_dependents(owner: Body) -> bool:
    metadata = owner["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in metadata.get("finalizers", ())


def _route(kind: Kind, entry: Stored) -> Route:
    key = key_of(entry.body)
    return Route("collect", kind, key.namespace, key.name)
