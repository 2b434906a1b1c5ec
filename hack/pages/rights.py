"""The operator's rights by option, for docs/security.md: from the manifests of which the chart's rules are made."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

RBAC: Final = Path("manifests/rbac")
METRICS: Final = Path("manifests/overlays/protected-metrics")
READ: Final = "get, list, watch"
MANAGE: Final = f"{READ}, create, patch, delete"
WEBHOOK: Final = Path("manifests/webhook")


@dataclass(frozen=True, slots=True)
class Option:
    """What an installation may have, and the rights that come with it."""

    name: str
    """As on the page."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Of the chart, beside the defaults."""
    served: tuple[Path, ...] = ()
    """Manifests of rights in the namespaces that are served."""
    everywhere: tuple[Path, ...] = ()
    """Of rights in the whole cluster, whatever is served."""
    at_home: tuple[Path, ...] = ()
    """Of rights in the operator's own namespace."""
    theft: str = ""
    """What a thief can do with it."""


OPTIONS: Final = (
    Option(
        "always",
        served=(RBAC / "cluster-role.yaml",),
        at_home=(RBAC / "role-leader-election.yaml",),
        theft="runs pods with any Secret and ServiceAccount of their namespace, reads all events and all pod specs "
        "with their `env`, deletes pods, Services and TFJobs, stops the operator by its Lease",
    ),
    Option(
        "`apis.kubeflow.oldVersions`",
        {"apis": {"kubeflow": {"oldVersions": ["v1beta1"]}}},
        everywhere=(WEBHOOK / "cluster-role.yaml",),
        at_home=(WEBHOOK / "role.yaml",),
        theft="changes the CRD: its versions, its rules, and where TFJobs are sent for conversion. None of it with "
        "`watch.namespaces`; only to read the CRD with `apis.webhook.certificateSecret`",
    ),
    Option(
        "`oldVersions` with v1alpha1",
        {"apis": {"kubeflow": {"oldVersions": ["v1alpha1"]}, "webhook": {"certificateSecret": "given"}}},
        served=(RBAC / "v1alpha1/cluster-role.yaml",),
        theft="reads all ConfigMaps by name, changes the images of running pods",
    ),
    Option(
        "`apis.mlkube.enabled`",
        {"apis": {"mlkube": {"enabled": True}}},
        served=(RBAC / "mlkube/cluster-role.yaml",),
        theft="as with v1alpha1",
    ),
    Option("`apis.t9k.enabled`", {"apis": {"t9k": {"enabled": True}}}, served=(RBAC / "t9k/cluster-role.yaml",)),
    Option(
        "`apis.tensorboards` not `none`",
        {"apis": {"tensorboards": "serve"}},
        served=(RBAC / "tensorboard/cluster-role.yaml",),
        theft="changes all Services, so their traffic; Deployments as far as the admission policy below lets it",
    ),
    Option(
        "`elastic.horizontalPodAutoscalers`",
        {"elastic": {"horizontalPodAutoscalers": True}},
        served=(RBAC / "elastic/cluster-role.yaml",),
        theft="scales whatever can be scaled, to nothing, too, by HPAs of its own; deletes those of others",
    ),
    Option(
        "`elastic.restartInPlace`",
        {"elastic": {"restartInPlace": True}},
        served=(RBAC / "in-place/cluster-role.yaml",),
        theft="changes the images of running pods",
    ),
    Option(
        "`networkPolicy.jobs` not `none`",
        {"networkPolicy": {"jobs": "requested"}},
        served=(RBAC / "network-policies/cluster-role.yaml",),
        theft="deletes all NetworkPolicies, and lets anybody connect to any pod, or nobody",
    ),
    Option(
        "`native` among the gang schedulers",
        {"controller": {"gangSchedulerName": "native"}},
        served=(RBAC / "native-gangs/cluster-role.yaml",),
    ),
    Option(
        "`controller.kueue=external`",
        {"controller": {"kueue": "external"}},
        served=(RBAC / "kueue/cluster-role.yaml",),
        everywhere=(RBAC / "kueue/cluster-role-classes.yaml",),
        theft="changes the spec of TFJobs; takes quota by Workloads, and the Workloads of others",
    ),
    Option(
        "`controller.jobQueue.enabled`",
        {"controller": {"jobQueue": {"enabled": True}}},
        everywhere=(RBAC / "job-queue/cluster-role.yaml",),
        theft="reads all pod specs of the cluster with their `env`, and all nodes, also with `watch.namespaces`",
    ),
    Option(
        "`progress.enabled`",
        {"progress": {"enabled": True}},
        everywhere=(RBAC / "progress/cluster-role.yaml",),
        theft="finds out whose a token is",
    ),
    Option(
        "`metrics.secure.enabled`",
        {"metrics": {"secure": {"enabled": True}}},
        everywhere=(METRICS / "cluster-role-metrics-auth.yaml",),
        theft="finds out whose a token is, and what anybody may do",
    ),
)


def table(root: Path) -> str:
    lines = ["| option | permissions | what a stolen token adds |", "|---|---|---|"]
    lines += [f"| {option.name} | {_rights(root, option)} | {option.theft or 'nothing else'} |" for option in OPTIONS]
    return "\n".join(lines)


def _rights(root: Path, option: Option) -> str:
    places = {"": option.served, "in the whole cluster: ": option.everywhere, "at home: ": option.at_home}
    parts = [f"{where}{'; '.join(_words(rules(root, *files)))}" for where, files in places.items() if files]
    return ".<br>".join(parts)


def rules(root: Path, *files: Path) -> list[dict[str, Any]]:
    return [rule for file in files for rule in yaml.safe_load((root / file).read_text(encoding="utf-8"))["rules"]]


def _words(rules: list[dict[str, Any]]) -> Iterator[str]:
    for rule in rules:
        names = f" {', '.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
        subjects = (f"{resource}.{group}".rstrip(".") for group in rule["apiGroups"] for resource in rule["resources"])
        verbs = ", ".join(rule["verbs"]).replace(MANAGE, "manage").replace(READ, "read")
        yield f"{', '.join(subjects)}{names} ({verbs})"
