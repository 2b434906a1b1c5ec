"""What the server itself writes into metadata, and what it does not let anybody change."""

from collections.abc import Callable, Iterator
from datetime import datetime

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.meta import Body, ObjectKey, rfc3339

_SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields")
_OWN = ("labels", "annotations", "ownerReferences", "finalizers")
_ORDER = ("name", "generateName", "namespace", "resourceVersion", *_SYSTEM, *_OWN)
_KEPT_EMPTY = (0, False)
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58


def ordered(body: Body) -> Json:
    """The body with its kind first, and with the known fields of its metadata that are not empty."""
    metadata = body["metadata"]
    fields = {name: value for name in _ORDER if (value := metadata.get(name)) or value in _KEPT_EMPTY}
    return {"kind": body["kind"], "apiVersion": body["apiVersion"], **body, "metadata": fields}


def place(kind: Kind, metadata: Json, key: ObjectKey) -> None:
    """Make name and namespace those of the path; 400 if the body says otherwise."""
    if key.name and not metadata.get("name"):
        raise failures.bad_request(
            f"the name of the object ({key.name} based on URL) was undeterminable: name must be provided"
        )
    if key.name and metadata["name"] != key.name:
        raise failures.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({key.name})"
        )
    if metadata.get("namespace", key.namespace) != key.namespace and kind.resource.is_namespaced:
        raise failures.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata.pop("namespace", None)
    if key.namespace:
        metadata["namespace"] = key.namespace


def stamp_new(kind: Kind, metadata: Json, *, uid: str, now: datetime, is_taken: Callable[[str], bool]) -> None:
    """Turn the metadata of a request into that of a new object; a name that is generated is none that is taken."""
    for name in (*_SYSTEM, "resourceVersion"):
        if name != "generation":  # which a kind without generations keeps as it is sent
            metadata.pop(name, None)
    if not metadata.get("name") and metadata.get("generateName"):
        names = (metadata["generateName"][:_LONGEST_BASE] + suffix for suffix in _suffixes(uid))
        metadata["name"] = next(name for name in names if not is_taken(name))
    metadata["uid"] = uid
    metadata["creationTimestamp"] = rfc3339(now)
    if kind.has_generation:
        metadata["generation"] = 1


def _suffixes(uid: str) -> Iterator[str]:
    """Five letters from a fresh UID, and others for when these are taken."""
    number = int.from_bytes(uid.replace("-", "").encode()[-12:], "big")
    while True:
        number = rest = (number * 2654435761 + 1) % 2**61
        letters = []
        for _ in range(5):
            rest, index = divmod(rest, len(_ALPHABET))
            letters.append(_ALPHABET[index])
        yield "".join(letters)


def immutable_causes(new: Body, old: Body) -> Iterator[FieldCause]:
    for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in new and new[name] != old.get(name):
            value = f'"{new[name]}"' if isinstance(new[name], str) else new[name]
            yield FieldCause(f"metadata.{name}", "FieldValueInvalid", f"Invalid value: {value}: field is immutable")
    additions = [name for name in new.get("finalizers", ()) if name not in old.get("finalizers", ())]
    if old.get("deletionTimestamp") and additions:
        names = ", ".join(f'"{name}"' for name in additions)
        message = (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{names}}}"
        )
        yield FieldCause("metadata.finalizers", "FieldValueForbidden", message)


def carry_over(new: Json, old: Body) -> None:
    """What only the server writes stays as it is."""
    for name in (*_SYSTEM, "resourceVersion"):
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


def count_generation(kind: Kind, new: Json, old: Body) -> None:
    """A new generation, if more has changed than metadata and status."""
    if kind.has_generation and _spec_part(new) != _spec_part(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _spec_part(body: Body) -> Json:
    return {name: value for name, value in body.items() if name not in {"metadata", "status", "apiVersion", "kind"}}


def is_same(one: Body, other: Body) -> bool:
    """Whether two bodies differ in nothing but their version."""
    return without_version(one) == without_version(other)


def without_version(body: Body) -> Json:
    """The body, for a comparison."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
    return {**body, "metadata": metadata}
