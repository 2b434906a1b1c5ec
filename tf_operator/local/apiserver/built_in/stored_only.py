"""Kinds that are stored, and no more: nothing here acts on them, which the answer to their creation says.

Programs that expect a whole cluster create and list them: ``kubectl apply --prune``, Helm charts, operators.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tf_operator.local.apiserver.built_in import columns, rows
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.validation import names
from tf_operator.meta import GroupVersionResource

_RBAC: Final = "rbac.authorization.k8s.io"
_WEBHOOKS: Final = "admissionregistration.k8s.io"
_NOTHING: Final = "nothing acts on {kind} objects here, they are only stored; a cluster (--context) acts on them"
_NO_ROLES: Final = "{kind} objects are only stored here: there is one user, who may do everything"
_NO_CALLS: Final = "webhooks are not called here, {kind} objects are only stored; a cluster (--context) calls them"
_POD: Final = rows.below("spec.template.spec", rows.POD_SPEC_KEYS)
_JOB: Final = rows.below("spec.jobTemplate.spec.template.spec", rows.POD_SPEC_KEYS)


@dataclass(frozen=True, slots=True)
class _Row:
    group: str
    plural: str
    kind: str
    caution: str = _NOTHING
    short_names: tuple[str, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    is_namespaced: bool = True
    has_status: bool = True
    has_scale: bool = False
    has_generation: bool = True
    deprecation: str = ""
    version: str = "v1"


def _of_pods(group: str, plural: str, kind: str, short_name: str = "", *, has_scale: bool = False) -> _Row:
    names_of = (short_name,) if short_name else ()
    return _Row(group, plural, kind, short_names=names_of, keys=tuple(_POD.items()), has_scale=has_scale)


def _wide(group: str, plural: str, kind: str, caution: str, *, has_generation: bool = False) -> _Row:
    """Of the whole cluster, without a status."""
    keys = (("webhooks", "name"),) if group == _WEBHOOKS else ()
    return _Row(
        group, plural, kind, caution, (), keys, is_namespaced=False, has_status=False, has_generation=has_generation
    )


_ROWS: Final = (
    _Row(
        *("", "endpoints", "Endpoints"),
        short_names=("ep",),
        has_status=False,
        has_generation=False,
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    _Row("", "persistentvolumes", "PersistentVolume", short_names=("pv",), is_namespaced=False, has_generation=False),
    _of_pods("", "replicationcontrollers", "ReplicationController", "rc", has_scale=True),
    _of_pods("apps", "daemonsets", "DaemonSet", "ds"),
    _of_pods("apps", "replicasets", "ReplicaSet", "rs", has_scale=True),
    _of_pods("apps", "statefulsets", "StatefulSet", "sts", has_scale=True),
    _Row(
        *("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        short_names=("hpa",),
        has_generation=False,
        version="v2",
    ),
    _of_pods("batch", "jobs", "Job"),
    _Row("batch", "cronjobs", "CronJob", short_names=("cj",), keys=tuple(_JOB.items())),
    _Row("discovery.k8s.io", "endpointslices", "EndpointSlice", has_status=False),
    _Row("networking.k8s.io", "ingresses", "Ingress", short_names=("ing",)),
    _Row("networking.k8s.io", "networkpolicies", "NetworkPolicy", short_names=("netpol",), has_status=False),
    _Row(_RBAC, "roles", "Role", _NO_ROLES, has_status=False, has_generation=False),
    _Row(_RBAC, "rolebindings", "RoleBinding", _NO_ROLES, has_status=False, has_generation=False),
    _wide(_RBAC, "clusterroles", "ClusterRole", _NO_ROLES),
    _wide(_RBAC, "clusterrolebindings", "ClusterRoleBinding", _NO_ROLES),
    _wide(_WEBHOOKS, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", _NO_CALLS, has_generation=True),
    _wide(
        _WEBHOOKS, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", _NO_CALLS, has_generation=True
    ),
)


def only_stored(kind: Kind) -> Kind:
    """The same with the caution that nothing acts on its objects."""
    return replace(kind, caution=_NOTHING.format(kind=kind.resource.kind))


def _kind(row: _Row) -> Kind:
    resource = GroupVersionResource(row.group, row.version, row.plural, row.kind, is_namespaced=row.is_namespaced)
    kind = rows.make(
        resource,
        *row.short_names,
        keys=dict(row.keys),
        name_rule=names.path_segment if row.group == _RBAC else names.subdomain,
        columns=(columns.AGE,),
        has_status=row.has_status,
    )
    return replace(
        rows.scaled(kind) if row.has_scale else kind,
        has_generation=row.has_generation,
        caution=row.caution.format(kind=row.kind),
        deprecation=row.deprecation,
    )


def kinds() -> Iterator[Kind]:
    return map(_kind, _ROWS)
