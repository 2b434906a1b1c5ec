"""Objects beside pods, as the caches of a node hold them: the fields that it acts on, of whichever kind."""

from typing import Any

import msgspec

from tf_operator.local.node.pod import Part, Resources
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import ObjectKey


class NodeTaint(Part, frozen=True):
    """Keeps pods away from a node that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class CachedSpec(Part, frozen=True):
    """Of a Node, a Service or a PersistentVolumeClaim."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()
    selector: dict[str, str] | None = None
    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()


class CachedObject(msgspec.Struct, frozen=True):
    """A Node, a Service or a PersistentVolumeClaim."""

    metadata: ObjectMeta
    spec: CachedSpec = CachedSpec()
    status: dict[str, Any] = msgspec.field(default_factory=dict)


read = msgspec.json.Decoder(CachedObject).decode


class NamesIn:
    """The names of the Services of a namespace, as they are when asked."""

    def __init__(self, services: Informer[CachedObject], namespace: str) -> None:
        self._services = services
        self._namespace = namespace

    def __contains__(self, name: object) -> bool:
        return ObjectKey(self._namespace, str(name)) in self._services.store
