"""kube-router in a one-machine cluster, as the part of a network plugin that enforces NetworkPolicies.

    with enforced_policies(cluster, folder, node="node-1"):
        ...  # pods of node-1 are reached only by whom their policies let in

All nodes of such a cluster share a network, and a kube-router protects the pods of one node: it finds them by the
node's address. Its rules are in that network, and are gone with the block; those of the host stay as they are.
"""

import functools
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.cluster import host
from lab.cluster.cluster import Cluster
from lab.cluster.network import Network
from lab.control_plane.process import die_with
from lab.tools.get import programs

PROGRAM: Final = "kube-router"
_START_SECONDS: Final = 60.0
_RULES: Final = ("iptables-save", "--table", "filter")


@dataclass(frozen=True, slots=True)
class Firewall:
    """What there is in the network of the cluster."""

    inside: Sequence[str]
    """Begins a command in that network."""

    def rules(self) -> set[str]:
        return rules(*self.inside)

    def empty(self) -> None:
        for command in ("iptables --flush", "iptables --delete-chain", "ipset destroy"):
            _run(*self.inside, *command.split())


@contextmanager
def enforced_policies(cluster: Cluster, folder: Path, *, node: str) -> Iterator[Firewall]:
    """Enforce the policies of a node's pods while the body runs."""
    program = programs(PROGRAM)[PROGRAM]
    host.provide(print, {"ipset": ("ipset",)})
    own = cluster.dir / "nodes" / node
    firewall = Firewall(("nsenter", f"--net=/proc/{(own / 'pid').read_text()}/ns/net", "--"))
    earlier = firewall.rules()
    network = Network("", int((own / "address").read_text().split(".")[1]))
    flags = (
        *("--run-firewall=true", "--run-router=false", "--run-service-proxy=false"),
        f"--kubeconfig={cluster.kubeconfig}",
        f"--hostname-override={node}",
        f"--service-cluster-ip-range={network.services}",
    )
    log = folder / "kube-router.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*firewall.inside, program, *flags],
            env=os.environ | {"PATH": host.PATH},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 - it takes no lock
        )
    try:
        _wait_ready(firewall, process, log)
        yield firewall
    finally:
        process.terminate()
        process.wait(timeout=30)
        firewall.empty()
    assert firewall.rules() == earlier


def rules(*inside: str) -> set[str]:
    """The rules of the filter table, of this machine or inside a network."""
    return {line for line in _run(*inside, *_RULES).splitlines() if line.startswith("-A")}


def _wait_ready(firewall: Firewall, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not any("KUBE-ROUTER-FORWARD" in rule for rule in firewall.rules()):
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.2)


def _run(*command: str) -> str:
    environment = os.environ | {"PATH": host.PATH}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
