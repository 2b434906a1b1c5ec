"""What a decision is made from: one job, what exists for it, and the time. All of it frozen.

The controller builds these values from its caches, and a golden file spells them out in a test: planning cannot
tell the difference. Only what a rule reads is here. A pod is what the kubelet says of one replica; its type and
index come from its name, because labels can be changed by whoever may update pods.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, Self

import msgspec
from msgspec import structs

from tf_operator.job import constants, templates
from tf_operator.job.progress import Progress
from tf_operator.job.record import ReplicaType
from tf_operator.job.report import ContainerLine
from tf_operator.job.restart_rules import RestartRules
from tf_operator.job.training_job import FieldError, NetworkPolicyMode, RestartPolicy, TrainingJob
from tf_operator.planning.bodies import accelerators
from tf_operator.planning.bodies.accelerators import Accelerator
from tf_operator.planning.bodies.progress_reporting import ProgressServer
from tf_operator.planning.child_kinds.kind import ChildKind
from tf_operator.planning.kueue.state import KueueState

STOP_AFTER = 1
"""The ``activeDeadlineSeconds`` of a pod that is stopped: the kubelet ends it, and keeps it and its logs."""


class MainContainer(msgspec.Struct, frozen=True, gc=False):
    """The container that decides, as its status shows it. ``exit_code`` is ``None`` unless it is terminated now."""

    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Container(msgspec.Struct, frozen=True, gc=False):
    """A container that decides under some profile, as it is now and as it last ended."""

    name: str
    state: MainContainer | None
    last_termination: MainContainer | None
    restart_rules: RestartRules | None = None
    restarts_by_rule: int = 0


class Host(NamedTuple):
    """Where a pod is, or must not be. The pods on a node share one."""

    node: str = ""
    has_unhealthy_device: bool = False
    """Whether its kubelet says that of a device which it has given to the pod."""
    avoided: str = ""
    """Of a pod without a node: on which it must not be, as it was made; separated by commas."""


NOWHERE = Host()


class Pod(msgspec.Struct, frozen=True, gc=False):
    """One pod that the job controls."""

    name: str
    uid: str
    type: ReplicaType
    index: int
    phase: str = "Pending"
    is_terminating: bool = False
    deletion_deadline: datetime | None = None
    """Of a terminating pod: when its grace period is over, and it should be gone."""
    is_gone: bool = False
    """It was deleted, and this is its last state that anybody saw."""
    is_unwatched: bool = False
    """It lacks the label by which pods are watched: it was found by its name."""
    reason: str = ""
    message: str = ""
    is_disrupted: bool = False
    """It carries the condition DisruptionTarget."""
    disrupted_at: datetime | None = None
    """Since when it carries that condition."""
    restart_policy: RestartPolicy | None = None
    """That of the pod itself, which never changes; ``None`` when it is not known."""
    container: str = ""
    """The name of the container that ``main`` is about; empty where nobody had to choose."""
    main: MainContainer | None = None
    max_exit_code: int | None = None
    """The highest exit code of its containers, when none of them runs any more. Its phase follows a moment later."""
    last_termination: MainContainer | None = None
    """How its deciding container ended, before it was last restarted in place."""
    restart_rules: RestartRules | None = None
    """Of its deciding container, if that has any."""
    restarts_by_rule: int = 0
    """Of its deciding container, where rules may start it again whatever the restart policy of the pod."""
    is_restarting: bool = False
    """A rule has the kubelet start all its containers again, init containers first: it has neither ended nor begun."""
    containers: tuple[ContainerLine, ...] = ()
    """All of them, as they are shown; nothing is decided by it."""
    others: tuple[Container, ...] = ()
    """Its containers that decide in other APIs that this process serves."""
    restarts: int = 0
    """Of all its containers, in place."""
    is_stopped: bool = False
    """Its time is over: its kubelet ends it, or has."""
    pending_reason: str = ""
    """While it is Pending: why, in the words of the kubelet or the scheduler. While it is Running, and of a job that
    restarts as a whole in place: why its program is not started again yet."""
    waits_since: datetime | None = None
    """When this stage of its start began, such as its scheduling; ``None`` for its creation."""
    is_starting: bool = False
    """Its node prepares it, which takes minutes where an image is large."""
    created_at: datetime | None = None
    host: Host = NOWHERE
    cluster_size: str = ""
    """Of a pod whose containers start again when it changes: the sizes that its TF_CONFIG was last written for, and the
    attempt of its job."""
    restart_request: str = ""
    """When it was told to start its containers again for an attempt of its job."""
    restarts_together: int = 0
    """How often its sidecar has had all its containers start again, as long as the kubelet does that."""
    is_deaf: bool = False
    """Whether its sidecar was started after its program: alone, because it was killed, or the kubelet is too old."""
    memory_limit: str = ""
    """Of its deciding container, as it was made; only of a type whose memory may grow."""
    is_isolated: bool = False
    """Whether its node has given it the network of its job."""
    version: str = ""
    """Of the object."""

    @property
    def is_there(self) -> bool:
        """Whether it exists and nobody has deleted it."""
        return not (self.is_gone or self.is_terminating)

    def says_the_same(self, other: "Pod") -> bool:
        """Whether only the version is another one, which is all the same to planning."""
        return self.changed(version=other.version) == other

    def changed(self, **fields: object) -> Self:
        """The same pod with these values."""
        return structs.replace(self, **fields)

    def decided_by(self, container: str) -> "Pod":
        """The same pod, where ``main`` is the container of this name."""
        if self.container == container or not self.container:
            return self
        deciding = next((entry for entry in self.others if entry.name == container), Container(container, None, None))
        return self.changed(
            container=container,
            main=deciding.state,
            last_termination=deciding.last_termination,
            restart_rules=deciding.restart_rules,
            restarts_by_rule=deciding.restarts_by_rule,
            others=(),
        )


class Service(msgspec.Struct, frozen=True, gc=False):
    """One Service that the job controls."""

    name: str
    uid: str
    is_terminating: bool = False
    job_uid_label: str = ""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The gang scheduler's object for the job."""

    name: str
    uid: str
    phase: str = ""
    spec: Mapping[str, Any] | None = None
    is_terminating: bool = False


