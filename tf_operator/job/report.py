"""What is said of a job: all that a served API needs to write the status of its object.

Planning makes it, a dialect renders it. It holds facts and counts; of sentences only those that users also get in
events. No decision reads a report: what has to be known later is in its ``record``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple, Self

import msgspec

from tf_operator.job.progress import Progress
from tf_operator.job.record import ENDS, JobRecord, ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body, GroupVersionResource


class ReplicaCounts(msgspec.Struct, frozen=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    pending: int = 0
    restarting: int = 0
    """Of those that are active: whose program has ended, and that its kubelet has not started again yet."""


class ContainerLine(NamedTuple):
    """One container of a pod."""

    name: str
    state: str
    """``Waiting``, ``Running`` or ``Terminated``."""
    exit_code: int | None = None
    """Of one that is terminated."""


@dataclass(frozen=True, slots=True)
class ReplicaLine:
    """One replica and its pod, as far as there is one."""

    type: ReplicaType
    index: int
    pod: str
    uid: str = ""
    """Empty when there is no pod."""
    phase: str = ""
    exit_code: int | None = None
    restarts: int = 0
    reason: str = ""
    """Why its deciding container has ended, or why the pod is Pending."""
    is_completed: bool = False
    """It has succeeded, also if its pod is gone by now."""
    has_failed: bool = False
    """It has failed for good, or failed and does not run again yet."""
    is_to_run: bool = False
    """It has no pod, and one is to be made, now or after a delay."""
    failure: str = ""
    """Who failed and how, in the words of the events, as long as there is a pod that says so."""
    containers: tuple[ContainerLine, ...] = ()
    """All of them, in the order of the kubelet."""


@dataclass(frozen=True, slots=True)
class ChildLine:
    """How an object stands that the job has, or is to have, beside its replicas."""

    name: str
    uid: str = ""
    """Empty when there is none."""
    status: Body = field(default_factory=dict)
    """As its controller wrote it, of kinds of which that is cached."""
    refusal: str = ""
    """Why the API server does not have it as it is wanted."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """The state of one job at one moment."""

    job: TrainingJob
    """With the record of before."""
    record: JobRecord
    """What is remembered from now on."""
    now: datetime
    counts: Mapping[ReplicaType, ReplicaCounts] | None = None
    """``None`` for a job that cannot be run, or that had ended before: the counts that are stored stay."""
    selectors: Mapping[ReplicaType, str] = field(default_factory=dict)
    """The label selectors of the pods of each type."""
    message: str = ""
    """How the job ended, or that it is suspended, in one sentence. It is reported once: what is stored stays."""
    hold: str = ""
    """Why it is queued, as one word for programs."""
    note: str = ""
    """What the job waits for, or what is wrong with it: a sentence that begins with a space."""
    extras: Mapping[GroupVersionResource, ChildLine] = field(default_factory=dict)
    """Of what the job has beside its replicas, by kind. Of one that is wanted and not here, nothing is known."""
    waiting_progress: Progress | None = None
    """What the program has reported: it is stored with whatever else is."""
    lines: Callable[[], Iterable[ReplicaLine]] = field(default=tuple, compare=False, repr=False)
    """One line for each replica. Made when asked for: there may be 10,000, and most APIs write only the counts."""

    def with_progress(self) -> Self:
        """The same with the progress that waits to be stored."""
        record = self.record.changed(progress=self.waiting_progress)
        return replace(self, record=record, waiting_progress=None) if self.waiting_progress else self

    @property
    def ready(self) -> str:
        """Replicas that run or have succeeded, of all: ``2/3``. Of a job that has ended, those that have succeeded."""
        counts = (self.counts or {}).values()
        running = 0 if self.record.phase in ENDS else sum(count.active - count.restarting for count in counts)
        done = running + sum(count.succeeded for count in counts)
        return f"{done}/{self.job.pod_count}"


class EventKind(Enum):
    """What is reported to users in events. Each API has its own reason string for each kind."""

    SUSPENDED = auto()
    RESUMED = auto()
    QUEUED = auto()
    ADMITTED = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    """Its reason is that of the ``FailureCause``."""
    RESTARTING = auto()
    JOB_RESTARTED = auto()
    MEMORY_GROWN = auto()
    REPLICA_DISRUPTED = auto()
    REPLICA_FAILED = auto()
    RESTARTED_IN_PLACE = auto()
    NODE_AVOIDED = auto()
    NODE_ALLOWED_AGAIN = auto()
    RESIZED = auto()
    REPLICA_PENDING = auto()
    CREATE_FAILED = auto()
    CHILDREN_CREATED = auto()
    ANOTHER_CONTROLLER = auto()
    USER_TF_CONFIG = auto()
    TEMPLATE_RESTART_POLICY = auto()
    TEMPLATE_SCHEDULER = auto()
    SCHEDULER_UNAVAILABLE = auto()
    OUTDATED_FIELDS = auto()
    UNUSED_FIELDS = auto()
    PROGRESS_NOT_SERVED = auto()
    NO_PROGRESS = auto()
    RESUMED_BEHIND_CHECKPOINT = auto()
    GRACE_TOO_SHORT = auto()
    EDIT_IGNORED = auto()
