"""What all children of jobs have: an owner, and metadata of which the caches keep four fields.

Caches of children are shared by all served APIs. A child is one job's when its controller is of the job's kind and,
for what is watched by label, when it carries the label of that kind's controller: else it is nobody's.

What is decoded here is taken apart at once. Only what goes on into what is kept is interned: to look up the rest, four
conditions of each pod above all, took a third of the time in which a pod is read.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

import msgspec

from tf_operator.dialects.served import ServedAPI
from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.machinery.cache.interning import Interned, InternPool
from tf_operator.machinery.transport.responses import ObjectMeta

_intern_namespace: Final = InternPool().intern


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    uid: Interned[str] = ""
    name: str = ""
    controller: bool = False


NOBODY: Final = Owner()
"""Controls what no job controls; it has no UID."""


class ChildLabels(msgspec.Struct, frozen=True, gc=False):
    """Of the labels of a child, the one that it is watched by."""

    operator_name: str = msgspec.field(name=OPERATOR_LABEL, default="")


class ChildMeta(ObjectMeta, frozen=True, rename="camel"):
    """Metadata of a child, as far as anything is derived from it."""

    labels: ChildLabels = ChildLabels()
    owner_references: tuple[Owner, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None

    def core(self) -> tuple[str, str, str, str]:
        """What a child keeps of it; the objects of a namespace share its name, unless there are thousands."""
        return self.name, _intern_namespace(self.namespace), self.uid, self.resource_version


class Child(ObjectMeta, frozen=True):
    """What all cached children have. Each is its own metadata: in a cache of 100,000, another object takes 3 MB."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    owner: str
    """The UID of the job that controls it; empty when nobody does."""

    @property
    def metadata(self) -> ObjectMeta:
        return self


OwnerOf = Callable[[ChildMeta], Owner]
"""Which job controls an object; ``NOBODY`` if none of the served APIs does."""


def owner_reader(apis: Iterable[ServedAPI], *, is_labelled: bool = True) -> OwnerOf:
    """Finds the owner among the jobs of these APIs, in any of their versions.

    ``is_labelled``: only of what carries the label of the owner's controller, as ``resources.child_selector`` asks for
    it. A child that is given another controller's label leaves the caches of its own, so it must not stay in shared
    ones.
    """
    names = {
        (api.resource.group, api.resource.kind): {profile.labels.operator_name for profile in api.profiles}
        for api in apis
    }

    def owner_of(metadata: ChildMeta) -> Owner:
        owner = next((entry for entry in metadata.owner_references if entry.controller), NOBODY)
        operators = names.get((owner.api_version.rpartition("/")[0], owner.kind))
        if operators is None or (is_labelled and metadata.labels.operator_name not in operators):
            return NOBODY
        return owner

    return owner_of
