"""The caches of a controller: which informers there are, and how a job's children are found in them.

Each served API has an informer of its jobs. Those of children are one for all APIs that the process serves: a second
API costs no second watch of pods.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from tf_operator.controller import resources
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.consistency import CacheView
from tf_operator.machinery.cache.factory import Need, SharedInformerFactory
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.transport.requests import Scope
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.child_kinds.kind import ChildKind
from tf_operator.projections.children import Child
from tf_operator.projections.extras import CachedExtra, extra_reader
from tf_operator.projections.jobs import StoredJob, job_reader
from tf_operator.projections.pod_groups import CachedGroup, group_reader
from tf_operator.projections.pods import CachedPod, pod_reader
from tf_operator.projections.services import CachedService, service_reader

OWNER = "owner"
LABELLED = "labelled"
"""The Services that have the label of a job that does not control them, by that job."""

_Raw = msgspec.Raw | bytes


@dataclass(frozen=True, slots=True)
class Readers:
    """How objects are read, into caches and live: the same way for whoever shares a cache."""

    job: Callable[[_Raw], StoredJob]
    pod: Callable[[_Raw], CachedPod]
    any_pod: Callable[[_Raw], CachedPod]
    """Whatever its labels are."""
    service: Callable[[_Raw], CachedService]
    group: Callable[[_Raw], CachedGroup]


def readers(api: ServedAPI, served: tuple[ServedAPI, ...]) -> Readers:
    """Those of the controller of one API, in a process that serves these."""
    pods, any_pods = pod_reader(served), pod_reader(served, is_labelled=False)
    return Readers(job_reader(api), pods, any_pods, service_reader(served), group_reader(served))


@dataclass(frozen=True, slots=True)
class Caches:
    """The informers that reconciles read."""

    jobs: Informer[StoredJob]
    pods: Informer[CachedPod]
    services: Informer[CachedService]
    groups: Mapping[str, Informer[CachedGroup]]
    """By the name of the gang scheduler; those that a job has to ask for are filled when the first one does."""
    extras: Mapping[ChildKind, Informer[CachedExtra] | None]
    """Of the kinds that jobs may have beside their replicas; ``None`` where the operator makes none."""
    readers: Readers

    def is_stale(self, namespace: str) -> bool:
        """Whether the relist of this namespace for a new term was refused.

        PodGroups do not count: they may be served later, or no more, and jobs are reconciled all the same.
        """
        return any(informer.is_stale(namespace) for informer in (self.jobs, self.pods, self.services))

    def views(self) -> Mapping[str, CacheView]:
        """What own writes are compared with, by resource."""
        views: dict[str, CacheView] = {
            str(self.jobs.resource): self.jobs.store,
            str(resources.PODS): self.pods.store,
            str(resources.SERVICES): self.services.store,
        }
        return views | {str(groups.resource): groups.store for groups in self.groups.values()}


def make_caches(
    informers: SharedInformerFactory,
    *,
    namespaces: Iterable[str],
    gang_scheduler: str,
    gang_schedulers_by_job: Iterable[str] = (),
    child_kinds: Iterable[ChildKind] = (),
    api: ServedAPI,
    served: tuple[ServedAPI, ...],
) -> Caches:
    """Ask for the informers of an API, in a process that serves these. Without namespaces, all are watched."""
    places, read = tuple(namespaces) or ("",), readers(api, served)
    everything = tuple(Scope(namespace) for namespace in places)
    selector = resources.child_selector(served)
    labelled = tuple(Scope(namespace, label_selector=selector) for namespace in places)
    own = [name for name in (gang_scheduler, api.gang_scheduler) if name]
    groups = {
        name: informers.get(
            resource,
            decode=read.group,
            scopes=everything,
            indexes={OWNER: owner_of},
            need=Need.OPTIONAL,  # the gang scheduler may be installed later
            on_demand=name not in own,
        )
        for name in dict.fromkeys((*own, *gang_schedulers_by_job))
        if (resource := resources.pod_groups(name))
    }
    return Caches(
        jobs=job_informer(informers, everything, api),
        pods=informers.get(resources.PODS, decode=read.pod, scopes=labelled, indexes={OWNER: owner_of}),
        services=informers.get(resources.SERVICES, decode=read.service, scopes=labelled, indexes=OF_SERVICES),
        groups=groups,
        extras={
            kind: extra_informer(informers, kind, namespaces, served) if kind in child_kinds else None
            for kind in kinds.ALL
            if any(map(kind.may_have, api.profiles))
        },
        readers=read,
    )


def job_informer(informers: SharedInformerFactory, scopes: Iterable[Scope], api: ServedAPI) -> Informer[StoredJob]:
    return informers.get(api.resource, decode=job_reader(api), scopes=scopes, need=Need.ALTERNATIVE)


def extra_informer(
    informers: SharedInformerFactory, kind: ChildKind, namespaces: Iterable[str], served: tuple[ServedAPI, ...]
) -> Informer[CachedExtra]:
    """The objects of a kind; it may be installed later. Without namespaces, all are watched."""
    labels = resources.child_selector(served) if kind.is_labelled else ""
    scopes = tuple(Scope(namespace, label_selector=labels) for namespace in tuple(namespaces) or ("",))
    decode = extra_reader(kind, served)
    return informers.get(kind.resource, decode=decode, scopes=scopes, indexes={OWNER: owner_of}, need=Need.OPTIONAL)


def owner_of(child: Child) -> tuple[str, ...]:
    """The index: a child is found under the namespace and the UID of the job that controls it."""
    return (owner_value(child.metadata.namespace, child.owner),) if child.owner else ()


def labelled_of(child: CachedService) -> tuple[str, ...]:
    """The index of Services that only look like those of a job."""
    uid = child.job_uid_label
    return (owner_value(child.metadata.namespace, uid),) if uid and uid != child.owner else ()


OF_SERVICES = {OWNER: owner_of, LABELLED: labelled_of}


def owner_value(namespace: str, uid: str) -> str:
    """Where the index finds the children of a job.

    The namespace is part of it: an owner reference is text that whoever creates an object may choose, and one that
    leads into another namespace means nothing.
    """
    return f"{namespace}/{uid}"
