"""What an etcd key of a kube-apiserver says: which kind of object, in which namespace, under which name.

Kinds of the core and of the built-in groups lie at ``/registry/<plural>/...`` without their group, all
others at ``/registry/<group>/<plural>/...``; a few have names of old.
"""

from dataclasses import dataclass

PREFIX = "/registry/"
_OLD_NAMES = {("minions",): "nodes", ("services", "specs"): "services", ("services", "endpoints"): "endpoints"}


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where an object lives in the store. ``group`` is empty for whatever is built into the apiserver."""

    group: str
    plural: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.plural}.{self.group}" if self.group else self.plural
        return "/".join(part for part in (kind, self.namespace, self.name) if part)


def place_of(key: str) -> Place:
    """Read a key; one that is not an object's (``compact_rev_key``) becomes a place with only a name."""
    if not key.startswith(PREFIX):
        return Place("", "", "", key)
    parts = key.removeprefix(PREFIX).split("/")
    group = parts.pop(0) if "." in parts[0] else ""
    plural, rest = parts[0], parts[1:]
    for old, new in _OLD_NAMES.items():
        if tuple(parts[: len(old)]) == old:
            plural, rest = new, parts[len(old) :]
    return Place(group, plural, "/".join(rest[:-1]), rest[-1] if rest else "")
