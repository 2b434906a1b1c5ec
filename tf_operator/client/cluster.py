"""Which cluster is meant: what a caller names, what the environment names, or the one that this pod runs in."""

import os
from collections.abc import Mapping
from pathlib import Path

from tf_operator.machinery.transport.config import ConfigSource
from tf_operator.machinery.transport.in_cluster import SERVICE_ACCOUNT, InCluster
from tf_operator.machinery.transport.kubeconfig import KubeConfig


def source_of(
    kubeconfig: str | None = None, context: str | None = None, environment: Mapping[str, str] = os.environ
) -> ConfigSource:
    """As kubectl: a kubeconfig if one is named or in its usual place, else the service account of the pod."""
    is_named = bool(kubeconfig or context or environment.get("KUBECONFIG"))
    in_pod = bool(environment.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()
    if in_pod and not is_named and not Path("~/.kube/config").expanduser().is_file():
        return InCluster()
    return KubeConfig(kubeconfig, context=context)
