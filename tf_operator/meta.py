"""What every Kubernetes object has: a key, owners, labels, times.

The ground floor: imports nothing of the project, and everything may import it. Bodies stay raw JSON
mappings here and everywhere; the accessors below read them without trusting them, because a stored object
may be older than any schema and a label or owner reference may be forged by a tenant.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

Body = Mapping[str, Any]
"""An object as the apiserver sends it: parsed JSON, to be read and never changed."""

_RFC3339 = re.compile(
    r"(?P<seconds>\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?P<fraction>\.\d{1,9})?(?P<zone>[Zz]|[+-]\d\d:\d\d)"
)

_LONGEST_TIME: Final = len("2026-03-01T08:00:00.123456789+00:00")

MAPPINGS: Final = (dict, Mapping)
"""An abstract class takes ten times as long to say whether it is meant: the usual class is asked first."""
_LISTS: Final = (list, tuple)


class ObjectKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where an object lives. The same key can be taken by another object later: only a UID is for ever.

    A struct, because dictionaries compare keys all the time, and a dataclass does that in Python.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class GroupVersionResource(msgspec.Struct, frozen=True, gc=False):
    """One kind of object, by the names that the API knows it by."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in ``apiVersion``: the core group has no name."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class OwnerRef(msgspec.Struct, frozen=True, gc=False):
    """One entry of ``metadata.ownerReferences``."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False

    @property
    def group(self) -> str:
        """The API group, without the version; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def body(self) -> dict[str, Any]:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": self.controller,
            "blockOwnerDeletion": self.block_owner_deletion,
        }


def mapping_of(value: object) -> Body:
    """The value, or an empty mapping when it is missing or no mapping."""
    return value if value is not None and isinstance(value, MAPPINGS) else {}


def list_of(value: object) -> Sequence[Any]:
    """The value, or an empty list when it is missing or no list."""
    return value if isinstance(value, _LISTS) else ()


def objects_of(value: object) -> list[Body]:
    """The objects in a list, without whatever else is in it; none when it is no list."""
    return [entry for entry in list_of(value) if isinstance(entry, MAPPINGS)]


def metadata_of(body: Body) -> Body:
    """``metadata``, or an empty mapping when it is missing or no mapping."""
    return mapping_of(body.get("metadata"))


def text_of(body: Body, field: str) -> str:
    """A string field, or ``""`` when it is missing or no string."""
    value = body.get(field)
    return value if isinstance(value, str) else ""


def key_of(body: Body) -> ObjectKey:
    """The key of an object; the namespace is ``""`` for what is cluster-scoped."""
    metadata = metadata_of(body)
    return ObjectKey(text_of(metadata, "namespace"), text_of(metadata, "name"))


def uid_of(body: Body) -> str:
    """The UID, the only identity that is never given twice."""
    return text_of(metadata_of(body), "uid")


def resource_version_of(body: Body) -> str:
    """The resource version: opaque text, to be sent back as it came."""
    return text_of(metadata_of(body), "resourceVersion")


def labels_of(body: Body) -> Mapping[str, str]:
    """The labels that are text to text. Tenants write them: they select, they never prove."""
    labels = metadata_of(body).get("labels")
    if not isinstance(labels, MAPPINGS):
        return {}
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def owners_of(body: Body) -> Iterator[OwnerRef]:
    """Every owner reference that has the fields of one; anything else in the list is passed over."""
    references = metadata_of(body).get("ownerReferences")
    for entry in references if isinstance(references, list | tuple) else ():
        if isinstance(entry, MAPPINGS) and text_of(entry, "uid"):
            yield OwnerRef(
                api_version=text_of(entry, "apiVersion"),
                kind=text_of(entry, "kind"),
                name=text_of(entry, "name"),
                uid=text_of(entry, "uid"),
                controller=entry.get("controller") is True,
                block_owner_deletion=entry.get("blockOwnerDeletion") is True,
            )


def controller_of(body: Body) -> OwnerRef | None:
    """The owner that controls this object. The apiserver refuses a second one."""
    return next((owner for owner in owners_of(body) if owner.controller), None)


def selector_text(labels: Mapping[str, str]) -> str:
    """Equality on every label, as ``labelSelector`` wants it; sorted, so that it is the same every time."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def rfc3339(moment: datetime) -> str:
    """``metav1.Time``: whole seconds, UTC, ``Z``."""
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def micro_time(moment: datetime) -> str:
    """``metav1.MicroTime``: always six digits, even of zero, and four of the year: Go refuses anything else.

    No ``strftime``: glibc's ``%Y`` writes the year 500 in three.
    """
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_time(text: object) -> datetime | None:
    """A time as any client may have written it, in UTC; ``None`` for whatever is not one."""
    return _parse_time(text) if isinstance(text, str) and len(text) <= _LONGEST_TIME else None


@lru_cache(maxsize=1024)  # what happens together has the same time, and stands in a status that is read several times
def _parse_time(text: str) -> datetime | None:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    fraction = (match["fraction"] or "")[:7]  # nanoseconds are cut to what datetime holds
    zone = match["zone"].upper().replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(f"{match['seconds'].upper()}{fraction}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
