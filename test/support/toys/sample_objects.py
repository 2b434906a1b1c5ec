"""Things: a small kind of object for tests of caches, its projection, and what watches the watchers."""

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from support.resources import Json
from tf_operator.machinery.metrics_hooks import ReflectorInstruments
from tf_operator.machinery.transport.requests import Resource
from tf_operator.machinery.transport.responses import ObjectMeta

if TYPE_CHECKING:
    from tf_operator.meta import ObjectKey

THINGS = Resource("example.org", "v1", "things", "Thing")


class Thing(msgspec.Struct, frozen=True):
    """The projection. An object whose ``size`` is no number cannot be decoded."""

    metadata: ObjectMeta
    size: int = 0
    owner: str = ""


READ_THING = msgspec.json.Decoder(Thing).decode


def thing(name: str, version: int | str, *, namespace: str = "ns", uid: str = "", **fields: object) -> Json:
    """An object as an apiserver sends it; its UID comes from its name unless it is given."""
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-of-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, **fields}


def projected(name: str, version: int | str, *, namespace: str = "ns", uid: str = "", **fields: object) -> Thing:
    return READ_THING(msgspec.json.encode(thing(name, version, namespace=namespace, uid=uid, **fields)))


class Diary:
    """A handler that writes down what it gets, as short texts in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.last: list[Thing] = []

    def on_add(self, item: Thing) -> None:
        """``+name@version``."""
        self._write(f"+{_at(item)}", item)

    def on_update(self, old: Thing, new: Thing) -> None:
        """``name@version>version``."""
        self._write(f"{_at(old)}>{new.metadata.resource_version}", new)

    def on_delete(self, last: Thing, *, final_state_known: bool) -> None:
        """``-name@version``, with a question mark when that is only the last known state."""
        self._write(f"-{_at(last)}{'' if final_state_known else '?'}", last)

    def _write(self, entry: str, item: Thing) -> None:
        self.entries.append(entry)
        self.last.append(item)

    def taken(self) -> list[str]:
        entries, self.entries = self.entries, []
        return entries


class HistoryKeeper:
    """A handler that refuses a history that cannot be: for each UID an addition, updates, a deletion."""

    def __init__(self) -> None:
        self.alive: dict[str, Thing] = {}
        self.keys: dict[ObjectKey, str] = {}
        self.ended: set[str] = set()

    def on_add(self, item: Thing) -> None:
        """Not alive, and its key is free."""
        uid = item.metadata.uid
        assert uid not in self.alive, f"{item} was added twice"
        assert self.keys.setdefault(item.metadata.key, uid) == uid, f"{item} has the key of one that lives"
        self.alive[uid] = item

    def on_update(self, old: Thing, new: Thing) -> None:
        """Alive, in exactly the state that it is said to have been in."""
        assert old.metadata.uid == new.metadata.uid, "an update changes the UID"
        assert self.alive[new.metadata.uid] == old, "an update does not begin where the last one ended"
        assert old != new, "an update that changes nothing"
        self.alive[new.metadata.uid] = new

    def on_delete(self, last: Thing, *, final_state_known: bool) -> None:
        """Alive until now."""
        last_known = self.alive.pop(last.metadata.uid)
        assert final_state_known or last_known == last, "the last known state is another one"
        del self.keys[last.metadata.key]
        self.ended.add(last.metadata.uid)


class ReflectorCounts(ReflectorInstruments):
    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self.listed_items: list[int] = []

    def listed(self, items: int, seconds: float) -> None:
        assert seconds >= 0
        self.of["listed"] += 1
        self.listed_items.append(items)

    def watching(self) -> None:
        self.of["watching"] += 1

    def watch_ended(self, cause: str) -> None:
        self.of[f"ended: {cause}"] += 1

    def relisted(self, cause: str) -> None:
        self.of[f"relisted: {cause}"] += 1

    def undecodable(self) -> None:
        self.of["undecodable"] += 1

    def handler_failed(self) -> None:
        self.of["handler failed"] += 1


def _at(item: Thing) -> str:
    return f"{item.metadata.name}@{item.metadata.resource_version}"
