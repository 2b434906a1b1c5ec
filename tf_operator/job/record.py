"""What the operator remembers of a job: everything that a decision needs, and that pods cannot be asked for later.

Which replicas have succeeded, which had run, what was restarted when, the first failure, and what pending trouble was
reported. A dialect stores it in the status of its object and reads it back, so an operator that starts again, or
another one, decides the same. There is no sentence in it that the operator itself has written: what is remembered is
not what is said. ``report`` has what is said.

``RestartRecord`` is the memory of one replica that was restarted, and of the order record, act, confirm: the UID of a
pod that failed is written here, together with the count that it raises, before that pod is deleted. A UID counts once.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

import msgspec
from msgspec import structs

from tf_operator.job.progress import NO_CLOCK, Progress, ProgressClock
from tf_operator.job.ranges import NO_INDEXES, Indexes


class ReplicaType(StrEnum):
    """The roles in a training cluster; in the order in which they are reported and made."""

    CHIEF = "Chief"
    MASTER = "Master"
    PS = "PS"
    WORKER = "Worker"
    EVALUATOR = "Evaluator"

    @property
    def label(self) -> str:
        """As in labels, names and TF_CONFIG: lower case."""
        return self.lower()


REPLICA_TYPES: Final = tuple(ReplicaType)
"""In their order. To iterate over an enum takes ten times as long."""


class JobPhase(StrEnum):
    """Where a job is in its life."""

    NEW = ""
    """No status was written yet."""
    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    QUEUED = "Queued"
    """It waits for its place, or has lost it, and has no pods."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


ENDS = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})
IDLE = frozenset({JobPhase.SUSPENDED, JobPhase.QUEUED})
"""The phases of jobs that may go on later, and are to have no pods now."""


class FailureCause(StrEnum):
    """Why a job has failed."""

    PERMANENT_FAILURE = "PermanentFailure"
    REPLICA_LOST = "ReplicaLost"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    STARTUP_DEADLINE_EXCEEDED = "StartupDeadlineExceeded"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    INVALID_SPEC = "InvalidSpec"


class ReplicaRecord(msgspec.Struct, frozen=True):
    """What is remembered of the replicas of one type."""

    restarts: int = 0
    oom_restarts: int = 0
    """Those of them after OOM kills for which there was more memory: none of these is in the backoff limit."""
    memory: str = ""
    """The limit of its deciding containers that has grown after OOM kills, as a quantity: 32 characters at most."""
    completed: Indexes = NO_INDEXES
    started: Indexes = NO_INDEXES
    """The replicas of which a pod ran that has not been replaced since."""
    failed: Indexes = NO_INDEXES
    """The replicas that failed for good; only where the job continues without them (``FailureScope.DECIDING``)."""
    size: int | None = None
    """For how many replicas the pods were made; not while the job is suspended.

    Only of a type that may be resized, or that somebody has tried to resize.
    """
    run_seconds: int = 0
    """For how long its deciding containers ran, as far as their runs are over."""


_NO_REPLICAS = ReplicaRecord()


class RestartRecord(msgspec.Struct, frozen=True):
    """What is remembered of one replica that was restarted, in place or by a new pod."""

    type: ReplicaType
    index: int
    uid: str
    """The pod that was last counted."""
    in_place: int = 0
    """How many restarts in place of that pod are in the count of its type."""
    replaced: bool = False
    """That pod is deleted, and a new one takes its place."""
    attempts: int = 0
    """New pods in a row, none of which ran for long."""
    time: datetime | None = None
    """When that pod was replaced; the next one waits from then. ``None`` if it was given up with others.

    Of a pod that is not replaced, when the last of its runs that are counted had ended; in a job that restarts in place
    as a whole, the time of the attempt that it has begun by itself.
    """

    def gives_up(self, uid: str) -> bool:
        """Whether this very pod was given up, by a resize or a restart of the job: it is neither lost nor completed."""
        return self.replaced and self.time is None and self.uid == uid


class LossCause(StrEnum):
    """Why a job lost time."""

    FAILED = "failed"
    OUT_OF_MEMORY = "out-of-memory"
    HUNG = "hung"
    DISRUPTED = "disrupted"
    RESIZED = "resized"


