"""The parts of a pod's spec and status that are read; the rest of its JSON is skipped. None is kept as it is."""

from datetime import datetime

import msgspec


class RawTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class RawWaiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class RawRunning(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    started_at: datetime | None = None


class RawState(msgspec.Struct, frozen=True):
    waiting: RawWaiting | None = None
    running: RawRunning | None = None
    terminated: RawTerminated | None = None


class RawDevice(msgspec.Struct, frozen=True, gc=False):
    health: str = ""


class RawAllocatedResource(msgspec.Struct, frozen=True):
    resources: tuple[RawDevice, ...] = ()


class RawContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    restart_count: int = 0
    state: RawState = RawState()
    last_state: RawState = RawState()
    allocated_resources_status: tuple[RawAllocatedResource, ...] = ()


class RawPodCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class RawExitCodes(msgspec.Struct, frozen=True):
    operator: str = ""
    values: tuple[int, ...] | None = None


class RawRestartRule(msgspec.Struct, frozen=True, rename="camel"):
    action: str = ""
    exit_codes: RawExitCodes | None = None


class RawContainerSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Of a container, what it says itself about its restarts. Nothing of it is kept, so nothing is interned."""

    name: str = ""
    restart_policy: str = ""
    restart_policy_rules: tuple[RawRestartRule, ...] | None = None


class RawPodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    restart_policy: str = ""
    active_deadline_seconds: int | None = None
    containers: tuple[RawContainerSpec, ...] = ()


class RawPodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[RawPodCondition, ...] = ()
    container_statuses: tuple[RawContainerStatus, ...] = ()
    init_container_statuses: tuple[RawContainerStatus, ...] = ()
