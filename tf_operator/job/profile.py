"""What a served API fixes for all its jobs. Code asks the profile and never for the name of an API."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from tf_operator.job.record import ReplicaType

OPERATOR_LABEL: Final = "training.kubeflow.org/operator-name"
"""On all children: which controller they belong to. All served APIs share its name, so one watch serves them all."""
JOB_UID_LABEL: Final = "training.kubeflow.org/job-uid"
"""On Services: lets all Services of one job, and of no job before or after it, be deleted by one request."""
OOM_KILLED: Final = "OOMKilled"
"""The kubelet's reason of a container that was killed because it used too much memory."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of children: the names that an API's users select by, which are Kubeflow's unless it has its own."""

    operator_name: str
    """The controller's name, which is the value of ``OPERATOR_LABEL``.

    It differs by API, so that the Services of jobs of one name in two APIs never select each other's pods.
    """
    job: str = "training.kubeflow.org/job-name"
    type: str = "training.kubeflow.org/replica-type"
    index: str = "training.kubeflow.org/replica-index"
    role: str = "training.kubeflow.org/job-role"
    master_role: str = "master"
    extra: tuple[tuple[str, str], ...] = ()
    """More labels of pods and Services: names and values; ``{job}``, ``{type}``, ``{index}`` and ``{runtime_id}`` in a
    value are replaced, the type in upper case."""

    @property
    def selector(self) -> dict[str, str]:
        """What all children of an API's jobs carry."""
        return {OPERATOR_LABEL: self.operator_name}


class NameStyle(Enum):
    """How pods and Services are named."""

    STABLE = auto()
    """Pod and Service ``<job>-<type>-<index>``; a replacement has the name of the pod that it replaces."""
    GENERATED = auto()
    """Service ``<job, cut to 40>-<type>-<runtime id>-<index>``; a pod the same, ``-`` and 5 characters of its own."""


class FailureScope(Enum):
    """Whose permanent failure is the job's."""

    ANY = auto()
    """Of any replica, except where the job itself says that it continues without one."""
    DECIDING = auto()
    """Of the deciding replica alone; the job continues without the others."""


class RestartBy(Enum):
    """Who runs a replica again, and by which rule."""

    POLICY = auto()
    """The restart policy of the replica type; the kubelet restarts containers, we replace failed pods."""
    TEMPLATE = auto()
    """The restart policy of the pod template, which reading puts into ``ReplicaSpec.restart_policy``.

    We replace every pod that failed or is gone, whatever the policy. Exit codes can make a failure permanent, but only
    for a replica whose failure is the job's; then ends before restarts in place count, too.
    """
    NEW_POD = auto()
    """The restart policy of the replica type, always by a new pod; under ``Always`` after exit code 0, too."""


class AfterEnd(Enum):
    """What is still reported of a job that has ended."""

    NOTHING = auto()
    CLEAN_UP = auto()
    """When nothing was left to be cleaned up: ``JobRecord.clean_up_time``."""
    REPLICAS = auto()
    """That, and what becomes of its pods."""


@dataclass(frozen=True, slots=True)
class ExitCodes:
    """Which failures are tried again where exit codes decide."""

    retryable: Collection[int] = field(hash=False)
    """The other codes but 0 are final."""
    is_oom_final: bool = False
    """A container that was killed because it used too much memory is not tried again, whatever its code."""

    def are_retryable(self, code: int, reason: str) -> bool:
        """Whether a failed container with this exit code, ended for this reason, is tried again."""
        return code in self.retryable and not (self.is_oom_final and reason == OOM_KILLED)


@dataclass(frozen=True, slots=True)
class Words:
    """What the users of an API call things, for messages; empty for what it does not have."""

    replicas: str
    """The field with the replicas; for messages that are not about one type."""
    types: Mapping[ReplicaType, str] = field(default_factory=dict, hash=False)
    """Of replicas, where they are not spelt as ``ReplicaType``."""
    run_policy: str = "spec.runPolicy"
    """The field with the limits of a job."""
    clean_up: str = "cleanPodPolicy"
    """The field that says which pods go after the end."""
    clean_up_values: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What users write for a ``CleanPodPolicy``, where that is not the field and its value."""
    scheduling: str = "schedulingPolicy"
    tf_config_format: str = ""
    suspend: str = "spec.runPolicy.suspend"
    resume: str = "tfjob resume {job}"
    """How its users resume a job."""
    suspended: str = "suspended"
    """What they call a job whose pods are gone until it goes on."""

    def type(self, kind: ReplicaType) -> str:
        return self.types.get(kind, kind)

    def list_types(self, kinds: Iterable[ReplicaType]) -> str:
        return ", ".join(map(self.type, kinds))


@dataclass(frozen=True, slots=True)
class Profile:
    """The constants of one served API."""

    api_version: str
    kind: str
    container: str
    """The container that decides: its exit is the replica's."""
    port_name: str
    port: int
    exit_codes: ExitCodes
    """Of the deciding container; where they decide depends on ``restart_by``."""
    words: Words
    labels: Labels
    suspend_path: tuple[str, ...] = ()
    """Where in the spec it says whether a job is suspended; empty where no queueing system may."""
    names: NameStyle = NameStyle.STABLE
    failure_scope: FailureScope = FailureScope.ANY
    restart_by: RestartBy = RestartBy.POLICY
    after_end: AfterEnd = AfterEnd.NOTHING
    has_cluster_always: bool = False
    """Whether a job of a single replica has TF_CONFIG, too."""
    service_port_name: str = ""
    """What Services call the port of the cluster; empty for ``port_name``."""
    has_tensorboard_spec: bool = False
    """Whether its jobs may have a ``tensorboard_spec``, of an object of kind TensorBoard."""
    has_operator_config: bool = False
    """Whether the operator's configuration adds to its pods what accelerators need."""
    takes_reports: bool = False
    """Whether programs may report how far they are."""
    server_image: str = ""
    """Of default servers where nobody names one, not even the operator's configuration."""
