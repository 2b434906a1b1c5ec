"""What a training operator keeps of a pod, as the benchmark uses it."""

import msgspec

from tf_operator.machinery.projection import Labels, Shared
from tf_operator.machinery.wire import ObjectMeta


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(ObjectMeta, frozen=True, gc=False, rename="camel"):
    namespace: Shared[str] = ""
    labels: Labels = Labels()
    owner_references: Shared[tuple[Owner, ...]] = ()
    deletion_timestamp: str | None = None


class Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    started_at: str = ""


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class State(msgspec.Struct, frozen=True, gc=False):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    state: State = State()
    last_state: State = State()
    restart_count: int = 0


class Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: Shared[str] = ""
    reason: Shared[str] = ""
    container_statuses: Shared[tuple[Container, ...]] = ()
    conditions: Shared[tuple[Condition, ...]] = ()


class Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    spec: Shared[Spec] = Spec()
    status: Shared[Status] = Status()


def owners(pod):
    """The index: a pod is found under the UID of whoever controls it."""
    return [owner.uid for owner in pod.metadata.owner_references if owner.controller]
