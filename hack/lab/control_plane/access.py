"""Who may talk to a test control plane.

Every user has a static token, made for each plane. The operator is the service account that it runs as
on a cluster, with nothing but what manifests/rbac gives it; the test's kubelet has a role of the test's own.
"""

import csv
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SERVICE_ACCOUNT: Final = "tf-operator"
OPERATOR_NAMESPACE: Final = "tf-operator"


@dataclass(frozen=True, slots=True)
class User:
    """One line of the token file; *name* is what tests call it, *login* what Kubernetes calls it."""

    name: str
    login: str
    groups: tuple[str, ...] = ()


ADMIN: Final = User("admin", "test-admin", ("system:masters",))
OPERATOR: Final = User(
    "operator",
    f"system:serviceaccount:{OPERATOR_NAMESPACE}:{SERVICE_ACCOUNT}",
    ("system:serviceaccounts", f"system:serviceaccounts:{OPERATOR_NAMESPACE}"),
)
KUBELET: Final = User("kubelet", "test-kubelet")
VIEWER: Final = User("viewer", "test-viewer")
"""Somebody who may nothing but what a test allows."""
CONTROLLER_MANAGER: Final = User("controller-manager", "system:kube-controller-manager")
SCHEDULER: Final = User("scheduler", "system:kube-scheduler")
USERS: Final = (ADMIN, OPERATOR, KUBELET, VIEWER, CONTROLLER_MANAGER, SCHEDULER)

# What the kubelet driver of the tests does in place of a node: bind pods, move them through their phases.
KUBELET_RULES: Final[tuple[Mapping[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch", "update"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {
        "apiGroups": [""],
        "resources": ["nodes"],
        "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch", "update"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
)


def write_tokens(path: Path, users: Iterable[User] = USERS) -> None:
    """Write kube-apiserver's token file with a fresh secret for each user."""
    with path.open("x", newline="") as file:
        path.chmod(0o600)
        for user in users:
            csv.writer(file).writerow([secrets.token_hex(16), user.login, user.name, ",".join(user.groups)])


def read_tokens(path: Path) -> dict[str, str]:
    """Tokens by the name of the user (the third column, which Kubernetes takes as the user's UID)."""
    with path.open(newline="") as file:
        return {name: token for token, _login, name, _groups in csv.reader(file)}


def role_of(user: User, rules: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """A ClusterRole with these rules, and its binding to the user."""
    api = "rbac.authorization.k8s.io"
    common = {"apiVersion": f"{api}/v1", "metadata": {"name": user.login}}
    binding = {
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": user.login},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user.login}],
    }
    return common | {"kind": "ClusterRole", "rules": list(rules)}, common | binding