@dataclass(frozen=True, slots=True)
class ChildObject:
    """The object of a ``ChildKind`` that the job controls; the spec and status of some kinds are not kept."""

    name: str
    uid: str
    digest: str = ""
    """Of the spec that it was last given."""
    is_terminating: bool = False
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)


class Cause(Enum):
    """What stands against a create, as far as its status code does not say."""

    REFUSED = "refused"
    NAMESPACE_ENDS = "namespace ends"
    NOT_SERVED = "not served"
    """Its kind is not known, so nothing was sent."""
    UNAVAILABLE = "unavailable"
    """Its kind is not made, or cannot be read, which will not change soon; nothing was sent."""
    UNCHANGED = "unchanged"
    """It is there, and stays as it was."""


@dataclass(frozen=True, slots=True)
class RejectedWrite:
    """A create, or a change, that the apiserver refused: what it said and when. ``rejections`` knows what follows."""

    subject: str
    """What was to be written, in words; no decision reads them."""
    message: str
    at: datetime
    code: int = 403
    attempts: int = 1
    """How often in a row."""
    cause: Cause = Cause.REFUSED
    resource: str = ""
    """Of the child, as ``pods``."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator was started with, as far as plans depend on it."""

    cluster_domain: str = ""
    gang_scheduler: str = ""
    """``""`` for none, ``volcano``, or the name of a scheduler with the scheduler-plugins' PodGroup."""
    without_tensorboards: Mapping[str, str] = field(default_factory=dict)
    """Why jobs that ask for a TensorBoard of their own get none, by their API version."""
    server_program: str = ""
    """What default servers run; empty for the program that comes with the operator."""
    server_image: str = ""
    """Of default servers of jobs that name none; empty for that of the profile."""
    accelerators: tuple[Accelerator, ...] = ()
    """What pods get that ask for them, in APIs whose users rely on the operator for that."""
    restarts_in_place: bool = False
    """Whether pods may be changed, and the cluster restarts the containers of one in place."""
    has_one_node: bool = False
    """Whether all pods run on the same node, whatever they ask for."""
    isolates_jobs: bool = False
    """Whether only its own pods may connect to those of a job that does not say who may."""
    marks_isolated: bool = False
    """Whether the pods of an isolated job say so, to a node that gives them a network, which they never leave."""
    has_job_queue: bool = False
    """Whether jobs wait until the job queue admits them."""
    progress: ProgressServer | None = None
    """Where programs report how far they are; ``None`` where nobody listens."""
    restart_delay: timedelta = timedelta(seconds=1)
    longest_restart_delay: timedelta = timedelta(minutes=5)
    backoff_reset_after: timedelta = timedelta(minutes=10)
    """A pod that has run for so long begins a new series of attempts."""
    report_pending_after: timedelta = timedelta(seconds=10)
    report_starting_after: timedelta = timedelta(minutes=2)


class ChildState(msgspec.Struct, frozen=True):
    """What is known of the child of one kind, of a job that wants it, or has it."""

    current: ChildObject | None = None
    rejected: RejectedWrite | None = None
    """The last attempt to make it, to change it, or to delete it."""
    unserved: str = ""
    """Why there can be none: such objects are not served, or not made by this operator."""
    is_off: bool = False
    """And that this will not change while the operator runs."""
    is_known: bool = True
    """``False``: it has not been looked yet whether there is one."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a job that is not suspended may have no pods now: it waits in a queue, or has lost its place."""

    reason: str
    message: str
    gives_up_room: bool = False
    """Whether it had room in the job queue, and is queued there again."""


