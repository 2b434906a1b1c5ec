"""What is to be done, as data: an ordered plan that the controller carries out.

Actions are few and general: create, patch and delete a named child of the job, of whatever resource. So a child of
another kind needs no new action, and the controller has no branch for it. Each action belongs to a ``Stage``, and a
stage begins when the one before it is done.

With ``status_first`` the status is stored before anything is changed, because the actions destroy the evidence for it.
Otherwise the status is mere progress, and may wait a moment for more of it.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, ClassVar

import msgspec
from msgspec import structs

from tf_operator.job.record import FailureCause
from tf_operator.job.report import EventKind, JobReport
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.snapshot import Pod


class Stage(Enum):
    """What comes before what, in this order."""

    DELETES = auto()
    DEPENDENCIES = auto()
    """What has to be there before the first pod, such as a PodGroup."""
    PODS = auto()
    """One pod, or one of what each pod needs, after the other at first: a mistake that all share is made once."""
    EXTRAS = auto()
    """What the job continues without: a refusal of it is noted by kind, and ends and holds up nothing."""


class Create(msgspec.Struct, frozen=True):
    """Make a child, unless the job has it already, and before it what it ``needs``."""

    resource: GroupVersionResource
    name: str
    subject: str
    """The child in words, for messages."""
    body: Callable[[], dict[str, Any]]
    """Makes the body when it is sent: those of a job of a thousand replicas are 45 MB."""
    stage: Stage = Stage.DEPENDENCIES
    needs: "Create | None" = None
    """What is created right before it, for it alone: the Service of a pod."""
    replica: str = ""
    """Of which replica it is, as logs name it."""
    is_announced: bool = False
    """Whether an event names it."""
    is_watched: bool = False
    """Whether all that becomes of it has to be seen: one that is there, and out of sight, is not enough."""

    def __eq__(self, other: object) -> bool:
        """Whether it makes the same child; how its body is made does not say so."""
        if not isinstance(other, Create):
            return NotImplemented
        return super(Create, structs.replace(self, body=other.body)).__eq__(other)

    def __ne__(self, other: object) -> bool:
        """A struct's own would compare all."""
        return not self == other

    def __hash__(self) -> int:
        return hash((self.resource, self.name))

    def in_order(self) -> "Iterator[Create]":
        """What it needs, and then itself."""
        if self.needs:
            yield from self.needs.in_order()
        yield self


class Patch(msgspec.Struct, frozen=True):
    """Merge ``body`` into this very object. One that stays as it was ends no job, and holds up nothing else."""

    resource: GroupVersionResource
    name: str
    uid: str
    subject: str
    """The change in words, for messages."""
    body: Mapping[str, Any] | Callable[[datetime | None], Mapping[str, Any]]
    """Where it is large or names the time, a function makes it when it is sent."""
    stage: Stage = Stage.DEPENDENCIES
    version: str = ""
    """Of the object: it is changed only as it was then."""
    subresource: str = ""

    def content(self, now: datetime | None = None) -> Mapping[str, Any]:
        """The body, as it is sent *now*; by default as it was planned."""
        return self.body(now) if callable(self.body) else self.body


class Delete(msgspec.Struct, frozen=True):
    """Delete this very object; with a ``version`` only as it was then, because its state is the reason."""

    resource: GroupVersionResource
    name: str
    uid: str
    reason: str = ""
    """Of an extra: the deletion in words, for messages."""
    version: str = ""
    stage: Stage = Stage.DELETES


class DeleteCollection(msgspec.Struct, frozen=True):
    """Delete by one request what a label selector selects, which is these objects and no others."""

    stage: ClassVar[Stage] = Stage.DELETES

    resource: GroupVersionResource
    selector: str
    objects: tuple[Delete, ...]


Action = Create | Patch | Delete | DeleteCollection


class Event(msgspec.Struct, frozen=True):
    """What is reported to users on the job, once the status that says it is stored."""

    kind: EventKind
    message: str
    is_warning: bool = False
    cause: FailureCause | None = None
    """Why the job has failed."""


class Transition(Enum):
    CREATED = auto()
    RUNNING = auto()
    """All replicas run, for the first time; ``seconds`` since the start."""
    RESTARTED = auto()
    """``reason`` is ``failed``, ``completed``, ``disrupted``, ``in-place`` or ``job``."""
    NODE_AVOIDED = auto()
    RESUMED_BEHIND_CHECKPOINT = auto()
    MEMORY_GROWN = auto()
    """The next pods of a type have more memory."""
    USED = auto()
    """``seconds`` of requests of the resource that ``reason`` names, such as of a core."""
    LOST = auto()
    """``seconds`` were lost; ``reason`` is the ``LossCause``."""
    SUCCEEDED = auto()
    FAILED = auto()
    """``cause`` says why; ``seconds`` since the start."""
    DELETED = auto()


class Count(msgspec.Struct, frozen=True):
    """What is reported to the metrics, under the same condition."""

    transition: Transition
    kind: str = ""
    """The replica type of a restart, or of memory that grows."""
    reason: str = ""
    cause: FailureCause | None = None
    by: int = 1
    seconds: float | None = None


class Plan(msgspec.Struct, frozen=True):
    """What is to be done now, and when to reconcile again if nothing happens until then."""

    looks_for: tuple[str, ...] = ()
    """The pods that have to be looked for by their names before anything can be planned."""
    asks_about: tuple[Pod, ...] = ()
    """The pods of which the last warning has to be read before it is reported that they wait."""
    report: JobReport | None = None
    """``None`` when no status is to be written: the job has ended, or is not ours."""
    status_first: bool = False
    actions: tuple[Action, ...] = ()
    deletes_job: bool = False
    """The job itself is to be deleted: its time to live is over."""
    resumes_job: bool = False
    """The job itself is to be resumed, before anything else."""
    events: tuple[Event, ...] = ()
    counts: tuple[Count, ...] = ()
    requeue_after: timedelta | None = None

    @property
    def cleans_up(self) -> bool:
        """Whether the job has ended with this plan, and the actions only clean up after it: they can wait."""
        return bool(self.actions) and self.report is not None and self.report.record.is_finished
