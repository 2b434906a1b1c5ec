"""The plan of a job: the pods and other objects that the operator would create, and how the job ends.

``dry_run`` makes it, ``sentences`` has its words.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, Final

from tf_operator.client import display
from tf_operator.client.plan import sentences
from tf_operator.job import constants
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body
from tf_operator.planning.actions import Create
from tf_operator.planning.bodies import gang_schedulers
from tf_operator.planning.bodies.children import SERVICES
from tf_operator.planning.snapshot import Settings

MOST_LISTED: Final = 8
"""Replicas of one type that are listed one by one; of more, the first ones and the last."""
_MARGIN: Final = "  "
_ELSEWHERE: Final = "(the template says where it is from)"


@dataclass(frozen=True, slots=True)
class PlannedReplica:
    """One replica: its pod and its Service, whose bodies are built on demand."""

    type: ReplicaType
    index: int
    create: Create
    """Of the pod, which may need a Service of its own."""
    service: str
    """The name of its Service, or of that of the job."""
    address: str
    """Where the other replicas reach it."""
    container: str
    """The container that decides about the replica."""

    @property
    def name(self) -> str:
        """Of the pod."""
        return self.create.name

    @property
    def pod(self) -> dict[str, Any]:
        """The pod in full."""
        return self.create.body()

    @property
    def tf_config(self) -> str | None:
        """The TF_CONFIG that the deciding container finds; ``None`` for a single process."""
        containers = self.pod["spec"]["containers"]
        variables = next(entry.get("env") or () for entry in containers if entry.get("name") == self.container)
        configs = [str(entry.get("value", _ELSEWHERE)) for entry in variables if entry["name"] == constants.TF_CONFIG]
        return configs[-1] if configs else None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What the operator would create for a job. ``print`` shows it as ``tfjob plan`` does, a notebook in tables."""

    job: TrainingJob
    settings: Settings
    dependencies: tuple[Create, ...]
    """What is created before the first pod, such as the PodGroup of a gang scheduler."""
    replicas: tuple[PlannedReplica, ...]
    extras: tuple[Create, ...]
    """Further objects, such as its TensorBoard, if the operator has the flag for it."""
    warnings: tuple[str, ...]

    @property
    def gang_size(self) -> int | None:
        """How many pods a gang scheduler places together; ``None`` without one."""
        return next((gang_schedulers.size_of(group.body()["spec"]) for group in groups_in(self.dependencies)), None)

    @property
    def sentences(self) -> tuple[tuple[str, str], ...]:
        """How the job ends: headings and sentences."""
        scheduler = self.job.run_policy.scheduling.scheduler or self.settings.gang_scheduler
        return tuple(
            sentences.sentences(self.job, extras=self.extras, gang_size=self.gang_size, gang_scheduler=str(scheduler))
        )

    def of(self, kind: ReplicaType) -> tuple[PlannedReplica, ...]:
        """The replicas of one type."""
        return tuple(replica for replica in self.replicas if replica.type is kind)

    def objects(self) -> Iterator[Body]:
        """All objects in full, in the order in which the operator creates them, one at a time: there may be many."""
        for create in (*self.dependencies, *(replica.create for replica in self.replicas), *self.extras):
            for child in create.in_order():
                yield {"apiVersion": child.resource.api_version, "kind": child.resource.kind, **child.body()}

    def text(self, *, wide: bool = False) -> Iterator[str]:
        """For people, line by line; ``wide`` lists every replica, with its TF_CONFIG."""
        yield f"{self._title}\n"
        if not self.job.is_ours:
            return
        if self.job.run_policy.is_suspended:
            yield f"{_MARGIN}It is {self.job.profile.words.suspended}: nothing of this is made until it is resumed.\n"
        yield "\n"
        words = self.job.profile.words
        rows = [(words.type(spec.type), str(spec.count), spec.restart_policy) for spec in self.job.replicas]
        yield from _table([("TYPE", "REPLICAS", "RESTART POLICY"), *rows])
        yield "\n"
        if self.replicas:
            yield from self._wide() if wide else _table([(self._children.upper(), "ADDRESS"), *self._places()])
            yield "\n"
        yield from _table([(f"{heading}:", sentence) for heading, sentence in self.sentences])

    def __str__(self) -> str:
        return "".join(self.text()).rstrip("\n")

    def _repr_html_(self) -> str:
        title = f"<p>{escape(self._title)}</p>"
        if not self.job.is_ours:
            return title
        pods = display.html_table((self._children, "Address"), self._places())
        return f"{title}{pods}{display.html_table((), self.sentences)}"

    @property
    def _children(self) -> str:
        """What has the name of a replica."""
        return "Pod" if self.job.has_one_service else "Pod and Service"

    @property
    def _title(self) -> str:
        job, services = self.job, {replica.service for replica in self.replicas}
        name = f"{job.profile.kind} {job.key}"
        if not job.is_ours:
            return f"{name} is managed by {job.run_policy.managed_by}: this operator creates nothing for it"
        others = (create for create in self.dependencies if create.resource != SERVICES)
        group = "".join(f"1 {create.resource.kind}, " for create in others)
        kinds = " and ".join(f"a {kind.resource.kind}" for kind, _ in groupby(self.extras, sentences.kind_of))
        extras = f" with {kinds}" if kinds else ""
        return (
            f"{name}: {group}{_count_of(len(self.replicas), 'pod')} and {_count_of(len(services), 'Service')}{extras}"
        )

    def _places(self) -> Iterator[tuple[str, str]]:
        for spec in self.job.replicas:
            replicas = self.of(spec.type)
            first = replicas if len(replicas) <= MOST_LISTED else replicas[: MOST_LISTED - 2]
            yield from ((replica.name, replica.address) for replica in first)
            if len(first) < len(replicas):
                yield from (
                    ("...", f"{len(replicas) - len(first) - 1} more"),
                    (replicas[-1].name, replicas[-1].address),
                )

    def _wide(self) -> Iterator[str]:
        for replica in self.replicas:
            yield f"{_MARGIN}{replica.name}\n"
            yield f"{_MARGIN}  address    {replica.address}\n"
            yield f"{_MARGIN}  TF_CONFIG  {replica.tf_config or '(none: a single replica needs none)'}\n"


def groups_in(creates: Iterable[Create]) -> list[Create]:
    """The PodGroups of a gang scheduler."""
    return [create for create in creates if create.resource.kind == "PodGroup"]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    return (f"{_MARGIN}{line}" for line in display.table(rows[0], rows[1:]))


def _count_of(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