class ReportedProgress(NamedTuple):
    """What the program of a job has reported last, and when that is to be stored at the latest."""

    latest: Progress
    due: datetime | None = None
    """``None`` if it is stored."""


class Hearing(NamedTuple):
    """What this process knows about the silence of a program: it only counts the time for which it could have heard."""

    since: datetime
    """From when it could have heard the program."""
    moved: datetime | None = None
    """When the last report came that differed from the one before; ``None`` for not in that time."""
    is_doubtful: bool = False
    """Whether reports may be lost: it has heard nothing of this program at all, or many fell silent with it."""


DEFAULT_SETTINGS = Settings()
_ROUNDED_UP = timedelta(seconds=1)


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Whether a moment that was noted as past is yet to come, by more than a status rounds up.

    Its clock was wrong, or this one is: no wait may be counted from there, for it might last for years.
    """
    return moment - now > _ROUNDED_UP


class Snapshot(msgspec.Struct, frozen=True):
    """Everything about one job at one moment."""

    job: TrainingJob
    now: datetime
    pods: tuple[Pod, ...] = ()
    services: tuple[Service, ...] = ()
    has_borrowed_labels: bool = False
    """Whether a Service that is not the job's has the labels of those that are."""
    pod_group: PodGroup | None = None
    rejected: RejectedWrite | None = None
    settings: Settings = DEFAULT_SETTINGS
    extras: Mapping[ChildKind, ChildState] = msgspec.field(default_factory=dict)
    """Of each kind that the job may have beside its replicas."""
    offered_scheduler: str = ""
    """The gang scheduler that the job asks for, if it may have it and it is installed."""
    kueue: KueueState | None = None
    """``None`` for a job that no queue of Kueue has a say in."""
    hold: Hold | None = None
    """``None`` for a job that may run."""
    pods_digest: str = ""
    """Of what the job's pods ask for, as it is written; empty without the job queue."""
    looked_for: frozenset[str] = frozenset()
    """The names of the pods that were looked for, because nothing else shows that they are gone."""
    warnings: Mapping[str, str] = msgspec.field(default_factory=dict)
    """What was last said about pods, by their UID, as far as it was asked for; empty for nothing."""
    without_room: Mapping[ReplicaType, int] = msgspec.field(default_factory=dict)
    """How many more replicas of a type there are to be than ``job`` has now, once the queue has room for them."""
    ignored: tuple[FieldError, ...] = ()
    """What is wrong with the spec, and was taken out of ``job``, because it runs already."""
    reported: ReportedProgress | None = None
    """``None`` if this process has received no report."""
    hearing: Hearing | None = None
    """``None`` if nobody listens."""
    status_time: datetime | None = None
    """When the status was last changed, by the clock of the API server; ``None`` where it does not say so."""

    def changed(self, **fields: object) -> Self:
        """The same with these values; itself where it has them already."""
        for name, value in fields.items():
            if getattr(self, name) is not value:
                return structs.replace(self, **fields)
        return self

    @property
    def is_under_way(self) -> bool:
        """Whether the job has been started, and is neither suspended nor queued."""
        record = self.job.record
        return (bool(self.pods) or record.start_time is not None) and not record.is_idle

    def noted(self, moment: datetime | None) -> datetime | None:
        """A moment that a status has noted as past; one that a wrong clock has put into the future is now.

        It may be this clock that is wrong: then what others have noted of pods and status is ahead of it, too, and the
        moment was not before that. A deadline that came too early would cost more than one that comes too late.
        """
        if moment is None or not is_ahead(moment, self.now):
            return moment
        ends = (pod.main.finished_at for pod in self.pods if pod.main)
        others = (*ends, *(pod.created_at for pod in self.pods), self.status_time)
        return min(max([self.now, *filter(None, others)]), moment)

    def decided(self) -> "Snapshot":
        """The same, where the job's profile has chosen the deciding container of each pod, and the job its scheduler.

        The job has as many workers as are in force.

        No job waits for a scheduler that is not there: it has the operator's, or none. The templates have what their
        accelerators need.
        """
        container, settings = self.job.profile.container, self.settings
        if self.job.run_policy.scheduling.scheduler == constants.NO_GANG_SCHEDULER:
            settings = replace(settings, gang_scheduler="")
        elif self.offered_scheduler:
            settings = replace(settings, gang_scheduler=self.offered_scheduler)
        pods = tuple(pod.decided_by(container) for pod in self.pods)
        job = self.job.in_force(has_job_queue=settings.has_job_queue)
        without_room = self.job.without_room if settings.has_job_queue else {}
        job = accelerators.attach(job, settings.accelerators) if settings.accelerators else job
        if settings.isolates_jobs and job.network_policy is None and not templates.has_host_network(job.replicas):
            job = structs.replace(job, network_policy=NetworkPolicyMode.JOB)
        return self.changed(job=job, pods=pods, settings=settings, without_room=without_room)
