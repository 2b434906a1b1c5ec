"""What all parts of a node share."""

from dataclasses import dataclass
from pathlib import Path

from tf_operator.local.node.addresses import Addresses
from tf_operator.local.node.gpus.gpu_settings import GpuSettings
from tf_operator.local.node.gpus.keeper import GpuKeeper
from tf_operator.local.node.job_networks import JobNetworks
from tf_operator.local.node.logs.container_log import MOST_BYTES
from tf_operator.local.node.logs.node_logs import NodeLogs
from tf_operator.local.node.machine import Capacity, Interpreter
from tf_operator.local.node.pod import LocalPod
from tf_operator.local.node.processes.memory_limits import MemoryLimits
from tf_operator.local.node.processes.supervisor import Processes
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.events.event_object import Severity, reference_to
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey

PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    folder: Path
    """Everything that the node writes is in it."""
    interpreter: Interpreter
    capacity: Capacity
    name: str = "local"
    first_backoff: float = 10.0
    """Seconds before the second restart of a container."""
    log_bytes: int = MOST_BYTES
    gpus: GpuSettings | None = None
    """``None`` on a machine that has none."""
    enforces_requests: bool = False
    """Whether pods wait until the CPU and memory that they request are free."""
    shared_port: int | None = None
    """A port of this machine's loopback that isolated jobs reach, too: where they report progress."""

    def pod_folder(self, pod: LocalPod) -> Path:
        return self.folder / "pods" / pod.uid[-12:]

    def claim_folder(self, claim: ObjectKey, uid: str) -> Path:
        """The folder of a PVC, which outlives pods."""
        return self.folder / "claims" / claim.namespace / claim.name / uid[-12:]


@dataclass(frozen=True, slots=True)
class NodeParts:
    settings: NodeSettings
    client: ApiClient
    clock: Clock
    recorder: EventRecorder
    processes: Processes
    addresses: Addresses
    logs: NodeLogs
    networks: JobNetworks
    limits: MemoryLimits | None
    """``None`` where the system has none for this user."""
    gpus: GpuKeeper | None
    """``None`` on a machine that has none."""

    def event(self, pod: LocalPod, reason: str, message: str, severity: Severity = "Normal") -> None:
        self.recorder.event(reference_to(PODS, pod.key, pod.uid), severity, reason=reason, message=message)
