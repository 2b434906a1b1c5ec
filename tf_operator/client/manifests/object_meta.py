"""What the API server accepts in the metadata of an object that is created.

The CRD has no schema for it, and the operator never reads most of it. Neighbours: ``schema`` evaluates ``SCHEMA``;
``pod_template`` uses the same rules for labels and annotations.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tf_operator.job.training_job import FieldError

_STRING: Final = {"type": "string"}
_STRINGS: Final = {"type": "object", "additionalProperties": _STRING}
_NOT_EMPTY: Final = {"type": "string", "pattern": "."}
_ANY: Final[Mapping[str, Any]] = {}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "creationTimestamp": _ANY,
        "deletionGracePeriodSeconds": _ANY,
        "deletionTimestamp": _ANY,
        "finalizers": {"type": "array", "items": _STRING},
        "generateName": _STRING,
        "generation": _ANY,
        "labels": _STRINGS,
        "managedFields": _ANY,
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": _NOT_EMPTY,
                    "blockOwnerDeletion": {"type": "boolean"},
                    "controller": {"type": "boolean"},
                    "kind": _NOT_EMPTY,
                    "name": _NOT_EMPTY,
                    "uid": _NOT_EMPTY,
                },
            },
        },
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}
DNS_LABEL: Final = re.compile(r"(?!.{64})[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(r"(?!.{254})[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"(?!.{64})[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_MOST_BYTES: Final = 256 * 1024


def check(metadata: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """The errors in metadata that keep the schema."""
    labels: Mapping[str, str] = metadata.get("labels", {})
    annotations: Mapping[str, str] = metadata.get("annotations", {})
    finalizers: Sequence[str] = metadata.get("finalizers", ())
    yield from _names(labels, f"{path}.labels")
    yield from _names(map(str.lower, annotations), f"{path}.annotations")
    yield from _names(finalizers, f"{path}.finalizers")
    for key, value in labels.items():
        if value and not _NAME.fullmatch(value):
            rule = "must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
            yield FieldError(f"{path}.labels", f"the value of {key[:80]!r} {rule}")
    size = sum(len(text.encode()) for pair in annotations.items() for text in pair)
    if size > _MOST_BYTES:
        yield FieldError(f"{path}.annotations", f"may have at most {_MOST_BYTES} bytes, have {size}")


def _names(names: Iterable[str], path: str) -> Iterator[FieldError]:
    return (FieldError(path, f"{name[:80]!r} is not a valid name") for name in names if not _is_qualified_name(name))


def _is_qualified_name(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (not slash or bool(_DNS_SUBDOMAIN.fullmatch(prefix)))