class Restarting(msgspec.Struct, frozen=True):
    """Which replica types restart while the job is Restarting, and whether a failure is among the causes."""

    types: tuple[ReplicaType, ...]
    after_failure: bool
    after_resize: bool
    """Whether they restart for no other reason than that the job has another size."""
    since: datetime | None = None
    """When the run ended that is interrupted."""
    cause: LossCause | None = None
    """What interrupted it."""


class FirstFailure(msgspec.Struct, frozen=True):
    """Evidence of the first failure, kept because the pod may not be."""

    pod: str
    container: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    time: datetime | None = None


class PendingKind(StrEnum):
    """What keeps a job from going on."""

    REJECTED = "Rejected"
    """A create was rejected."""
    WAITING = "Waiting"
    """A pod is Pending, and its kubelet or the scheduler says why."""
    STARTING = "Starting"
    """A pod is Pending, and nothing is known but that its start takes long."""
    TERMINATING = "Terminating"
    """A pod was deleted, and is still there."""


class PendingRecord(msgspec.Struct, frozen=True):
    """The trouble that was reported last.

    Kubelets change their wording from minute to minute; what was reported of a pod stays for as long as it waits. The
    texts come from the cluster, and are only compared for equality.
    """

    kind: PendingKind
    subject: str
    """The name of the pod, or what could not be created."""
    reason: str = ""
    uid: str = ""
    """Of the pod."""
    start_time: datetime | None = None
    """When the stage began in which the pod waits, such as its scheduling."""


class UnfitCause(StrEnum):
    """Why a job cannot fit on the nodes, even if nothing else ran on them."""

    NO_NODE = "NoNode"
    """The rules of its pods about nodes exclude all nodes."""
    POD_TOO_LARGE = "PodTooLarge"
    """One of its pods is larger than every node on which it may run."""
    TOO_MANY_PODS = "TooManyPods"
    """Each of its pods fits, but not all of them, or not all of one type."""


class UnfitRecord(msgspec.Struct, frozen=True):
    """Why a job cannot fit on the nodes as they are."""

    cause: UnfitCause
    type: ReplicaType | None = None
    """Of the pod, or pods; ``None`` for all pods of the job together."""
    resource: str = ""
    """What they ask too much of; empty if it is no single resource."""


class QueueRecord(msgspec.Struct, frozen=True):
    """For what the job has room, as the job queue has decided: it is recorded before anything is done about it."""

    queued_time: datetime | None = None
    """When the job began to wait for room."""
    admitted_time: datetime | None = None
    """Since when it has room; ``None`` while it waits."""
    admitted_workers: int | None = None
    """For how many workers: more, by an edit, have to wait for theirs. ``None`` without the job queue."""
    admitted_servers: int | None = None
    """The same of parameter servers."""
    admitted_pods: str = ""
    """Of what its pods asked for when it got room, a digest: pods that ask for something else need room of their own.
    Empty without the job queue."""
    node: str = ""
    """The node that the pods prefer."""
    unfit: UnfitRecord | None = None
    """Why it waits in vain, until there are other nodes or it is edited."""

    def admitted_of(self, kind: ReplicaType) -> int | None:
        """For how many replicas of a type the job has room; ``None`` for as many as the spec says."""
        return {ReplicaType.WORKER: self.admitted_workers, ReplicaType.PS: self.admitted_servers}.get(kind)


NOT_IN_QUEUE = QueueRecord()


class ElasticRecord(msgspec.Struct, frozen=True):
    """How many workers there are, where the job queue has decided it, and when the job was last resized."""

    workers: int | None = None
    """How many there are to be now; ``None`` for as many as the spec says."""
    asked_for: int | None = None
    """How many the spec said then: another number in it takes the place of what was decided."""
    resized_time: datetime | None = None
    """When the number was last changed of a job that ran."""


NOT_ELASTIC = ElasticRecord()


MOST_RESOURCES: Final = 5
MOST_AVOIDED: Final = 16
MOST_CAUSES: Final = 3
LONGEST_CAUSE: Final = 80


