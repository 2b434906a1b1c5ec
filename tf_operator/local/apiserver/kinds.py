"""What the server can store: a ``Kind`` for each resource and version, built in or from a CRD.

``server`` and ``writes`` know no kind by name: what is special about pods or CRDs is in the functions of their
``Kind``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.storage.store import Completion
from tf_operator.meta import Body, GroupVersionResource

Json = dict[str, Any]
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")

Prepare = Callable[[Json, Body | None, datetime], Json]
"""The new body, the stored one (``None``: it is created), and the time; gives the body with defaults and without
unknown fields. It may change the new body. ``metadata`` is already stamped, and what the request must not change
(``status``, or all but ``status``) is already what is stored."""
Validate = Callable[[Body, Body | None], tuple[FieldCause, ...]]
"""What is wrong with a prepared body; the second is the stored one."""

Listing = Callable[[str, str], Iterable[Body]]
"""The stored objects of a resource (``pods``, ``tfjobs.kubeflow.org``) in a namespace."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    cell: Callable[[Body, datetime], object]
    format: str = ""
    description: str = ""
    priority: int = 0
    """Above 0: only with ``-o wide``."""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the ``scale`` subresource finds its numbers: field names from the root of the object.

    The selector is a text, or what a text can be made of: labels, or a label selector.
    """

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    label_selector: tuple[str, ...] = ()


Change = Callable[[Body, Json, datetime], Json]
"""What a stored body becomes when a subresource is written: the stored one, what was sent, the time."""


@dataclass(frozen=True, slots=True)
class Kind:
    resource: GroupVersionResource
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    """``status``, ``scale``, ``log`` (pods), ``binding`` ..."""
    has_generation: bool = False
    prepare: Prepare | None = None
    validate: Validate | None = None
    validate_status: Validate | None = None
    """Instead of ``validate``, where a write to ``status`` is asked less."""
    columns: tuple[Column, ...] = ()
    """Without the name, which every table begins with, and without the age if ``has_age_column``."""
    has_age_column: bool = True
    fields: Mapping[str, Callable[[Body], str]] = field(default_factory=dict)
    """Field selectors beside ``metadata.name`` and ``metadata.namespace``, and what they compare."""
    merge_keys: Mapping[str, str] = field(default_factory=dict)
    """For strategic merge patches: path of a list (``spec.containers``) to the field that tells its items apart; empty
    for a set of plain values. A kind without any takes no strategic merge patch (custom resources)."""
    schema: Mapping[str, Any] | None = None
    """The OpenAPI v3 schema, for ``kubectl explain`` and validation of a CRD's objects."""
    stored_as: GroupVersionResource | None = None
    """What is stored, if it is another: the storage version of a CRD, the core events for those of events.k8s.io."""
    convert: Callable[[Body, str], Json] | None = None
    """A body of any version, in the ``apiVersion`` that is given; for a kind with ``stored_as``."""
    completion: Completion | None = None
    """For custom resources, whose definition may have changed since an object was written."""
    is_custom: bool = False
    """Defined by a CRD: list items name their kind, ``PUT .../status`` changes nothing else, and an update must name
    the version that it replaces."""
    must_name_version: bool = False
    """Whether an update without a resource version is refused, as for custom resources (and leases)."""
    may_create_by_update: bool = False
    """Whether ``PUT`` creates what is not there (leases, events)."""
    deprecation: str = ""
    """What every answer warns of: that the version is deprecated."""
    caution: str = ""
    """What the answer to a creation warns of: that nothing here acts on the object."""
    returns_deleted: bool = False
    """Whether an object that is gone at once is the answer to its deletion (pods, services), and no Status."""
    is_namespace: bool = False
    """Its objects are namespaces: they keep ``spec.finalizers`` until their content is gone."""
    scale: ScalePaths | None = None
    changes: Mapping[str, Change] = field(default_factory=dict)
    """By subresource what ``PUT`` and ``PATCH`` of it change: a status that is no plain field, ``finalize``. The result
    is neither prepared nor validated."""
    actions: Mapping[str, Change] = field(default_factory=dict)
    """By subresource what ``POST`` to it changes; the answer is a Status (``binding``, ``eviction``)."""
    deleting: frozenset[str] = frozenset()
    """Those of ``actions`` that delete the object in the end, as the ``deleteOptions`` in what was sent say
    (``eviction``)."""
    answer: Callable[[Json, datetime], Json] | None = None
    """For a kind that is never stored: what ``POST`` returns (the reviews of authentication and authorization)."""
    read: Callable[[datetime], Iterable[Body]] | None = None
    """For a kind that is never stored, but computed when somebody reads it: all its objects, without a version."""
    in_each_namespace: tuple[str, ...] = ()
    """The names of its objects that a controller puts into each namespace, and puts back (service accounts)."""
    seconds_to_live: float | None = None
    """How long an object stays after its last write (events)."""
    on_delete: Callable[[Json], None] | None = None
    """What a deletion changes in the object before anything else (a phase, a finalizer of the server's own); raises
    ``ApiFailure`` if the object may not be deleted."""
    defines: Callable[[Body], tuple["Kind", ...]] | None = None
    """The kinds that an object of this one brings with it, as a CRD does."""
    unknown_fields: Callable[[Json], tuple[str, ...]] | None = None
    """What is unknown of what was sent, as ``fieldValidation`` reports it: ``unknown field "spec.foo"``. Custom
    resources lose it by that, other kinds in ``prepare``."""
    admit: Callable[[Json, Listing], None] | None = None
    """Completes a prepared body (an address, a priority), or raises ``ApiFailure`` if an object may not be created
    because of others: a quota, a namespace that ends."""
    observe: Callable[[Body, Listing], Json] | None = None
    """The status that a controller reports of an object, from what else is in its namespace (quotas)."""
    grace_seconds: Callable[[Body, int | None], int] | None = None
    """How long the object stays after its deletion; the second is what the request asks for. ``None``: not at all."""

    @property
    def storage(self) -> GroupVersionResource:
        return self.stored_as or self.resource


def version_rank(name: str) -> tuple[int, int, int, str]:
    """For sorting versions as Kubernetes does: v2, v1, v1beta2, v1beta1, v1alpha1, and then the others."""
    match = _VERSION.fullmatch(name)
    if match is None:
        return (3, 0, 0, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), name)
