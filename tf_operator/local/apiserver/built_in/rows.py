"""What the kinds have in common that are there without any CRD: how a row of ``catalog`` becomes a ``Kind``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from tf_operator.local.apiserver.kinds import Column, Json, Kind, ScalePaths
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import built_in_fields, names, object_meta
from tf_operator.meta import Body, GroupVersionResource

Fill = Callable[[Json, Body | None, datetime], None]
Rules = Callable[[Body, Body | None], Iterator[FieldCause]]

_METADATA_KEYS: Final = {"metadata.ownerReferences": "uid", "metadata.finalizers": ""}
_CONDITIONS: Final = {"status.conditions": "type"}
POD_SPEC_KEYS: Final = {
    "containers": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumes": "name",
    **{
        f"{containers}.{name}": key
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for name, key in {
            "env": "name",
            "ports": "containerPort",
            "volumeDevices": "devicePath",
            "volumeMounts": "mountPath",
        }.items()
    },
}


def below(prefix: str, keys: Mapping[str, str]) -> dict[str, str]:
    """Merge keys of what is below a path."""
    return {f"{prefix}.{path}": key for path, key in keys.items()}


def _nothing(_: Json, __: Body | None, ___: datetime) -> None:
    """There is nothing to fill in."""


def _no_rules(_: Body, __: Body | None) -> Iterator[FieldCause]:
    return iter(())


def make(
    resource: GroupVersionResource,
    *short_names: str,
    fill: Fill = _nothing,
    rules: Rules = _no_rules,
    name_rule: object_meta.NameRule = names.subdomain,
    keys: Mapping[str, str] | None = None,
    columns: tuple[Column, ...] = (),
    has_status: bool = False,
) -> Kind:
    """The kind of a row: what it does not say itself is as for an object that is stored as it is sent."""
    fields = built_in_fields.BuiltInFields(resource)

    def prepare(body: Json, old: Body | None, now: datetime) -> Json:
        object_meta.decode(body["metadata"])
        fields.decode(body)
        fill(body, old, now)
        return body

    def validate(body: Body, old: Body | None) -> tuple[FieldCause, ...]:
        problems = object_meta.check(body["metadata"], name_rule, is_built_in=True)
        return (*problems, *rules(body, old))

    return Kind(
        resource,
        resource.kind.lower(),
        short_names,
        categories=("all",) if resource.plural in _IN_ALL else (),
        subresources=frozenset({"status"} if has_status else ()),
        prepare=prepare,
        unknown_fields=fields.unknown,
        validate=validate,
        columns=columns,
        has_age_column=False,
        merge_keys={**_METADATA_KEYS, **(_CONDITIONS if has_status else {}), **(keys or {})},
    )


_SCALE: Final = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))


def scaled(kind: Kind) -> Kind:
    """The same with the subresource ``scale``."""
    return replace(kind, subresources=kind.subresources | {"scale"}, scale=_SCALE)


_IN_ALL: Final = frozenset(
    {"pods", "services", "replicationcontrollers", "daemonsets", "deployments", "replicasets", "statefulsets"}
    | {"cronjobs", "horizontalpodautoscalers", "jobs"}
)


def read(*path: str, default: str = "") -> Callable[[Body], str]:
    def read(body: Body) -> str:
        value: Any = body
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            return str(value).lower()
        return default if value is None else str(value)

    return read


def selectable(*paths: str, **defaults: str) -> dict[str, Callable[[Body], str]]:
    """Fields for selectors by their paths; ``defaults`` by the last names."""
    return {path: read(*path.split("."), default=defaults.get(path.rpartition(".")[2], "")) for path in paths}


def core(plural: str, kind: str, *, is_namespaced: bool = True) -> GroupVersionResource:
    return GroupVersionResource("", "v1", plural, kind, is_namespaced=is_namespaced)
