"""The Table form of objects, which ``kubectl get`` asks for."""

from collections.abc import Iterable
from datetime import datetime

from tf_operator.local.apiserver.ages import age
from tf_operator.local.apiserver.kinds import Column, Json, Kind
from tf_operator.meta import Body, parse_time

_NAME = Column(
    "Name",
    "string",
    lambda body, _: body["metadata"].get("name", ""),
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some resources"
    " may allow a client to request the generation of an appropriate name automatically. Name is primarily intended"
    " for creation idempotence and configuration definition. Cannot be updated. More info:"
    " https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
_AGE = Column(
    "Age",
    "string",
    lambda body, now: age(parse_time(body["metadata"].get("creationTimestamp")), now),
)


def table(kind: Kind, bodies: Iterable[Body], now: datetime, *, include: str = "Metadata", version: str = "v1") -> Json:
    """The table of some objects, without the list's metadata; ``include`` is ``None``, ``Metadata`` or ``Object``."""
    columns = columns_of(kind)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {},
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in columns
        ],
        "rows": [
            {"cells": [column.cell(body, now) for column in columns]} | _included(body, include, version)
            for body in bodies
        ],
    }


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """All columns: the name, those of the kind, and the age if it has none of its own."""
    if any(column.name == _NAME.name for column in kind.columns):
        return kind.columns
    return (_NAME, *kind.columns, *((_AGE,) if kind.has_age_column else ()))


def _included(body: Body, include: str, version: str) -> Json:
    if include == "None":
        return {"object": None}
    if include == "Object":
        return {"object": body}
    frame = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
    return {"object": {**frame, "metadata": body["metadata"]}}
