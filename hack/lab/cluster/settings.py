"""What the parts of a cluster's node are configured with, as text: containerd, CNI, kubelet, kube-proxy, CoreDNS.

Pure: addresses and paths in, contents of files and flags out. What differs from a usual node is what it takes to run
several of them on one machine without leaving a trace on it, and every such line says why.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lab.cluster.network import Network
from lab.cluster.node import OWN

CNI_PROGRAMS: Final = "/usr/lib/cni"
PAUSE_IMAGE: Final = "localhost/tf-operator/pod:1"
DNS_READY_PORT: Final = 8181
# What CoreDNS may read, as in every cluster.
DNS_RULES: Final[tuple[Mapping[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
)


def containerd() -> str:
    """Version 2 of the format, which containerd 1.6 knows and 2.x still takes."""
    return f"""\
version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.tracing"]

# Else it makes /opt/containerd on the host.
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Root in a container may lack the right to lower it; then no pod would start.
restrict_oom_score_adj = true
# Else its profile stays in the host's kernel.
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PROGRAMS}"
conf_dir = "{OWN}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def cni(network: Network, number: int) -> str:
    """Pods are joined by routes, not by a bridge: then nothing depends on how the host filters bridges."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": network.pods_of(number)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    ptp = {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses}
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [ptp, portmap]}, indent=1)


def kubelet(network: Network, number: int, *, cgroup: str) -> str:
    """A KubeletConfiguration, as JSON, which is YAML too."""
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": network.node(number),
            "healthzPort": 0,  # it would be the same one on every node
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{OWN}/kubelet-clients.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "clusterDNS": [network.dns],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            # Kubelets remove cgroups of pods that they do not know: each gets a corner of its own.
            "cgroupRoot": cgroup,
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "enforceNodeAllocatable": [],
            "oomScoreAdj": 0,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            # A full disk or a busy machine is the host's affair; pods are not evicted for it.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "1Mi"),
            "serializeImagePulls": False,
            "registerWithTaints": [],
        },
        indent=1,
    )


def kube_proxy(network: Network, kubeconfig: Path) -> tuple[str, ...]:
    """One kube-proxy serves all nodes: they share a network."""
    return (
        f"--kubeconfig={kubeconfig}",
        "--proxy-mode=nftables",
        "--hostname-override=node-1",
        f"--bind-address={network.machine}",
        f"--cluster-cidr={network.pods}",
        f"--metrics-bind-address={network.machine}:10249",
        f"--healthz-bind-address={network.machine}:10256",
        # These settings of the kernel are left as they are.
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
        "--oom-score-adj=0",
    )


def coredns(network: Network, kubeconfig: Path) -> str:
    """Names of the cluster; there are no others, which is said at once instead of asking somebody."""
    return f"""\
cluster.local:53 in-addr.arpa:53 {{
    bind {network.dns}
    errors
    ready {network.dns}:{DNS_READY_PORT}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig "{kubeconfig}"
        ttl 1
    }}
}}
.:53 {{
    bind {network.dns}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""
