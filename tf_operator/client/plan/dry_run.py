"""What the operator would create for a job: its own pure planning, applied to a job without children.

Where the plan creates a PodGroup and waits for it, a second plan is made with the group admitted. A suspended job is
planned as if it were resumed. Neighbours: ``sentences`` says how the job ends.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from tf_operator.job import constants
from tf_operator.job.naming import replica_of
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning import cluster_spec, gang_schedulers, tensorboards
from tf_operator.planning.actions import Create, Stage
from tf_operator.planning.children import PODS
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import PodGroup, Settings, Snapshot, TensorBoards

_NO_CHIEF: Final = (
    "there are parameter servers and no chief: TensorFlow 2 then waits for ever (a Chief hands out the steps);"
    " only programs for TensorFlow 1 need none"
)
_NOW: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PlannedReplica:
    """One replica: its pod and its Service, whose bodies are built on demand."""

    type: ReplicaType
    index: int
    create: Create
    """Of the pod, which needs the Service."""

    @property
    def name(self) -> str:
        """Of the pod."""
        return self.create.name

    @property
    def service(self) -> str:
        """The name of the Service."""
        return self.create.needs.name if self.create.needs else self.name


@dataclass(frozen=True, slots=True)
class DryRun:
    """Everything that would be created for a job, and the warnings of the operator."""

    job: TrainingJob
    settings: Settings
    dependencies: tuple[Create, ...]
    """What is created before the first pod, such as the PodGroup of a gang scheduler."""
    replicas: tuple[PlannedReplica, ...]
    extras: tuple[Create, ...]
    """What the job has beside its replicas: its TensorBoard, where the operator runs them."""
    warnings: tuple[str, ...]

    @property
    def gang_size(self) -> int | None:
        """How many pods a gang scheduler places together; ``None`` without one."""
        return next((gang_schedulers.size_of(found.body()["spec"]) for found in _groups(self.dependencies)), None)

    def of(self, kind: ReplicaType) -> tuple[PlannedReplica, ...]:
        """The replicas of one type."""
        return tuple(replica for replica in self.replicas if replica.type is kind)


def run(job: TrainingJob, settings: Settings) -> DryRun:
    """Plan a valid job that has no children yet."""
    resumed = replace(job, run_policy=replace(job.run_policy, is_suspended=False))
    asked = job.run_policy.scheduling.scheduler  # nobody knows whether the cluster has it
    seen = Snapshot(resumed, now=_NOW, settings=settings, offered_scheduler=asked, tensorboards=TensorBoards())
    plan = make_plan(seen)
    creates = [action for action in plan.actions if isinstance(action, Create)]
    groups = _groups(creates)
    if groups:
        admitted = make_plan(replace(seen, pod_group=_admitted(groups[0])))
        creates = [*groups, *(action for action in admitted.actions if isinstance(action, Create))]
    dependencies = [create for create in creates if create.stage is Stage.DEPENDENCIES]
    return DryRun(
        job=job,
        settings=settings,
        dependencies=tuple(dependencies),
        replicas=tuple(_replicas(job, creates)),
        extras=(*(create for create in creates if create.stage is Stage.EXTRAS), *_tensorboard(job)),
        warnings=(
            *(event.message for event in plan.events if event.is_warning),
            *((_NO_CHIEF,) if job.has_servers_without_chief else ()),
            *(
                f"the TensorBoard is not run: {problem}"
                for problem in (job.tensorboard.problems if job.tensorboard else ())
            ),
        ),
    )


def _tensorboard(job: TrainingJob) -> Iterator[Create]:
    """What runs the TensorBoard of a job that has one without an object of that kind."""
    seen = tensorboards.Observed(job.key.namespace, job.owner_reference, job.tensorboard)
    return (action for action in tensorboards.plan(seen).actions if isinstance(action, Create))


def address(found: DryRun, replica: PlannedReplica) -> str:
    """Where the other replicas reach it."""
    job, domain = found.job, found.settings.cluster_domain
    spec = next(spec for spec in job.replicas if spec.type is replica.type)
    host = ".".join(part for part in (replica.service, job.key.namespace, "svc", domain) if part)
    return f"{host}:{cluster_spec.port_of(job, spec)}"


def tf_configs(job: TrainingJob, pod: dict[str, Any]) -> Iterator[str]:
    """The TF_CONFIG that the deciding container of a pod finds; none for a single process."""
    container = job.profile.container
    env = next(entry.get("env") or () for entry in pod["spec"]["containers"] if entry.get("name") == container)
    entries = [found for found in env if found["name"] == constants.TF_CONFIG]
    return (str(found.get("value", "(the template says where it is from)")) for found in entries)


def _replicas(job: TrainingJob, creates: list[Create]) -> Iterator[PlannedReplica]:
    for create in creates:
        place = replica_of(job.key.name, create.name, job.profile.names)
        if place and create.resource == PODS:
            yield PlannedReplica(*place, create)


def _groups(creates: Iterable[Create]) -> list[Create]:
    return [create for create in creates if create.resource.kind == "PodGroup"]


def _admitted(group: Create) -> PodGroup:
    return PodGroup(group.name, uid="admitted", phase="Running", spec=group.body()["spec"])
