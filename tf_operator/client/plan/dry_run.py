"""What the operator would create for a job: its own pure planning, applied to a job without children.

Where the plan creates a PodGroup and waits for it, a second plan is made with the group admitted. A suspended job is
planned as if it were resumed. Neighbours: ``sentences`` says how the job ends.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from tf_operator.client.plan.job_plan import JobPlan, PlannedReplica, groups_in
from tf_operator.job.naming import replica_of
from tf_operator.job.record import ReplicaType
from tf_operator.job.report import EventKind
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning import tensorboards
from tf_operator.planning.actions import Create, Event, Stage
from tf_operator.planning.bodies import cluster_spec
from tf_operator.planning.bodies.children import PODS
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import ChildState, PodGroup, Settings, Snapshot

_NO_CHIEF: Final = (
    "there are parameter servers and no chief: TensorFlow 2 then waits for ever (a {chief} hands out the steps);"
    " only programs for TensorFlow 1 need none"
)
_NO_REPORTS: Final = (
    "{run_policy}.progressPolicy: no effect in a cluster whose operator takes no reports (--progress-bind-address)"
)
_NOW: Final = datetime(2000, 1, 1, tzinfo=UTC)


def run(job: TrainingJob, settings: Settings) -> JobPlan:
    """Plan a valid job that has no children yet."""
    resumed = structs.replace(job, run_policy=structs.replace(job.run_policy, is_suspended=False))
    scheduler = job.run_policy.scheduling.scheduler  # nobody knows whether the cluster has it
    extras = {kind: ChildState() for kind in kinds.ALL}
    snapshot = Snapshot(resumed, now=_NOW, settings=settings, offered_scheduler=scheduler, extras=extras)
    plan = make_plan(snapshot)
    creates = [action for action in plan.actions if isinstance(action, Create)]
    groups = groups_in(creates)
    if groups:
        admitted = make_plan(snapshot.changed(pod_group=_admitted(groups[0])))
        creates = [*groups, *(action for action in admitted.actions if isinstance(action, Create))]
    beside = [create for create in creates if any(kind.resource == create.resource for kind in kinds.ALL)]
    dependencies = [create for create in creates if create.stage is Stage.DEPENDENCIES and create not in beside]
    chief = job.profile.words.type(ReplicaType.CHIEF)
    return JobPlan(
        job=job,
        settings=settings,
        dependencies=tuple(dependencies),
        replicas=tuple(_replicas(job, settings, creates)),
        extras=(*beside, *_tensorboard(job)),
        warnings=(
            *(_sentence(event, job) for event in plan.events if event.is_warning),
            *((_NO_CHIEF.format(chief=chief),) if job.has_servers_without_chief else ()),
            *(f"there is no {kind.resource.kind}: {problem}" for kind in kinds.ALL if (problem := kind.problem(job))),
            *(
                f"the TensorBoard is not run: {problem}"
                for problem in (job.tensorboard.problems if job.tensorboard else ())
            ),
        ),
    )


def _sentence(event: Event, job: TrainingJob) -> str:
    """What a warning means for a job of which nobody knows yet where it will run."""
    if event.kind is EventKind.PROGRESS_NOT_SERVED:
        return _NO_REPORTS.format(run_policy=job.profile.words.run_policy)
    return event.message


def _tensorboard(job: TrainingJob) -> Iterator[Create]:
    """What runs the TensorBoard of a job that has one without an object of that kind."""
    observed = tensorboards.Observed(job.key.namespace, job.owner_reference, job.tensorboard)
    return (action for action in tensorboards.plan(observed).actions if isinstance(action, Create))


def _replicas(job: TrainingJob, settings: Settings, creates: Iterable[Create]) -> Iterator[PlannedReplica]:
    for create in creates:
        place = replica_of(job.key.name, create.name, job.profile.names)
        if place and create.resource == PODS:
            spec = next(spec for spec in job.replicas if spec.type is place[0])
            address = cluster_spec.address(job, spec, place[1], domain=settings.cluster_domain)
            service = create.needs.name if create.needs else job.key.name
            yield PlannedReplica(*place, create, service, address, job.profile.container)


def _admitted(group: Create) -> PodGroup:
    return PodGroup(group.name, uid="admitted", phase="Running", spec=group.body()["spec"])
