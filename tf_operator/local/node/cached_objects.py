"""Objects beside pods, as the caches of a node hold them: the fields that it acts on."""

import msgspec

from tf_operator.local.node.pod import Part, Quantity
from tf_operator.machinery.transport.responses import ObjectMeta


class NodeTaint(Part, frozen=True):
    """Keeps pods away from a node that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Part, frozen=True):
    """``spec`` of a Node."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class LocalNode(msgspec.Struct, frozen=True):
    """The node itself, as its users want it."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()


class ServiceSpec(Part, frozen=True):
    """``spec`` of a Service."""

    selector: dict[str, str] = msgspec.field(default_factory=dict)


class LocalService(msgspec.Struct, frozen=True):
    """A name under which pods are reached."""

    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class ClaimResources(Part, frozen=True):
    """How much a claim asks for."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class ClaimSpec(Part, frozen=True):
    """``spec`` of a PersistentVolumeClaim."""

    access_modes: tuple[str, ...] = ()
    resources: ClaimResources = ClaimResources()


class ClaimStatus(Part, frozen=True):
    """``status`` of a PersistentVolumeClaim."""

    phase: str = ""


class LocalClaim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


read_node = msgspec.json.Decoder(LocalNode).decode
read_service = msgspec.json.Decoder(LocalService).decode
read_claim = msgspec.json.Decoder(LocalClaim).decode