class NodeRecord(msgspec.Struct, frozen=True):
    """A node on which replicas of the job failed: at most 700 bytes of a status, and 150 where names are short."""

    node: str
    failures: int = 1
    time: datetime | None = None
    """When the last of them was counted; of a node that is avoided, since when it is."""
    is_avoided: bool = False
    """Otherwise it is only remembered."""
    causes: tuple[str, ...] = ()
    """The last failures, as ``worker-1 exit 139`` or ``worker-3 NodeLost``."""


class JobRecord(msgspec.Struct, frozen=True):
    """All that is remembered of a job.

    A struct, like its parts that every plan makes: a dataclass sets each of twenty-four fields in Python.
    """

    phase: JobPhase = JobPhase.NEW
    failure: FailureCause | None = None
    """Of a job that has failed."""
    start_time: datetime | None = None
    completion_time: datetime | None = None
    all_running_time: datetime | None = None
    """When all replicas had been running for the first time since ``start_time``."""
    first_run_time: datetime | None = None
    """When the deciding replica ran for the first time since ``start_time``."""
    all_created_time: datetime | None = None
    """When all replicas had a pod, or had ended, for the first time since ``start_time``."""
    clean_up_time: datetime | None = None
    """When nothing was left to be cleaned up after the end; only where the profile asks for it."""
    resumed_time: datetime | None = None
    """When the job was last resumed; ``None`` while it is suspended."""
    dequeued_time: datetime | None = None
    """When the job last left a queue, Kueue's or the job queue; ``None`` while it is in one."""
    observed_generation: int = 0
    """The generation of the spec that this record is about."""
    replicas: Mapping[ReplicaType, ReplicaRecord] = msgspec.field(default_factory=dict)
    disruptions: int = 0
    lost_seconds: int = 0
    """What restarts have cost: work since the last checkpoint, and the time until all replicas ran again."""
    usage: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Of a job that has ended: what its pods had requested, for the time that they ran; at most ``MOST_RESOURCES``."""
    attempt: int = 1
    """Which run of the whole job this is; only a job that restarts as a whole has more than one."""
    attempt_time: datetime | None = None
    """When it was decided to begin it; ``None`` for the first."""
    restarting: Restarting | None = None
    restart_records: tuple[RestartRecord, ...] = ()
    avoided_nodes: tuple[NodeRecord, ...] = ()
    """The oldest first; at most ``MOST_AVOIDED``."""
    first_failure: FirstFailure | None = None
    pending: PendingRecord | None = None
    queue: QueueRecord = NOT_IN_QUEUE
    elastic: ElasticRecord = NOT_ELASTIC
    progress: Progress | None = None
    """What its program has reported last. Nothing is decided by it but whether it hangs."""
    progress_clock: ProgressClock = NO_CLOCK

    @property
    def is_finished(self) -> bool:
        return self.phase in ENDS

    @property
    def is_idle(self) -> bool:
        """Whether it is to have no pods now, and may go on later."""
        return self.phase in IDLE

    @property
    def continued_time(self) -> datetime | None:
        """When it last went on after it was idle: older pods are not of this run."""
        return max((moment for moment in (self.resumed_time, self.dequeued_time) if moment), default=None)

    @property
    def restarts(self) -> int:
        """Restarts after failures, of all types."""
        return sum(replica.restarts for replica in self.replicas.values())

    @property
    def counted_restarts(self) -> int:
        """Those of them that the backoff limit counts."""
        return sum(replica.restarts - replica.oom_restarts for replica in self.replicas.values())

    @property
    def has_grown(self) -> bool:
        """Whether more memory than in the templates is recorded for any type."""
        return any(replica.memory for replica in self.replicas.values())

    def of(self, kind: ReplicaType) -> ReplicaRecord:
        """What is remembered of a type; nothing when there is no such."""
        return self.replicas.get(kind, _NO_REPLICAS)

    def changed(self, **fields: object) -> Self:
        """The same record with these values; itself where it has them already, as at most steps of a plan."""
        for name, value in fields.items():
            if getattr(self, name) is not value:
                return structs.replace(self, **fields)
        return self


NO_RECORD = JobRecord()
